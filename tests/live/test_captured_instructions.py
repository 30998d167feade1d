"""Tests of ingest: the instructions of an agent are recorded at the start of its session, and when they change."""

from __future__ import annotations

from pathlib import Path

import pytest
from hooks import Agent

from gitsession import InstructionSet, Store
from gitsession.api import Session
from gitsession.model.entries import Instructions
from gitsession.model.recorded_instructions import recorded_set
from gitsession.sessions.content import entry_of
from gitsession.sessions.node import load


class Project(Agent):
    """A simulated Claude Code, whose lines name its workspace as the working directory."""

    def write(self, *lines: bytes) -> None:
        super().write(*[line.replace(b'"/work"', f'"{self.workspace}"'.encode()) for line in lines])


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    home = tmp_path / "home/.claude"
    home.mkdir(parents=True)
    (home / "CLAUDE.md").write_text("Be brief.\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = Project(tmp_path)
    found.fill(CLAUDE__md="Use tabs.\n")
    return found


def recorded(agent: Agent) -> list[InstructionSet]:
    with Store.open(agent.store) as store:
        session = opened(store, agent)
        nodes = [oid for _, oid in session._handle.recorded_instructions()]
        entries = [entry_of(store.objects, load(store.objects, oid)) for oid in nodes]
        sets = [recorded_set(entry) for entry in entries if isinstance(entry, Instructions)]
        return [found for found in sets if found is not None]


def opened(store: Store, agent: Agent) -> Session:
    return store.session(f"claude:{agent.session}")


def texts(found: InstructionSet) -> list[str]:
    return [file.content.strip() for file in found.files]


def test_the_set_is_recorded_at_the_start_of_the_session(agent: Project) -> None:
    agent.tell("SessionStart", source="startup")
    agent.prompt("u1", "do it")
    agent.stops()
    done = agent.drain()
    assert (done.waiting, done.failed) == (0, [])
    [found] = recorded(agent)
    assert texts(found) == ["Be brief.", "Use tabs."]
    with Store.open(agent.store) as store:
        session = opened(store, agent)
        assert [texts(session.instructions(node) or found) for node in session.history()] == [texts(found)] * 2
        assert list(session.branches()) == ["main"]
        assert "Use tabs." in str(session.context().request("anthropic")["messages"][0])


def test_the_set_is_recorded_again_only_when_it_changes(agent: Project) -> None:
    agent.prompt("u1", "do it")
    agent.stops()
    agent.drain()
    agent.prompt("u2", "go on")
    agent.stops()
    assert agent.drain().failed == []
    assert len(recorded(agent)) == 1
    agent.fill(CLAUDE__md="Use spaces.\n")
    agent.prompt("u3", "go on")
    agent.stops()
    assert agent.drain().failed == []
    assert [texts(found)[-1] for found in recorded(agent)] == ["Use tabs.", "Use spaces."]
    with Store.open(agent.store) as store:
        session = opened(store, agent)
        assert len(session.history()) == 4
        assert session.instructions() == recorded(agent)[-1]


def test_a_removed_file_is_no_longer_in_force(agent: Project) -> None:
    agent.prompt("u1", "do it")
    agent.drain()
    agent.fill(CLAUDE__md=None)
    agent.prompt("u2", "go on")
    agent.drain()
    assert [texts(found) for found in recorded(agent)] == [["Be brief.", "Use tabs."], ["Be brief."]]


def test_a_file_of_a_folder_below_is_recorded_once_the_folder_is_touched(agent: Project) -> None:
    below = agent.workspace / "sub"
    below.mkdir()
    (below / "CLAUDE.md").write_text("No tabs here.\n")
    (below / "a.py").write_text("x = 1\n")
    agent.prompt("u1", "read it")
    agent.calls("t1", "Read", file_path=str(below / "a.py"))
    agent.called("t1", "Read", file_path=str(below / "a.py"))
    assert agent.drain().failed == []
    assert texts(recorded(agent)[-1]) == ["Be brief.", "Use tabs.", "No tabs here."]
    with Store.open(agent.store) as store:
        placed = opened(store, agent).context().instruction_texts
        assert [text.part for text in placed] == ["files", "rule"]


def test_secrets_in_the_files_are_redacted(agent: Project) -> None:
    agent.fill(CLAUDE__md="token: ghp_" + "a1B2" * 9)
    agent.prompt("u1", "do it")
    agent.drain()
    agent.prompt("u2", "go on")
    agent.drain()
    [found] = recorded(agent)
    assert "[redacted:" in texts(found)[-1]


def test_nothing_is_recorded_without_files(agent: Project, tmp_path: Path) -> None:
    agent.fill(CLAUDE__md=None)
    (tmp_path / "home/.claude/CLAUDE.md").unlink()
    agent.prompt("u1", "do it")
    assert agent.drain().failed == []
    assert recorded(agent) == []
