"""Agents' own bytes: one module per agent, one protocol, one table. Pure: no store, no clock, no files.

A session's records are kept verbatim; what they mean is a *view* (``read``), computed when asked for and free to get
better. What a record's commit message says (``headline``) is frozen under a view number, because it is part of an oid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeGuard

from gitsession.formats import aider, claude, codex, librecode, omp, opencode, pi
from gitsession.formats.databases import Database
from gitsession.formats.outgoing import Leaving, Outgoing, Written
from gitsession.formats.places import Beside, Root, Workspace
from gitsession.formats.record import Problem, Record, Source
from gitsession.model.entries import Entry, Session
from gitsession.model.headline import Headline

__all__ = [
    "DATABASES", "FORMATS", "IMPORTING", "RESUMABLE", "Beside", "Database", "Document", "Format", "Importing",
    "Leaving", "Outgoing", "Problem", "Record", "Resumable", "Root", "Source", "Workspace", "Written", "claimed",
    "is_document",
]  # fmt: skip


class Format(Protocol):
    """What a module of this folder offers."""

    AGENT: str
    FORM: str
    """The ending of the payload's name in an entry's tree: ``jsonl`` for ``entry.jsonl``."""

    BETWEEN: bytes
    """What stands between two payloads in the agent's file: a line end, or nothing."""

    ROOTS: Sequence[Root]
    """Where the agent keeps its sessions."""

    FILES: Sequence[str]
    """What the agent's files are called (``fnmatch``), for folders that a user names."""

    def claims(self, head: bytes) -> bool:
        """Whether a file that begins with ``head`` (64 KiB of it) is a session of this agent."""

    def split(self, data: bytes, *, name: str = "", final: bool = False) -> Source:
        """Take a file apart. ``name``: the file's place (POSIX) without its ending, for a file that states no id.

        ``final``: the file is closed, take the bytes after its last line end too. Raises ``Malformed`` where there is
        no session at all; a bad line is a problem in the report, never an error.
        """

    def beside(self, data: bytes, name: str) -> Sequence[Beside]:
        """The files that belong to the session of ``data`` and lie beside its own, whose place is ``name``."""

    def headline(self, payload: bytes) -> Headline:
        """What the commit message says of ``payload``: frozen under view 1. Never raises."""

    def read(self, payload: bytes) -> Entry:
        """What ``payload`` means, as well as this release knows. Never raises: ``Opaque`` and ``Unknown``."""

    def write(self, out: Outgoing) -> Written:
        """A session as a file that the agent opens at the leaf. The same in, the same out. Never raises."""


class Document(Format, Protocol):
    """What the module of an agent offers besides whose form is ``json``: its files are no lines, but laid out anew."""

    def join(self, header: bytes, payloads: Sequence[bytes], tail: bytes) -> bytes:
        """The file, of the session itself (line 0), its records or what stands for them, and what waits."""


def is_document(format: Format) -> TypeGuard[Document]:
    return format.FORM == "json"


class Resumable(Format, Protocol):
    """What a module offers besides whose agent goes on with a file of ours."""

    def called(self, id: str) -> str:
        """What the agent calls the session that goes by ``id`` here: that, or what follows from it."""

    def place(self, header: Session, at: Workspace) -> str:
        """Where the file of the session of ``header`` (its id and start) goes: below the first of ``ROOTS``.

        Of an agent without ``ROOTS``, which keeps its sessions with the project: below the folder itself.
        """

    def lies(self, header: Session, at: Workspace) -> Sequence[str]:
        """Globs, also below that, for the places where the agent itself may have put the file of this session."""

    def moved(self, data: bytes, id: str, cwd: str) -> bytes:
        """The agent's file ``data`` as that of session ``id`` in ``cwd``: of its lines only the header is touched."""

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        """What goes on with the session, run in its folder. ``file``: where it was put."""


class Importing(Resumable, Protocol):
    """What a module offers besides whose agent keeps its sessions in a database, and takes one in from a file.

    ``place`` then is one of ours, and nothing lies elsewhere: its database is looked at instead.
    """

    def take_in_command(self, file: str) -> list[str]:
        """What makes the export ``file`` a session of the agent's in the folder where it is run."""


FORMATS: dict[str, Format] = {
    "aider": aider, "claude": claude, "codex": codex, "librecode": librecode, "omp": omp, "opencode": opencode,
    "pi": pi,
}  # fmt: skip
"""In the order in which they are asked: the pickier first."""

DATABASES: dict[str, Database] = {"librecode": librecode, "opencode": opencode}
"""Of ``FORMATS``, those whose agent keeps its sessions in a database."""

RESUMABLE: dict[str, Resumable] = {
    "aider": aider, "claude": claude, "codex": codex, "omp": omp, "opencode": opencode, "pi": pi,
}  # fmt: skip
"""Of ``FORMATS``, those whose agent goes on with a file of ours."""

IMPORTING: dict[str, Importing] = {"opencode": opencode}
"""Of ``RESUMABLE``, those that take the file into a database of their own first."""


def claimed(head: bytes) -> Format | None:
    """The format of a file that begins with ``head``, or ``None`` if no agent of ours wrote it."""
    return next((format for format in FORMATS.values() if format.claims(head)), None)
