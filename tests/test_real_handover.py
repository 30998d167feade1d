"""Any agent's session goes on in any other: the real programs resume it, and their model is told what was said.

Runs where ``$LAB`` holds the programs and a network of one's own is allowed. docs/agents.md has the table.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import handover
import pytest
from builders import bring, session
from stories import COMMAND, FIRST, LAST, LOOK, NAMES, OF_A_SUB_AGENT, OUTPUT, PLACE_OF_A_SUB_AGENT, STORIES

from gitsession.exchange import resume
from gitsession.formats import RESUMABLE
from gitsession.store.memory import MemoryStore

CARRIED = [("user", FIRST), ("user", "PICTURE"), ("assistant", LOOK), ("call", COMMAND), ("result", OUTPUT),
           ("assistant", LAST), ("user", handover.NEXT)]  # fmt: skip


@pytest.mark.parametrize("agent", handover.PROGRAMS)
@pytest.mark.parametrize("source", STORIES)
def test_the_model_is_told_what_was_said(source: str, agent: str, tmp_path: Path) -> None:
    if not handover.is_there(agent):
        pytest.skip(f"the real {agent} is not at hand")
    home, work = tmp_path / "home", tmp_path / "a folder"
    home.mkdir()
    work.mkdir()
    store = MemoryStore()
    sid = bring(store, STORIES[source], agent=source, name=NAMES[source]).session
    found = resume.plan(store, sid, agent, None, resume.workspace(work, home, {}), {})
    resume.perform(found)
    told = handover.asked(found, home)
    assert in_order(CARRIED, told), told
    # The program went on with the file that was put there; its own session is taken in again as what it was.
    now = found.file.read_bytes()
    assert now.startswith(found.data)
    assert handover.NEXT.encode() in now[len(found.data) :]
    if source == agent:
        taken = bring(store, now, agent=agent, name=found.file.stem)
        assert taken.session == sid
        assert "assistant: ANSWER" in [node.subject for node in session(store, sid).line()]


@pytest.mark.parametrize("agent", handover.PROGRAMS)
def test_it_goes_on_from_an_earlier_entry(agent: str, tmp_path: Path) -> None:
    if not handover.is_there(agent):
        pytest.skip(f"the real {agent} is not at hand")
    home, store = tmp_path / "home", MemoryStore()
    home.mkdir()
    sid = bring(store, STORIES[agent], agent=agent, name=NAMES[agent]).session
    line = session(store, sid).line()
    at = line[next(at for at, node in enumerate(line) if LAST in node.subject) - 1]
    found = resume.plan(store, sid, None, at, resume.workspace(tmp_path, home, {}), {})
    resume.perform(found)
    told = handover.asked(found, home)
    assert in_order([*CARRIED[:5], ("user", handover.NEXT)], told), told
    assert not any(LAST in said for _, said in told)


def test_claude_code_goes_on_with_what_a_sub_agent_said(tmp_path: Path) -> None:
    if not handover.is_there("claude"):
        pytest.skip("the real claude is not at hand")
    home, store = tmp_path / "home", MemoryStore()
    home.mkdir()
    sid = bring(store, OF_A_SUB_AGENT, agent="claude", name=PLACE_OF_A_SUB_AGENT).session
    found = resume.plan(store, sid, None, None, resume.workspace(tmp_path, home, {}), {})
    resume.perform(found)
    words = [("user", "words of a"), ("assistant", "words of d"), ("user", handover.NEXT)]
    assert in_order(words, handover.asked(found, home))


@pytest.mark.parametrize("folder", ["work", "home/project", "home"])
@pytest.mark.parametrize("agent", ["omp", "pi"])
def test_it_lies_where_the_agent_looks_for_its_id(agent: str, folder: str, tmp_path: Path) -> None:
    if not handover.is_there(agent):
        pytest.skip(f"the real {agent} is not at hand")
    work = tmp_path / folder
    work.mkdir(parents=True)
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    store = MemoryStore()
    sid = bring(store, STORIES[agent], agent=agent).session
    found = resume.plan(store, sid, agent, None, resume.workspace(work, home, {}), {})
    resume.perform(found)
    by_id = dataclasses.replace(found, command=tuple(RESUMABLE[agent].resume_command(found.id)))
    assert in_order(CARRIED, handover.asked(by_id, home))
    assert handover.NEXT.encode() in found.file.read_bytes()


def in_order(wanted: list[tuple[str, str]], told: handover.Told) -> bool:
    """Whether each of ``wanted`` is said, by whom it says, one behind the other."""
    rest = iter(told)
    return all(any(role == by and words in said for by, said in rest) for role, words in wanted)
