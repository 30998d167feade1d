"""Sessions of librecode: ``~/.librecode/librecode.db``, or ``.librecode/librecode.db`` of a project.

librecode has no files of sessions: an export gives the rows, one a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gitsession.formats import jsonl, librecode_file
from gitsession.formats.databases import Ask, Columns, Stamp
from gitsession.formats.jsonl import Failure
from gitsession.formats.librecode_file import AGENT
from gitsession.formats.librecode_headline import headline_of
from gitsession.formats.librecode_view import entry_of
from gitsession.formats.librecode_write import write
from gitsession.formats.places import Root
from gitsession.formats.record import Source
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
TABLES: Sequence[str] = librecode_file.TABLES


def claims(head: bytes) -> bool:
    """Lines of ours: a session by librecode's names for its columns."""
    first = head.partition(b"\n")[0]
    if b'"session"' not in first or b'"created_at"' not in first:
        return False
    line = jsonl.parse(first)
    return not isinstance(line, Failure) and line.get("type") == "session" and "timestamp" not in line


def split(data: bytes, *, name: str = "", final: bool = False) -> Source:
    return librecode_file.split(data, final=final)


def holds(columns: Columns) -> bool:
    return librecode_file.holds(columns)


def listed(ask: Ask, columns: Columns) -> Iterator[tuple[str, Stamp]]:
    return librecode_file.listed(ask, columns)


def session(ask: Ask, columns: Columns, id: str, *, final: bool = False) -> Source:
    return librecode_file.session(ask, columns, id, final=final)


def headline(payload: bytes) -> Headline:
    return headline_of(payload)


def read(payload: bytes) -> Entry:
    return entry_of(payload)
