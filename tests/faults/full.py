"""Small disks for tests that fill them."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from raw import LEAF, append

from faults import powercut, shim
from faults.invariants import assert_kept, assert_whole, line, sound
from gitsession.errors import Unavailable
from gitsession.store.create import create
from gitsession.store.git_store import GitStore


@contextmanager
def tmpfs(size: str) -> Iterator[Path]:
    """Mount a tmpfs. The test is skipped with a reason if that is not possible."""
    place = Path(shim.scratch())
    try:
        if os.geteuid() != 0:
            pytest.skip("mounting a small disk wants root")
        words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"cannot mount a small disk here: {done.stderr.strip()}")
        try:
            yield place
        finally:
            powercut.unmount(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def ext4(size: str) -> Iterator[Path]:
    """Mount an ext4 file system from an image. The test is skipped with a reason if that is not possible."""
    if "ext4" not in powercut.available():
        pytest.skip("a disk in an image wants root, losetup and mkfs.ext4")
    place = Path(shim.scratch())
    try:
        powercut.make("ext4", place / "image", size)
        with powercut.mounted(place / "image", place / "disk") as disk:
            yield disk
    finally:
        shutil.rmtree(place, ignore_errors=True)


DISKS = {"tmpfs": tmpfs, "ext4": ext4}


SIZES = {"tmpfs": ("2m", 1_200_000), "ext4": ("4M", 2_200_000)}
"""Sizes of the disk and of the file that is removed at the end. A flush needs the compressed size of the journal."""

FAILURES = 50


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
        store._writer._due_at = (40, 1 << 20)
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
