"""Tests of every importer with malformed files: errors name each rejected part, and all else can be exported."""

from __future__ import annotations

import json
import random

import codex_files
import pytest
from builders import all_refs, assert_clean, entry, exported, joined, pi_file, said, slot
from figures import DEEP, figure
from fuzzing import CLAUDE, FILES, LIBRECODE, OPENCODE, PI, spelled, wounded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitsession.context import profiles
from gitsession.context.build import context
from gitsession.context.history import ContextHistory
from gitsession.context.providers import PROVIDERS, provider
from gitsession.discovery import discover, projects, sources
from gitsession.errors import Malformed
from gitsession.exporting.gather import gather
from gitsession.formats import FORMATS, Accompanied, Source, all_with_capability, claimed
from gitsession.importing.import_session import ImportResult, import_source
from gitsession.model.entries import Entry, SessionHeader
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore

NAME = "/work/folder/named"

often = settings(
    max_examples=figure(60, 20_000),
    derandomize=not DEEP,
    suppress_health_check=[*HealthCheck],
    deadline=None,
)


@pytest.mark.parametrize("agent", FILES)
@often
@given(draw=st.randoms(use_true_random=False))
def test_malformed_file_is_rejected_or_exported_unchanged(agent: str, draw: random.Random) -> None:
    data, final = wounded(draw, agent), draw.random() < 0.5
    survives(agent, data, final=final)


WOUNDED: dict[str, tuple[str, bytes]] = {
    "a title slot and no header": ("omp", slot("T") + b"\n" + joined(*PI)),
    "a role that is a list": ("pi", pi_file(entry("message", "a", None, message={"role": ["user"], "content": "hi"}))),
    "a block whose type is a list": (
        "pi", pi_file(entry("message", "a", None, message={"role": "assistant", "content": [{"type": ["text"]}]})),
    ),
    "a number of 5,000 digits": (
        "pi", pi_file(said("a", None).replace(b'"role"', b'"n":' + b"9" * 5000 + b',"role"')),
    ),
    "an id of half a character, in rows": ("librecode", LIBRECODE.replace(b'"id":"s1"', b'"id":"\\ud800"')),
    "an id of half a character, in a document": ("opencode", OPENCODE.replace(b'"ses_one"', b'"\\ud800"')),
    "parts that are no list": ("opencode", spelled({"info": {"id": "ses_x"}, "messages": [{"info": {}, "parts": 5}]})),
    "a number that is none in a summary": ("opencode", OPENCODE.replace(b'"cost": 0.25', b'"cost": 1e999')),
    "calls with ids that are lists": ("codex", codex_files.rollout(codex_files.output([]), codex_files.call([]))),
    "a folder of half a character": ("claude", CLAUDE.replace(b'"/work"', b'"/\\ud800"')),
}  # fmt: skip
"""Inputs that once raised an error, by the reason."""


@pytest.mark.parametrize(("agent", "data"), WOUNDED.values(), ids=WOUNDED)
def test_a_wound_that_once_was_one(agent: str, data: bytes) -> None:
    survives(agent, data, final=True)
    assert FORMATS[agent].split(data, name=NAME, final=True).records


def survives(agent: str, data: bytes, *, final: bool) -> None:
    """Import a file. It may only raise ``Malformed`` with a message; imported data is complete and is imported once."""
    format = FORMATS[agent]
    head = data[: sources.HEAD_BYTES]
    claiming = [each for each in FORMATS.values() if each.claims(head)]
    assert claimed(head) is next(iter(claiming), None)
    for each in all_with_capability(Accompanied).values():
        each.sidecars(data, NAME)
    try:
        source = format.split(data, name=NAME, final=final)
    except Malformed as error:
        assert str(error)
        return
    assert all(problem.what and problem.what.isprintable() for problem in source.problems)
    store = MemoryStore()
    sid = import_source(store, format, source).session
    assert exported(store, sid) + source.waiting == data
    assert_clean(store)
    assert_again_is_nothing(store, agent, source)
    read_all(agent, source)
    assert_goes_on(store, sid, agent)


def assert_again_is_nothing(store: ObjectStore, agent: str, source: Source) -> None:
    before = all_refs(store)
    again: ImportResult = import_source(store, FORMATS[agent], source)
    assert (again.new, again.moves) == (0, ())
    assert all_refs(store) == before


def read_all(agent: str, source: Source) -> None:
    """Read every record and its headline."""
    for record in (*source.meta, *source.records):
        found = FORMATS[agent].read(record.payload)
        assert isinstance(found, Entry)
        assert FORMATS[agent].headline(record.payload).label
        if isinstance(found, SessionHeader) and found.cwd is not None:
            projects.identity_of(discover.Path(found.cwd))


def assert_goes_on(store: ObjectStore, sid: str, agent: str) -> None:
    """Build the context, the request of each provider and the export for every agent."""
    for name, oid in store.refs("refs/heads/sessions/").items():
        if not name.endswith("/meta"):
            shown = context(ContextHistory(store, oid), profiles.of_agent(agent))
            for api in PROVIDERS:
                made = provider(api).request(shown)
                assert json.dumps(made, allow_nan=api == "pi")
    for format in FORMATS.values():
        written = format.write(gather(store, sid, format).out)
        assert isinstance(written.data, bytes)
