"""Small disks, to be filled."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faults import powercut, shim


@contextmanager
def tmpfs(size: str) -> Iterator[Path]:
    """Skips the test, and says why, where nothing can be mounted."""
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
    """The same on a disk in an image."""
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
