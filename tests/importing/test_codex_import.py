"""Tests of imported and exported codex rollouts: growing, rewritten, hostile, and real files if available."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import (
    SHARED,
    STORES,
    assert_clean,
    bring,
    exported,
    ids_on,
    moved_forward,
    session,
    session_refs,
    title_of,
)
from codex_files import (
    ENVIRONMENT,
    NAME,
    PERMISSIONS,
    PIXEL,
    TALK,
    THREAD,
    assistant,
    call,
    compacted,
    counted,
    event,
    item,
    joined,
    message,
    output,
    rolled_back,
    rollout,
    said,
    turn,
    user,
)
from figures import figure
from hypothesis import given, settings
from hypothesis import strategies as st
from mutation import mutant

from gitsession.errors import Malformed
from gitsession.formats.codex.agent import codex
from gitsession.sessions import graph
from gitsession.sessions.content import entry_of
from gitsession.sessions.meta import meta_of
from gitsession.store import refs
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore

WORK = (
    turn("t3")
    + user("look")
    + call("c1") + counted(500) + output("c1")
    + item("message", role="user", content=[{"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}])
    + compacted("so far", [message("user", "U t1"), message("user", "so far")])
    + turn("t4", said("developer", PERMISSIONS), said("user", ENVIRONMENT))
    + rolled_back(2)
    + event("thread_name_updated", thread_name="A name")
    + user("and now") + assistant("that")
)  # fmt: skip
FILE = rollout(TALK, WORK)


@pytest.fixture(params=STORES.values(), ids=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    with request.param(tmp_path / "store.git") as opened:
        yield opened
        assert_clean(opened)


def take_in(store: ObjectStore, data: bytes, *, final: bool = False):  # type: ignore[no-untyped-def]
    return bring(store, data, agent="codex", name=f"/x/{NAME}", final=final)


def test_rollout_is_exported_byte_identical(store: ObjectStore) -> None:
    done = take_in(store, FILE)
    assert exported(store, done.session) == FILE
    assert done.session == refs.imported_sids("codex", THREAD, codex.split(FILE).started_ms)[0]
    assert (done.problems, take_in(store, FILE).moves) == ((), ())


def test_rolled_back_turns_are_kept_beside_the_continuation(store: ObjectStore) -> None:
    sid = take_in(store, rollout(turn("t1"), turn("t2"), rolled_back(1), turn("t3"))).session
    opened = session(store, sid)
    assert [node.subject for node in opened.history()][-4:] == [
        "rolled back: 1 turn",
        "user: U t3",
        "model: mock-model",
        "assistant: A t3",
    ]
    assert "user: U t2" not in [node.subject for node in opened.history()]
    assert next(graph.history(store, graph.branches(store, sid)["main"])).subject == "assistant: A t2"


def test_title_is_that_of_codex(store: ObjectStore) -> None:
    assert title_of(store, take_in(store, FILE).session) == "A name"


def test_the_header_is_on_meta(store: ObjectStore) -> None:
    header = meta_of(store, take_in(store, rollout(TALK, parent_thread_id="p")).session).header
    assert header is not None
    assert (header.source_id, header.cwd, header.parent) == (THREAD, "/work", "p")


def growth(data: bytes, ends: list[int]) -> None:
    """Import every prefix and then the whole file.

    Refs only move forward, and the result equals that of one import.
    """
    grown, at_once = MemoryStore(), MemoryStore()
    before: dict[str, object] = {}
    for end in [*ends, len(data)]:
        sid = take_in(grown, data[:end]).session
        now = session_refs(grown)
        assert moved_forward(grown, {name: oid for name, oid in before.items() if not name.endswith("/meta")}, now)
        before = dict(now)
    take_in(at_once, data)
    assert {**session_refs(at_once), refs.meta(sid): ""} == {**before, refs.meta(sid): ""}
    assert exported(grown, sid) == data
    assert_clean(grown)


def test_file_that_grows_by_lines_equals_one_import() -> None:
    growth(FILE, [at + 1 for at, byte in enumerate(FILE) if byte == 10])


def test_file_that_grows_by_bytes_equals_one_import() -> None:
    data = rollout(user("a"), counted(1), turn("t1"), rolled_back(1))
    growth(data, list(range(data.index(b"\n") + 1, len(data), 7)))


PARTS = [
    user("hi"), assistant("yo"), counted(7), rolled_back(1), rolled_back(3), compacted("s", []), item("telepathy"),
    said("user", ENVIRONMENT), said("developer", PERMISSIONS),
]  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=8))
def test_growth_does_not_move_existing_entries(parts: list[list[dict[str, object]]]) -> None:
    data = rollout(*parts)
    growth(data, [at + 1 for at, byte in enumerate(data) if byte == 10])


LINES = FILE.split(b"\n")[:-1]

STRANGE = {
    "the header alone": rollout(),
    "no line end at the end": FILE[:-1],
    "a torn last line": FILE + b'{"timestamp":"2026',
    "blank lines": FILE.replace(b"\n", b"\n\n"),
    "carriage returns": FILE.replace(b"\n", b"\r\n"),
    "a byte order mark": b"\xef\xbb\xbf" + FILE,
    "bytes that are no UTF-8": FILE.replace(b"U t2", b"\xff\xfe"),
    "two headers": FILE + FILE,
    "every line twice": b"\n".join(line for line in LINES for _ in range(2)) + b"\n",
    "lines before the header": b"\n".join([*LINES[1:4], LINES[0], *LINES[4:]]) + b"\n",
    "the lines the other way round": b"\n".join(LINES[::-1]) + b"\n",
    "no header": b"\n".join(LINES[1:]) + b"\n",
    "one id for all": rollout(*[said("user", "hi", id="m") for _ in range(5)]),
    "lines of paginated and legacy files": rollout(turn("t1"), first=0) + joined(turn("t2")),
    "nested too deeply": FILE + b'{"type":"response_item","payload":' + b"[" * 5000 + b"\n",
    "printed over several lines": json.dumps(json.loads(LINES[0]), indent=4).encode() + b"\n",
    "only noise": rollout(counted(1), counted(2)),
    "bytes of nothing": FILE + b"\0" * 40 + b"\n",
    "a header that names another thread later": FILE + rollout(thread="other"),
    "text that git takes for its own": rollout(user("---\ntree 0000\n\n-- \n")),
}


@pytest.mark.parametrize("data", STRANGE.values(), ids=STRANGE)
def test_unusual_file_is_exported_byte_identical(store: ObjectStore, data: bytes) -> None:
    done = take_in(store, data, final=True)
    assert exported(store, done.session) == data
    assert take_in(store, data, final=True).moves == ()


def test_mutants_are_exported_byte_identical() -> None:
    draw = random.Random(20_261_122)
    count = figure(150, 5000)
    for number in range(count):
        data = mutant(draw, FILE)
        store = MemoryStore()
        try:
            done = take_in(store, data, final=True)
        except Malformed:
            continue
        assert exported(store, done.session) == data, number
        for node in graph.tree(store, done.session).nodes.values():
            entry_of(store, node)
        assert_clean(store)


def test_a_rewritten_file_becomes_a_branch_and_loses_nothing(store: ObjectStore) -> None:
    sid = take_in(store, rollout(TALK, turn("t3"))).session
    data = rollout(TALK, turn("other"))
    done = take_in(store, data)
    assert (done.session, exported(store, sid)) == (sid, data)
    assert done.rewritten is not None
    assert "user: U t3" in [node.subject for node in graph.history(store, graph.branches(store, sid)["main"])]


def test_an_older_copy_changes_nothing(store: ObjectStore) -> None:
    take_in(store, FILE)
    before = session_refs(store)
    take_in(store, rollout(TALK))
    assert session_refs(store) == before


def test_an_entry_answers_to_the_id_of_its_item(store: ObjectStore) -> None:
    sid = take_in(store, rollout(said("user", "hi", id="msg_1"), said("assistant", "yo", id="msg_2"))).session
    assert ids_on(store, graph.branches(store, sid)["main"]) == ["msg_1", "msg_2"]


# ---- real files

FORK = "01a1ffd1-374d"
"""Part of the name of a fork; tests/importing/test_codex_forks.py tests forks."""

FILES = [path for path in sorted((SHARED / "sessions" / "codex").rglob("*.jsonl")) if FORK not in path.name]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_real_file_is_exported_byte_identical(path: Path) -> None:
    data, store = path.read_bytes(), MemoryStore()
    done = bring(store, data, agent="codex", name=path.stem, final=True)
    assert exported(store, done.session) == data
    assert bring(store, data, agent="codex", name=path.stem, final=True).moves == ()
    assert_clean(store)
