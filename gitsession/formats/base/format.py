"""The classes that an agent's format derives from: ``Format``, and one per capability that only some agents have.

They hold no state. ``formats.with_capability`` returns the format of an agent if it has a capability. Before them: the
places of an agent's files, as values that ``discovery`` looks up, and the queries of agents with a ``Database``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from gitsession.errors import Malformed
from gitsession.formats.base.file_changes import RecordedChange
from gitsession.formats.base.jsonl import Data
from gitsession.formats.base.outgoing import Outgoing, WrittenFile
from gitsession.formats.base.record import Source
from gitsession.model.entries import Entry, SessionHeader
from gitsession.model.headline import Headline
from gitsession.model.usage import AnswerUsage


class Workspace(NamedTuple):
    """The folder that a session is to go on in: absolute, without links in it, as the other two are.

    ``home``: the user's home directory; ``temporary``: where this machine keeps what is temporary.
    """

    cwd: str
    home: str = ""
    temporary: str = ""


class Sidecar(NamedTuple):
    """A file that belongs to a session and lies beside its own.

    ``name``: what entries call it, and what it is kept under. ``places``: where it can be, relative to the folder of
    the session file; the first that is there counts. ``sha256``: what it must hash to, in hexadecimal; "" if anything
    will do. ``needed``: whether to say so where it is not there. ``home``: where the agent looks for it when it resumes
    the session, below the first of its ``formats.ROOTS``; "" if nowhere.
    """

    name: str
    places: Sequence[str]
    sha256: str = ""
    needed: bool = True
    home: str = ""


Row: TypeAlias = Sequence[Any]
Columns: TypeAlias = Mapping[str, Collection[str]]
"""The columns of each table that may be read."""

Ask: TypeAlias = Callable[[str, Sequence[object]], Iterator[Row]]
"""One SELECT, with its values. Text that is not UTF-8 comes with replacement characters."""


class Stamp(NamedTuple):
    """What changes when a session in a database does; named as in ``os.stat_result``, with which it is compared.

    ``st_size``: how many rows it has. ``st_mtime_ns``: when the newest was written. ``st_ino``: a sum over all of them.
    """

    st_size: int
    st_mtime_ns: int
    st_ino: int


UNKNOWN = Stamp(-1, 0, 0)
"""Of a session that could not be looked at: no other one is equal to what is seen of it when it can."""

WHOLE_MASK = (1 << 62) - 1
"""What keeps a number of any size one that SQLite can hold."""


def picked(names: Sequence[str], there: Collection[str]) -> str:
    """A list of columns for a SELECT, ``NULL`` for one that this version of the agent does not have yet."""
    return ", ".join(f'"{name}"' if name in there else f'NULL AS "{name}"' for name in names)


def summed(column: str) -> str:
    """A sum over a column for a SELECT, which no value in it makes fail or a fraction."""
    return f"coalesce(sum(CAST({column} AS INTEGER) % {1 << 40}), 0)"


def rows_of(ask: Ask, query: str) -> tuple[list[Row], Malformed | None]:
    """The rows of a SELECT; where the database is damaged, those before the damage, and what is to be said of it."""
    found: list[Row] = []
    try:
        found.extend(ask(query, ()))
    except Malformed as error:
        return found, error
    return found, None


class Format(ABC):
    """The session files of one agent."""

    AGENT: str
    FORM = "jsonl"
    """The ending of the payload's name in an entry's tree: ``jsonl`` for ``entry.jsonl``."""

    BETWEEN = b"\n"
    """The bytes between two payloads in the agent's file: a line end, or nothing."""

    FILES: Sequence[str] = ("*.jsonl",)
    """The names of the agent's files (``fnmatch``), for folders that a user names."""

    @abstractmethod
    def claims(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` (64 KiB of it) is a session of this agent."""

    @abstractmethod
    def split(self, data: bytes, *, name: str = "", final: bool = False) -> Source:
        """Split a file into its records. ``name``: its path (POSIX) without the ending, for a file that states no id.

        ``final``: the file is closed, take the bytes after its last line end too. Raises ``Malformed`` if there is no
        session at all; a bad line is a problem in the report, never an error.
        """

    @abstractmethod
    def headline(self, payload: bytes) -> Headline:
        """Return the headline of the commit message of ``payload``: frozen under view 1. Never raises."""

    @abstractmethod
    def read(self, payload: bytes) -> Entry:
        """Return the meaning of ``payload``, as far as this release knows. Never raises: ``Opaque``,
        ``UnknownEntry``."""

    @abstractmethod
    def write(self, out: Outgoing) -> WrittenFile:
        """Return a session as a file that the agent opens at the leaf. Deterministic. Never raises."""


class Document(Format):
    """A format whose files are one JSON document each, not lines."""

    FORM = "json"
    BETWEEN = b""

    @abstractmethod
    def join(self, header: bytes, payloads: Sequence[bytes], tail: bytes) -> bytes:
        """Return the file of the session itself (line 0), its records or what stands for them, and what waits."""


class Streamed(Format):
    """A format that can split a file too large to hold in memory."""

    @abstractmethod
    def split(self, data: Data, *, name: str = "", final: bool = False) -> Source:
        """``Format.split``. The records of a stored file read their payloads when they are asked for them."""


class Database(Format):
    """A format whose agent keeps its sessions in an SQLite database.

    ``discovery.databases`` opens the file. It lets a format read only ``TABLES``: credentials lie in the same file.
    """

    TABLES: Sequence[str]

    @abstractmethod
    def holds(self, columns: Columns) -> bool:
        """Return whether a database with these tables is this agent's."""

    @abstractmethod
    def listed(self, ask: Ask, columns: Columns) -> Iterator[tuple[str, Stamp]]:
        """Yield the ids of its sessions, the oldest first."""

    @abstractmethod
    def session(self, ask: Ask, columns: Columns, id: str, *, final: bool = False) -> Source:
        """Return one session. Raises ``Malformed`` if it is none; a bad row is a problem in the report."""


class Scattered(Format):
    """A format whose agent kept a session as a description, one file per message and one per part."""

    @abstractmethod
    def is_info(self, head: bytes) -> bool:
        """Return whether it is the description of a session, whose messages lie elsewhere."""

    @abstractmethod
    def from_folders(
        self, info: bytes, files: Mapping[str, bytes], parts: Mapping[str, Mapping[str, bytes]], *, final: bool = False
    ) -> Source:
        """Return the session of ``info``: ``files`` of its messages by name, and for each name those of ``parts``."""


class InProject(Format):
    """A format whose agent keeps its sessions with the project."""

    IN_PROJECT: str
    """Its session file, at the top of every repository it was run in."""


class Continuing(Format):
    """A format whose agent has files that continue others, and do not repeat them."""

    @abstractmethod
    def base_of(self, data: bytes) -> str | None:
        """Return the agent's id for the file that ``data`` continues; ``None`` for a file of its own."""

    @abstractmethod
    def place_of(self, data: bytes, segment: str | None) -> str:
        """Return the path of the file ``data`` below the agent's folder. ``segment``: the id of a later file."""


class Accompanied(Format):
    """A format whose agent keeps files beside a session's own."""

    @abstractmethod
    def beside(self, data: Data, name: str) -> Sequence[Sidecar]:
        """Return the files that belong to the session of ``data`` and lie beside its own, whose path is ``name``."""


class Referring(Accompanied):
    """A format whose entries hold the names of such files in place of their content."""

    @abstractmethod
    def resolve(self, payload: bytes, fetch: Callable[[str], bytes | None], substitute: str = "") -> bytes:
        """Return ``payload`` with what ``fetch`` returns for the names in it. Never raises.

        If it returns ``None``, the name stays, or an image block becomes the text ``substitute``.
        """


class Counting(Format):
    """A format whose agent states the token count of an answer apart from the answer."""

    @abstractmethod
    def counts(self, payload: bytes) -> Iterable[AnswerUsage]:
        """Return the counts in the lines of a record, or in those that wait for the next record. Never raises."""


class Delegating(Format):
    """A format whose agent begins sessions of their own from calls in another."""

    @abstractmethod
    def began(self, payload: bytes, id: str, beside: Mapping[str, bytes]) -> str:
        """Return the call that began the session ``id``, if that record of another session names it; else "".

        ``beside``: the files beside that of ``id``, by name.
        """

    @abstractmethod
    def is_delegated(self, source_id: str, header: SessionHeader) -> bool:
        """Return whether the session ``source_id`` of ``header`` is a sub-agent's: a call began it, not the user."""


class Remembering(Format):
    """A format whose agent keeps the content of files from before it changed them."""

    RECORDED: str
    """The reason of a checkpoint made from it."""

    @abstractmethod
    def copies(self, name: str, source: Source) -> Sequence[str]:
        """Return the folders that may hold copies, relative to that of the session's file, whose path is ``name``.

        One at least must be there: an agent without copies names its file's own.
        """

    @abstractmethod
    def noted(self, source: Source) -> Iterable[RecordedChange]:
        """Return what the lines of a session, in the order of its file, say of files. Never raises."""


class Resumable(Format):
    """A format whose agent continues a session from a file that gitsession wrote."""

    def called(self, source_id: str) -> str:
        """Return the agent's id of the session that has ``source_id`` here: that, or one derived from it."""
        return source_id

    @abstractmethod
    def place(self, header: SessionHeader, at: Workspace) -> str:
        """Return the path of the file of the session of ``header`` (its id and start), below its ``formats.ROOTS[0]``.

        If it has no such root, for an agent that keeps its sessions with the project: below the folder itself.
        """

    def lies(self, header: SessionHeader, at: Workspace) -> Sequence[str]:
        """Return globs, also below that, of the paths where the agent itself may have put this session's file."""
        return ()

    @abstractmethod
    def moved(self, data: bytes, id: str, cwd: str) -> bytes:
        """Return the agent's file ``data`` as that of session ``id`` in ``cwd``: only the header line changes."""

    @abstractmethod
    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        """Return the command that continues the session, run in its folder. ``file``: its path."""


class Importing(Resumable):
    """A format whose agent keeps its sessions in a database, and imports one from a file.

    ``place`` is then a path of gitsession's, and ``lies`` is empty: the database is searched instead.
    """

    @abstractmethod
    def take_in_command(self, file: str) -> list[str]:
        """Return the command that imports the export ``file``, run in the session's folder."""
