"""The reflog of ``main``, in which each flush writes the values that it gave to branches of sessions.

git keeps what a reflog names: after `git branch -D` a collection leaves the entries in the store, and `repair`
gets them back by the record of values (store/flush_record.py). The reflog of the branch itself would be of no use:
git deletes it with the branch. ``main`` is in every store, and no command deletes it.

A flush appends under the store's lock. Nothing waits for the disk: without a line, an entry is as safe as in any
repository of git. A purge removes all reflogs; the flush that finds none begins with the branches that are there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from gitsession.durable import read_regular, replace, write_all
from gitsession.git.types import RefValue
from gitsession.store import create, refs

FILE = f"logs/{create.MAIN}"

_EXPIRES_NEVER = 4102444800
"""The time of each line, in Unix seconds: 2100. `git gc` drops what a reflog has of more than 30 days ago."""

_BYTES_MAX = 1 << 20
"""Each time the file has grown by so much, only the last line of each branch is kept."""


def append(git_dir: Path, moved: Mapping[str, RefValue | None], there: Callable[[], Mapping[str, RefValue]]) -> None:
    """Write the values of ``moved``; in a new file first those of ``there``, the branches. Raises ``OSError``."""
    path = git_dir / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(fd).st_size
        values = moved if size else {**there(), **moved}
        text = "".join(_line(name, value) for name, value in values.items() if value and _is_kept(name, value))
        torn = "\n" if size and os.pread(fd, 1, size - 1) != b"\n" else ""
        write_all(fd, f"{torn}{text}".encode(), size)
    finally:
        os.close(fd)
    if size // _BYTES_MAX != (size + len(text)) // _BYTES_MAX:
        _shorten(path)


def _is_kept(name: str, value: RefValue) -> bool:
    return name.startswith((refs.SESSIONS, refs.TRASH)) and refs.target(value) is None


def _line(name: str, value: RefValue) -> str:
    return f"{value} {value} gitsession <gitsession@localhost> {_EXPIRES_NEVER} +0000\tflush: {name}\n"


def _shorten(path: Path) -> None:
    """Leave the last line of each branch."""
    last: dict[bytes, bytes] = {}
    for line in (read_regular(path) or b"").splitlines(keepends=True):
        last[line.rpartition(b"\t")[2]] = line
    replace(path, b"".join(last.values()), by=path.with_suffix(".gitsession-tmp"))
