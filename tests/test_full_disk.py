"""A disk with no space left: what is there can be read, the error says why, and with space it goes on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from faults.full import DISKS
from faults.invariants import assert_kept, assert_whole, line, sound
from raw import LEAF, append

from gitsession.errors import Unavailable
from gitsession.store.create import create
from gitsession.store.gitstore import GitStore

SIZES = {"tmpfs": ("2m", 1_200_000), "ext4": ("4M", 2_200_000)}
"""Of the disk, and of what is removed in the end: a flush wants as much as waits in the journal, compressed."""

FAILURES = 50


@pytest.mark.promise("P12")
@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("entry_bytes", [500, 2000])
def test_a_full_disk_can_be_read_and_goes_on_when_there_is_space(kind: str, entry_bytes: int, faults) -> None:
    fill_disk(kind, entry_bytes)
    faults.many(FAILURES)


def fill_disk(kind: str, entry_bytes: int) -> None:
    size, ballast_bytes = SIZES[kind]
    with DISKS[kind](size) as disk:
        fill(disk, ballast_bytes, entry_bytes)


def fill(disk: Path, ballast_bytes: int, entry_bytes: int) -> None:
    git_dir, ballast = disk / "store.git", disk / "ballast"
    ballast.write_bytes(bytes(ballast_bytes))
    create(git_dir)
    chance = random.Random(0)
    with GitStore.open(git_dir) as store:
        store._flush_at = (40, 1 << 20)
        oids: list[str] = []
        refused = 0
        while refused < FAILURES:
            try:
                oids.append(append(store, chance.randbytes(entry_bytes).hex()))
            except Unavailable as error:
                assert "No space left on device" in str(error)
                assert "space" in error.hint
                refused += 1
                assert line(store, LEAF) == oids
                if refused % 10 == 0:
                    with pytest.raises(Unavailable, match="No space left"):
                        store.flush()
        with GitStore.open(git_dir, flush_on_close=False) as other:
            assert line(other, LEAF) == oids
        ballast.unlink()
        for _ in range(5):
            oids.append(append(store, chance.randbytes(entry_bytes).hex()))
        store.flush()
        assert (store.last_flush_error, store.pending) == (None, 0)
        assert line(store, LEAF) == oids
        assert_kept(store, {LEAF: oids})
        assert_whole(store)
    sound(git_dir)
