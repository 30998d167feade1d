"""Tests that the rewrite is pure: in any order and number of purges, every store ends with the same commits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import Clock
from hypothesis import given, settings
from hypothesis import strategies as st

from gitsession.codec import holes, payload
from gitsession.codec.digest import digest as digest_of
from gitsession.codec.holes import StoredPayload
from gitsession.errors import Malformed
from gitsession.git.objects import encode_tree
from gitsession.git.types import Oid
from gitsession.model.entries import Checkpoint, Message, SessionHeader
from gitsession.purge.rewriting import Rewriter
from gitsession.sessions import commit_writer, content, graph, tombstone_set
from gitsession.sessions import tombstone_set as purged
from gitsession.sessions.node import Node, load
from gitsession.sessions.tombstone_set import PURGED_CONTENT_OID, Replacement, Tombstones
from gitsession.store import refs
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore
from gitsession.verify.entry_check import check

SID = "20260201-aaaaaaaaaaaaa"
SIZE = 8


class Histories:
    """A session of ``SIZE`` entries: diverging and merging branches, a checkpoint with files, some equal entries."""

    def __init__(self, parents: list[tuple[int, int | None]], words: list[int]) -> None:
        self.store = MemoryStore()
        self.nodes: list[Node] = []
        clock = Clock()
        with self.store.transaction() as tx:
            blob = tx.put("blob", b"a file")
            self.file = blob
            files = tx.put("tree", encode_tree({"a.txt": ("100644", blob)}))
            for number, ((first, second), word) in enumerate(zip(parents, words, strict=True)):
                if number % 3 == 2:
                    entry = Checkpoint(mode="workspace", at_ms=1000 * word)
                else:
                    entry = Message.user(f"word {word}", at_ms=1000 * word)
                draft = commit_writer.draft_own(entry, bytes([word]) * 16, None)
                if number % 3 == 2:
                    draft = replace(draft, files=files)
                above = self.nodes[first % number] if number else None
                if second is not None and number > 1:
                    draft = replace(draft, second_parent=self.nodes[second % number].oid)
                self.nodes.append(commit_writer.put(tx, above, draft))
            for number, node in enumerate(self.nodes):
                tx.move(refs.leaf(SID, f"b{number}"), node.oid, expected=None)
        assert clock() > 0

    def digest(self, number: int) -> str:
        parts = content.entry_tree(self.store, self.nodes[number])
        return digest_of(parts.stored, parts.holes).hex()

    def named(self) -> dict[str, Oid]:
        return dict(self.store.refs(refs.SESSIONS))


def rewritten(store: MemoryStore, purged: Tombstones, named: dict[str, Oid]) -> dict[str, Oid]:
    rewriter = Rewriter(store, purged)
    after = {name: rewriter.ref(name, oid) for name, oid in named.items()}
    with store.transaction() as tx:
        tx.put_all(rewriter.objects)
    return after


def history() -> st.SearchStrategy[Histories]:
    number = st.integers(0, SIZE - 1)
    parents = st.lists(st.tuples(number, st.none() | number), min_size=SIZE, max_size=SIZE)
    return st.builds(Histories, parents, st.lists(st.integers(1, 6), min_size=SIZE, max_size=SIZE))


SETS = st.tuples(st.frozensets(st.integers(0, SIZE - 1), max_size=3), st.booleans())


def as_set(histories: Histories, chosen: tuple[frozenset[int], bool]) -> Tombstones:
    numbers, with_file = chosen
    keys = {histories.digest(number) for number in numbers}
    return Tombstones(frozenset(keys | ({purged.FILE + histories.file} if with_file else set())))


@settings(max_examples=150)
@given(history(), SETS, SETS)
def test_the_order_of_two_purges_does_not_matter(histories, one, other) -> None:
    a, b = as_set(histories, one), as_set(histories, other)
    store, named = histories.store, histories.named()
    both = rewritten(store, a | b, named)
    assert rewritten(store, b, rewritten(store, a, named)) == both
    assert rewritten(store, a, rewritten(store, b, named)) == both
    assert rewritten(store, a | b, both) == both


@settings(max_examples=80)
@given(history(), SETS)
def test_other_entries_are_valid_and_keep_their_chain_digests(histories, chosen) -> None:
    tombs = as_set(histories, chosen)
    store, named = histories.store, histories.named()
    after = rewritten(store, tombs, named)
    for name, oid in after.items():
        old = list(graph.history(store, named[name]))
        new = list(graph.history(store, oid))
        assert [node.chain for node in new] == [node.chain for node in old]
        assert [node.author_seconds for node in new] == [node.author_seconds for node in old]
        for at, node in enumerate(new):
            parent = new[at + 1] if at + 1 < len(new) else None
            assert list(check(store, node, parent, tombstones=tombs)) == []
            parts = content.entry_tree(store, node)
            assert not tombs.has_entry(digest_of(parts.stored, parts.holes).hex())


TEXTS = ("one", "two", "three")


def stands_in(text: str) -> Replacement:
    return Replacement("cbor", StoredPayload(payload.encode(Message.user(text, at_ms=1000), bytes(16)), b"", ()))


MESSAGES = [number for number in range(SIZE) if number % 3 != 2]
"""Indexes of the entries that a purge replaces. A replacement has the kind and the author of its entry."""

MIXED = st.dictionaries(st.sampled_from(MESSAGES), st.sampled_from([None, *TEXTS]), max_size=4)


def mixed(histories: Histories, chosen: dict[int, str | None]) -> Tombstones:
    removed = frozenset(histories.digest(number) for number, text in chosen.items() if text is None)
    replaced = {histories.digest(number): stands_in(text) for number, text in chosen.items() if text is not None}
    return Tombstones(removed) | Tombstones(replaced=replaced)


@settings(max_examples=150)
@given(history(), MIXED, MIXED)
def test_with_replacements_too_the_last_set_decides(histories, one, other) -> None:
    a, b = mixed(histories, one), mixed(histories, other)
    store, named = histories.store, histories.named()
    both = rewritten(store, a | b, named)
    assert rewritten(store, a | b, rewritten(store, a, named)) == both
    assert rewritten(store, a | b, rewritten(store, b, named)) == both


@given(MIXED, MIXED, MIXED)
def test_the_union_of_sets_is_the_same_in_any_order(one, two, three) -> None:
    fixed = Histories([(number, None) for number in range(SIZE)], list(range(1, SIZE + 1)))
    a, b, c = (mixed(fixed, chosen) for chosen in (one, two, three))
    assert (a | b) | c == a | (b | c)
    assert a | b == b | a
    assert a | a == a
    assert a <= a | b


@given(MIXED, st.booleans())
def test_set_is_read_from_its_tree(chosen, with_session) -> None:
    fixed = Histories([(number, None) for number in range(SIZE)], list(range(1, SIZE + 1)))
    said = mixed(fixed, chosen) | Tombstones(frozenset({purged.FILE + "ab" * 20}))
    if with_session:
        said |= Tombstones(sessions={SID: frozenset({"cd" * 32})})
    store = MemoryStore()
    made = tombstone_set.add(store, None, said, 5000)
    put(store, made)
    assert tombstone_set.at(store, made.oid) == said


def put(store: ObjectStore, made: tombstone_set.Merged) -> None:
    with store.transaction() as tx:
        tx.put_all(made.objects)


def test_two_stores_make_the_same_commit_of_two_sets() -> None:
    store = MemoryStore()
    first = tombstone_set.add(store, None, Tombstones(frozenset({"aa" * 32})), 1000)
    put(store, first)
    one = tombstone_set.add(store, first.oid, Tombstones(frozenset({"bb" * 32})), 9000)
    other = tombstone_set.add(store, first.oid, Tombstones(frozenset({"cc" * 32})), 7000)
    put(store, one)
    put(store, other)
    merged = tombstone_set.merge(store, one.oid, other.oid)
    assert merged == tombstone_set.merge(store, other.oid, one.oid)
    put(store, merged)
    assert len(tombstone_set.at(store, merged.oid)) == 3
    assert tombstone_set.merge(store, merged.oid, one.oid).oid == merged.oid
    assert tombstone_set.merge(store, first.oid, merged.oid).oid == merged.oid
    assert tombstone_set.merge(store, None, one.oid).oid == one.oid


def test_replacements_that_lead_in_a_circle_are_removals() -> None:
    a, b = stands_in("one"), stands_in("two")
    said = Tombstones(replaced={a.digest: b, b.digest: a})
    assert said.replacement_of(a.digest) is None
    assert said.is_valid(a.digest)


def test_a_replacement_of_a_replacement_is_followed() -> None:
    a, b = stands_in("one"), stands_in("two")
    said = Tombstones(replaced={"ab" * 32: a, a.digest: b})
    assert said.replacement_of("ab" * 32) == b


def test_a_captured_file_is_withheld_in_every_tree() -> None:
    histories = Histories([(number, None) for number in range(SIZE)], list(range(1, SIZE + 1)))
    tombs = Tombstones(frozenset({purged.FILE + histories.file}))
    after = rewritten(histories.store, tombs, histories.named())
    files = content.files_of(histories.store, after[refs.leaf(SID, "b2")])
    assert [(name, oid) for _, name, oid in content.tree_of(histories.store, files)] == [("a.txt", PURGED_CONTENT_OID)]


def test_users_commit_on_top_of_an_entry_is_rewritten() -> None:
    histories = Histories([(number, None) for number in range(SIZE)], list(range(1, SIZE + 1)))
    store, leaf = histories.store, histories.nodes[-1].oid
    theirs = (
        b"tree " + load(store, leaf).tree.encode() + b"\nparent " + leaf.encode() + b"\nauthor A <a@b> 1 +0100\n"
        b"committer A <a@b> 1 +0100\nencoding latin1\n\nmine\n"
    )
    with store.transaction() as tx:
        mine = tx.put("commit", theirs)
    tombs = Tombstones(frozenset({histories.digest(0)}))
    after = rewritten(store, tombs, {"refs/heads/mine": mine, "refs/heads/leaf": leaf})
    data = store.read(after["refs/heads/mine"])[1]
    assert data == theirs.replace(leaf.encode(), after["refs/heads/leaf"].encode())


BAD = {
    "a name that is no digest": {"entries": {"zz": b"\xa1av\x01"}},
    "a folder of a later release": {"blobs": {"ab" * 32: b"\xa1av\x01"}},
    "a record of a later version": {"entries": {"ab" * 32: b"\xa1av\x02"}},
    "a record that is no map": {"entries": {"ab" * 32: b"\x01"}},
    "a session that does not say how it began": {"sessions": {SID: b"\xa1av\x01"}},
    "a replacement without holes": {"entries": {"ab" * 32: payload.cbor.encode({"v": 1, "payload": b"x"})}},
}


@pytest.mark.parametrize("tree", BAD.values(), ids=BAD)
def test_invalid_set_is_rejected(tree) -> None:
    store = MemoryStore()
    with store.transaction() as tx:
        rows = {
            folder: ("40000", tx.put("tree", encode_tree({n: ("100644", tx.put("blob", d)) for n, d in found.items()})))
            for folder, found in tree.items()
        }
        top = tx.put("tree", encode_tree(rows))
        commit = f"tree {top}\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nx\n".encode()
        oid = tx.put("commit", commit)
    with pytest.raises(Malformed):
        tombstone_set.at(store, oid)


# ---- redacted twice


def test_conflicting_redactions_remove_the_entry() -> None:
    """Neither replacement may restore the text that only the other one hid, nor may a third one."""
    key = "ab" * 32
    one, other, third = (Tombstones(replaced={key: stands_in(text)}) for text in TEXTS)
    assert (one | other).replacement_of(key) is None
    assert key in (one | other).removed
    assert one | other == (other | third) | one
    assert (one | one).replacement_of(key) == stands_in("one")
    assert one <= one | other
    assert not one | other <= one


def begins(cwd: str, agent: str = "agent") -> Replacement:
    entry = SessionHeader(at_ms=1000, agent=agent, cwd=cwd)
    return Replacement("cbor", StoredPayload(payload.encode(entry, bytes(16)), b"", ()))


def test_conflicting_redactions_of_a_session_start_remove_it() -> None:
    key = "ab" * 32
    one, other, third = (Tombstones(replaced={key: begins(cwd)}) for cwd in ("/a/[redacted:x]/c", "/a/b", "/d"))
    both = (one | other).replacement_of(key)
    assert both is not None
    entry = payload.decode(both.full_payload())[0]
    assert (entry.agent, entry.cwd) == ("agent", "[redacted:redacted-twice]")
    assert [row.rule for row in holes.hidden(both.stored.holes)] == ["redacted-twice"]
    assert (one | other) | third == one | (other | third) == third | one | other
    assert (one | other) | one == one | other
    assert one <= one | other
    another = Tombstones(replaced={key: replace(begins("/a/b"), form="jsonl")})
    assert (one | another).replacement_of(key) is None
