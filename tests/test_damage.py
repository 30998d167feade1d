"""P21: whatever happens to whichever file of a store, no wrong byte is read, nothing hangs and nothing crashes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from builders import Clock, begun, bring, pi_file, said, talk
from damage import Watch, changes, in_child, replace_file
from promises import Faults

from gitsession.errors import GitSessionError, Unavailable
from gitsession.index import update
from gitsession.index.catalogue import Catalogue
from gitsession.model.entries import Message
from gitsession.store.base import Kind, Oid, RefValue
from gitsession.store.create import create
from gitsession.store.gitstore import GitStore

MANY = 200


class Written:
    """A store with every kind of file that git or we may keep in one, and what was written to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        create(path)
        with GitStore.open(path) as store:
            words = [said(f"r{n}", f"r{n - 1}" if n else None, f"the same words, number {n} of them " * 8, at=n)
                     for n in range(12)]  # fmt: skip
            bring(store, pi_file(*talk("a", "b", "c"), said("big", "c", "y" * 70_000)))
            bring(store, pi_file(*words, id="s2"))
        self.git("repack", "-adf", "--window=50", "--depth=20", "--write-midx")
        with GitStore.open(path) as store:
            begun(store, "one", "two", clock=Clock())
        self.git("commit-graph", "write", "--reachable")
        self.git("pack-refs", "--all")
        [small] = [p for p in (path / "objects/pack").glob("*.pack") if p.stat().st_size < 3000]
        body = small.read_bytes()
        for file in path.glob(f"objects/pack/{small.stem}.*"):
            file.unlink()
        self.git("unpack-objects", "-q", stdin=body)
        with GitStore.open(path) as store:
            made = begun(store, "three", clock=Clock(1_769_904_500_000))
        store = GitStore.open(path, flush_on_close=False)
        held = type(made).open(store, made.id, Clock(1_769_904_600_000))
        for text in ("four", "five", "six"):
            held.append(Message.user(text))
        self.objects: Mapping[Oid, tuple[Kind, bytes]] = {oid: store.read(oid) for oid in set(store.oids())}
        self.refs: Mapping[str, RefValue] = store.refs("refs/")
        self.before = {held.id: [node.oid for node in held.line()]}
        catalogue = Catalogue(path)
        update.refresh(catalogue, store)
        self.sessions = {row.sid: row.branches for row in catalogue.sessions()}
        catalogue.close()
        store.close()

    def git(self, *arguments: str, stdin: bytes = b"") -> None:
        subprocess.run(["git", f"--git-dir={self.path}", *arguments], check=True, capture_output=True, input=stdin)

    def one(self, pattern: str, at: int = 0) -> Path:
        found = sorted(path for path in self.path.glob(pattern) if path.is_file())
        assert found, pattern
        return found[at]

    def read_all(self) -> int:
        """Read everything that was written; how much of it is lost. Raises where one byte of it is another."""
        lost = 0
        try:
            store = GitStore.open(self.path, flush_on_close=False)
        except GitSessionError:
            return len(self.objects)
        try:
            for oid, written in self.objects.items():
                try:
                    found = store.read(oid)
                except GitSessionError:
                    lost += 1
                else:
                    assert found == written, oid
            return lost + self._refs_lost(store)
        finally:
            store.close()

    def _refs_lost(self, store: GitStore) -> int:
        """A ref may be gone or lead nowhere. It never leads to something else that is there."""
        lost = 0
        try:
            found = store.refs("refs/")
        except GitSessionError:
            return len(self.refs)
        for name, value in self.refs.items():
            held = found.get(name)
            if held == value:
                continue
            lost += 1
            # What waited in a damaged journal is gone: then the ref is where it was before.
            earlier = any(held in line for line in self.before.values())
            assert held is None or earlier or held.startswith("ref: ") or not store.contains(held), (name, held)
        return lost


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    place = tmp_path_factory.mktemp("damage")
    subprocess.run(["git", "--version"], check=True, capture_output=True)
    return Written(place / "store.git")


FILES: dict[str, tuple[str, str]] = {
    "a loose commit, tree or blob": ("objects/[0-9a-f][0-9a-f]/*", "objects/[0-9a-f][0-9a-f]/*"),
    "a pack": ("objects/pack/*.pack", "objects/pack/*.idx"),
    "an index of a pack": ("objects/pack/*.idx", "objects/pack/*.pack"),
    "the multi-pack-index": ("objects/pack/multi-pack-index", "objects/pack/*.idx"),
    "the commit-graph": ("objects/info/commit-graph", "objects/pack/*.idx"),
    "packed-refs": ("packed-refs", "HEAD"),
    "a loose ref": ("refs/heads/sessions/*/main", "packed-refs"),
    "the journal": ("gitsession/journal/0*", "packed-refs"),
    "HEAD": ("HEAD", "packed-refs"),
    "config": ("config", "packed-refs"),
}


@pytest.mark.promise("P21")
@pytest.mark.parametrize(("pattern", "other"), FILES.values(), ids=FILES)
def test_damage_is_an_error_and_never_another_byte(
    written: Written, tmp_path: Path, faults: Faults, pattern: str, other: str
) -> None:
    store = tmp_path / "store.git"
    shutil.copytree(written.path, store, copy_function=os.link)
    here = _moved(written, store)
    chance = random.Random(pattern)
    count = len([path for path in store.glob(pattern) if path.is_file()])

    def work(tell: Callable[[object], None]) -> None:
        for number in range(MANY):
            file = here.one(pattern, number % count)
            data = file.read_bytes()
            strange = here.one(other, -1 - number % count if other == pattern else 0).read_bytes()
            every = list(changes(data[: 1 << 16], strange, chance, 40 if number >= 4 else MANY))
            name, change = every[number] if number < 4 else chance.choice(every)
            replace_file(file, change(data))
            with Watch():
                tell([str(file.relative_to(store)), name, here.read_all()])
            replace_file(file, data)
        assert here.read_all() == 0

    told = in_child(work, seconds=60)
    faults.many(len(told))
    assert len(told) == MANY


@pytest.mark.promise("P21")
def test_any_bit_of_a_small_pack_and_of_its_index_and_any_place_to_cut_it(tmp_path: Path, faults: Faults) -> None:
    store = tmp_path / "store.git"
    create(store)
    with GitStore.open(store) as opened:
        begun(opened, "hi", clock=Clock())
        objects = {oid: opened.read(oid) for oid in set(opened.oids())}
    here = Written.__new__(Written)
    here.path, here.objects, here.refs, here.before = store, objects, {}, {}

    def work(tell: Callable[[object], None]) -> None:
        for suffix in ("pack", "idx"):
            file = max(store.glob(f"objects/pack/*.{suffix}"), key=lambda path: path.stat().st_size)
            data = file.read_bytes()
            for number, at in enumerate(range(0, len(data), 3)):
                replace_file(file, data[:at] if number % 4 == 0 else _flip(data, at, number % 8))
                tell([suffix, at, here.read_all()])
            replace_file(file, data)

    faults.many(len(in_child(work, seconds=60)))


def _flip(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def _moved(written: Written, path: Path) -> Written:
    here = Written.__new__(Written)
    here.__dict__.update(written.__dict__)
    here.path = path
    return here


@pytest.mark.promise("P21")
def test_a_damaged_catalogue_is_made_anew(written: Written, tmp_path: Path, faults: Faults) -> None:
    store = tmp_path / "store.git"
    shutil.copytree(written.path, store)
    file = store / "gitsession/index.db"
    for aside in store.glob("gitsession/index.db-*"):
        aside.unlink()
    whole = file.read_bytes()
    chance = random.Random(7)

    def work(tell: Callable[[object], None]) -> None:
        with GitStore.open(store, flush_on_close=False) as objects:
            for name, change in changes(whole[:8192], (store / "packed-refs").read_bytes(), chance, 60):
                data = change(whole)
                for aside in store.glob("gitsession/index.db*"):
                    aside.unlink()
                file.write_bytes(data)
                with Watch():
                    tell([name, _listed(store, objects)])

    faults.many(len(in_child(work, seconds=60)))


def _listed(path: Path, objects: GitStore) -> int:
    """As the command does it: at most one look says that the index was damaged."""
    for _ in range(2):
        catalogue = Catalogue(path)
        try:
            if not catalogue.is_fresh():
                update.refresh(catalogue, objects)
            return len(catalogue.sessions())
        except Unavailable:
            pass
        finally:
            catalogue.close()
    raise AssertionError("the index is not made anew")
