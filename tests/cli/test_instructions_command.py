"""Tests of the command ``instructions``."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import Run, document

from gitsession import Message, Store
from gitsession.model.instructions import InstructionFile, InstructionSet


@pytest.fixture
def project(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a store with a session of Claude Code in the working directory, which has memory and a rule."""
    monkeypatch.setenv("GITSESSION_DIR", str(here.parent / "store.git"))
    with Store.create(here.parent / "store.git") as store:
        store.new_session(agent="claude", cwd=str(here)).append(Message.user("hello", at_ms=1_000))
    (here / "CLAUDE.md").write_text("memory @more.md @../outside.md")
    (here / "more.md").write_text("more\x1b[31m")
    (here.parent / "outside.md").write_text("outside")
    (here / ".claude/rules").mkdir(parents=True)
    (here / ".claude/rules/ts.md").write_text("---\npaths: '*.ts'\n---\nscripts")
    (here / ".claude/skills/s").mkdir(parents=True)
    (here / ".claude/skills/s/SKILL.md").write_text("---\ndescription: does\x1b[31m things\n---\nbody")
    return here


def test_files_in_force_and_the_others_are_shown_with_the_reason(run: Run, project: Path) -> None:
    head, *lines = run("instructions").splitlines()
    assert head.startswith("2 files in force for claude in ")
    assert lines[0].startswith("  project    CLAUDE.md  (project memory; 30 bytes, ~8 tokens")
    assert lines[1].startswith("    project    more.md  (import; ")
    text = "\n".join(lines)
    assert "  rule       .claude/rules/ts.md  (project rule with paths: **/*.ts)" in text
    assert "  s: does" in text
    assert "outside.md: an import from outside of the working directory" in text
    assert "\x1b" not in text


def test_a_touched_path_brings_rules_in(run: Run, project: Path) -> None:
    assert run("instructions", "--touch", "a/b.ts").startswith("3 files in force")
    found = document(run("instructions", "@", "--touch", str(project / "b.ts"), "--json"))
    assert [(Path(file["path"]).name, file["in_force"]) for file in found["files"]] == [
        ("CLAUDE.md", True), ("more.md", True), ("ts.md", True),
    ]  # fmt: skip
    assert found["recorded"] is False


def test_an_agent_needs_no_store(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITSESSION_DIR", str(here / "none.git"))
    (here / "AGENTS.md").write_text("guidance")
    assert run("instructions", "--agent", "codex").startswith("1 file in force for codex")
    refusal = run("instructions", code=3, err=True)
    assert "does not exist" in refusal
    assert "hint: pass --agent with one of aider, claude, " in refusal


def test_recorded_instructions_are_shown_at_an_entry(run: Run, project: Path) -> None:
    assert "recorded none" in run("instructions", "@@leaf", code=3, err=True)
    file = InstructionFile(path="/gone/CLAUDE.md", scope="project", content="then", digest="0" * 64, reason="memory")
    with Store.open() as store:
        found = InstructionSet(agent="claude", cwd=str(project), files=(file,))
        store.session(store.sessions()[0].sid).record_instructions(found)
    assert run("instructions", "@@leaf").splitlines()[1].startswith("  project    /gone/CLAUDE.md  (memory; 4 bytes")
    assert document(run("instructions", "@", "--json"))["recorded"] is True
    assert "recorded none" in run("instructions", "@@root", code=3, err=True)
