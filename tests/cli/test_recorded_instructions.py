"""Tests of recorded instructions in ``gitsession instructions`` and ``gitsession context``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from claude_code import SESSION, of, talk
from commands import Run
from instruction_sets import PROJECT, USER, made, skill

from gitsession import Message, Store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.git"
    with Store.create(path) as opened:
        session = opened.new_session(agent="claude", cwd=str(tmp_path / "work"))
        session.record_instructions(made("claude", USER, PROJECT, skill("deploy")))
        session.append(Message.user("hi"))
        session.activate_skill("deploy")
    return path


def test_context_shows_the_files_the_skills_and_their_tokens(run: Run, store: Path) -> None:
    shown = run("--store", str(store), "context", "@")
    assert "files  /home/me/.claude/CLAUDE.md, /work/CLAUDE.md" in shown
    assert "skills  deploy" in shown
    assert "active  deploy" in shown
    assert "instructions " in next(line for line in shown.splitlines() if "by kind" in line)
    document = json.loads(run("--store", str(store), "context", "@", "--json"))
    assert [text["part"] for text in document["instruction_texts"]] == ["files", "skills", "skill"]
    assert document["breakdown"]["kind"]["instructions"] > 0


def test_instructions_shows_the_recorded_set(run: Run, store: Path) -> None:
    document = json.loads(run("--store", str(store), "instructions", "@", "--json"))
    assert document["recorded"] is True
    assert [file["path"] for file in document["files"]] == [USER.path, PROJECT.path]


def test_a_fork_of_an_imported_session_shows_the_set_of_the_older_one(run: Run, tmp_path: Path) -> None:
    file, path = tmp_path / f"{SESSION}.jsonl", str(tmp_path / "store.git")
    file.write_bytes(of(*talk("a", "b")))
    with Store.create(path) as opened:
        session = opened.session(opened.import_file(file)[0].session)
        session.record_instructions(made("claude", USER, PROJECT), at_ms=session.history()[1].author_seconds * 1000)
    fork = json.loads(run("--store", path, "fork", f"claude:{SESSION}", "--json"))["session"]
    assert "files  /home/me/.claude/CLAUDE.md, /work/CLAUDE.md" in run("--store", path, "context", fork)
    document = json.loads(run("--store", path, "context", fork, "--json"))
    assert [text["part"] for text in document["instruction_texts"]] == ["files"]
    shown = json.loads(run("--store", path, "instructions", fork, "--json"))
    assert shown["recorded"] is True
    assert [each["path"] for each in shown["files"]] == [USER.path, PROJECT.path]
