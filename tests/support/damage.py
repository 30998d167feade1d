"""Named kinds of damage to a file, and a child process that reads damaged files.

A reader of damaged files can crash, hang or exhaust the memory. It therefore runs in a forked child with limits, and
reports its progress to the parent.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Change = Callable[[bytes], bytes]

HANG_SECONDS = 120.0
"""Duration in seconds after which a call counts as hung. A call on a busy machine takes less."""


def flipped(data: bytes, bit: int) -> bytes:
    at = bit // 8 % max(len(data), 1)
    return data[:at] + bytes([data[at] ^ 1 << bit % 8]) + data[at + 1 :] if data else b"\0"


def zeroed(data: bytes, at: int, length: int = 512) -> bytes:
    return data[:at] + bytes(len(data[at : at + length])) + data[at + length :]


def changes(data: bytes, other: bytes, chance: random.Random, many: int) -> Iterator[tuple[str, Change]]:
    """Yield about ``many`` changes that damage a file with content ``data``.

    Args:
        other: Content of another file of the same kind.
    """
    yield "empty", lambda _: b""
    yield "swapped", lambda _: other
    yield "longer", lambda old: old + b"\0" * 100
    yield "garbage", lambda old: chance.randbytes(len(old))
    for _ in range(many // 6):
        cut = chance.randrange(len(data))
        yield f"cut at {cut}", lambda old, cut=cut: old[:cut]
    for _ in range(many // 6):
        at = chance.randrange(len(data))
        yield f"zeroed at {at}", lambda old, at=at: zeroed(old, at)
    for _ in range(many - 2 * (many // 6) - 4):
        # Half of the flips are in the first bytes, which hold headers, counts and sizes.
        bit = chance.randrange(min(len(data), 64) * 8 if chance.random() < 0.5 else len(data) * 8)
        yield f"bit {bit} flipped", lambda old, bit=bit: flipped(old, bit)


def in_child(work: Callable[[Callable[[object], None]], None], *, memory: int = 1 << 30) -> list[Any]:
    """Return the objects that ``work`` reported.

    Raises:
        AssertionError: ``work`` crashed, hung or raised.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_AS, (_used() + memory, resource.RLIM_INFINITY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.alarm(2 * int(HANG_SECONDS))
            with os.fdopen(write, "w") as told:
                work(lambda value: _tell(told, value))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as told:
        lines = [json.loads(line) for line in told]
    _, status = os.waitpid(pid, 0)
    assert os.WIFEXITED(status), f"ended by signal {os.WTERMSIG(status)} after {lines[-1:]}"
    assert os.WEXITSTATUS(status) == 0, f"failed after {lines[-1:]}"
    return lines


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file by one of the same name with other bytes. The new inode prevents use of cached data."""
    aside = path.with_name(path.name + ".damage")
    aside.write_bytes(data)
    os.replace(aside, path)


def without(path: Path, *oids: str) -> None:
    """Unpack all objects of a repository and delete those with ``oids``."""
    bodies = [file.read_bytes() for file in path.glob("objects/pack/*.pack")]
    for file in path.glob("objects/pack/*"):
        file.unlink()
    for body in bodies:
        subprocess.run(["git", f"--git-dir={path}", "unpack-objects", "-q"], input=body, check=True)
    for oid in oids:
        os.unlink(path / f"objects/{oid[:2]}/{oid[2:]}")


class Watch:
    """A context manager that raises ``AssertionError`` if its block takes longer than ``HANG_SECONDS``."""

    def __enter__(self) -> None:
        self._start = time.monotonic()

    def __exit__(self, *_: object) -> None:
        assert time.monotonic() - self._start < HANG_SECONDS, "hung"


def _tell(told: Any, value: object) -> None:
    told.write(json.dumps(value) + "\n")
    told.flush()


def _used() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


KEPT = {
    "a loose object": "objects/[0-9a-f][0-9a-f]/*",
    "a pack": "objects/pack/*.pack",
    "an index of a pack": "objects/pack/*.idx",
    "the multi-pack-index": "objects/pack/multi-pack-index",
    "the commit-graph": "objects/info/commit-graph",
    "a loose ref": "refs/heads/sessions/*/main",
    "packed-refs": "packed-refs",
}
"""Patterns of the kinds of files in a store."""
