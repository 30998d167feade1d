"""Fsync counts, including the fsyncs of C libraries, from a separate run that is not timed.

A process with the preloaded library of the tests (tests/faults/fi.c) logs every call that changes a file below a
folder. The process counts ``fsync`` and ``fdatasync`` in its own log.
"""

from __future__ import annotations

import functools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.data import messages
from benchmarks.peers import OURS, PEERS
from gitsession import Message, Store

FEW, ALL_IN = 128, 512
ROOT = Path(__file__).resolve().parents[1]

_CONTROL = "8q4032s"
_ONLY_LOG = (0, 0, 0, 0, 0, 0, 1, 0)
"""``struct control`` of fi.c: no call fails, and all calls are logged, without their bytes."""


def of_append(peer: str) -> tuple[float, float] | None:
    """Return the fsyncs per entry over 128 entries, and over 512 entries including the flushes that are due.

    Returns ``None`` if they cannot be counted.
    """
    return _counted("append", peer)


def of_flush(sessions: int) -> float | None:
    """Return the fsyncs of one flush of an entry in each of ``sessions`` existing sessions."""
    counted = _counted("flush", str(sessions))
    return None if counted is None else counted[0]


def _counted(what: str, argument: str) -> tuple[float, float] | None:
    shim = _shim()
    if shim is None:
        return None
    with tempfile.TemporaryDirectory(prefix="gitsession-bench-") as place:
        control = Path(place) / "control"
        root = Path(place) / "work"
        root.mkdir()
        control.write_bytes(struct.pack(_CONTROL, *_ONLY_LOG, os.fsencode(f"{root}/")))
        environment = {**os.environ, "LD_PRELOAD": str(shim), "FI_CONTROL": str(control)}
        command = [sys.executable, "-m", "benchmarks.fsyncs", what, argument, str(root)]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        few, all_in = map(float, done.stdout.split())
        return few, all_in


@functools.cache
def _shim() -> Path | None:
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return None
    built = Path(tempfile.mkdtemp(prefix="gitsession-bench-")) / "fi.so"
    source = ROOT / "tests/faults/fi.c"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(built), str(source), "-ldl"]
    return built if subprocess.run(command, capture_output=True, check=False).returncode == 0 else None


# ---- code of the counted process


def _main(what: str, argument: str, place: str) -> None:
    work = {"append": _append, "flush": _flush}[what]
    print(*work(argument, Path(place), lambda: _so_far(Path(os.environ["FI_CONTROL"] + ".log"))))


def _so_far(log: Path) -> int:
    return sum(call.startswith(("fsync\t", "fdatasync\t")) for call in log.read_text().splitlines())


def _append(peer: str, place: Path, so_far: Callable[[], int]) -> tuple[float, float]:
    with {**OURS, **PEERS}[peer].open(place) as append:
        for said in messages()[:8]:
            append(said)
        begun, found = so_far(), []
        for number, said in enumerate(messages()[8 : 8 + ALL_IN], 1):
            append(said)
            if number in (FEW, ALL_IN):
                found.append((so_far() - begun) / number)
        few, all_in = found
        return few, all_in


def _flush(sessions: str, place: Path, so_far: Callable[[], int]) -> tuple[float, float]:
    with Store.create(place / "store.git") as store:
        held = [store.new_session(agent="bench") for _ in range(int(sessions))]
        for session in held:
            session.append(Message.user("begin"))
        store.flush()
        for session in held:
            session.append(Message.user("go on"))
        before = so_far()
        store.flush()
        return so_far() - before, so_far() - before


if __name__ == "__main__":
    _main(*sys.argv[1:])
