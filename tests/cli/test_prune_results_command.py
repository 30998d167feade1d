"""Tests of ``gitsession prune-results``: the two phases of opencode's rule P2, from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import assert_clean
from opencode_files import answer, export, tool, user

from gitsession import Message, Session, Store
from gitsession.cli import app as command_line
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import CLEARED, Prune

Run = Callable[..., dict[str, Any]]


def grow(session: Session, count: int, size: int, tool: str = "bash") -> None:
    for number in range(count):
        call = ToolCall(f"{tool}{number}", tool, {})
        session.append(Message.user("go on"))
        session.append(Message.assistant([call]))
        session.append(Message.tool(call, "x" * size * 4))


@pytest.fixture
def sid(here: Path) -> str:
    """Return the id of a session with nine results of 10,000 tokens each."""
    with Store.open() as store:
        session = store.new_session(agent="test", cwd=str(here))
        grow(session, 9, 10_000)
        return session.id


@pytest.fixture
def run(sid: str, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Return a function that runs a command with ``--json``, and returns its document."""

    def run(*words: str, code: int = 0) -> dict[str, Any]:
        capfdbinary.readouterr()
        ended = command_line.run([*words, "--json"])
        out, complaint = capfdbinary.readouterr()
        assert ended == code, complaint.decode()
        return {**(json.loads(out) if out.strip() else {}), "stderr": complaint.decode()}

    return run


def cleared(sid: str, branch: str = "main") -> list[bool]:
    with Store.open() as store:
        entries = store.session(sid).on(branch).context().messages
        results = [entry for entry in entries if isinstance(entry, Message) and entry.role == "tool"]
        return [entry.text == CLEARED for entry in results]


def test_p2_defaults_protect_40_000_tokens_and_save_more_than_20_000(run: Run, sid: str) -> None:
    told = run("prune-results", "@")
    # The results of the last two turns are not counted. Of the others, four have 40,000 tokens.
    assert (told["tokens"], [result["tokens"] for result in told["results"]]) == (30_000, [10_000] * 3)
    assert {result["tool"] for result in told["results"]} == {"bash"}
    assert cleared(sid) == [True] * 3 + [False] * 6
    with Store.open() as store:
        session = store.session(sid)
        entry = session.read(told["id"])
        assert isinstance(entry, Prune) and len(entry.targets) == 3
        assert session.leaf is not None and session.leaf.oid == told["id"]
        assert_clean(store.objects)


def test_p2_a_second_prune_finds_nothing(run: Run) -> None:
    run("prune-results", "@")
    told = run("prune-results", "@", code=1)
    assert (told["id"], told["results"]) == (None, [])
    assert "error: no results to remove" in told["stderr"]


def test_dry_run_writes_nothing(run: Run, sid: str) -> None:
    before = run("log", "@")["leaf"]
    planned = run("prune-results", "@", "--dry-run")
    assert (planned["id"], len(planned["results"])) == (None, 3)
    assert run("log", "@")["leaf"] == before
    assert run("prune-results", "@")["results"] == planned["results"]


def test_p2_excluded_tools_replace_the_default(run: Run, sid: str) -> None:
    assert run("prune-results", "@", "--exclude-tool", "bash", code=1)["results"] == []
    assert run("prune-results", "@", "--exclude-tool", "read", "--dry-run")["results"] != []
    with Store.open() as store:
        grow(store.session(sid), 9, 10_000, tool="skill")
    assert {result["tool"] for result in run("prune-results", "@")["results"]} == {"bash"}


@pytest.mark.parametrize(("turns", "removed"), [(0, 9), (1, 8), (2, 7), (8, 1), (9, 0)])
def test_p2_keep_turns_is_the_number_of_turns_that_are_not_considered(run: Run, turns: int, removed: int) -> None:
    limits = ("--protect-tokens", "0", "--minimum-tokens", "0", "--keep-turns", str(turns))
    assert len(run("prune-results", "@", *limits, code=0 if removed else 1)["results"]) == removed


def test_p2_no_more_than_the_minimum_is_no_saving(run: Run) -> None:
    assert run("prune-results", "@", "--minimum-tokens", "30000", code=1)["results"] == []
    assert len(run("prune-results", "@", "--minimum-tokens", "29999")["results"]) == 3


def test_undo_shows_the_results_again(run: Run, sid: str) -> None:
    run("prune-results", "@")
    assert any(cleared(sid))
    run("undo")
    assert not any(cleared(sid))


def test_another_branch_can_be_pruned(run: Run, sid: str) -> None:
    run("branch", "@", "side")
    assert run("prune-results", f"{sid}@side")["branch"] == "side"
    assert cleared(sid, "side") == [True] * 3 + [False] * 6
    assert not any(cleared(sid))
    assert "no branch 'other'" in run("prune-results", f"{sid}@other", code=3)["stderr"]


def test_one_of_several_results_in_one_message_of_opencode_can_be_removed(run: Run, here: Path) -> None:
    parts = [tool("c1", "x" * 400), tool("c2", "y" * 400)]
    file = here / "opencode.json"
    file.write_bytes(export([user("msg_u1", "One", at=1), answer("msg_a1", at=2, parts=parts)]))
    run("import", str(file))
    limits = ("--protect-tokens", "100", "--minimum-tokens", "0", "--keep-turns", "0")
    [removed] = run("prune-results", "opencode:ses_one", *limits)["results"]
    assert removed["tokens"] == 100
    with Store.open() as store:
        context = store.session("opencode:ses_one").context()
        shown = [entry.text for entry in context.messages if isinstance(entry, Message) and entry.role == "tool"]
        exported = store.export("opencode:ses_one").data
    assert [text[:3] for text in shown] == ["[Ol", "yyy"]
    assert exported.count(b'"compacted"') == 1


def test_output_for_people_lists_the_results(
    run: Run, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    capfdbinary.readouterr()
    monkeypatch.setenv("COLUMNS", "80")
    assert command_line.run(["prune-results", "@"]) == 0
    lines = capfdbinary.readouterr()[0].decode().splitlines()
    assert lines[0] == "removed 3 results from the context, about 30,000 tokens"
    assert [line.split()[1:3] for line in lines[1:]] == [["bash", "10,000"]] * 3
    assert max(map(len, lines)) <= 80


NOTHING: dict[str, tuple[list[str], str, str]] = {
    "the minimum": (
        ["--minimum-tokens", "30000"],
        "the saving is too small, about 30,000 tokens in 3 results",
        "pass a --minimum-tokens below 30,000",
    ),
    "protected tokens": (
        ["--protect-tokens", "70000"],
        "all are kept, about 90,000 tokens in 9 results",
        "pass a lower --protect-tokens or --keep-turns, or another --exclude-tool",
    ),
    "turns": (["--keep-turns", "9"], "all are kept, about 90,000 tokens in 9 results", "--keep-turns"),
    "a tool": (["--exclude-tool", "bash"], "all are kept, about 90,000 tokens in 9 results", "--exclude-tool"),
}


@pytest.mark.parametrize(("words", "reason", "hint"), NOTHING.values(), ids=NOTHING)
def test_reason_why_nothing_is_removed(run: Run, words: list[str], reason: str, hint: str) -> None:
    told = run("prune-results", "@", *words, "--dry-run", code=1)
    assert told["nothing"] == reason
    assert f"error: no results to remove: {reason}\n" in told["stderr"]
    assert hint in told["stderr"]


def test_invalid_number_is_refused_in_plain_words(run: Run) -> None:
    complaint = run("prune-results", "@", "--keep-turns", "x", code=2)["stderr"]
    assert "error: invalid value for '--keep-turns': 'x' is not a valid integer\n" in complaint


def test_session_without_results_has_nothing_to_remove(run: Run, here: Path) -> None:
    with Store.open() as store:
        session = store.new_session(agent="test", cwd=str(here))
        session.append(Message.user("hello"))
    told = run("prune-results", session.id, code=1)
    assert told["nothing"] == "the context has no tool results, or only removed ones"
    assert "hint" not in told["stderr"]


def test_removal_of_all_results_leaves_none(run: Run) -> None:
    everything = ["--protect-tokens", "0", "--minimum-tokens", "0", "--keep-turns", "0"]
    assert len(run("prune-results", "@", *everything)["results"]) == 9
    assert (
        run("prune-results", "@", *everything, code=1)["nothing"]
        == "the context has no tool results, or only removed ones"
    )


def test_result_that_is_smaller_than_the_text_in_its_place_is_kept(run: Run, here: Path) -> None:
    with Store.open() as store:
        session = store.new_session(agent="test", cwd=str(here))
        for number, text in enumerate(("ok", "x" * len(CLEARED), "x" * 2 * len(CLEARED), "")):
            call = ToolCall(f"c{number}", "bash", {})
            session.append(Message.user("go on"))
            session.append(Message.assistant([call]))
            session.append(Message.tool(call, text))
    everything = ["--protect-tokens", "0", "--minimum-tokens", "0", "--keep-turns", "0"]
    before = run("context", session.id)["tokens"]["used"]
    assert len(run("prune-results", session.id, *everything)["results"]) == 1
    assert cleared(session.id) == [False, False, True, False]
    assert run("context", session.id)["tokens"]["used"] < before
