"""A record of the values that flushes gave to refs. The record shows which refs another program deleted or moved back.

``<store>/gitsession/flushed`` has a line for each ref that a flush moved: ``<journal> <before> <after> <ref>``. The
fields are the number of the oldest journal file that was flushed, the old and the new value of the ref (zeros if the
ref did not exist at that time), and the name of the ref. If ``before`` differs from the ``after`` of the previous line
for that ref, another program moved the ref in between, and the previous ``after`` is remembered, too. This rule does
not apply to two lines with the same journal file and the same ``before``: a flush that was killed wrote the first line,
and the flush that repeated the work wrote the second. A line ``# checked`` means that all values above it were found in
the store. A line ``# purged`` means that a purge has rewritten the values above it.

A flush appends under the store's lock, after it has moved the refs and before it removes the journal files. The file is
not fsynced: a power failure may lose the record of an older value of a ref, but no entry.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from gitsession.dataclass import dataclass
from gitsession.durable import read_regular, replace, write_all
from gitsession.git.types import Oid, RefValue
from gitsession.store import create, refs

FILE = f"{create.CONTROL}/flushed"

_NONE = "0" * 40
CHECKED, PURGED = "# checked", "# purged"
"""Lines after a check that found all values in the store, and after a purge that rewrote the values of refs."""

_HEAD = re.compile(rb"# ([0-9]{12})\n")
_LINE = re.compile(r"([0-9]+) ([0-9a-f]{40}) ([0-9a-f]{40}) (refs/[^\x00-\x20\x7f]+)")
_SPARE_BYTES = 1 << 18
"""The file is rewritten when it has grown to three times its size after the last rewrite plus this number of bytes."""

Moved = Mapping[str, tuple[RefValue | None, RefValue | None]]


@dataclass(slots=True)
class FlushedRefs:
    """The values of refs that the record contains.

    Attributes:
        last: The last value of each ref; ``None`` if the ref was deleted.
        since: As ``last``, but only for refs that a flush has moved since the last check that found all values.
        passed: For each ref, the values that were recorded since the last check that found all values and that another
            program replaced.
    """

    last: dict[str, Oid | None] = field(default_factory=dict)
    since: dict[str, Oid | None] = field(default_factory=dict)
    passed: dict[str, list[Oid]] = field(default_factory=dict)
    before: dict[str, tuple[int, Oid | None]] = field(default_factory=dict)
    """The journal file number and the old value in the last line of each ref."""


def is_recorded(name: str, value: RefValue | None) -> bool:
    """Return whether a flush records ``value`` as the value of the ref ``name``.

    A value is recorded if the ref is a branch, is in the trash, or is the operation log. Symbolic values are not
    recorded.
    """
    if value is not None and refs.target(value) is not None:
        return False
    return name.startswith(("refs/heads/", refs.TRASH)) or name == refs.OPLOG


def append(git_dir: Path, moved: Moved, *, journal: int) -> None:
    """Record the old and new values of the refs in ``moved``. Needs the store's lock. Raises ``OSError``.

    ``journal``: the number of the oldest journal file that is flushed.
    """
    lines = [
        f"{journal} {before or _NONE} {after or _NONE} {name}\n"
        for name, (before, after) in moved.items()
        if is_recorded(name, before) and is_recorded(name, after)
    ]
    if lines:
        _append(git_dir, "".join(lines))


def mark(git_dir: Path, line: str) -> None:
    """Append ``line``, which is ``CHECKED`` or ``PURGED``. Needs the store's lock. Raises ``OSError``."""
    if (git_dir / FILE).exists():
        _append(git_dir, f"{line}\n")


def read(git_dir: Path) -> FlushedRefs:
    """Read the record; skip damaged lines. Raises ``OSError``."""
    found = FlushedRefs()
    for line in (read_regular(git_dir / FILE) or b"").decode("utf-8", "surrogateescape").split("\n"):
        match = _LINE.fullmatch(line)
        if match:
            number, name = int(match[1]), match[4]
            before, after = (None if oid == _NONE else oid for oid in (match[2], match[3]))
            previous, is_again = found.last.get(name), number and found.before.get(name) == (number, before)
            if previous is not None and previous != before and not is_again:
                found.passed.setdefault(name, []).append(previous)
            found.last[name] = found.since[name] = after
            found.before[name] = number, before
        elif line == CHECKED:
            found.since, found.passed = {}, {}
        elif line == PURGED:
            found.passed = {}
    return found


def _append(git_dir: Path, text: str) -> None:
    path = git_dir / FILE
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(fd).st_size
        head = _HEAD.match(os.pread(fd, 16, 0))
        if size > 3 * int(head[1] if head else 0) + _SPARE_BYTES:
            _rewrite(git_dir, text)
            return
        # Begin with a line feed, so that a line torn by a power failure does not corrupt the next one.
        write_all(fd, f"\n{text}".encode("utf-8", "surrogateescape"), size)
    finally:
        os.close(fd)


def _rewrite(git_dir: Path, text: str) -> None:
    """Rewrite the file with one line for each remembered value, followed by ``text``."""
    data = ("\n".join(_lines(read(git_dir))) + f"\n{text}").encode("utf-8", "surrogateescape")
    path = git_dir / FILE
    replace(path, b"# %012d\n" % len(data) + data, by=path.with_suffix(".tmp"))


def _lines(recorded: FlushedRefs) -> Iterator[str]:
    for name in recorded.last.keys() - recorded.since.keys():
        yield _line(recorded, name)
    yield CHECKED
    for name in recorded.since:
        yield from (f"0 {oid} {oid} {name}" for oid in dict.fromkeys(recorded.passed.get(name, ())))
        yield _line(recorded, name)


def _line(recorded: FlushedRefs, name: str) -> str:
    number, before = recorded.before[name]
    return f"{number} {before or _NONE} {recorded.last[name] or _NONE} {name}"
