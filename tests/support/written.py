"""A store with every kind of file that git or gitsession writes, and a list of the data written to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from builders import Clock, begun, bring, pi_file, said, talk
from raw import git

from gitsession.errors import GitSessionError
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.index import update
from gitsession.index.catalogue import Catalogue
from gitsession.model.entries import Message
from gitsession.store.create import create
from gitsession.store.git_store import GitStore


@dataclass(frozen=True)
class Written:
    """A store and the data that it must contain.

    ``objects`` and ``refs`` are the written data. ``before`` has, by session, the entries whose tip is only in the
    journal.
    """

    path: Path
    objects: Mapping[Oid, tuple[Kind, bytes]]
    refs: Mapping[str, RefValue] = field(default_factory=dict)
    before: Mapping[str, Sequence[Oid]] = field(default_factory=dict)

    def at(self, path: Path) -> Written:
        """Return the same data for a copy of the store at ``path``."""
        return dataclasses.replace(self, path=path)

    def one(self, pattern: str, at: int = 0) -> Path:
        found = sorted(path for path in self.path.glob(pattern) if path.is_file())
        assert found, pattern
        return found[at]

    def read_all(self) -> int:
        """Read everything that was written and return how much of it is lost.

        Raises:
            AssertionError: An object was read with other content.
        """
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
        """Return how many refs are lost.

        A ref may be missing or point to a missing object. It must never point to another existing object.
        """
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
            # Data in a damaged journal is lost. The ref then has its earlier value.
            earlier = any(held in line for line in self.before.values())
            assert held is None or earlier or held.startswith("ref: ") or not store.contains(held), (name, held)
        return lost


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write(tmp_path_factory.mktemp("written") / "store.git")


def write(path: Path) -> Written:
    create(path)
    with GitStore.open(path) as store:
        words = [said(f"r{n}", f"r{n - 1}" if n else None, f"the same words, number {n} of them " * 8, at=n)
                 for n in range(12)]  # fmt: skip
        bring(store, pi_file(*talk("a", "b", "c"), said("big", "c", "y" * 70_000)))
        bring(store, pi_file(*words, id="s2"))
    git(path, "repack", "-adf", "--window=50", "--depth=20", "--write-midx")
    with GitStore.open(path) as store:
        begun(store, "one", "two", clock=Clock())
    git(path, "commit-graph", "write", "--reachable")
    git(path, "pack-refs", "--all")
    [small] = [p for p in (path / "objects/pack").glob("*.pack") if p.stat().st_size < 3000]
    body = small.read_bytes()
    for file in path.glob(f"objects/pack/{small.stem}.*"):
        file.unlink()
    git(path, "unpack-objects", "-q", stdin=body)
    with GitStore.open(path) as store:
        made = begun(store, "three", clock=Clock(1_769_904_500_000))
    store = GitStore.open(path, flush_on_close=False)
    held = type(made).open(store, made.id, Clock(1_769_904_600_000))
    for text in ("four", "five", "six"):
        held.append(Message.user(text))
    objects = {oid: store.read(oid) for oid in set(store.oids())}
    found = Written(path, objects, store.refs("refs/"), {held.id: [node.oid for node in held.history()]})
    catalogue = Catalogue(path)
    update.refresh(catalogue, store)
    catalogue.close()
    store.close()
    return found
