"""Tests of P21: damage to any file of a store causes no wrong bytes, hangs or crashes."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import Clock, begun
from damage import Watch, changes, flipped, in_child, replace_file
from promises import Faults
from written import Written

from gitsession.errors import Unavailable
from gitsession.index import update
from gitsession.index.catalogue import Catalogue
from gitsession.store.create import create
from gitsession.store.git_store import GitStore

MANY = 200


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
    here = written.at(store)
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

    told = in_child(work)
    faults.many(len(told))
    assert len(told) == MANY


@pytest.mark.promise("P21")
def test_any_bit_of_a_small_pack_and_of_its_index_and_any_place_to_cut_it(tmp_path: Path, faults: Faults) -> None:
    store = tmp_path / "store.git"
    create(store)
    with GitStore.open(store) as opened:
        begun(opened, "hi", clock=Clock())
        objects = {oid: opened.read(oid) for oid in set(opened.oids())}
    here = Written(store, objects)

    def work(tell: Callable[[object], None]) -> None:
        for suffix in ("pack", "idx"):
            file = max(store.glob(f"objects/pack/*.{suffix}"), key=lambda path: path.stat().st_size)
            data = file.read_bytes()
            for number, at in enumerate(range(0, len(data), 3)):
                replace_file(file, data[:at] if number % 4 == 0 else flipped(data, 8 * at + number % 8))
                tell([suffix, at, here.read_all()])
            replace_file(file, data)

    faults.many(len(in_child(work)))


@pytest.mark.promise("P21")
def test_damaged_catalog_is_rebuilt(written: Written, tmp_path: Path, faults: Faults) -> None:
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

    faults.many(len(in_child(work)))


def _listed(path: Path, objects: GitStore) -> int:
    """List the sessions as the command does. At most one attempt may report that the index was damaged."""
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
