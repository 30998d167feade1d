"""Sessions of librecode: ``~/.librecode/librecode.db``, or ``.librecode/librecode.db`` of a project.

librecode has no files of sessions: an export gives the rows, one a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gitsession.formats.base import jsonl
from gitsession.formats.base.databases import Ask, Columns, Stamp
from gitsession.formats.base.jsonl import Failure
from gitsession.formats.base.places import Root
from gitsession.formats.base.record import Source
from gitsession.formats.librecode import parse
from gitsession.formats.librecode.headline import headline_of
from gitsession.formats.librecode.parse import AGENT
from gitsession.formats.librecode.view import entry_of
from gitsession.formats.librecode.write import write
from gitsession.model.entries import Entry
from gitsession.model.headline import Headline

__all__ = [
    "AGENT", "BETWEEN", "FILES", "FORM", "ROOTS", "TABLES", "claims", "headline", "holds", "listed", "read",
    "session", "split", "write",
]  # fmt: skip

FORM = "jsonl"
BETWEEN = b"\n"
ROOTS: Sequence[Root] = (Root(".librecode", "librecode.db", "LIBRECODE_HOME"),)
FILES: Sequence[str] = ("*.db", "*.jsonl")
TABLES: Sequence[str] = parse.TABLES


def claims(head: bytes) -> bool:
    """Lines of ours: a session by librecode's names for its columns."""
    first = head.partition(b"\n")[0]
    if b'"session"' not in first or b'"created_at"' not in first:
        return False
    line = jsonl.parse(first)
    return not isinstance(line, Failure) and line.get("type") == "session" and "timestamp" not in line


def split(data: bytes, *, name: str = "", final: bool = False) -> Source:
    return parse.split(data, final=final)


def holds(columns: Columns) -> bool:
    return parse.holds(columns)


def listed(ask: Ask, columns: Columns) -> Iterator[tuple[str, Stamp]]:
    return parse.listed(ask, columns)


def session(ask: Ask, columns: Columns, id: str, *, final: bool = False) -> Source:
    return parse.session(ask, columns, id, final=final)


def headline(payload: bytes) -> Headline:
    return headline_of(payload)


def read(payload: bytes) -> Entry:
    return entry_of(payload)
