"""Sessions of opencode: ``~/.local/share/opencode/opencode.db`` since 1.2, folders of JSON before; and its exports.

However a session is read, its records are the same (docs/decisions/0015).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gitsession.formats.base.databases import Ask, Columns, Stamp
from gitsession.formats.base.histories import Noted
from gitsession.formats.base.outgoing import Outgoing
from gitsession.formats.base.places import Root, Workspace
from gitsession.formats.base.record import Source
from gitsession.formats.opencode import files as opencode_files
from gitsession.formats.opencode import parse, paths, rows, subagents
from gitsession.formats.opencode import write as opencode_write
from gitsession.formats.opencode.headline import headline_of
from gitsession.formats.opencode.messages import AGENT
from gitsession.formats.opencode.view import entry_of
from gitsession.model.entries import Entry, Session
from gitsession.model.headline import Headline

__all__ = [
    "AGENT", "BETWEEN", "FILES", "FORM", "RECORDED", "ROOTS", "TABLES", "began", "called", "claims", "copies",
    "from_folders", "headline", "holds", "is_delegated", "is_info", "join", "lies", "listed", "moved", "noted", "place",
    "read", "resume_command", "session", "split", "take_in_command", "write",
]  # fmt: skip

FORM = "json"
BETWEEN = b""
ROOTS: Sequence[Root] = (
    Root(".local/share", "opencode/storage/session/*/ses_*.json", "XDG_DATA_HOME"),
    Root(".local/share", "opencode/opencode*.db", "XDG_DATA_HOME"),
)
"""The folders first: opencode left them as they were when it moved to the database, which so has the last word."""

FILES: Sequence[str] = ("*.json", "*.db")
TABLES: Sequence[str] = rows.TABLES
RECORDED = "recorded by opencode"


def claims(head: bytes) -> bool:
    """An export, or the description of a session in the folders of old."""
    return parse.is_document(head) or parse.is_info(head)


def is_info(head: bytes) -> bool:
    """Whether it is the description of a session, whose messages lie elsewhere."""
    return parse.is_info(head)


def split(data: bytes, *, name: str = "", final: bool = False) -> Source:
    return parse.split(data, final=final)


def join(header: bytes, payloads: Sequence[bytes], tail: bytes) -> bytes:
    return parse.join(header, payloads, tail)


def from_folders(
    info: bytes, files: Mapping[str, bytes], parts: Mapping[str, Mapping[str, bytes]], *, final: bool = False
) -> Source:
    return parse.from_folders(info, files, parts, final=final)


def holds(columns: Columns) -> bool:
    return rows.holds(columns)


def listed(ask: Ask, columns: Columns) -> Iterator[tuple[str, Stamp]]:
    return rows.listed(ask, columns)


def session(ask: Ask, columns: Columns, id: str, *, final: bool = False) -> Source:
    return rows.session(ask, columns, id, final=final)


def began(payload: bytes, id: str, beside: Mapping[str, bytes]) -> str:
    return subagents.began(payload, id, beside)


def is_delegated(source_id: str, header: Session) -> bool:
    return header.parent is not None  # a fork states no parent


def copies(name: str, source: Source) -> Sequence[str]:
    return opencode_files.copies(name, source)


def noted(source: Source) -> Iterable[Noted]:
    return opencode_files.noted(source)


def headline(payload: bytes) -> Headline:
    return headline_of(payload)


def read(payload: bytes) -> Entry:
    return entry_of(payload)


def write(out: Outgoing) -> opencode_write.Export:
    return opencode_write.write(out)


def called(id: str) -> str:
    return paths.session_id(id)


def place(header: Session, at: Workspace) -> str:
    return paths.place(header)


def lies(header: Session, at: Workspace) -> Sequence[str]:
    """Nowhere: opencode has files of its own only in its database."""
    return ()


def moved(data: bytes, id: str, cwd: str) -> bytes:
    return paths.moved(data, paths.session_id(id), cwd)


def take_in_command(file: str) -> list[str]:
    return ["opencode", "import", file]


def resume_command(source_id: str, file: str = "") -> list[str]:
    """What goes on with a session that was taken in, with the model that its last turn names."""
    return ["opencode", "--session", paths.session_id(source_id)]
