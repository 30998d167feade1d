"""Tests of the list of prompts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import claude_code
import pytest
from builders import Clock

from gitsession import Store
from gitsession.formats.claude.agent import claude
from gitsession.model.entries import Message


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened


TIMES = itertools.count(1_000)


def asked(store: Store, *texts: str, agent: str = "mine", cwd: str | None = None):  # type: ignore[no-untyped-def]
    session = store.new_session(agent=agent, cwd=cwd)
    for text in texts:
        session.append(Message.user(text, at_ms=next(TIMES)))
    return session


def test_prompts_are_listed_once_with_the_newest_first(store: Store):
    asked(store, "bake bread", "butter", " bake  bread\n")
    session = asked(store, "honey", "butter", "milk", "tea")
    found = store.prompts()
    assert [prompt.text for prompt in found] == ["tea", "milk", "butter", "honey", " bake  bread\n"]
    assert found[0].session is not None and found[0].session.sid == session.id
    assert found[0].oid == session.history()[-1].oid
    assert found[0].at_ms > found[1].at_ms
    assert [prompt.text for prompt in store.prompts(most=2)] == ["tea", "milk"]


def test_prompts_can_be_limited_to_words_folders_and_agents(store: Store, tmp_path: Path):
    asked(store, "bake bread", "butter", cwd=str(tmp_path))
    asked(store, "baked bread and honey", agent="other")
    assert [prompt.text for prompt in store.prompts("baking bread")] == ["baked bread and honey", "bake bread"]
    assert [prompt.text for prompt in store.prompts("bread", folder=tmp_path)] == ["bake bread"]
    assert [prompt.text for prompt in store.prompts(agent="other")] == ["baked bread and honey"]
    assert store.prompts("zebra") == [] and store.prompts(folder=tmp_path / "none", agent="other") == []


def test_only_prompts_of_the_user_are_listed(store: Store):
    inserted = ("<local-command-stdout>ok</local-command-stdout>", "[Request interrupted by user]")
    session = asked(store, *inserted, "<div> is not closed")
    session.append(Message.assistant("bread"))
    assert [prompt.text for prompt in store.prompts()] == ["<div> is not closed"]


def test_prompts_that_were_undone_are_not_listed(store: Store):
    asked(store, "bread").fork(at="root")
    store.undo()
    assert [prompt.text for prompt in store.prompts()] == ["bread"]


# ---- prompts in agents' histories


def typed(home: Path, *prompts: tuple[str, int], session: str = "s", project: str = "/w/app") -> None:
    """Append prompts, each with its time, to Claude Code's history."""
    (home / ".claude").mkdir(exist_ok=True)
    with (home / ".claude/history.jsonl").open("a") as file:
        for text, at_ms in prompts:
            line = {"display": text, "timestamp": at_ms, "project": project, "sessionId": session, "pastedContents": {}}
            file.write(json.dumps(line) + "\n")


def texts(store: Store, query: str = "", **limits: object) -> list[str]:
    return [prompt.text for prompt in store.prompts(query, histories=True, **limits)]  # type: ignore[arg-type]


def test_prompts_of_histories_are_merged_by_time(store: Store, isolated_home: Path):
    asked(store, "first").append(Message.user("last", at_ms=2**40))
    typed(isolated_home, ("oldest", 1), ("bread", 2**39), ("butter", 2**39 + 1))
    (isolated_home / ".codex").mkdir()
    (isolated_home / ".codex/history.jsonl").write_text('{"session_id": "x", "ts": 1000000000, "text": "codex"}\n')
    assert texts(store) == ["last", "codex", "butter", "bread", "first", "oldest"]
    assert texts(store, most=3) == ["last", "codex", "butter"]
    assert texts(store, agent="claude") == ["butter", "bread", "oldest"]
    assert [prompt.text for prompt in store.prompts()] == ["last", "first"]


def test_the_newest_of_a_stored_and_a_typed_prompt_is_listed(store: Store, isolated_home: Path):
    asked(store, "bread", "butter")
    typed(isolated_home, ("bread ", 1), ("butter", 2**40))
    newest, oldest = store.prompts(histories=True)
    assert (newest.text, newest.oid, newest.session) == ("butter", None, None)
    assert oldest.text == "bread" and oldest.oid is not None


def test_a_typed_prompt_has_its_stored_session(store: Store, isolated_home: Path):
    stored = store.agents.import_data(claude, claude_code.of(claude_code.user("a", None, "stored")))
    source_id = store.sessions()[0].source_id
    typed(isolated_home, ("typed", 2**42), session=str(source_id), project="")
    (prompt, _) = store.prompts(histories=True)
    assert prompt.session is not None and prompt.session.sid == stored.session
    assert (prompt.text, prompt.agent, prompt.project, prompt.oid) == ("typed", "claude", "/work", None)
    assert texts(store, folder="/work") == ["typed", "stored"] and texts(store, folder="/other") == []


def test_typed_prompts_can_be_limited_to_words(store: Store, isolated_home: Path):
    asked(store, "bake bread")
    typed(isolated_home, ("tests failed", 1), ("baking\u00e9 and 修正登录", 2), ("baked goods", 3), ('say "x"', 4))
    assert texts(store, "bake") == ["bake bread", "baked goods"]
    assert texts(store, "testing") == ["tests failed"] and texts(store, "登录") == ["baking\u00e9 and 修正登录"]
    assert texts(store, '"baked goods"') == ["baked goods"] and texts(store, '"goods baked"') == []
    assert texts(store, "!!!") == texts(store)
    assert texts(store, "good*") == ["baked goods"] and texts(store, "bakinge") == ["baking\u00e9 and 修正登录"]


def test_typed_prompts_can_be_limited_to_a_folder(store: Store, isolated_home: Path, tmp_path: Path):
    repository = tmp_path / "app"
    (repository / ".git").mkdir(parents=True)
    for number, folder in enumerate((repository, repository / "sub", tmp_path / "else", isolated_home)):
        typed(isolated_home, (f"in {folder.name}", number + 1), project=str(folder))
    assert texts(store, folder=repository) == ["in app"]
    assert texts(store, folder=repository / "sub") == ["in sub", "in app"]


def test_secrets_in_typed_prompts_are_withheld(store: Store, isolated_home: Path):
    secret = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
    asked(store, f"use {secret}")
    typed(isolated_home, (f"use {secret}", 1), (f"again {secret}", 2**40))
    assert texts(store) == ["again [redacted:github-token]", "use [redacted:github-token]"]


def test_problems_of_histories_are_reported(store: Store, isolated_home: Path):
    (isolated_home / ".claude/history.jsonl").mkdir(parents=True)
    problems: list[str] = []
    assert store.prompts(histories=True, on_problem=problems.append) == []
    assert len(problems) == 1 and "not a regular file" in problems[0]
