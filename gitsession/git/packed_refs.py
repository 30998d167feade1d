"""The text of ``packed-refs``: refs taken out, and refs put in. Bytes in, bytes out.

A line is ``<oid> <name>``; below an annotated tag stands ``^<oid>``, what it leads to. What we put in are commits and
need no such line, so the header's word that all tags have theirs stays true.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from gitsession.errors import Corrupt
from gitsession.git.types import Oid

FILE = "packed-refs"

_LINE = re.compile(rb"[0-9a-f]{40} refs/[^\x00-\x20\x7f]+\n|\^[0-9a-f]{40}\n")
_HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"
_HEADER_UNPEELED = b"# pack-refs with: sorted \n"


def is_line(line: bytes) -> bool:
    """Whether ``line``, with its end, is one that git could have written, the header aside."""
    return _LINE.fullmatch(line) is not None


def values(data: bytes) -> dict[str, Oid]:
    """What each ref holds. Raises ``Corrupt``."""
    return {name: lines[:40].decode() for name, lines in _parts(data)[1]}


def changed(data: bytes, *, put: Mapping[str, Oid] | None = None, drop: Collection[str] = ()) -> bytes:
    """``data`` without ``drop`` and with ``put``, sorted by name; under a header of ours where it had none.

    Raises ``Corrupt`` where a line is damaged: what it says must not be lost, nor join the next one.
    """
    header, rows = _parts(data)
    rows = [(name, lines) for name, lines in rows if name not in drop and name not in (put or {})]
    rows += [(name, f"{oid} {name}\n".encode()) for name, oid in (put or {}).items()]
    rows.sort(key=lambda row: row[0].encode("utf-8", "surrogateescape"))
    return (header or (b"" if data else _HEADER)) + b"".join(lines for _, lines in rows)


def rebuilt(data: bytes, put: Mapping[str, Oid]) -> bytes:
    """A new file of ``put`` and of the good lines of ``data``, which is damaged; not of what its tags lead to."""
    good = [line for line in data.splitlines(keepends=True) if is_line(line) and not line.startswith(b"^")]
    return changed(_HEADER_UNPEELED + b"".join(good), put=put)


def _parts(data: bytes) -> tuple[bytes, list[tuple[str, bytes]]]:
    """The header, and each name with its lines."""
    header = b""
    rows: list[tuple[str, bytes]] = []
    for line in data.splitlines(keepends=True):
        if line.startswith(b"#"):
            header += line
        elif not is_line(line):
            raise Corrupt(f"{FILE} holds a line that is no ref's: {line[:60]!r}", hint="`gitsession repair` mends it")
        elif line.startswith(b"^") and rows:
            rows[-1] = (rows[-1][0], rows[-1][1] + line)
        else:
            rows.append((line[41:].rstrip(b"\n").decode("utf-8", "surrogateescape"), line))
    return header, rows
