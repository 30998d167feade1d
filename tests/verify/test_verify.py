"""Tests of verify: every kind of damage is found and named, and an intact store has no findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders import STORES, Clock, all_refs, begun, bring, fork, git, on_disk, pi_file, said, session, talk

from gitsession.codec import cbor
from gitsession.codec.digest import hash_of
from gitsession.git.objects import encode_tree, parse_tree
from gitsession.git.types import Oid
from gitsession.model.entries import Compaction, Message
from gitsession.sessions import graph
from gitsession.store import refs
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore
from gitsession.verify.entry_walk import EntryChecks, Snapshot, Walk, verify
from gitsession.verify.findings import Report

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20


@pytest.fixture(params=STORES.values(), ids=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    with request.param(tmp_path / "store.git") as opened:
        yield opened


def imported(store: ObjectStore) -> str:
    lines = [*talk("a", "b", "c"), said("d", "b"), said("big", "c", "y" * 70_000)]
    return bring(store, pi_file(*lines)).session


def what(store: ObjectStore, sid: str | None = None) -> str:
    """Verify and return all findings as one text. There must be at least one."""
    report = verify(store, sid)
    assert report.problems
    return "\n".join(f"{found.where}: {found.what}" for found in report.problems)


def replaced(store: ObjectStore, sid: str, commit: bytes, branch: str = "main") -> Oid:
    """Replace the tip of a branch with ``commit``."""
    ref = refs.leaf(sid, branch)
    with store.transaction() as tx:
        oid = tx.put("commit", commit)
        tx.move(ref, oid, expected=store.ref(ref))
    return oid


def leaf(store: ObjectStore, sid: str) -> bytes:
    return store.read(store.ref(refs.leaf(sid)) or "")[1]


# ---- intact stores


def test_intact_store_has_no_problems(store: ObjectStore) -> None:
    imported(store)
    held = begun(store, "one", "two")
    held.append(Compaction(summary="what was said", first_kept=None, tokens_before=61_000))
    held.rename("T")
    fork(held).append(Message.user("on"))
    report = verify(store)
    assert (report.problems, report.whole) == ([], True)
    assert report.checked == 7 + 6 + 2  # the import with its header; the new session with header and title; the fork
    assert verify(store, held.id).checked == 6


def test_sample_and_time_limit_report_a_partial_check(store: ObjectStore) -> None:
    sid = imported(store)
    some = verify(store, sid, sample=2)
    assert (some.checked, some.whole, some.problems) == (2, False, [])
    none = verify(store, sid, max_seconds=-1)
    assert (none.checked, none.whole) == (0, False)
    assert verify(store, sid, sample=100).whole


# ---- commits that do not match their payload

COMMITS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "another message": (lambda data: data.replace(b"yyyy", b"yyyx", 1), "message"),
    "a trailer more": (lambda data: data + b"Extra: x\n", "message"),
    "another kind": (lambda data: data.replace(b"Entry: message", b"Entry: label"), "message"),
    "another author": (lambda data: data.replace(b"author user <user@", b"author tool <tool@"), "author"),
    "another author's address": (lambda data: data.replace(b"<user@gitsession>", b"<user@example.com>"), "headers"),
    "another committer": (lambda data: data.replace(b"committer gitsession", b"committer someone"), "headers"),
    "another author time": (lambda data: data.replace(b"@gitsession> 17", b"@gitsession> 16", 1), "times"),
    "another committer time": (lambda data: _last(data, b"@gitsession> 17", b"@gitsession> 18"), "times"),
    "another time zone": (lambda data: data.replace(b" +0000\n", b" +0100\n", 1), "headers"),
    "a header more": (lambda data: data.replace(b"\n\n", b"\nencoding latin-1\n\n", 1), "headers"),
    "a signature": (lambda data: data.replace(b"\n\n", b"\ngpgsig x\n y\n\n", 1), "headers"),
    "another chain": (lambda data: data.replace(b"Chain: ", b"Chain: A")[:-1], ""),
    "no chain": (lambda data: data.replace(b"Chain: ", b"Link: "), "Chain"),
    "no kind": (lambda data: data.replace(b"Entry: ", b"Thing: "), "Entry"),
    "nothing of an entry": (lambda data: data.partition(b"\n\n")[0] + b"\n\nhello\n", "Entry"),
}


def _last(data: bytes, old: bytes, new: bytes) -> bytes:
    before, _, after = data.rpartition(old)
    return before + new + after


@pytest.mark.parametrize(("change", "words"), COMMITS.values(), ids=COMMITS)
def test_a_commit_that_was_changed_is_named(store: ObjectStore, change: Callable[[bytes], bytes], words: str) -> None:
    sid = imported(store)
    before = leaf(store, sid)
    assert change(before) != before
    oid = replaced(store, sid, change(before))
    found = what(store)
    assert oid in found
    assert words in found


def test_an_entry_below_another_parent_is_named(tmp_path: Path) -> None:
    with on_disk(tmp_path / "store.git") as store:
        sid = imported(store)
        tree = graph.tree(store, sid)
        last = tree.nodes[tree.branches["main"]]
        message = tmp_path / "message"
        message.write_bytes(store.read(last.oid)[1].partition(b"\n\n")[2])
        oid = git(
            store, "-c", "user.name=user", "-c", "user.email=user@gitsession",
            "commit-tree", last.tree, "-p", (last.parent and tree.nodes[last.parent].parent) or "", "-F", str(message),
        ).strip()  # fmt: skip
        git(store, "update-ref", refs.leaf(sid), oid)
    with on_disk(tmp_path / "store.git") as store:
        found = what(store)
        assert oid in found
        assert "chain" in found


def test_second_parent_that_is_not_an_entry_is_reported(store: ObjectStore) -> None:
    sid = imported(store)
    with store.transaction() as tx:
        tree = tx.put("tree", b"")
        stranger = tx.put(
            "commit", b"tree %s\nauthor x <x@y> 1 +0000\ncommitter x <x@y> 1 +0000\n\nhi\n" % tree.encode()
        )
    head, sep, rest = leaf(store, sid).partition(b"\nauthor ")
    oid = replaced(store, sid, head + b"\nparent " + stranger.encode() + sep + rest)
    found = what(store)
    assert oid in found
    assert stranger in found


# ---- invalid trees of entries


def with_tree(store: ObjectStore, sid: str, change: Callable[[dict[str, tuple[str, Oid]]], None]) -> Oid:
    data = leaf(store, sid)
    tree = data[5:45].decode()
    entries = {name: (mode, oid) for mode, name, oid in parse_tree(store.read(tree)[1])}
    change(entries)
    with store.transaction() as tx:
        new = tx.put("tree", encode_tree(entries))
    return replaced(store, sid, data.replace(tree.encode(), new.encode()))


def put(store: ObjectStore, kind: str, data: bytes) -> Oid:
    with store.transaction() as tx:
        return tx.put(kind, data)  # type: ignore[arg-type]


TREES: dict[str, tuple[Callable[[ObjectStore], Callable[[dict[str, tuple[str, Oid]]], None]], str]] = {
    "a foreign file": (
        lambda store: lambda tree: tree.update({"README": ("100644", put(store, "blob", b"hi"))}), "README"
    ),
    "a foreign folder": (
        lambda store: lambda tree: tree.update({"src": ("40000", put(store, "tree", b""))}), "src"
    ),
    "a second payload": (
        lambda store: lambda tree: tree.update({"entry.cbor": ("100644", put(store, "blob", b"hi"))}), "payload"
    ),
    "no payload": (lambda store: lambda tree: tree.pop("entry.jsonl") and None, "payload"),
    "a payload that can be run": (
        lambda store: lambda tree: tree.update({"entry.jsonl": ("100755", tree["entry.jsonl"][1])}), "mode"
    ),
    "a payload that is a link": (
        lambda store: lambda tree: tree.update({"entry.jsonl": ("120000", tree["entry.jsonl"][1])}), "mode"
    ),
    "another payload": (
        lambda store: lambda tree: tree.update({"entry.jsonl": ("100644", put(store, "blob", b"{}"))}), "chain"
    ),
    "no holes": (lambda store: lambda tree: tree.pop("holes.cbor") and None, ""),
    "no content": (lambda store: lambda tree: tree.pop("blobs") and None, "blobs"),
    "a summary that no hole names": (
        lambda store: lambda tree: tree.update({"summary.md": ("100644", put(store, "blob", b"hi"))}), "summary"
    ),
    "holes that are none": (
        lambda store: lambda tree: tree.update({"holes.cbor": ("100644", put(store, "blob", b"\xff"))}), ""
    ),
    "holes elsewhere": (
        lambda store: lambda tree: tree.update(
            {"holes.cbor": ("100644", put(store, "blob", cbor.encode([[1, 0, hash_of(b"y" * 70_000), "raw"]])))}
        ),
        "chain",
    ),
    "other content in a hole": (lambda store: lambda tree: _in_blobs(store, tree, b"z" * 70_000), "digest"),
    "content more than the holes name": (lambda store: lambda tree: _in_blobs(store, tree, None), "do not match"),
    "content that can be run": (lambda store: lambda tree: _in_blobs(store, tree, b"y" * 70_000, "100755"), "mode"),
}  # fmt: skip


def _in_blobs(
    store: ObjectStore, tree: dict[str, tuple[str, Oid]], content: bytes | None, mode: str = "100644"
) -> None:
    name = hash_of(b"y" * 70_000).hex()
    blobs = {name: (mode, oid) for _, name, oid in parse_tree(store.read(tree["blobs"][1])[1])}
    if content is None:
        blobs["0" * 64] = (mode, put(store, "blob", b"more"))
    else:
        blobs[name] = (mode, put(store, "blob", content))
    tree["blobs"] = ("40000", put(store, "tree", encode_tree(blobs)))


@pytest.mark.parametrize(("change", "words"), TREES.values(), ids=TREES)
def test_a_tree_that_was_changed_is_named(
    store: ObjectStore, change: Callable[[ObjectStore], Callable[[dict[str, tuple[str, Oid]]], None]], words: str
) -> None:
    sid = imported(store)
    oid = with_tree(store, sid, change(store))
    found = what(store)
    assert oid in found
    assert words in found


# ---- refs


def test_ref_that_is_not_a_branch_of_a_session_is_reported(store: ObjectStore) -> None:
    sid = imported(store)
    with store.transaction() as tx:
        tx.move("refs/heads/sessions/stray", store.ref(refs.leaf(sid)), expected=None)
    assert "refs/heads/sessions/stray" in what(store)


def test_a_ref_to_no_entry_is_named(store: ObjectStore) -> None:
    sid = imported(store)
    blob = put(store, "blob", b"x")
    with store.transaction() as tx:
        tx.move(refs.leaf(sid, "side"), blob, expected=None)
    found = what(store)
    assert blob in found
    assert refs.leaf(sid, "side") in found


# ---- objects that do not match their oid


def objects_of(store: MemoryStore) -> dict[Oid, tuple[str, bytes]]:
    return store._objects  # type: ignore[return-value]


def test_any_flipped_byte_of_any_object_is_found() -> None:
    store = MemoryStore()
    sid = bring(store, pi_file(*talk("a", "b"), said("big", "b", "y" * 70_000))).session
    held = begun(store, "one", clock=Clock())
    held.append(Compaction(summary="s" * 50))
    for oid in list(objects_of(store)):
        kind, data = objects_of(store)[oid]
        for at in {0, len(data) // 3, len(data) // 2, len(data) - 1}:
            objects_of(store)[oid] = (kind, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            assert verify(store).problems, (kind, at)
        objects_of(store)[oid] = (kind, data)
    assert verify(store).problems == []
    assert all_refs(store)[refs.leaf(sid)]


def test_any_missing_object_is_found() -> None:
    store = MemoryStore()
    imported(store)
    for oid in list(objects_of(store)):
        lost = objects_of(store).pop(oid)
        assert verify(store).problems, lost[0]
        objects_of(store)[oid] = lost
    assert verify(store).problems == []


def test_any_two_objects_that_changed_places_are_found() -> None:
    store = MemoryStore()
    bring(store, pi_file(*talk("a", "b"), said("c", "a"), said("d", "a")))
    names = list(objects_of(store))
    for one in names:
        for other in names[names.index(one) + 1 :]:
            kept = objects_of(store)
            if kept[one][0] != kept[other][0]:
                continue
            kept[one], kept[other] = kept[other], kept[one]
            assert verify(store).problems, kept[one][0]
            kept[one], kept[other] = kept[other], kept[one]
    assert verify(store).problems == []


def test_damage_costs_one_entry_and_the_others_are_still_read() -> None:
    store = MemoryStore()
    sid = imported(store)
    held = session(store, sid, "main")
    broken = held.history()[2]
    payload = next(oid for _, name, oid in parse_tree(store.read(broken.tree)[1]) if name == "entry.jsonl")
    del objects_of(store)[payload]
    assert [held.read(node).kind for node in held.history()] == ["session", "message", "opaque", "message", "message"]
    assert [found.where for found in verify(store).problems] == [broken.oid]


def test_concurrent_writes_are_not_compared_with_earlier_reads(store: ObjectStore) -> None:
    """A fork of a branch that the check has not read seemed to begin in the middle of a history."""
    made = begun(store, "one", "two", "three")
    report = Report()
    walk = Walk(Snapshot.of(store, None), report, EntryChecks(store, report))
    beside = fork(made)
    beside.append(Message.user("beside"))
    beside.branch("side", beside.history()[1])
    beside.switch("side")
    made.append(Message.user("more"))
    walk.check_all(list(walk.nodes))
    walk.check_relations(notices=True)
    assert report.problems == []
    assert verify(store).problems == []
