"""Tests of imported and exported session files: growing, rewritten, hostile, and real files if available."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from builders import (
    SHARED,
    START_MS,
    STORES,
    Clock,
    all_refs,
    assert_clean,
    assert_git_agrees,
    begun,
    bring,
    dumps,
    entry,
    exported,
    header,
    ids_on,
    joined,
    label,
    leaves,
    moved_forward,
    named,
    on_disk,
    pi_file,
    said,
    session,
    session_refs,
    shared_files,
    slot,
    talk,
    title_of,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gitsession.codec.digest import to_base32
from gitsession.discovery import sources
from gitsession.errors import Malformed, Refused
from gitsession.exporting import export_session
from gitsession.formats import FORMATS
from gitsession.formats.pi.agent import pi
from gitsession.git.types import Kind, Oid
from gitsession.importing import import_session as importing
from gitsession.importing.payloads import Payloads
from gitsession.model.entries import Attachment, Message
from gitsession.sessions import active_branch, content, graph, session_facts
from gitsession.sessions import marks as rules
from gitsession.sessions.meta import meta_of
from gitsession.store import refs
from gitsession.store.interface import ObjectStore
from gitsession.store.maintenance import maintain
from gitsession.store.memory import MemoryStore
from gitsession.store.spill import FOLDER, PackSpill


@pytest.fixture(params=STORES.values(), ids=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    with request.param(tmp_path / "store.git") as opened:
        yield opened
        assert_clean(opened)


def active_leaf(store: ObjectStore, sid: str) -> str | None:
    """Return the agent's id of the tip of the active branch."""
    node = session(store, sid).leaf
    return node.source.id if node and node.source else None


# ---- unchanged and growing files

TREE = [
    *talk("a", "b", "c"),
    said("d", "b", role="user", at=4),
    said("e", "d", role="assistant", at=5),
    said("f", "c", role="user", at=6),
    label("g", "f", "b", "mark", at=7),
    said("h", "b", role="user", at=8),
    named("i", "h", "Name", at=9),
    said("j", None, role="user", at=10),
]


def test_importing_again_adds_nothing(store: ObjectStore) -> None:
    first = bring(store, pi_file(*TREE))
    before = all_refs(store)
    again = bring(store, pi_file(*TREE))
    assert (first.entries, first.new, again.new, again.moves) == (len(TREE), len(TREE), 0, ())
    assert all_refs(store) == before


def test_dry_run_reports_the_changes_and_makes_none(store: ObjectStore) -> None:
    source = pi.split(pi_file(*TREE))
    planned = importing.import_source(store, pi, source, dry_run=True)
    assert all_refs(store).keys() <= {"refs/heads/main"}
    assert planned == importing.import_source(store, pi, source)


def test_two_stores_give_a_session_the_same_id_and_oids(tmp_path: Path) -> None:
    opened = [make(tmp_path / name) for name, make in STORES.items()]
    for each in opened:
        bring(each, pi_file(*TREE))
    assert session_refs(opened[0]) == session_refs(opened[1]) != {}
    for each in opened:
        each.close()


def test_first_child_continues_and_later_ones_open_named_branches(store: ObjectStore) -> None:
    sid = bring(store, pi_file(*TREE)).session
    tree = graph.tree(store, sid)
    by_id = {node.source.id: node for node in tree.nodes.values() if node.source}
    assert {name: tree.nodes[oid].source for name, oid in tree.branches.items()} == {
        "main": by_id["g"].source,
        to_base32(by_id["d"].chain, 8): by_id["e"].source,
        to_base32(by_id["h"].chain, 8): by_id["i"].source,
        to_base32(by_id["j"].chain, 8): by_id["j"].source,
    }


def check_growth(data: bytes, ends: list[int]) -> None:
    """Import every prefix and then the whole file.

    Refs only move forward, and the result equals that of one import.
    """
    grown, at_once = MemoryStore(), MemoryStore()
    before: dict[str, str] = {}
    for end in [*ends, len(data)]:
        sid = bring(grown, data[:end]).session
        now = session_refs(grown)
        assert moved_forward(grown, {n: v for n, v in before.items() if not n.endswith("/meta")}, now)
        before = now
    bring(at_once, data)
    assert {n: v for n, v in before.items() if n != refs.meta(sid)} == {
        n: v for n, v in session_refs(at_once).items() if n != refs.meta(sid)
    }
    assert exported(grown, sid) == data
    assert_clean(grown)


def test_growth_by_lines_moves_refs_forward_and_equals_one_import() -> None:
    data = pi_file(*TREE)
    check_growth(data, [at + 1 for at, byte in enumerate(data) if byte == 10])


def test_growth_by_lines_has_an_equal_meta() -> None:
    data = pi_file(*TREE)
    grown, at_once = MemoryStore(), MemoryStore()
    for end in [at + 1 for at, byte in enumerate(data) if byte == 10]:
        bring(grown, data[:end])
    bring(at_once, data)
    assert session_refs(grown) == session_refs(at_once)


def test_growth_by_bytes_moves_refs_forward_and_equals_one_import() -> None:
    data = pi_file(*TREE[:5])
    check_growth(data, list(range(data.index(b"\n") + 1, len(data) + 1)))


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(-2, 9), st.booleans()), min_size=1, max_size=10))
def test_growing_tree_does_not_move_existing_entries(shape: list[tuple[int, bool]]) -> None:
    lines = []
    for number, (above, own) in enumerate(shape):
        parent = f"e{above}" if 0 <= above < number else None
        lines.append(said(f"e{number}", parent, at=number) if own or number == 0 else dumps({"x": number}))
    data = pi_file(*lines)
    check_growth(data, [at + 1 for at, byte in enumerate(data) if byte == 10])


def test_a_file_that_grew_is_the_same_in_a_store_that_saw_only_its_end(tmp_path: Path) -> None:
    one, other = MemoryStore(), MemoryStore()
    for count in (2, 5, len(TREE)):
        bring(one, pi_file(*TREE[:count]))
    bring(other, pi_file(*TREE))
    assert session_refs(one) == session_refs(other)


def test_an_older_copy_changes_nothing(store: ObjectStore) -> None:
    sid = bring(store, pi_file(*TREE)).session
    before = all_refs(store)
    assert bring(store, pi_file(*TREE[:4])).moves == ()
    assert all_refs(store) == before
    assert exported(store, sid) == pi_file(*TREE)


def test_older_copy_without_a_final_line_end_changes_nothing(store: ObjectStore) -> None:
    sid = bring(store, pi_file(*TREE)).session
    before = all_refs(store)
    assert bring(store, pi_file(*TREE[:4])[:-1]).moves == ()
    assert all_refs(store) == before
    assert exported(store, sid) == pi_file(*TREE)


def test_an_older_copy_with_an_older_header_changes_nothing(store: ObjectStore) -> None:
    old = joined(slot("old"), header(), *talk("a"))
    bring(store, old)
    sid = bring(store, joined(slot("new"), header(), *talk("a", "b"))).session
    before = all_refs(store)
    assert bring(store, old).moves == ()
    assert all_refs(store) == before
    assert title_of(store, sid) == "new"


# ---- the end of a file


def test_torn_tail_waits_and_is_reported(store: ObjectStore) -> None:
    data = pi_file(*talk("a", "b"))
    done = bring(store, data[:-20])
    assert done.entries == 1
    assert [problem.line for problem in done.problems] == [3]
    assert "not imported" in done.problems[0].what
    assert bring(store, data).new == 1
    assert exported(store, done.session) == data


def test_torn_tail_of_a_final_file_is_imported(store: ObjectStore) -> None:
    data = pi_file(*talk("a", "b"))[:-20]
    done = bring(store, data, final=True)
    assert done.entries == 2
    assert exported(store, done.session) == data


def test_line_after_an_imported_tail_is_rewritten(store: ObjectStore) -> None:
    data = pi_file(*talk("a", "b", "c"))
    bring(store, data[: -len(talk("c")[0]) - 40], final=True)
    done = bring(store, data)
    assert done.rewritten == 3
    assert exported(store, done.session) == data
    assert active_leaf(store, done.session) == "c"


def test_complete_last_line_without_a_line_end_is_imported(store: ObjectStore) -> None:
    data = pi_file(*talk("a", "b"))
    done = bring(store, data[:-1])
    assert (done.entries, done.problems) == (2, ())
    assert exported(store, done.session) == data[:-1]
    assert bring(store, data).new == 0
    assert exported(store, done.session) == data


def test_an_empty_file_is_no_session(store: ObjectStore) -> None:
    with pytest.raises(Malformed):
        bring(store, b"")


# ---- rewritten files

LONG = talk("a", "b", "c", "d", "e", "f")


def changed(lines: list[bytes], number: int, new: bytes) -> list[bytes]:
    return [new if at == number else line for at, line in enumerate(lines)]


REWRITTEN: dict[str, tuple[bytes, bytes]] = {
    "a line changed in the middle": (pi_file(*LONG), pi_file(*changed(LONG, 2, said("c", "b", "other", at=3)))),
    "the first line changed": (pi_file(*LONG), pi_file(*changed(LONG, 0, said("a", None, "other")))),
    "the last line changed": (pi_file(*LONG), pi_file(*changed(LONG, 5, said("f", "e", "other", at=6)))),
    "lines removed from the middle": (pi_file(*LONG), pi_file(*LONG[:2], *LONG[4:])),
    "a line removed and nothing behind it": (pi_file(*LONG[:4]), pi_file(LONG[0], LONG[1], LONG[3])),
    "a line put in": (pi_file(*LONG), pi_file(*LONG[:3], said("x", "c"), *LONG[3:])),
    "a changed line on a side branch": (
        pi_file(*LONG, said("x", "b", at=9), said("y", "x", at=10)),
        pi_file(*LONG, said("x", "b", "other", at=9), said("y", "x", at=10)),
    ),
    "a changed leaf before a line that goes on elsewhere": (
        pi_file(*LONG[:2], said("x", "a"), LONG[2], LONG[3]),
        pi_file(*LONG[:2], said("x", "a", "other"), LONG[2]),
    ),
    "v1 migrated to v3 in place": (
        joined(
            dumps({"type": "session", "id": "s1", "timestamp": "2026-02-01T00:00:00.000Z", "cwd": "/work"}),
            *(dumps({"type": "message", "timestamp": "2026-02-01T00:00:01.000Z",
                     "message": {"role": "user", "content": text}}) for text in ("one", "two")),
        ),
        pi_file(
            *(dumps({"type": "message", "timestamp": "2026-02-01T00:00:01.000Z",
                     "message": {"role": "user", "content": text}, "id": id, "parentId": parent})
              for text, id, parent in (("one", "a", None), ("two", "b", "a"))),
        ),
    ),
    "an old tool result pruned": (
        joined(slot("T"), header(), *LONG[:3], said("t", "c", "x" * 5000, role="toolResult"), said("z", "t")),
        joined(slot("T"), header(), *LONG[:3], said("t", "c", "[pruned]", role="toolResult"), said("z", "t")),
    ),
    "the whole conversation replaced": (pi_file(*LONG), pi_file(*talk("k", "l"))),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), REWRITTEN.values(), ids=REWRITTEN)
def test_a_rewritten_file_becomes_a_branch_and_loses_nothing(store: ObjectStore, old: bytes, new: bytes) -> None:
    agent = "omp" if old.startswith(b'{"type":"title"') else "pi"
    sid = bring(store, old, agent=agent).session
    before = session_refs(store)
    old_leaf = graph.branches(store, sid)["main"]
    done = bring(store, new, agent=agent)
    assert done.session == sid
    assert moved_forward(store, before, session_refs(store))
    assert graph.branches(store, sid)["main"] == old_leaf
    assert done.rewritten is not None
    assert exported(store, sid) == new
    last = pi.split(new).records[-1]
    assert active_leaf(store, sid) == last.source_id
    assert bring(store, new, agent=agent).moves == ()


@pytest.mark.parametrize(("old", "new"), REWRITTEN.values(), ids=REWRITTEN)
def test_rewritten_file_can_grow_and_be_rewritten_again(store: ObjectStore, old: bytes, new: bytes) -> None:
    agent = "omp" if old.startswith(b'{"type":"title"') else "pi"
    sid = bring(store, old, agent=agent).session
    bring(store, new, agent=agent)
    last = pi.split(new).records[-1].source_id
    branches = set(graph.branches(store, sid))
    grown = new + joined(said("g1", last, at=50), said("g2", "g1", at=51))
    done = bring(store, grown, agent=agent)
    assert (done.new, done.rewritten, exported(store, sid)) == (2, None, grown)
    assert set(graph.branches(store, sid)) == branches
    assert active_leaf(store, sid) == "g2"
    again = grown.replace(b"words of g1", b"other words of g1")
    assert bring(store, again, agent=agent).rewritten is not None
    assert exported(store, sid) == again
    assert active_leaf(store, sid) == "g2"


def test_branch_is_named_after_the_first_different_line(store: ObjectStore) -> None:
    sid = bring(store, pi_file(*LONG)).session
    bring(store, pi_file(*changed(LONG, 2, said("c", "b", "other", at=3))))
    tree = graph.tree(store, sid)
    first = next(node for node in tree.nodes.values() if node.subject == "user: other")
    assert set(tree.branches) == {"main", to_base32(first.chain, 8)}


def test_file_that_was_restored_is_exported_as_it_is_now(store: ObjectStore) -> None:
    old, new = pi_file(*LONG), pi_file(*changed(LONG, 2, said("c", "b", "other", at=3)))
    sid = bring(store, old).session
    bring(store, new)
    assert bring(store, old).new == 0
    assert exported(store, sid) == old
    assert active_branch.active(store, sid) == "main"
    assert bring(store, old).moves == ()


def test_two_rewrites_on_a_side_branch_grow_no_refs_of_their_own(store: ObjectStore) -> None:
    base = [*talk("a", "b"), said("x", "a", at=3), said("y", "x", at=4)]
    sid = bring(store, pi_file(*base)).session
    for text in ("one", "two", "three", "four", "five"):
        rewritten = [*base[:3], said("y", "x", text, at=4)]
        bring(store, pi_file(*rewritten))
        before = session_refs(store)
        grown = pi_file(*rewritten, said("z", "y", at=5), said(text, "z", at=6))
        bring(store, grown)
        assert set(session_refs(store)) == set(before)
        assert exported(store, sid) == grown


def test_a_new_title_is_one_entry_on_meta_and_moves_nothing_else(store: ObjectStore) -> None:
    sid = bring(store, joined(slot("old"), header(), *LONG)).session
    before = session_refs(store)
    done = bring(store, joined(slot("new"), header(), *LONG))
    assert [move.ref for move in done.moves] == [refs.meta(sid)]
    assert (done.new, done.rewritten) == (0, None)
    assert moved_forward(store, before, session_refs(store))
    assert title_of(store, sid) == "new"
    assert exported(store, sid) == joined(slot("new"), header(), *LONG)


def test_restored_title_is_restored_in_the_store(store: ObjectStore) -> None:
    for title in ("old", "new", "old"):
        data = joined(slot(title), header(), *LONG)
        sid = bring(store, data).session
        assert title_of(store, sid) == title
        assert exported(store, sid) == data


def test_a_title_slot_that_was_gained_renumbers_nothing(store: ObjectStore) -> None:
    sid = bring(store, pi_file(*LONG), agent="omp").session
    before = graph.branches(store, sid)
    data = joined(slot("T"), header(), *LONG)
    assert bring(store, data, agent="omp").new == 0
    assert graph.branches(store, sid) == before
    assert exported(store, sid) == data
    assert title_of(store, sid) == "T"


def test_deleted_title_slot_is_not_exported(store: ObjectStore) -> None:
    sid = bring(store, joined(slot("T"), header(), *LONG), agent="omp").session
    bring(store, pi_file(*LONG), agent="omp")
    assert exported(store, sid) == pi_file(*LONG)
    assert title_of(store, sid) is None


def test_rewritten_header_is_exported(store: ObjectStore) -> None:
    sid = bring(store, pi_file(*LONG)).session
    data = pi_file(*LONG, parentSession="/elsewhere.jsonl")
    assert bring(store, data).new == 0
    assert exported(store, sid) == data
    found = meta_of(store, sid).header
    assert found is not None
    assert found.parent == "/elsewhere.jsonl"


def test_header_that_moved_up_is_exported_once(store: ObjectStore) -> None:
    sid = bring(store, b"garbage\n" + pi_file(*LONG)).session
    assert bring(store, pi_file(*LONG)).session == sid
    assert exported(store, sid) == pi_file(*LONG)


def test_header_that_moved_down_is_exported_there(store: ObjectStore) -> None:
    sid = bring(store, joined(b"", header(), *talk("a"))).session
    data = joined(header(), header(), *talk("a"))
    bring(store, data)
    assert exported(store, sid) == data


LINES = st.one_of(
    st.builds(
        said, st.sampled_from("abcd"), st.sampled_from([None, "a", "b", "c", "x"]), st.sampled_from(["one", "two"])
    ),
    st.sampled_from([b"", b"null", b"5", b"oops", b"{}", dumps({"type": "title", "v": 1, "title": "late"}), header()]),
)
FILES = st.tuples(st.booleans(), st.lists(LINES, max_size=1), st.lists(LINES, max_size=7), st.booleans())


def any_file(made: tuple[bool, list[bytes], list[bytes], bool]) -> bytes:
    has_slot, before, after, ends = made
    data = joined(*([slot("T")] if has_slot else []), *before, header(), *after)
    return data if ends else data[:-1]


TWICE = [said("a", None, "one"), b"", b"", said("c", None, "one")]


@settings(max_examples=150)
@given(st.lists(FILES, min_size=1, max_size=4))
@example(
    [
        (False, [], [*TWICE, said("a", None, "one"), said("a", "c", "one")], False),
        (False, [], [*TWICE, said("c", None, "one"), said("a", "c", "one")], False),
    ]
)
def test_any_file_is_exported_byte_identical(files: list[tuple[bool, list[bytes], list[bytes], bool]]) -> None:
    store = MemoryStore()
    seen: dict[str, str] = {}
    for made in files:
        data = any_file(made)
        done = bring(store, data, agent="omp", final=True)
        after = session_refs(store)
        assert moved_forward(store, seen, after)
        seen = after
        if not is_older(store, done, data):
            assert exported(store, done.session) == data
        assert bring(store, data, agent="omp", final=True).moves == ()
    assert_clean(store)


def is_older(store: ObjectStore, done: importing.ImportResult, data: bytes) -> bool:
    """Return whether the file is an older copy: nothing was moved, and it ends before the stored session."""
    return done.moves == () and last_line(data) < last_line(exported(store, done.session))


def last_line(data: bytes) -> int:
    source = FORMATS["omp"].split(data, name="named", final=True)
    return max(record.line for record in (*source.meta, *source.records))


# ---- entries added in gitsession


def test_appends_of_gitsession_and_of_the_agent_are_kept(store: ObjectStore) -> None:
    sid = bring(store, pi_file(*LONG[:3])).session
    ours = session(store, sid)
    ours.append(Message.user("ours"))
    before = session_refs(store)
    done = bring(store, pi_file(*LONG))
    assert done.new == 3
    assert moved_forward(store, before, session_refs(store))
    assert sorted(leaves(store, sid).values()) == ["assistant: words of f", "user: ours"]
    assert exported(store, sid) == pi_file(*LONG)
    assert export_session.export_original(store, sid).left_out == 1


def test_agents_branch_continues_beside_own_branches(store: ObjectStore) -> None:
    sid = bring(store, pi_file(*LONG[:3])).session
    session(store, sid).branch("mine")
    session(store, sid, "mine").append(Message.user("ours"))
    bring(store, pi_file(*LONG))
    assert leaves(store, sid) == {"main": "assistant: words of f", "mine": "user: ours"}


def test_unused_own_branch_stays_in_place(store: ObjectStore) -> None:
    sid = bring(store, pi_file(*LONG[:3])).session
    session(store, sid).branch("here")
    bring(store, pi_file(*LONG))
    assert leaves(store, sid) == {"main": "assistant: words of f", "here": "user: words of c"}


def test_our_label_and_title_outlive_an_import(store: ObjectStore) -> None:
    sid = bring(store, pi_file(*LONG[:3])).session
    held = session(store, sid, clock=Clock(START_MS + 10**6))
    held.label("b", "ours")
    held.rename("Ours")
    bring(store, pi_file(*LONG))
    assert title_of(store, sid) == "Ours"
    assert exported(store, sid) == pi_file(*LONG)


def test_own_session_has_no_original_file(store: ObjectStore) -> None:
    with pytest.raises(Refused, match="gitsession created the session"):
        export_session.export_original(store, begun(store).id)


def test_single_branch_of_a_tree_is_exported(store: ObjectStore) -> None:
    sid = bring(store, pi_file(*TREE)).session
    at = session(store, sid).resolve("e")
    assert export_session.export_original(store, sid, at).data == pi_file(TREE[0], TREE[1], TREE[3], TREE[4])


# ---- invalid input

WIDE = said("w", None, text="y" * 100_000)
STRANGE: dict[str, bytes] = {
    "identical twin lines": pi_file(*LONG[:2], *LONG[:2], LONG[2]),
    "a line ten times": pi_file(*LONG[:1], *[said("b", "a")] * 10, said("c", "b")),
    "twins without ids": pi_file(dumps({"x": 1}), dumps({"x": 1})),
    "a duplicate id": pi_file(said("a", None), said("a", "a"), said("b", "a")),
    "a cycle": pi_file(said("a", "b"), said("b", "c"), said("c", "a"), said("d", "c")),
    "its own parent": pi_file(said("a", "a"), said("b", "a")),
    "a missing parent": pi_file(said("a", None), said("b", "gone"), said("c", "b")),
    "a forward parent": pi_file(said("b", "a"), said("a", None), said("c", "b")),
    "CRLF": pi_file(*LONG).replace(b"\n", b"\r\n"),
    "a byte order mark": b"\xef\xbb\xbf" + pi_file(*LONG),
    "null, a number and a list": pi_file(LONG[0], b"null", b"5", b"[1]", LONG[1]),
    "U+2028 and U+0085": pi_file(said("a", None, "one\u2028two\u0085three"), LONG[1]),
    "a lone surrogate": pi_file(LONG[0], said("b", "a").replace(b"words of b", rb"\ud83d")),
    "lone surrogates in ids": pi_file(
        rb'{"type":"message","id":"\ud83d","parentId":null}', rb'{"id":"x","parentId":"\ud83d"}'
    ),
    "numbers": pi_file(
        rb'{"type":"custom","id":"a","parentId":null,"data":[1.0,-0,1e400,4.9e-05]}',
        rb'{"type":"custom","id":"b","parentId":"a","data":[18446744073709551615,-9223372036854775809]}',
    ),
    "5,000 digits": pi_file(b'{"type":"custom","id":"a","parentId":null,"data":' + b"7" * 5000 + b"}", said("b", "a")),
    "nested 500 deep": pi_file(LONG[0], b'{"id":"d","x":' + b"[" * 500 + b"]" * 500 + b"}", LONG[1]),
    "blank lines": pi_file(b"", LONG[0], b"", b"  ", LONG[1], b""),
    "garbage before the header": b"oops\n\n" + pi_file(*LONG),
    "a second header": pi_file(*LONG[:2], header("s2"), *LONG[2:]),
    "a header only": pi_file(),
    "no header": joined(*LONG),
    "no final newline": pi_file(*LONG)[:-1],
    "two records on one line": pi_file(LONG[0] + LONG[1], LONG[2]),
    "not UTF-8": pi_file(LONG[0], b"\xff\xfe\x00", LONG[1]),
    "duplicate keys": pi_file(b'{"id":"a","id":"b","parentId":null}', said("c", "b")),
    "a long string": pi_file(WIDE, said("v", "w")),
    "hostile words": pi_file(said("a", None, "\x1b[31m\u202e\nChain: x\n---\ndiff --git a b")),
    "a hostile id": pi_file(said("../../x", None), said("a b/c%0a<>", "../../x"), said("-", None), said("", None)),
    "an endless id": pi_file(said("\N{SNOWMAN}" * 300, None), said("x", "\N{SNOWMAN}" * 300)),
    "times out of range": pi_file(
        dumps({"type": "message", "id": "a", "parentId": None, "timestamp": "9999-12-31T23:59:59Z"}),
        dumps({"type": "message", "id": "b", "parentId": "a", "timestamp": "0001-01-01T00:00:00Z"}),
        dumps({"type": "message", "id": "c", "parentId": "b", "timestamp": -5}),
    ),
    "a hostile role": pi_file(said("a", None, role="<x>\n\0"), said("b", "a", role="")),
    "tokens beyond every counter": pi_file(
        entry("message", "a", None, message={"role": "assistant", "content": [], "usage": {"totalTokens": 10**30}})
    ),
}  # fmt: skip


@pytest.mark.parametrize("data", STRANGE.values(), ids=STRANGE)
def test_unusual_file_is_exported_byte_identical(store: ObjectStore, data: bytes) -> None:
    done = bring(store, data, agent="pi")
    assert exported(store, done.session) == data
    assert bring(store, data, agent="pi").moves == ()


PROBLEMS = {
    "a missing parent": [3],
    "a cycle": [2],
    "its own parent": [2],
    "a duplicate id": [3],
    "null, a number and a list": [3, 4, 5],
    "nested 500 deep": [3],
    "a second header": [4],
    "not UTF-8": [3],
    "no header": [1],
    "identical twin lines": [4, 5],
}


@pytest.mark.parametrize(("name", "lines"), PROBLEMS.items(), ids=PROBLEMS)
def test_invalid_line_is_reported_alone(name: str, lines: list[int]) -> None:
    assert [problem.line for problem in bring(MemoryStore(), STRANGE[name], agent="pi").problems] == lines


def test_later_of_two_entries_with_one_id_is_used(store: ObjectStore) -> None:
    sid = bring(store, STRANGE["a duplicate id"], agent="pi").session
    assert ids_on(store, graph.branches(store, sid)["main"]) == ["a", "a", "b"]


def test_identical_twins_are_two_entries(store: ObjectStore) -> None:
    sid = bring(store, STRANGE["identical twin lines"], agent="pi").session
    lines = [node.source.line for node in graph.tree(store, sid).nodes.values() if node.source]
    assert sorted(lines) == [2, 3, 4, 5, 6]


# ---- holes

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20


def test_image_is_stored_as_bytes_and_exported_as_text(store: ObjectStore) -> None:
    image = {"type": "image", "data": b64encode(PNG).decode(), "mimeType": "image/png"}
    data = pi_file(entry("message", "a", None, message={"role": "user", "content": [image]}))
    sid = bring(store, data).session
    node = session(store, sid).resolve("a")
    kept = content.entry_tree(store, node)
    assert kept.holes
    assert len(kept.stored) < 500
    assert exported(store, sid) == data
    assert content.payload_of(store, node) == data.split(b"\n")[1]


def test_string_of_100_kb_is_stored_beside_the_entry(store: ObjectStore) -> None:
    sid = bring(store, STRANGE["a long string"]).session
    assert len(content.entry_tree(store, session(store, sid).resolve("w")).stored) < 500


def omp_home(folder: Path, *contents: bytes, names: list[str] | None = None) -> tuple[Path, bytes]:
    """Create omp's folders with a session that refers to blobs, and the blobs."""
    blobs, bucket = folder / "agent" / "blobs", folder / "agent" / "sessions" / "-work"
    blobs.mkdir(parents=True)
    bucket.mkdir(parents=True)
    names = names or [hashlib.sha256(each).hexdigest() for each in contents]
    for name, each in zip(names, contents, strict=False):
        (blobs / name).write_bytes(each)
    images = [{"type": "image", "data": f"blob:sha256:{name}", "mimeType": "image/png"} for name in names]
    line = entry("message", "a", None, message={"role": "user", "content": images})
    data = joined(slot("T"), header(), line)
    (bucket / "x.jsonl").write_bytes(data)
    return bucket / "x.jsonl", data


def bring_with_blobs(store: ObjectStore, path: Path, data: bytes) -> importing.ImportResult:
    kept, missing = sources.attachments(path, data, FORMATS["omp"])
    omp = FORMATS["omp"]
    return importing.import_source(store, omp, omp.split(data), kept).with_problems(*missing)


def attachments(store: ObjectStore, sid: str) -> dict[str, bytes]:
    read = (content.entry_of(store, node) for node in meta_of(store, sid).nodes)
    return {entry.name: entry.data for entry in read if isinstance(entry, Attachment)}


def test_blobs_of_omp_are_stored_once_with_the_session(store: ObjectStore, tmp_path: Path) -> None:
    path, data = omp_home(tmp_path / "omp", PNG, b"other")
    done = bring_with_blobs(store, path, data)
    assert attachments(store, done.session) == {
        f"blob:sha256:{hashlib.sha256(each).hexdigest()}": each for each in (PNG, b"other")
    }
    assert done.problems == ()
    assert exported(store, done.session) == data
    assert bring_with_blobs(store, path, data).moves == ()


def test_blob_with_another_hash_is_not_stored(store: ObjectStore, tmp_path: Path) -> None:
    path, data = omp_home(tmp_path / "omp", b"forged", names=["0" * 64])
    done = bring_with_blobs(store, path, data)
    assert attachments(store, done.session) == {}
    assert ["0" * 64 in problem.what for problem in done.problems] == [True]


def test_missing_blob_is_reported_and_imported_later(store: ObjectStore, tmp_path: Path) -> None:
    name = hashlib.sha256(PNG).hexdigest()
    path, data = omp_home(tmp_path / "omp", names=[name])
    assert len(bring_with_blobs(store, path, data).problems) == 1
    (tmp_path / "omp" / "agent" / "blobs" / name).write_bytes(PNG)
    done = bring_with_blobs(store, path, data)
    assert done.problems == ()
    assert list(attachments(store, done.session).values()) == [PNG]


# ---- names


def test_two_sessions_with_one_id_and_two_start_times_are_two(store: ObjectStore) -> None:
    one = bring(store, pi_file(*LONG)).session
    other = bring(store, pi_file(*LONG, timestamp="2026-02-02T00:00:00.000Z")).session
    assert one != other


def test_colliding_session_id_is_extended(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def colliding(agent: str, source_id: str, started_ms: int) -> tuple[str, str]:
        return f"20260201-{'s' * 13}", f"20260201-{source_id * 13}"

    monkeypatch.setattr(refs, "imported_sids", colliding)
    one, two = pi_file(*LONG, id="sa"), pi_file(*LONG, id="sb")
    first, second = bring(store, one).session, bring(store, two).session
    assert (len(first), len(second)) == (9 + 13, 9 + 26)
    assert (bring(store, one).moves, bring(store, two).moves) == ((), ())
    assert (exported(store, first), exported(store, second)) == (one, two)


def test_third_session_with_the_same_names_is_rejected(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refs, "imported_sids", lambda *_: ("20260201-" + "s" * 13, "20260201-" + "s" * 26))
    bring(store, pi_file(id="sa"))
    bring(store, pi_file(id="sb"))
    with pytest.raises(Malformed, match="both ids derived from this file"):
        bring(store, pi_file(id="sc"))


def test_import_overtaken_by_another_writer_is_computed_again(store: ObjectStore) -> None:
    sid = bring(store, pi_file(*LONG[:2])).session
    source = pi.split(pi_file(*LONG))
    request = importing._Request(
        store=store, format=pi, source=source, attachments={}, find=None, project=None, continuation=None,
        purged_keys=frozenset(), payloads=Payloads(store.guard, source.records),
    )  # fmt: skip
    with ExitStack() as held:
        draft = importing._draft(request, held, dry_run=True)
        session(store, sid).append(Message.user("faster"))
        with pytest.raises(Refused):
            draft.carry_out(store.transaction)
    bring(store, pi_file(*LONG))
    assert sorted(leaves(store, sid).values()) == ["assistant: words of f", "user: faster"]


# ---- golden sessions, compared with pi 1.5


@pytest.fixture(scope="module", params=STORES.values(), ids=STORES)
def golden_store(
    request: pytest.FixtureRequest, golden: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ObjectStore, list[str]]]:
    """Import all golden sessions into one store, and return their ids."""
    with request.param(tmp_path_factory.mktemp("golden") / "store.git") as opened:
        yield opened, [bring(opened, case["text"].encode()).session for case in golden]


class AsPi:
    """A session as pi reads it: entries with an id; entries without one are skipped."""

    def __init__(self, store: ObjectStore, sid: str) -> None:
        self.tree = graph.tree(store, sid)
        nodes = [node for node in self.tree.nodes.values() if node.source and node.source.id is not None]
        self.nodes = sorted(nodes, key=lambda node: node.source.line if node.source else 0)
        self.views = {node.oid: content.entry_of(store, node) for node in self.nodes}
        self.lines = {node.oid: json.loads(content.payload_of(store, node)) for node in self.nodes}

    def parent(self, oid: str) -> str | None:
        above = self.tree.nodes[oid].parent
        while above is not None and above not in self.views:
            above = self.tree.nodes[above].parent
        return above

    def leaf(self) -> str | None:
        return self.lines[self.nodes[-1].oid]["id"] if self.nodes else None

    def branch(self, leaf: str | None) -> list[str]:
        at = next((node.oid for node in reversed(self.nodes) if self.lines[node.oid]["id"] == leaf), None)
        line = []
        while at is not None:
            line.append(self.lines[at]["id"])
            at = self.parent(at)
        return line[::-1]

    def rows(self) -> list[list[Any]]:
        children: dict[str | None, list[str]] = {}
        for node in self.nodes:
            children.setdefault(self.parent(node.oid), []).append(node.oid)
        for oid, group in children.items():
            if oid is not None:
                group.sort(key=lambda child: self.views[child].at_ms)
        rows: list[list[Any]] = []
        todo = [(oid, 0) for oid in reversed(children.get(None, []))]
        while todo:
            oid, depth = todo.pop()
            above = self.parent(oid)
            stated = self.lines[oid]["parentId"] if above is None else self.lines[above]["id"]
            rows.append([self.lines[oid]["id"], stated, self.lines[oid]["type"], depth])
            todo += [(child, depth + 1) for child in reversed(children.get(oid, []))]
        return rows


@pytest.mark.parametrize("number", range(150))
def test_session_in_the_store_equals_that_of_pi(
    golden: list[dict[str, Any]], golden_store: tuple[ObjectStore, list[str]], number: int
) -> None:
    store, sids = golden_store
    case, sid = golden[number], sids[number]
    theirs = case["1.5"]
    ours = AsPi(store, sid)
    assert ours.leaf() == theirs["leaf"]
    assert ours.rows() == theirs["tree"]
    assert ours.branch(case.get("leaf") or ours.leaf()) == theirs["branch"]
    assert title_of(store, sid) == theirs["name"]
    seen = meta_of(store, sid)
    found = rules.labels(session_facts.marks(store, sid, ours.tree, seen), session_facts.targets(ours.tree, seen))
    assert {ours.lines[oid]["id"]: text for oid, text in found.items()} == theirs["labels"]
    last = reversed(session(store, sid).history())
    assert next((node.source.id for node in last if node.source and node.source.id), None) == theirs["leaf"]
    assert exported(store, sid) == case["text"].encode()


def test_the_golden_sessions_verify(golden_store: tuple[ObjectStore, list[str]]) -> None:
    assert_clean(golden_store[0])


@pytest.mark.parametrize("number", range(0, 150, 8))
def test_growing_golden_session_does_not_move_existing_entries(golden: list[dict[str, Any]], number: int) -> None:
    data = golden[number]["text"].encode()
    source = pi.split(data)
    order = [record.line for record in source.records]
    if order != sorted(order):
        pytest.skip("a parent stands further down: hung anew when it comes")
    check_growth(data, [at + 1 for at, byte in enumerate(data) if byte == 10])


# ---- real files


@pytest.mark.parametrize("path", shared_files("pi", "omp"), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_real_file_is_exported_byte_identical(path: Path) -> None:
    data, store = path.read_bytes(), MemoryStore()
    done = bring(store, data, agent=path.parent.name, name=path.stem)
    assert exported(store, done.session) == data
    assert bring(store, data, agent=path.parent.name, name=path.stem).moves == ()
    assert_clean(store)


@pytest.mark.skipif(not shared_files("pi"), reason="no session files here")
def test_a_real_migration_keeps_both_versions(tmp_path: Path) -> None:
    folder = SHARED / "sessions" / "pi"
    old, new = ((folder / f"large-session.{version}.jsonl").read_bytes() for version in ("v1", "v3"))
    with STORES["git"](tmp_path / "store.git") as store:
        sid = bring(store, old).session
        before = session_refs(store)
        done = bring(store, new)
        assert (done.session, exported(store, sid)) == (sid, new)
        assert moved_forward(store, before, session_refs(store))


# ---- files that exceed the memory limit


def test_objects_of_a_large_import_are_spilled_and_written_in_one_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = pi_file(*talk(*(f"t{number}" for number in range(60))))
    with on_disk(tmp_path / "whole.git") as whole:
        bring(whole, data)
        whole.flush()
        expected = {oid: whole.read(oid) for oid in whole.oids()}, dict(whole.refs("refs/"))
    monkeypatch.setattr(importing, "SPILL_BYTES", 2000)
    with on_disk(tmp_path / "store.git") as store:
        held: list[int] = []
        put = PackSpill.put

        def counted(self: PackSpill, objects: Mapping[Oid, tuple[Kind, bytes]], *others: Any) -> None:
            held.append(len(objects))
            put(self, objects, *others)

        monkeypatch.setattr(PackSpill, "put", counted)
        done = bring(store, data)
        store.flush()
        assert ({oid: store.read(oid) for oid in set(store.oids())}, dict(store.refs("refs/"))) == expected
        assert len(held) > 5 and max(held) < 20
        assert waiting(tmp_path / "store.git") == []
        assert exported(store, done.session) == data
        assert_clean(store)
        assert_git_agrees(store)


def test_large_import_overtaken_by_another_writer_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "SPILL_BYTES", 500)
    lines = talk("a", "b", "c", "d")
    with on_disk(tmp_path / "store.git") as store:
        bring(store, pi_file(*lines[:2]))
        drafted = importing._draft
        overtaking = [pi_file(*lines[:3])]

        def overtaken(request: importing._Request, held: ExitStack, *, dry_run: bool) -> importing._Draft:
            draft = drafted(request, held, dry_run=dry_run)
            if overtaking:
                bring(store, overtaking.pop())
            return draft

        monkeypatch.setattr(importing, "_draft", overtaken)
        done = bring(store, pi_file(*lines))
        assert (done.entries, done.new) == (4, 1)
        assert exported(store, done.session) == pi_file(*lines)
        assert_clean(store)


def waiting(git_dir: Path) -> list[str]:
    """Return the folders of objects that wait for a transaction."""
    place = git_dir / FOLDER
    return sorted(folder.name for folder in place.iterdir() if folder.is_dir()) if place.is_dir() else []


def test_files_of_a_killed_import_are_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "SPILL_BYTES", 500)
    with on_disk(tmp_path / "store.git") as store:
        (tmp_path / "store.git" / FOLDER / "left" / "pack").mkdir(parents=True)
        live = PackSpill(tmp_path / "store.git")
        live.put({}, [])
        bring(store, pi_file(*talk("a", "b")))
        assert waiting(tmp_path / "store.git") == [live._folder.name]
        live.close()
        assert waiting(tmp_path / "store.git") == []


def test_maintain_removes_files_of_a_killed_import_only(tmp_path: Path) -> None:
    with on_disk(tmp_path / "store.git") as store:
        (tmp_path / "store.git" / FOLDER / "left" / "pack").mkdir(parents=True)
        live = PackSpill(tmp_path / "store.git")
        live.put({}, [])
        (tmp_path / "store.git" / FOLDER / "left2" / "pack").mkdir(parents=True)
        assert maintain(store).removed == (f"{FOLDER}/left2",)
        assert waiting(tmp_path / "store.git") == [live._folder.name]
        live.close()
