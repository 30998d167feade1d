"""Real power cuts: a file system in an image, a paused writer, and a copy of the image that is mounted again.

Mounting replays the file system's journal, as a machine does after a power cut. The copy lacks the data that was only
in memory: the pages that no fsync had written.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faults import shim, work
from faults.invariants import assert_goes_on, assert_kept, assert_whole, sound
from gitsession.api import Store

SIZES = {"ext4": "64M", "xfs": "320M", "btrfs": "160M"}
_QUIET = {"ext4": ["-q", "-F"], "xfs": ["-q", "-f"], "btrfs": ["-q", "-f"]}
_SETTLE_SECONDS = 0.003
_ENTRIES_PER_CUT = 40
"""Maximum number of entries per cut, so that a cut costs the same work on a busy machine."""


def available() -> list[str]:
    """Return the file systems that can be created and mounted on this machine."""
    if os.geteuid() != 0 or not shutil.which("losetup"):
        return []
    return [kind for kind in SIZES if shutil.which(f"mkfs.{kind}")]


@contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    """Mount an image. The test is skipped with a reason if that is not possible."""
    at.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-o", "loop", image, at], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount an image here: {done.stderr.strip()}")
    try:
        yield at
    finally:
        unmount(at)


def unmount(at: Path) -> None:
    """Unmount lazily, because a pack stays open until the store that read it is garbage-collected."""
    subprocess.run(["umount", "--lazy", at], check=True)


def make(kind: str, image: Path, size: str = "") -> None:
    """Create an empty file system in a file."""
    subprocess.run(["truncate", "-s", size or SIZES[kind], image], check=True)
    subprocess.run([f"mkfs.{kind}", *_QUIET[kind], image], check=True, capture_output=True)


class Writer:
    """A process that appends as many entries as it is granted, and the acknowledgements that it has printed."""

    def __init__(self, git_dir: Path) -> None:
        here = str(Path(__file__).parents[1])
        script = f"from faults import work; work.append_as_granted({str(git_dir)!r})"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *sys.path])}
        self._process = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self.told: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def grant(self, entries: int) -> None:
        """Let the process append more entries, and wait for the first one."""
        before = len(self.told)
        assert self._process.stdin
        self._process.stdin.write(f"{entries}\n".encode())
        self._process.stdin.flush()
        while len(self.told) <= before:
            assert self._process.poll() is None, "the writer ended by itself"
            time.sleep(0.001)

    def acknowledged(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for row in list(self.told):
            ref, oid = row.split()
            found.setdefault(ref, []).append(oid)
        return found

    def stop(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)
        time.sleep(_SETTLE_SECONDS)

    def go_on(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout
        for row in self._process.stdout:
            self.told.append(row.decode())


def cuts(kind: str, count: int, *, seed: int = 0) -> Iterator[int]:
    """Cut the power ``count`` times under one writer. Yield the number of acknowledged entries found after each cut."""
    chance = random.Random(seed)
    place = Path(shim.scratch())
    try:
        make(kind, place / "image")
        taken: list[tuple[Path, dict[str, list[str]]]] = []
        with mounted(place / "image", place / "disk") as disk:
            work.prepare(disk / "store.git")
            writer = Writer(disk / "store.git")
            try:
                for number in range(count):
                    writer.grant(_ENTRIES_PER_CUT)
                    time.sleep(chance.uniform(0.004, 0.05))
                    writer.stop()
                    acknowledged = writer.acknowledged()
                    copy = place / f"cut.{number}"
                    subprocess.run(["cp", "--sparse=always", place / "image", copy], check=True)
                    writer.go_on()
                    taken.append((copy, acknowledged))
            finally:
                writer.kill()
        for copy, acknowledged in taken:
            yield _judged(copy, place / "after", acknowledged)
            copy.unlink()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _judged(image: Path, at: Path, acknowledged: dict[str, list[str]]) -> int:
    with mounted(image, at) as disk:
        git_dir = disk / "store.git"
        with Store.open(git_dir, clock=lambda: 1) as store:
            kept = assert_kept(store.objects, acknowledged)
            assert_whole(store.objects)
            assert_goes_on(store)
            assert kept == assert_kept(store.objects, acknowledged)
        sound(git_dir)
    return kept
