"""Tests of the contract of ``ObjectStore``: one suite for the store on disk and the store in memory."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsession.errors import Corrupt, InvalidName, Malformed, MissingObject, RefMoved, Unavailable
from gitsession.git import objects
from gitsession.git.types import Oid
from gitsession.store.create import create
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore, Transaction
from gitsession.store.memory import MemoryStore

MAIN = "refs/heads/sessions/s1/main"
SIDE = "refs/heads/sessions/s1/side"


def on_disk(path: Path) -> GitStore:
    create(path)
    return GitStore.open(path)


def in_memory(path: Path) -> MemoryStore:
    return MemoryStore()


@pytest.fixture(params=[in_memory, on_disk], ids=["memory", "git"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    with request.param(tmp_path / "store.git") as opened:
        yield opened


def put_commit(transaction: Transaction, text: str, parent: Oid | None = None) -> Oid:
    blob = transaction.put("blob", text.encode())
    tree = transaction.put("tree", objects.encode_tree({"entry.cbor": ("100644", blob)}))
    commit = objects.encode_commit(
        tree=tree,
        parents=[parent] if parent else [],
        author_name="user",
        author_seconds=1,
        committer_seconds=1,
        message=text.encode(),
    )
    return transaction.put("commit", commit)


def append(store: ObjectStore, text: str, ref: str = MAIN) -> Oid:
    with store.transaction() as transaction:
        leaf = store.ref(ref)
        oid = put_commit(transaction, text, leaf)
        transaction.move(ref, oid, expected=leaf)
    return oid


def symbolic(name: str) -> str:
    return f"ref: {name}"


def test_an_object_reads_back_as_it_was_put(store):
    with store.transaction() as transaction:
        oid = transaction.put("blob", b"hello")
    assert oid == "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"
    assert store.read(oid) == ("blob", b"hello")
    assert store.contains(oid)


def test_objects_and_refs_are_the_same_after_a_flush(store):
    oids = [append(store, f"entry {n}") for n in range(3)]
    before = [store.read(oid) for oid in oids], dict(store.refs("refs/heads/sessions/"))
    store.flush()
    store.flush()
    assert ([store.read(oid) for oid in oids], dict(store.refs("refs/heads/sessions/"))) == before
    assert store.ref(MAIN) == oids[-1]


def test_an_object_can_be_read_before_its_transaction_ends(store):
    with store.transaction() as transaction:
        oid = transaction.put("blob", b"early")
        assert store.read(oid) == ("blob", b"early")
        assert store.contains(oid)


def test_a_ref_moved_in_a_transaction_is_seen_by_its_own_thread_only(store):
    seen: list[object] = []
    with store.transaction() as transaction:
        oid = put_commit(transaction, "mine")
        transaction.move(MAIN, oid, expected=None)
        assert store.ref(MAIN) == oid
        assert store.refs("refs/heads/sessions/") == {MAIN: oid}
        other = threading.Thread(target=lambda: seen.extend([store.ref(MAIN), *store.refs("refs/heads/sessions/")]))
        other.start()
        other.join()
    assert seen == [None]


def test_a_transaction_that_raises_leaves_nothing(store):
    with pytest.raises(ZeroDivisionError), store.transaction() as transaction:
        oid = put_commit(transaction, "never")
        transaction.move(MAIN, oid, expected=None)
        raise ZeroDivisionError
    assert store.ref(MAIN) is None
    assert not store.contains(oid)
    assert append(store, "after") == store.ref(MAIN)


def test_ended_transaction_rejects_further_calls(store):
    with store.transaction() as transaction:
        pass
    with pytest.raises(RuntimeError):
        transaction.put("blob", b"late")
    with pytest.raises(RuntimeError):
        transaction.move(MAIN, None, expected=None)


def test_a_thread_cannot_open_a_transaction_within_its_own(store):
    with store.transaction(), pytest.raises(RuntimeError), store.transaction():
        pass
    append(store, "still works")


def test_a_missing_object_is_named(store):
    with pytest.raises(MissingObject, match="a" * 40):
        store.read("a" * 40)
    assert not store.contains("a" * 40)


@pytest.mark.parametrize("begins", [0, 4, 39])
def test_prefix_of_an_id_is_not_an_id(store, begins):
    oid = append(store, "entry")
    store.flush()
    with pytest.raises(MissingObject):
        store.read(oid[:begins])
    assert not store.contains(oid[:begins])
    assert not store.contains("../" * 13 + "x")


def test_moved_ref_rejects_the_whole_transaction(store):
    first = append(store, "first")
    with pytest.raises(RefMoved), store.transaction() as transaction:
        other = put_commit(transaction, "other")
        transaction.move(SIDE, other, expected=None)
        transaction.move(MAIN, other, expected=None)
    assert store.ref(MAIN) == first
    assert store.ref(SIDE) is None


def test_two_moves_of_one_ref_follow_each_other(store):
    with store.transaction() as transaction:
        first, second = put_commit(transaction, "1"), put_commit(transaction, "2")
        transaction.move(MAIN, first, expected=None)
        with pytest.raises(RefMoved):
            transaction.move(MAIN, second, expected=None)
        transaction.move(MAIN, second, expected=first)
    assert store.ref(MAIN) == second


def test_ref_to_a_missing_object_is_rejected(store):
    with pytest.raises(MissingObject), store.transaction() as transaction:
        transaction.move(MAIN, "b" * 40, expected=None)


def test_a_ref_can_be_symbolic(store):
    append(store, "entry")
    name = "refs/gitsession/active/s1"
    with store.transaction() as transaction:
        transaction.move(name, symbolic(MAIN), expected=None)
    assert store.ref(name) == symbolic(MAIN)
    store.flush()
    assert store.refs("refs/gitsession/") == {name: symbolic(MAIN)}
    with store.transaction() as transaction:
        transaction.move(name, symbolic(SIDE), expected=symbolic(MAIN))
    store.flush()
    assert store.ref(name) == symbolic(SIDE)


@pytest.mark.parametrize("flush_between", [False, True], ids=["pending", "flushed"])
def test_deleted_ref_is_gone_and_can_be_created_again(store, flush_between):
    oid = append(store, "entry")
    with store.transaction() as transaction:
        transaction.move("refs/gitsession/active/s1", symbolic(MAIN), expected=None)
    if flush_between:
        store.flush()
    with store.transaction() as transaction:
        transaction.move(MAIN, None, expected=oid)
        transaction.move("refs/gitsession/active/s1", None, expected=symbolic(MAIN))
    assert (store.ref(MAIN), store.refs("refs/heads/sessions/"), store.refs("refs/gitsession/")) == (None, {}, {})
    store.flush()
    assert (store.ref(MAIN), store.refs("refs/heads/sessions/"), store.refs("refs/gitsession/")) == (None, {}, {})
    with store.transaction() as transaction:
        transaction.move(MAIN, oid, expected=None)
    store.flush()
    assert store.ref(MAIN) == oid


def test_refs_are_listed_by_prefix_in_order(store):
    names = [f"refs/heads/sessions/{session}/{branch}" for session in ("b", "a", "ab") for branch in ("z", "main")]
    oids = {name: append(store, name, name) for name in names[:3]}
    store.flush()
    oids |= {name: append(store, name, name) for name in names[3:]}
    assert list(store.refs("refs/heads/sessions/")) == sorted(names)
    assert store.refs("refs/heads/sessions/a") == {name: oids[name] for name in sorted(names) if "/a" in name}
    assert store.refs("refs/heads/sessions/a/m") == {"refs/heads/sessions/a/main": oids["refs/heads/sessions/a/main"]}
    assert store.refs("refs/nothing/") == {}


@pytest.mark.parametrize("flush_between", [False, True], ids=["pending", "flushed"])
def test_ref_in_place_of_a_directory_is_rejected(store, flush_between):
    oid = append(store, "entry", "refs/gitsession/a/b")
    if flush_between:
        store.flush()
    for name in ("refs/gitsession/a", "refs/gitsession/a/b/c"):
        with pytest.raises(InvalidName, match="cannot create"), store.transaction() as transaction:
            transaction.move(name, oid, expected=None)
    with store.transaction() as transaction:
        transaction.move("refs/gitsession/a/b", None, expected=oid)
        transaction.move("refs/gitsession/a", oid, expected=None)
    store.flush()
    assert store.refs("refs/gitsession/") == {"refs/gitsession/a": oid}


BAD_NAMES = {
    "not below refs": "heads/main",
    "no directory": "refs/main",
    "HEAD": "HEAD",
    "two dots": "refs/heads/a..b",
    "a dot first": "refs/heads/.a",
    "ends in .lock": "refs/heads/a.lock",
    "a directory ends in .lock": "refs/heads/a.lock/b",
    "ends in a dot": "refs/heads/a.",
    "ends in a slash": "refs/heads/a/",
    "two slashes": "refs/heads//a",
    "a space": "refs/heads/a b",
    "a colon": "refs/heads/a:b",
    "a tilde": "refs/heads/a~1",
    "a newline": "refs/heads/a\nb",
    "a backslash": "refs/heads/a\\b",
    "reflog syntax": "refs/heads/a@{1}",
    "climbs out": "refs/heads/../../config",
    "too long": "refs/heads/" + "a" * 190,
    "a lone surrogate": "refs/heads/\udc80",
    "upper case in a session": "refs/heads/sessions/S1/main",
    "a dash first in a session": "refs/heads/sessions/-s/main",
    "beyond ASCII in a session": "refs/heads/sessions/é/main",
    "a device in a session": "refs/heads/sessions/s1/nul",
    "a device with a suffix in a session": "refs/heads/sessions/s1/com1.x",
}


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
def test_invalid_ref_name_is_rejected(store, name):
    with pytest.raises(InvalidName), store.transaction() as transaction:
        transaction.move(name, put_commit(transaction, "x"), expected=None)
    append(store, "the store works on")


@pytest.mark.parametrize("value", ["", "abc", "0" * 40, "A" * 40, "ref:" + MAIN, "ref: ../x", "a" * 40 + "\n"])
def test_a_ref_holds_an_oid_or_the_name_of_a_ref(store, value):
    with pytest.raises((Malformed, InvalidName)), store.transaction() as transaction:
        transaction.move(MAIN, value, expected=None)


def test_threads_lose_nothing(store):
    def work(number: int) -> None:
        for n in range(20):
            append(store, f"{number}.{n}")
            assert store.ref(MAIN)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(line(store)) == sorted(f"{number}.{n}" for number in range(8) for n in range(20))


def line(store: ObjectStore, ref: str = MAIN) -> list[str]:
    found, oid = [], store.ref(ref)
    while oid:
        commit = objects.parse_commit(store.read(oid)[1])
        found.append(commit.message.decode())
        oid = commit.parents[0] if commit.parents else None
    return found[::-1]


@given(steps=st.lists(st.sampled_from(["append main", "append side", "fork", "delete", "flush", "abort"]), max_size=15))
def test_both_stores_end_with_the_same_refs(tmp_path_factory, steps):
    stores: list[ObjectStore] = [MemoryStore(), on_disk(tmp_path_factory.mktemp("twin") / "store.git")]
    for store in stores:
        for number, step in enumerate(steps):
            take[step](store, number)
        store.flush()
    memory, git = stores
    assert memory.refs("refs/heads/sessions/") == git.refs("refs/heads/sessions/")
    assert [line(memory, name) for name in (MAIN, SIDE)] == [line(git, name) for name in (MAIN, SIDE)]
    git.close()


def fork(store: ObjectStore, _: int) -> None:
    with store.transaction() as transaction:
        transaction.move(SIDE, store.ref(MAIN), expected=store.ref(SIDE))


def delete(store: ObjectStore, _: int) -> None:
    with store.transaction() as transaction:
        transaction.move(SIDE, None, expected=store.ref(SIDE))


def abort(store: ObjectStore, number: int) -> None:
    with pytest.raises(ZeroDivisionError), store.transaction() as transaction:
        transaction.move(MAIN, put_commit(transaction, f"aborted {number}"), expected=store.ref(MAIN))
        raise ZeroDivisionError


take: dict[str, Callable[[ObjectStore, int], object]] = {
    "append main": lambda store, number: append(store, f"main {number}"),
    "append side": lambda store, number: append(store, f"side {number}", SIDE),
    "fork": fork,
    "delete": delete,
    "flush": lambda store, _: store.flush(),
    "abort": abort,
}


# -- objects, which have the same ids in both stores


NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.dictionaries(NAMES, st.sampled_from(["40000", "100644", "100755", "120000"]), max_size=8))
def test_a_tree_survives_encoding(entries):
    tree = {name: (mode, "a" * 40) for name, mode in entries.items()}
    assert {name: (mode, oid) for mode, name, oid in objects.parse_tree(objects.encode_tree(tree))} == tree


def test_a_tree_sorts_directories_as_if_they_ended_in_a_slash():
    tree = {"a": ("40000", "a" * 40), "a.b": ("100644", "b" * 40), "a0": ("100644", "c" * 40)}
    assert [name for _, name, _ in objects.parse_tree(objects.encode_tree(tree))] == ["a.b", "a", "a0"]


BAD_TREES = {
    "cut short": b"100644 a\0" + bytes(19),
    "no name": b"100644 \0" + bytes(20),
    "a slash": b"100644 a/b\0" + bytes(20),
    "no mode": b" a\0" + bytes(20),
    "mode with a zero first": b"040000 a\0" + bytes(20),
    "mode of letters": b"banana a\0" + bytes(20),
    "out of order": b"100644 b\0" + bytes(20) + b"100644 a\0" + bytes(20),
    "twice": b"100644 a\0" + bytes(20) + b"100644 a\0" + bytes(20),
}


@pytest.mark.parametrize("data", BAD_TREES.values(), ids=BAD_TREES)
def test_malformed_tree_is_rejected(data):
    with pytest.raises(Malformed):
        objects.parse_tree(data)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_tree_or_malformed(data):
    try:
        objects.parse_tree(data)
    except Malformed:
        pass


def test_a_commit_survives_encoding():
    fields = {"tree": "a" * 40, "author_name": "user", "author_seconds": 5, "committer_seconds": 7, "message": b"hi\n"}
    parsed = objects.parse_commit(objects.encode_commit(**fields, parents=["b" * 40, "c" * 40]))
    assert parsed == objects.Commit(**fields, parents=("b" * 40, "c" * 40))


def test_commit_of_another_program_can_be_read():
    data = (
        b"tree " + b"a" * 40 + b"\nauthor A U Thor <a@b.c> 12 +0100\ncommitter C <> 13 -0000\n"
        b"gpgsig -----BEGIN\n more\nencoding latin1\n\nSubject\n\nBody"
    )
    parsed = objects.parse_commit(data)
    assert (parsed.author_name, parsed.author_seconds, parsed.committer_seconds) == ("A U Thor", 12, 13)
    assert (parsed.parents, parsed.message) == ((), b"Subject\n\nBody")


@pytest.mark.parametrize("name", ["", " ", "a<b", "a>b", "a\nb", "a\0b", " a", "a "])
def test_invalid_author_name_is_rejected(name):
    with pytest.raises(Malformed):
        objects.encode_commit(
            tree="a" * 40, parents=[], author_name=name, author_seconds=0, committer_seconds=0, message=b""
        )


@pytest.mark.parametrize("data", [b"", b"tree x\n\n", b"tree " + b"a" * 40 + b"\n\nhi", b"author\n\n"])
def test_malformed_commit_is_rejected(data):
    with pytest.raises(Malformed):
        objects.parse_commit(data)


# -- conditions that only the store on disk can have


@pytest.fixture
def git_store(tmp_path: Path) -> Iterator[GitStore]:
    with on_disk(tmp_path / "store.git") as opened:
        yield opened


def loose_path(store: GitStore, oid: Oid) -> Path:
    path = store.git_dir / "objects" / oid[:2] / oid[2:]
    path.parent.mkdir(exist_ok=True)
    return path


LOOSE_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda raw: b"",
    "cut short": lambda raw: raw[:-8],
    "half": lambda raw: raw[: len(raw) // 2],
    "a flipped bit": lambda raw: raw[:20] + bytes([raw[20] ^ 1]) + raw[21:],
    "no zlib": lambda raw: b"blob 5\0hello",
    "zeros": lambda raw: bytes(len(raw)),
}


@pytest.mark.parametrize("damage", LOOSE_DAMAGE.values(), ids=LOOSE_DAMAGE)
def test_a_damaged_loose_object_is_corrupt_and_does_not_hang(git_store, damage):
    data = b"hello " * 100
    oid = objects.oid_of("blob", data)
    raw = zlib.compress(b"blob 600\0" + data)
    path = loose_path(git_store, oid)
    path.write_bytes(raw)
    assert git_store.read(oid) == ("blob", data)
    path.write_bytes(damage(raw))
    with pytest.raises(Corrupt, match=oid):
        git_store.read(oid)


def test_a_loose_object_that_claims_to_be_huge_is_not_unpacked(git_store):
    loose_path(git_store, "a" * 40).write_bytes(zlib.compress(b"blob 4611686018427387904\0"))
    with pytest.raises(Unavailable, match="limit"):
        git_store.read("a" * 40)


def test_damaged_pack_returns_no_wrong_bytes(git_store):
    oid = append(git_store, "an entry worth keeping " * 50)
    before = set(git_store.git_dir.glob("objects/pack/*.pack"))
    git_store.close()
    [pack] = set(git_store.git_dir.glob("objects/pack/*.pack")) - before
    tree = objects.parse_commit(git_store.read(oid)[1]).tree
    blob = objects.parse_tree(git_store.read(tree)[1])[0][2]
    raw = bytearray(pack.read_bytes())
    raw[20] ^= 255
    pack.chmod(0o600)
    pack.write_bytes(raw)
    with GitStore.open(git_store.git_dir) as again, pytest.raises(Corrupt, match=blob):
        again.read(blob)


def test_invalid_ref_file_is_corrupt_and_hides_no_other(git_store):
    oid = append(git_store, "entry")
    git_store.flush()
    (git_store.git_dir / "refs/heads/sessions/s1/broken").write_bytes(b"")
    with pytest.raises(Corrupt, match="broken"):
        git_store.ref("refs/heads/sessions/s1/broken")
    assert git_store.refs("refs/heads/sessions/") == {MAIN: oid}


def test_a_ref_name_cannot_climb_out_of_the_store(git_store):
    assert git_store.ref("refs/../config") is None
