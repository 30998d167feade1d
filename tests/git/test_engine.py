"""Tests of libgit2 on a store.

It reads the same data as gitsession, writes only through transactions, and resists damage.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha1
from pathlib import Path
from typing import Any

import pygit2
import pytest
from builders import begun, on_disk
from damage import flipped, in_child, replace_file
from figures import DEEP, figure
from hostile_packs import HOSTILE, ONE, hostile
from mutation import mutant
from promises import Faults
from pygit2.enums import ConfigLevel, ObjectType
from pygit2.repository import BaseRepository
from raw import git
from written import Written

from gitsession import Message, Store
from gitsession.errors import Corrupt, GitSessionError, Malformed, MissingObject, Refused, Unavailable
from gitsession.git import engine
from gitsession.git.engine import MergeConflict, StoreRepository
from gitsession.git.objects import encode_commit, encode_tree, oid_of
from gitsession.store.git_store import GitStore

SHARE = float(os.environ.get("GITSESSION_ENGINE_DAMAGE") or (1 if DEEP else 0.02))
"""Share of the damages: 500 flips in an index, 500 in its tables, 300 in a multi-pack-index, 60 truncated files."""

MUTANTS = int(os.environ.get("GITSESSION_ENGINE_MUTANTS") or figure(300, 10_000))
SEED = int(os.environ.get("GITSESSION_ENGINE_SEED", "0"))
HEAD = "ref: refs/heads/main"
WHO = pygit2.Signature("a", "a@example.com", 1, 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    with_entries = on_disk(tmp_path / "store.git")
    begun(with_entries, "one", "two", "three")
    yield with_entries
    with_entries.close()


@pytest.fixture
def tip(store: GitStore) -> str:
    [name] = [name for name in store.refs("refs/heads/sessions/") if name.endswith("/main")]
    return store.refs(name)[name]


def opened(store: Any, transaction: Any = None) -> StoreRepository:
    return engine.repository(store, transaction, head=HEAD)


class Memory:
    """Objects given by a test."""

    def __init__(self, **objects: tuple[str, bytes]) -> None:
        self.objects = dict(objects)

    def put(self, kind: Any, data: bytes) -> str:
        oid = oid_of(kind, data)
        self.objects[oid] = kind, data
        return oid

    def read(self, oid: str) -> tuple[str, bytes]:
        if oid not in self.objects:
            raise MissingObject(oid)
        return self.objects[oid]

    def contains(self, oid: str) -> bool:
        return oid in self.objects

    def oids(self) -> Iterator[str]:
        return iter(list(self.objects))

    def ref(self, name: str) -> str | None:
        return None

    def refs(self, prefix: str) -> dict[str, str]:
        return {}


# ---- reading


def test_entries_and_refs_that_are_not_flushed_are_there(store: GitStore, tip: str) -> None:
    assert store.pending
    repository = opened(store)
    assert repository.revparse_single(tip[:12]).id == tip
    assert len(list(repository.walk(tip))) == 4
    assert {f"refs/heads/{name}" for name in repository.branches.local} == set(store.refs("refs/heads/"))
    assert repository.head.name == "refs/heads/main"
    assert str(repository.head.target) == store.ref("refs/heads/main")


def test_every_object_is_read_as_our_reader_reads_it(written: Written) -> None:
    with GitStore.open(written.path, flush_on_close=False) as store:
        repository = opened(store)
        assert {str(oid) for oid in repository} == set(written.objects)
        for oid, (kind, data) in written.objects.items():
            number, found = repository.read(oid)
            assert (ObjectType(number).name.lower(), found) == (kind, data)


def test_missing_name_is_not_found_and_short_name_can_be_ambiguous(store: GitStore, tip: str) -> None:
    repository = opened(store)
    assert "0" * 40 not in repository
    with pytest.raises(KeyError):
        repository["1" * 40]
    with pytest.raises(KeyError):
        repository.revparse_single("refs/heads/none")
    memory = Memory()
    for number in range(5000):
        memory.put("blob", b"%d" % number)
    names = sorted(memory.objects)
    twins = next(one[:4] for one, two in itertools.pairwise(names) if one[:4] == two[:4])
    with pytest.raises(ValueError, match=twins):
        opened(memory).revparse_single(twins)


class Failing:
    """A store in which one object cannot be read."""

    def __init__(self, store: GitStore, bad: str, error: GitSessionError) -> None:
        self._store, self._bad, self._error = store, bad, error

    def read(self, oid: str) -> tuple[str, bytes]:
        if oid == self._bad:
            raise self._error
        return self._store.read(oid)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


READS: dict[str, Callable[[StoreRepository, str, str], object]] = {
    "look up": lambda repository, _, bad: repository[bad],
    "read": lambda repository, _, bad: repository.read(bad),
    "walk": lambda repository, tip, _: list(repository.walk(tip)),
    "diff": lambda repository, tip, bad: repository.diff(tip, bad),
    "blame": lambda repository, tip, _: repository.blame("entry.cbor", newest_commit=pygit2.Oid(hex=tip)),
    "revparse": lambda repository, tip, _: repository.revparse_single(f"{tip}~1^{{tree}}"),
    "merge base": lambda repository, tip, bad: repository.merge_base(tip, bad),
    "ahead and behind": lambda repository, tip, bad: repository.ahead_behind(pygit2.Oid(hex=tip), pygit2.Oid(hex=bad)),
}


@pytest.mark.promise("P21")
@pytest.mark.parametrize("error", [Corrupt("damaged"), Unavailable("busy")], ids=["corrupt", "unavailable"])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_error_of_the_reader_is_passed_on(
    store: GitStore, tip: str, read: Callable[..., object], error: GitSessionError
) -> None:
    bad = str(opened(store)[tip].parents[0].id)
    with pytest.raises(type(error)):
        read(opened(Failing(store, bad, error)), tip, bad)


@pytest.mark.promise("P21")
def test_bytes_with_another_hash_are_rejected_by_libgit2_too(store: GitStore, tip: str) -> None:
    memory = Memory()
    memory.objects[tip] = "commit", store.read(tip)[1] + b" "
    with pytest.raises(pygit2.GitError, match="hash mismatch"):
        opened(memory)[tip]


# ---- writing

WRITES: dict[str, Callable[[StoreRepository, Any], object]] = {
    "a blob": lambda repository, _: repository.create_blob(b"new"),
    "a tree": lambda repository, _: repository.TreeBuilder().write(),
    "a commit": lambda repository, tip: repository.create_commit(None, WHO, WHO, "m", tip.tree.id, [tip.id]),
    "a commit on a branch": lambda repository, tip: repository.create_commit(
        "refs/heads/x", WHO, WHO, "m", tip.tree.id, [tip.id]
    ),
    "a tag": lambda repository, tip: repository.create_tag("v", tip.id, ObjectType.COMMIT, WHO, "m"),
    "an object": lambda repository, _: repository.write(ObjectType.BLOB, b"new"),
    "a branch": lambda repository, tip: repository.branches.create("x", tip),
    "a ref": lambda repository, tip: repository.references.create("refs/heads/x", tip.id),
    "a ref that is deleted": lambda repository, _: repository.references.delete("refs/heads/main"),
    "a ref that is renamed": lambda repository, _: repository.references["refs/heads/main"].rename("refs/heads/x"),
    "a ref that is moved": lambda repository, tip: repository.references["refs/heads/main"].set_target(tip.id),
    "packed refs": lambda repository, _: repository.references.compress(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_outside_of_a_transaction_nothing_is_written(store: GitStore, tip: str, write: Callable[..., object]) -> None:
    repository, before = opened(store), (set(store.oids()), store.refs("refs/"))
    with pytest.raises(Refused):
        write(repository, repository[tip])
    assert (set(store.oids()), store.refs("refs/")) == before


def test_within_a_transaction_objects_land_in_the_journal(store: GitStore, tip: str) -> None:
    with store.transaction() as transaction:
        repository = opened(store, transaction)
        builder = repository.TreeBuilder()
        builder.insert("file", repository.create_blob(b"new"), pygit2.enums.FileMode.BLOB)
        made = repository.create_commit(None, WHO, WHO, "made by libgit2", builder.write(), [tip])
        transaction.move("refs/heads/made", str(made), expected=None)
        assert "made" in repository.branches
    with GitStore.open(store.git_dir, flush_on_close=False) as other:
        assert opened(other).revparse_single("made:file").data == b"new"
    with pytest.raises(RuntimeError, match="has ended"):
        repository.create_blob(b"late")
    store.flush()
    assert git(store.git_dir, "fsck", "--strict", "--no-dangling") == ""
    assert git(store.git_dir, "show", "made:file") == "new"


def test_a_transaction_that_fails_leaves_nothing(store: GitStore) -> None:
    with pytest.raises(ZeroDivisionError), store.transaction() as transaction:
        made = opened(store, transaction).create_blob(b"new")
        raise ZeroDivisionError
    assert str(made) not in opened(store)


@pytest.mark.parametrize("write", [WRITES["a commit on a branch"], WRITES["a tag"], WRITES["a branch"]])
def test_within_a_transaction_libgit2_moves_no_ref(store: GitStore, tip: str, write: Callable[..., object]) -> None:
    with store.transaction() as transaction:
        repository = opened(store, transaction)
        with pytest.raises(Refused):
            write(repository, repository[tip])


def test_store_of_the_library_has_a_repository(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git") as store:
        entry = store.new_session(agent="a").append(Message.user("hi"))
        assert store.repository()[entry.oid].author.name == "user"
        with store.objects.transaction() as transaction:
            blob = store.repository(transaction).create_blob(b"new")
            transaction.move("refs/x/blob", str(blob), expected=None)
        assert store.repository()[blob].data == b"new"
        with pytest.raises(Refused):
            store.repository().create_blob(b"other")


# ---- other functions of pygit2


def test_methods_that_would_crash_on_a_ref_are_rejected(store: GitStore, tip: str) -> None:
    repository = opened(store)
    for name in ("describe", "set_head", "checkout", "index", "remotes", "submodules", "transaction", "stash"):
        with pytest.raises(Refused, match=name):
            getattr(repository, name)
        assert not hasattr(repository, name)


def refused(call: Callable[..., object], *arguments: object) -> None:
    with pytest.raises(Refused):
        call(*arguments)


def merged(repository: StoreRepository, oid: Any) -> None:
    """pygit2 cannot return the result for binary content."""
    with pytest.raises(RuntimeError, match="NULL"):
        repository.merge_file_from_index(*[pygit2.IndexEntry("f", oid, pygit2.enums.FileMode.BLOB)] * 3)


CALLS: dict[str, Callable[[StoreRepository, Any], object]] = {
    "ahead_behind": lambda repository, tip: repository.ahead_behind(tip.id, tip.parents[0].id),
    "blame": lambda repository, tip: list(repository.blame("entry.cbor", newest_commit=tip.id)),
    "config": lambda repository, _: list(repository.config),
    "config_snapshot": lambda repository, _: list(repository.config_snapshot),
    "create_reference": lambda repository, tip: refused(repository.create_reference, "refs/heads/x", tip.id),
    "diff": lambda repository, tip: repository.diff(f"{tip.id}~1", "HEAD").patch,
    "get": lambda repository, tip: repository.get(tip.id),
    "listall_reference_objects": lambda repository, _: repository.listall_reference_objects(),
    "listall_references": lambda repository, _: repository.listall_references(),
    "merge_commits": lambda repository, tip: repository.merge_commits(tip, tip.parents[0]),
    "merge_file_from_index": lambda repository, tip: merged(repository, tip.tree["entry.cbor"].id),
    "merge_trees": lambda repository, tip: repository.merge_trees(tip.tree, tip.tree, tip.tree),
    "read": lambda repository, tip: repository.read(tip.id),
    "resolve_refish": lambda repository, _: repository.resolve_refish("main"),
    "write": lambda repository, _: refused(repository.write, ObjectType.BLOB, b"x"),
    "write_archive": lambda repository, tip: repository.write_archive(tip.id, _Archive()),
}


class _Archive:
    def addfile(self, *_: object) -> None: ...


@pytest.mark.promise("P21")
def test_every_python_method_of_pygit2_is_rejected_or_thread_safe(store: GitStore, tip: str) -> None:
    assert set(CALLS) == engine._SAFE

    def work(tell: Callable[[object], None]) -> None:
        stop = threading.Event()

        def spin() -> None:
            while not stop.is_set():
                sum(range(1000))

        for _ in range(2):
            threading.Thread(target=spin, daemon=True).start()
        for name, call in CALLS.items():
            for _ in range(5):
                repository = opened(store)
                call(repository, repository[tip])
            tell(name)
        stop.set()

    assert in_child(work) == list(CALLS)


def test_a_public_name_of_pygit2s_python_layer_is_one_or_the_other() -> None:
    public = {name for name in vars(BaseRepository) if not name.startswith("_")}
    assert public == engine._SAFE | engine._UNSAFE


def test_blame_starts_at_the_head_by_default(store: GitStore, tip: str) -> None:
    def work(tell: Callable[[object], None]) -> None:
        repository = opened(store)
        at_head = str(repository.head.target)
        for newest in (None, "0" * 40, pygit2.Oid(raw=bytes(20)), ""):
            found = repository.blame("README.md", newest_commit=newest)
            tell([str(hunk.final_commit_id) == at_head for hunk in found])
        with pytest.raises(Refused, match="mailmap"):
            repository.blame("entry.cbor", pygit2.enums.BlameFlag.USE_MAILMAP, newest_commit=tip)

    assert in_child(work) == [[True]] * 4


def odd_arguments(repository: StoreRepository, tip: str) -> list[tuple[Any, ...]]:
    values = ("main", "entry.cbor", tip, pygit2.Oid(hex=tip), "0" * 40, None, 1, 255, repository)
    pairs = [(value, None) for value in values]
    return [(), *((value,) for value in values), *pairs, ("x", "x"), ("x", 255, None, tip)]


@pytest.mark.promise("P21")
def test_no_attribute_ends_the_process_with_odd_arguments(
    store: GitStore, tip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def work(tell: Callable[[object], None], name: str) -> None:
        repository = opened(store)
        for number, arguments in enumerate(odd_arguments(repository, tip)):
            tell([name, number])
            with contextlib.suppress(Exception):
                found = getattr(repository, name)
                found = found(*arguments) if callable(found) else found
                list(itertools.islice(found, 100))

    for name in [name for name in dir(opened(store)) if not name.startswith("_")]:
        in_child(functools.partial(work, name=name))


# ---- threads


def test_repository_is_bound_to_its_thread(store: GitStore, tip: str) -> None:
    repository, told = opened(store), []

    def use() -> None:
        try:
            repository.walk(tip)
        except Refused as error:
            told.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert told == ["cannot use this Repository object: it belongs to another thread"]


@pytest.mark.promise("P21")
def test_four_threads_have_a_repository_each(store: GitStore, tip: str) -> None:
    def work(tell: Callable[[object], None]) -> None:
        counts: list[int] = []

        def use() -> None:
            for _ in range(30):
                repository = opened(store)
                commit = repository[tip]
                list(repository.blame("entry.cbor", newest_commit=commit.id))
                repository.ahead_behind(commit.id, commit.parents[0].id)
                counts.append(len(list(repository.walk(tip))) + len(repository.diff(commit.parents[0], commit)))
                assert engine.merge_file(b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nC\n") == b"A\nb\nC\n"

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        tell(counts)

    [counts] = in_child(work)
    assert len(counts) == 120
    assert len(set(counts)) == 1


# ---- configuration

_CONFIGURED = """
import pygit2, sys
from pygit2.enums import ConfigLevel
from gitsession.git import engine
from gitsession.git.objects import encode_tree, oid_of

if sys.argv[1] == "system":
    pygit2.settings.search_path[ConfigLevel.SYSTEM] = sys.argv[2]
objects = {}
def put(kind, data):
    objects[oid_of(kind, data)] = kind, data
    return oid_of(kind, data)
trees = [put("tree", encode_tree({"f": ("100644", put("blob", text))})) for text in (b"a\\n", b"b\\n")]
class Reader:
    read, contains, oids = objects.__getitem__, objects.__contains__, lambda self: iter(objects)
    ref, refs = lambda self, name: None, lambda self, prefix: {}
repository = engine.repository(Reader(), head="ref: refs/heads/main")
with engine.without_user_configuration():
    print(repository[trees[0]].diff_to_tree(repository[trees[1]]).patch)
"""


@pytest.mark.parametrize("where", ["config", "attributes", "system"])
def test_no_configuration_of_the_user_or_the_machine_changes_a_patch(isolated_home: Path, where: str) -> None:
    (isolated_home / ".config/git").mkdir(parents=True)
    (isolated_home / "system").mkdir()
    if where == "config":
        (isolated_home / ".gitconfig").write_text("[diff]\n\tnoprefix = true\n")
    else:
        place = ".config/git/attributes" if where == "attributes" else "system/gitattributes"
        (isolated_home / place).write_text("* -diff\n")
    os.environ.pop("XDG_CONFIG_HOME", None)
    command = [sys.executable, "-c", _CONFIGURED, where, str(isolated_home / "system")]
    patch = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n" in patch


def test_the_paths_of_the_configuration_are_restored_when_the_last_thread_is_done() -> None:
    paths = pygit2.settings.search_path
    before = {level: paths[level] for level in (ConfigLevel.GLOBAL, ConfigLevel.XDG, ConfigLevel.SYSTEM)}
    begin, end = threading.Event(), threading.Event()

    def use() -> None:
        with engine.without_user_configuration():
            begin.set()
            end.wait(10)

    thread = threading.Thread(target=use)
    thread.start()
    begin.wait(10)
    with engine.without_user_configuration():
        assert paths[ConfigLevel.GLOBAL] == ""
    assert paths[ConfigLevel.GLOBAL] == ""
    end.set()
    thread.join()
    assert {level: paths[level] for level in before} == before


# ---- damage


def read_all(written: Written, repository: StoreRepository | None = None) -> int:
    """Read every object through libgit2, and return how many are lost.

    The damage test of the reader does the same.
    """
    try:
        store = GitStore.open(written.path, flush_on_close=False)
    except GitSessionError:
        return len(written.objects)
    lost = 0
    try:
        repository = opened(store)
        for oid, (_, data) in written.objects.items():
            try:
                found = repository.read(oid)[1]
            except (GitSessionError, pygit2.GitError, KeyError):
                lost += 1
            else:
                assert found == data, oid
        for name in written.refs:
            try:
                repository.revparse_single(name)
                list(repository.walk(repository.references[name].target))
            except (GitSessionError, pygit2.GitError, KeyError, ValueError):
                lost += 1
    finally:
        store.close()
    return lost


DAMAGES = {
    "a pack index": ("objects/pack/*.idx", 500, lambda data: len(data)),
    "the fan-out and offsets of a pack index": ("objects/pack/*.idx", 500, lambda data: min(len(data), 8 + 1024)),
    "a multi-pack-index": ("objects/pack/multi-pack-index", 300, lambda data: len(data)),
    "a pack": ("objects/pack/*.pack", 300, lambda data: len(data)),
}


@pytest.mark.promise("P21")
@pytest.mark.parametrize(("pattern", "many", "size"), DAMAGES.values(), ids=DAMAGES)
def test_a_flipped_bit_is_an_error_and_never_a_crash(
    written: Written, tmp_path: Path, faults: Faults, pattern: str, many: int, size: Callable[[bytes], int]
) -> None:
    path = tmp_path / "store.git"
    shutil.copytree(written.path, path, copy_function=os.link)
    here, chance = written.at(path), random.Random(f"{pattern} {SEED}")
    count = len(list(path.glob(pattern)))
    for number in range(max(3, round(many * SHARE))):
        file = here.one(pattern, number % count)
        data = file.read_bytes()
        replace_file(file, flipped(data, chance.randrange(size(data) * 8)))
        with faults.one():
            in_child(lambda tell: tell(read_all(here)))
        replace_file(file, data)


@pytest.mark.promise("P21")
@pytest.mark.parametrize("pattern", ["objects/pack/*.idx", "objects/pack/*.pack"])
def test_truncation_of_an_open_file_is_an_error_and_not_a_signal(
    written: Written, tmp_path: Path, faults: Faults, pattern: str
) -> None:
    chance = random.Random(f"{pattern} {SEED}")
    for number in range(max(2, round(30 * SHARE))):
        path = tmp_path / f"{number}.git"
        shutil.copytree(written.path, path)

        def work(tell: Callable[[object], None], path: Path = path) -> None:
            with GitStore.open(path, flush_on_close=False) as store:
                repository = opened(store)
                names = list(written.objects)
                repository.read(names[0])
                for file in path.glob(pattern):
                    os.truncate(file, chance.randrange(file.stat().st_size))
                lost = 0
                for oid in names:
                    try:
                        assert repository.read(oid)[1] == written.objects[oid][1]
                    except (GitSessionError, pygit2.GitError, KeyError):
                        lost += 1
                tell(lost)

        with faults.one():
            in_child(work)
        shutil.rmtree(path)


@pytest.mark.promise("P31")
@pytest.mark.parametrize("entries", HOSTILE.values(), ids=HOSTILE)
def test_malicious_pack_is_rejected_before_libgit2_reads_it(
    tmp_path: Path, faults: Faults, entries: list[tuple[bytes, bytes]]
) -> None:
    packs: Any = hostile(tmp_path, *entries)

    def work(tell: Callable[[object], None]) -> None:
        with pytest.raises((Corrupt, Unavailable)):
            StoreRepository(packs)[ONE.hex()]
        tell("refused")

    with faults.one():
        assert in_child(work, memory=160 << 20) == ["refused"]


# ---- malicious objects

BLOB = oid_of("blob", b"a\nb\n")
TREE = encode_tree({"a": ("100644", BLOB), "b": ("40000", oid_of("tree", b"")), "c": ("120000", BLOB)})
COMMIT = encode_commit(
    tree=oid_of("tree", TREE), parents=["1" * 40], author_name="user", author_seconds=1, committer_seconds=2,
    message=b"words\n\nEntry: message\n",
)  # fmt: skip


USES: dict[str, Callable[[StoreRepository, str, str, str], object]] = {
    "list": lambda repository, tree, _, __: [each.name for each in repository[tree]],
    "diff": lambda repository, tree, _, __: repository[oid_of("tree", TREE)].diff_to_tree(repository[tree]).patch,
    "walk": lambda repository, _, commit, __: [
        (each.message, each.author, each.parents, each.tree) for each in repository.walk(commit)
    ],
    "walk to the mutant of a tree": lambda repository, _, __, fitting: list(repository.walk(fitting)),
    "blame": lambda repository, _, __, fitting: list(repository.blame("a", newest_commit=pygit2.Oid(hex=fitting))),
    "revparse": lambda repository, _, __, fitting: repository.revparse_single(f"{fitting}:b"),
    "index": lambda repository, tree, _, __: pygit2.Index().read_tree(repository[tree]),
    "archive": lambda repository, _, __, fitting: repository.write_archive(pygit2.Oid(hex=fitting), _Archive()),
}


@pytest.mark.promise("P30")
def test_mutants_of_trees_and_commits_do_not_crash_or_hang(faults: Faults) -> None:
    def work(tell: Callable[[object], None]) -> None:
        draw = random.Random(SEED)
        for number in range(MUTANTS):
            memory = Memory()
            for kind, data in (("blob", b"a\nb\n"), ("tree", b""), ("tree", TREE)):
                memory.put(kind, data)
            tree = memory.put("tree", mutant(draw, TREE))
            commit = memory.put("commit", mutant(draw, COMMIT))
            fitting = memory.put("commit", COMMIT.replace(oid_of("tree", TREE).encode(), tree.encode()))
            start = time.monotonic()
            for use in USES.values():
                try:
                    use(opened(memory), tree, commit, fitting)
                except (GitSessionError, pygit2.GitError, KeyError, ValueError):
                    pass
            assert time.monotonic() - start < 20, number
        tell(MUTANTS)

    faults.many(MUTANTS)
    assert in_child(work) == [MUTANTS]


@pytest.mark.promise("P30")
def test_very_deep_folders_are_rejected() -> None:
    def work(tell: Callable[[object], None]) -> None:
        memory = Memory()
        child = memory.put("blob", b"x")
        mode = b"100644"
        for _ in range(100_000):
            row = mode + b" a\0" + bytes.fromhex(child)
            child = sha1(b"tree %d\0%b" % (len(row), row)).hexdigest()
            memory.objects[child] = "tree", row
            mode = b"40000"
        top = opened(memory)[child]
        with pytest.raises((Malformed, SystemError)):
            pygit2.Index().read_tree(top)
        with pytest.raises(Malformed):
            opened(memory)[child].diff_to_tree()
        tell("refused")

    assert in_child(work) == ["refused"]


# ---- merges of files

MERGES: dict[str, tuple[bytes, bytes, bytes, bytes | MergeConflict]] = {
    "both sides": (b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nC\n", b"A\nb\nC\n"),
    "one side": (b"a\n", b"a\n", b"b\n", b"b\n"),
    "the same change": (b"a\n", b"b\n", b"b\n", b"b\n"),
    "overlapping": (b"a\n", b"b\n", b"c\n", MergeConflict("overlapping changes")),
    "nothing left": (b"a\nb\n", b"", b"a\nb\n", b""),
    "nothing at all": (b"", b"", b"", b""),
    "from nothing": (b"", b"a\n", b"", b"a\n"),
    "no line end": (b"a\nb\nc", b"A\nb\nc", b"a\nb\nC", b"A\nb\nC"),
    "CRLF": (b"a\r\nb\r\nc\r\n", b"A\r\nb\r\nc\r\n", b"a\r\nb\r\nC\r\n", b"A\r\nb\r\nC\r\n"),
    "mixed line ends": (b"a\r\nb\nc\r\n", b"A\r\nb\nc\r\n", b"a\r\nb\nC\n", b"A\r\nb\nC\n"),
    "no UTF-8": (b"\xff\nb\n\xe9\n", b"\xfe\nb\n\xe9\n", b"\xff\nb\n\xe8\n", b"\xfe\nb\n\xe8\n"),
    "UTF-8": ("ä\nb\nü\n".encode(), "Ä\nb\nü\n".encode(), "ä\nb\nÜ\n".encode(), "Ä\nb\nÜ\n".encode()),
    "binary": (b"a\0\n", b"b\0\n", b"a\0\n", MergeConflict("binary content")),
    "binary far behind": (b"a\n", b"b\n", b"a\n" * 9000 + b"\0", MergeConflict("binary content")),
    "too many lines": (b"a\n" * 50_001, b"b\n", b"c\n", MergeConflict("too large")),
    "too many bytes": (b"a" * (4 << 20) + b"b", b"b\n", b"c\n", MergeConflict("too large")),
}


@pytest.mark.parametrize(("ancestor", "ours", "theirs", "merged"), MERGES.values(), ids=MERGES)
def test_two_changes_of_a_file_are_merged_or_conflict(
    ancestor: bytes, ours: bytes, theirs: bytes, merged: bytes | MergeConflict
) -> None:
    assert engine.merge_file(ancestor, ours, theirs) == merged


def test_merges_are_those_of_git(tmp_path: Path) -> None:
    chance = random.Random(5)

    def changed(lines: list[bytes]) -> list[bytes]:
        made = list(lines)
        for _ in range(chance.randint(0, 3)):
            at = chance.randrange(len(made) + 1)
            made[at : at + chance.randint(0, 2)] = [b"new %d\n" % chance.randrange(9)] * chance.randint(0, 2)
        return made

    clean = 0
    for _ in range(60):
        base = [b"line %d\n" % chance.randrange(12) for _ in range(chance.randint(0, 30))]
        sides = [b"".join(each).removesuffix(b"\n" * chance.randint(0, 1)) for each in
                 (base, changed(base), changed(base))]  # fmt: skip
        for name, side in zip(("base", "ours", "theirs"), sides, strict=True):
            (tmp_path / name).write_bytes(side)
        command = ["git", "merge-file", "-p", "ours", "base", "theirs"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        merged = engine.merge_file(*sides)
        assert merged == (MergeConflict("overlapping changes") if done.returncode else done.stdout)
        clean += not done.returncode
    assert 10 < clean < 60


@pytest.mark.promise("P30")
def test_merge_of_few_distinct_lines_is_bounded() -> None:
    chance = random.Random(6)
    sides = [b"".join(b"%d\n" % chance.randrange(4) for _ in range(engine.LINES_MAX)) for _ in range(3)]
    start = time.process_time()
    engine.merge_file(*sides)
    assert time.process_time() - start < 10
