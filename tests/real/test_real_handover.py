"""Tests that the real programs resume any agent's session, and that their models receive the conversation.

It requires ``$LAB`` with the programs and permission for a network namespace. docs/reference/agents.md has the table.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import handover
import pytest
from builders import bring, session
from stories import COMMAND, FIRST, LAST, LOOK, NAMES, OF_A_SUB_AGENT, OUTPUT, PLACE_OF_A_SUB_AGENT, STORIES

from gitsession.discovery import sources
from gitsession.errors import Refused
from gitsession.exporting import resume
from gitsession.formats import FORMATS, Importing
from gitsession.importing.import_session import import_source
from gitsession.store.memory import MemoryStore

CARRIED = [("user", FIRST), ("user", "PICTURE"), ("assistant", LOOK), ("call", COMMAND), ("result", OUTPUT),
           ("assistant", LAST), ("user", handover.NEXT)]  # fmt: skip
IN_WORDS = {"PICTURE": ("user", "image/png"), COMMAND: ("assistant", COMMAND), OUTPUT: ("user", OUTPUT)}
"""Items that Aider can state only as text."""


def carried(source: str, agent: str) -> list[tuple[str, str]]:
    """Return the role and text of each message that the story of ``source`` should have in ``agent``."""
    wordy = "aider" in (source, agent)
    if source == "librecode":  # its context has no calls and no results
        return [each for each in CARRIED if each[0] not in ("call", "result") and not (wordy and each[1] == "PICTURE")]
    said = [IN_WORDS.get(words, (by, words)) if wordy else (by, words) for by, words in CARRIED]
    return [each for each in said if source != "aider" or each not in (IN_WORDS["PICTURE"], IN_WORDS[COMMAND])]


@pytest.mark.parametrize("agent", handover.PROGRAMS)
@pytest.mark.parametrize("source", STORIES)
def test_model_receives_the_conversation(source: str, agent: str, tmp_path: Path) -> None:
    if not handover.is_there(agent):
        pytest.skip(f"the real {agent} is not at hand")
    home, work = tmp_path / "home", tmp_path / "a folder"
    home.mkdir()
    work.mkdir()
    store = MemoryStore()
    sid = bring(store, STORIES[source], agent=source, name=NAMES[source]).session
    where = resume.workspace(work, home, {})
    found = resume.plan(store, sid, agent, None, where, {})
    resume.perform(found)
    told = handover.asked(found, home)
    assert in_order(carried(source, agent), told), told
    # The program continued the exported session. Its file is the same session if the agent is the original one.
    with pytest.raises(Refused, match="the agent has continued"):
        resume.plan(store, sid, agent, None, where, {})
    place = found.file if not isinstance(FORMATS[agent], Importing) else home / ".local/share/opencode/opencode.db"
    [taken] = [import_source(store, each.format, each.load().source) for each in sources.at(place, final=True)]
    line = [node.subject for node in session(store, taken.session).history()]
    assert [at for at in line if handover.NEXT in at or "ANSWER" in at][-1] == "assistant: ANSWER"
    assert any(at.startswith("user: ") and handover.NEXT in at for at in line)
    assert (taken.session == sid) == (source == agent)
    if source == agent:
        assert resume.plan(store, sid, agent, None, where, {}).id == found.id


@pytest.mark.parametrize("agent", handover.PROGRAMS)
def test_resume_continues_from_an_earlier_entry(agent: str, tmp_path: Path) -> None:
    if not handover.is_there(agent):
        pytest.skip(f"the real {agent} is not at hand")
    home, store = tmp_path / "home", MemoryStore()
    home.mkdir()
    sid = bring(store, STORIES[agent], agent=agent, name=NAMES[agent]).session
    line = session(store, sid).history()
    at = line[next(at for at, node in enumerate(line) if LAST in node.subject) - 1]
    found = resume.plan(store, sid, None, at, resume.workspace(tmp_path, home, {}), {})
    resume.perform(found)
    told = handover.asked(found, home)
    assert in_order([*carried(agent, agent)[:-2], CARRIED[-1]], told), told
    assert not any(LAST in said for _, said in told)


def test_opencode_continues_from_an_earlier_entry_of_its_own_session(tmp_path: Path) -> None:
    if not handover.is_there("opencode"):
        pytest.skip("the real opencode is not at hand")
    home, store = tmp_path / "home", MemoryStore()
    home.mkdir()
    where = resume.workspace(tmp_path, home, {})
    sid = bring(store, STORIES["opencode"], agent="opencode").session
    for at, wanted in ((None, CARRIED), ("leaf~1", [*CARRIED[:5], CARRIED[-1]])):
        node = session(store, sid).resolve(at) if at is not None else None
        found = resume.plan(store, sid, None, node, where, {})
        resume.perform(found)
        told = handover.asked(found, home)
        assert in_order(wanted, told), told
    assert not any(LAST in said for _, said in told)


def test_claude_code_continues_a_sub_agents_session(tmp_path: Path) -> None:
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
def test_exported_session_is_found_by_its_id(agent: str, folder: str, tmp_path: Path) -> None:
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
    by_id = dataclasses.replace(found, commands=(tuple(FORMATS[agent].resume_command(found.id)),))
    assert in_order(CARRIED, handover.asked(by_id, home))
    assert handover.NEXT.encode() in found.file.read_bytes()


def in_order(wanted: list[tuple[str, str]], told: handover.Told) -> bool:
    """Return whether the messages occur in this order, each with its role."""
    rest = list(told)
    for role, words in wanted:
        while rest and not (rest[0][0] == role and words in rest[0][1]):
            rest.pop(0)
        if not rest:
            return False
        rest[0] = role, rest[0][1].partition(words)[2]
    return True
