"""Byte counts of network transfers: git runs a replacement of ssh that counts the bytes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_RELAY = """\
import os, subprocess, sys, threading

child = subprocess.Popen(sys.argv[-1], shell=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
counts = [0, 0]

def carry(number, source, take, give, end):
    while data := take(source, 1 << 16):
        counts[number] += len(data)
        while data:
            data = data[give(data):]
    end()

up = threading.Thread(
    target=carry, daemon=True,
    args=(0, 0, os.read, lambda data: os.write(child.stdin.fileno(), data), child.stdin.close))
up.start()
carry(1, child.stdout.fileno(), os.read, lambda data: os.write(1, data), lambda: None)
with open(os.environ["GITSESSION_WIRE"], "a") as log:
    log.write(f"{counts[0]} {counts[1]}\\n")
os._exit(child.wait())
"""


class Bytes(NamedTuple):
    """Bytes sent to the server (``up``) and received from it (``down``)."""

    up: int
    down: int


@contextmanager
def counted(folder: Path) -> Iterator[Callable[[], Bytes]]:
    """Replace git's ssh in the ``with`` block. Yield a function that returns the bytes since its last call."""
    relay, log = folder / "relay.py", folder / "wire.log"
    relay.write_text(_RELAY)
    log.touch()
    told = {
        "GIT_SSH_COMMAND": f"'{sys.executable}' '{relay}'",
        "GIT_SSH_VARIANT": "ssh",
        "GITSESSION_WIRE": str(log),
    }
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)

    def since() -> Bytes:
        rows = [line.split() for line in log.read_text().splitlines()]
        log.write_text("")
        return Bytes(sum(int(row[0]) for row in rows), sum(int(row[1]) for row in rows))

    try:
        yield since
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
