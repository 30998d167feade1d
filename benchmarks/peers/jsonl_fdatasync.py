"""The lower bound: a line of JSON at the end of a file, and ``fdatasync``.

There are no ids, no branches and no checks on reading.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.data import Said
from benchmarks.peers.peer import Append, Peer


@contextmanager
def opened(place: Path) -> Iterator[Append]:
    fd = os.open(place / "peer.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def append(said: Said) -> None:
        os.write(fd, json.dumps(said.plain).encode() + b"\n")
        os.fdatasync(fd)

    try:
        yield append
    finally:
        os.close(fd)


PEERS = (Peer("JSONL and fdatasync", opened),)
