"""Tests of the command ``prompts`` with the agents' own prompt histories, and of ``search`` in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Run, document

from gitsession import Message, Store


@pytest.fixture
def histories(here: Path, isolated_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a store with one prompt, and histories of Claude Code and codex. Return the home directory."""
    monkeypatch.setenv("GITSESSION_DIR", str(here / "store.git"))
    with Store.create(here / "store.git") as store:
        store.new_session(agent="mine", cwd=str(here)).append(Message.user("stored", at_ms=2_000))
    (isolated_home / ".claude").mkdir()
    line = {"display": "typed\x1b[31m", "timestamp": 3_000, "project": "/w", "sessionId": "s", "pastedContents": {}}
    (isolated_home / ".claude/history.jsonl").write_text(json.dumps(line) + "\n")
    (isolated_home / ".codex").mkdir()
    (isolated_home / ".codex/history.jsonl").write_text('{"session_id": "x", "ts": 1, "text": "first\\nsecond"}\n')
    return isolated_home


def test_prompts_of_agents_are_listed_with_the_stored_ones(run: Run, histories: Path) -> None:
    assert run("prompts").splitlines() == ["typed[31m", "stored", "first …"]
    assert run("prompts", "--stored") == "stored\n"
    assert run("prompts", "--agent", "codex", "-z") == "first\nsecond\0"
    assert run("prompts", "--here") == "stored\n"
    assert run("prompts", "second") == "first …\n"
    assert "no sessions of agent 'pi'" in run("prompts", "--agent", "pi", code=1, err=True)


def test_a_prompt_outside_the_store_has_no_session(run: Run, histories: Path) -> None:
    (prompt,) = document(run("prompts", "--json", "-n", "1"))["prompts"]
    assert prompt == {
        "session": None, "entry": None, "at": 3_000, "text": "typed\x1b[31m", "agent": "claude", "project": "/w",
    }  # fmt: skip


def test_a_history_that_cannot_be_read_is_a_warning(run: Run, histories: Path) -> None:
    path = histories / ".claude/history.jsonl"
    path.unlink()
    path.symlink_to("/dev/zero")
    told = run("prompts", err=True)
    assert told == f"warning: cannot read the prompt history '{path}': not a regular file\n"
    assert run("prompts") == "stored\nfirst …\n"
    assert run("prompts", "--stored", err=True) == ""


def test_search_can_be_limited_to_the_current_folder(
    run: Run, histories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "stored" in run("search", "stored", "--here")
    (tmp_path / "deleted").mkdir()
    for folder in (tmp_path, tmp_path / "deleted"):
        monkeypatch.chdir(folder)
        if folder != tmp_path:
            folder.rmdir()
        assert "no entries found in 0 sessions" in run("search", "stored", "--here", code=1, err=True)
        assert run("prompts", "--here", code=1) == ""
