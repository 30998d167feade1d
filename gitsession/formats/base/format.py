"""Base classes for the formats of agents: ``Format``, and one class for each capability that only some agents have.

These classes have no state. ``formats.with_capability`` returns the format of an agent if the format has a given
capability. This module also defines the types that describe workspaces, sidecar files and database queries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gitsession.errors import Malformed
from gitsession.formats.base.file_changes import RecordedChange
from gitsession.formats.base.jsonl import Data, LineFailure, Object
from gitsession.formats.base.outgoing import Outgoing, WrittenFile
from gitsession.formats.base.record import Source, SplitState
from gitsession.model.entries import Entry, SessionHeader
from gitsession.model.headline import Headline
from gitsession.model.usage import AnswerUsage

if TYPE_CHECKING:
    from gitsession.model.session_state import StateChanges


class Workspace(NamedTuple):
    """A folder in which an agent continues a session. All paths are absolute and contain no symbolic links.

    ``home``: the user's home directory; ``temporary``: the machine's directory for temporary files.
    """

    cwd: str
    home: str = ""
    temporary: str = ""


class Sidecar(NamedTuple):
    """A file that belongs to a session and is stored separately from the session file.

    ``name``: the name by which entries refer to the file, and under which the file is stored. ``paths``: the possible
    paths of the file, relative to the folder of the session file; the first path that exists is used. ``sha256``: the
    required hash in hexadecimal; "" if any content is accepted. ``needed``: whether a missing file is reported.
    ``home``: the path from which the agent reads the file when the agent resumes the session, relative to the first of
    the agent's ``formats.ROOTS``; "" if the agent does not read the file.
    """

    name: str
    paths: Sequence[str]
    sha256: str = ""
    needed: bool = True
    home: str = ""


class SharedLines(NamedTuple):
    """A file with lines of all sessions.

    ``field``: the field that contains the agent's id of a session, ``id``. ``names``: a function that returns the paths
    of the side files to which a line refers. ``table``: if the file is a database, the table in which each row is such
    a line, a JSON object with the values of ``columns``.
    """

    path: str
    field: str
    id: str
    names: Callable[[Object], Iterable[str]] = lambda line: ()
    table: str = ""
    columns: Sequence[str] = ()


class SideFiles(NamedTuple):
    """The side files of a session: files beside its session file to which no entry need refer.

    ``folder``: the path of the agent's folder. The other paths are relative to it, and are the names under which the
    files are stored. ``globs``: the paths of files that belong to one session or its project. The last part may contain
    one ``*``. If it is ``**``, it matches all files in the folder and below it, except session files. ``shared``: files
    of which only the lines of the session are stored. ``with_line``: globs, each with a line that a file must have.
    """

    folder: str
    globs: Sequence[str] = ()
    shared: Sequence[SharedLines] = ()
    with_line: Sequence[tuple[str, str]] = ()


Row: TypeAlias = Sequence[Any]
Columns: TypeAlias = Mapping[str, Collection[str]]
"""The readable columns of each table."""

Query: TypeAlias = Callable[[str, Sequence[object]], Iterator[Row]]
"""A function that runs one SELECT statement with parameters. Invalid UTF-8 is replaced with replacement characters."""


class Stamp(NamedTuple):
    """The state of a session in a database. The field names are those of ``os.stat_result``.

    ``st_size``: the number of rows. ``st_mtime_ns``: the time of the newest row. ``st_ino``: a sum over all rows.
    """

    st_size: int
    st_mtime_ns: int
    st_ino: int


UNKNOWN = Stamp(-1, 0, 0)
"""The stamp of a session that could not be read. It differs from every stamp of a session that can be read."""

WHOLE_MASK = (1 << 62) - 1
"""A mask that reduces an integer of any size to an integer that SQLite can store."""


def column_list(names: Sequence[str], existing: Collection[str]) -> str:
    """Return the column list of a SELECT for ``names``. A column that is not in ``existing`` becomes ``NULL``."""
    return ", ".join(f'"{name}"' if name in existing else f'NULL AS "{name}"' for name in names)


def sum_expression(column: str) -> str:
    """Return an SQL expression for a sum over ``column`` that never fails and is always an integer."""
    return f"coalesce(sum(CAST({column} AS INTEGER) % {1 << 40}), 0)"


def rows_of(query: Query, sql: str) -> tuple[list[Row], Malformed | None]:
    """Run the SELECT statement ``sql``. Return its rows and ``None``.

    If the database is damaged, return the rows that were read before the error, and the error.
    """
    found: list[Row] = []
    try:
        found.extend(query(sql, ()))
    except Malformed as error:
        return found, error
    return found, None


class Format(ABC):
    """The session files of one agent."""

    AGENT: str
    FORM = "jsonl"
    """The suffix of the payload's file name in the tree of an entry, such as ``jsonl`` for ``entry.jsonl``."""

    BETWEEN = b"\n"
    """The bytes between two payloads in the agent's file: a newline or nothing."""

    FILES: Sequence[str] = ("*.jsonl",)
    """The ``fnmatch`` patterns of the names of the agent's files. They are used if a user passes a folder to import."""

    ROOTS: Sequence[tuple[str, str, str]] = ()
    """The fields of ``formats.SearchRoot`` for each folder of a plugin's agent.

    The folders of gitsession's own formats are in ``formats.ROOTS``.
    """

    @abstractmethod
    def claims(self, head: bytes) -> bool:
        """Return whether a file whose first 64 KiB are ``head`` is a session of this agent."""

    @abstractmethod
    def split(self, data: bytes, *, name: str = "", final: bool = False) -> Source:
        """Split a file into its records.

        Args:
            name: the POSIX path of the file without its suffix, for files that contain no session id.
            final: whether the file is complete. If it is, the bytes after the last newline are included.

        Raises:
            Malformed: the file contains no session. An invalid line is reported as a problem and is not an error.
        """

    @abstractmethod
    def headline(self, payload: bytes, parsed: Object | LineFailure | None = None) -> Headline:
        """Return the headline of the commit message for ``payload``. Never raises.

        The result is frozen under view 1. ``parsed``: ``Record.parsed`` of a record with this payload.
        """

    @abstractmethod
    def read(self, payload: bytes) -> Entry:
        """Return the entry that ``payload`` represents. Never raises.

        If the payload cannot be parsed, the result is ``Opaque``. If this release does not support the type of the
        payload, the result is ``UnknownEntry``.
        """

    @abstractmethod
    def write(self, out: Outgoing) -> WrittenFile:
        """Return a file from which the agent can continue the session at the leaf.

        The result is deterministic. Never raises.
        """


class Document(Format):
    """A format whose files are JSON documents."""

    FORM = "json"
    BETWEEN = b""

    @abstractmethod
    def join(self, header: bytes, payloads: Sequence[bytes], tail: bytes) -> bytes:
        """Return the file that consists of the description of the session, the records, and the tail.

        ``header``: the description, which is line 0. ``payloads``: the records. An incomplete record is represented by
        its replacement.
        """


class Streamed(Format):
    """A format that can split a file that is too large to hold in memory."""

    @abstractmethod
    def split(self, data: Data, *, name: str = "", final: bool = False) -> Source:
        """Split a file as ``Format.split`` does.

        If ``data`` is a stored file, the payloads of its records are read on access.
        """


class Growing(Format):
    """A format that can split the lines that were appended to a file, without the lines before them (decision 0065)."""

    @abstractmethod
    def split_rest(self, data: bytes, state: SplitState, *, name: str = "") -> Source | None:
        """Split the part of a file after ``state``.

        Args:
            data: the whole file. Its first ``state.size`` bytes are those that the splitter had read.
            state: the ``Source.state`` of an earlier version of the file with the same name.
            name: see ``Format.split``.

        Returns:
            The result of ``Format.split``, but without the earlier records. ``None`` if there is no new line, or if the
            result cannot be determined from ``state``.
        """


class Database(Format):
    """A format whose agent stores its sessions in an SQLite database.

    ``discovery.databases`` opens the database and permits the format to read only the tables in ``TABLES``, because the
    database also contains credentials.
    """

    TABLES: Sequence[str]
    COLUMNS: Mapping[str, Collection[str]] = {}
    """The only columns that may be read, for tables that also contain credentials."""

    @abstractmethod
    def owns_tables(self, columns: Columns) -> bool:
        """Return whether a database with the tables and columns ``columns`` belongs to this agent."""

    @abstractmethod
    def session_stamps(self, query: Query, columns: Columns) -> Iterator[tuple[str, Stamp]]:
        """Yield the id and stamp of each session, oldest first."""

    @abstractmethod
    def session(self, query: Query, columns: Columns, id: str, *, final: bool = False) -> Source:
        """Return the session ``id``.

        Raises:
            Malformed: the rows are not a session. An invalid row is reported as a problem and is not an error.
        """

    def documents(self, query: Query, columns: Columns, id: str) -> Iterable[tuple[str, bytes]]:
        """Return the names and the contents of side files that are made from rows of the session ``id``.

        The content is b"" if there are no rows. Never raises ``Malformed``.
        """
        return ()


class Scattered(Format):
    """A format whose agent stored each session in several files.

    A session has one description file, one file per message, and one file per part of a message.
    """

    @abstractmethod
    def is_info(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is the description file of a session."""

    @abstractmethod
    def from_folders(
        self, info: bytes, files: Mapping[str, bytes], parts: Mapping[str, Mapping[str, bytes]], *, final: bool = False
    ) -> Source:
        """Return the session with the description file ``info``.

        ``files``: the contents of the message files, by file name. ``parts``: for the name of each message file, the
        contents of the files with the parts of the message, by file name.
        """


class InProject(Format):
    """A format whose agent stores its sessions in the project's folder."""

    IN_PROJECT: str
    """The name of the session file. The file is in the top folder of each repository in which the agent was run."""


class Continuing(Format):
    """A format whose agent can continue a session in a new file that does not repeat the content of the first file."""

    @abstractmethod
    def base_of(self, data: bytes) -> str | None:
        """Return the agent's id for the file that a file with the content ``data`` continues.

        If the file does not continue another file, return ``None``.
        """

    @abstractmethod
    def segment_path(self, data: bytes, segment: str | None) -> str:
        """Return the path, below the agent's folder, of the file with the content ``data``.

        ``segment``: the id of the file; ``None`` if the file is the first file of the session.
        """


class Accompanied(Format):
    """A format whose agent stores additional files beside the session file."""

    @abstractmethod
    def sidecars(self, data: Data, name: str) -> Sequence[Sidecar]:
        """Return the files that belong to the session file with the content ``data`` and the path ``name``."""


class WithSideFiles(Format):
    """A format whose agent keeps files of a session beside the session file, and finds them by their path."""

    SHARED: Collection[str] = ()
    """The names of the side files that contain lines of all sessions."""

    BACKUPS: tuple[str, ...] = ()
    """The beginnings of the names of side files that are backups of the user's files."""

    STATES: Collection[str] = ()
    """The names of the side files that state a part of the session's state, as of the import."""

    def stated(self, name: str, data: bytes) -> StateChanges | None:
        """Return the state in ``data``, the content of the side file ``name`` of ``STATES``. Never raises."""
        return None

    @abstractmethod
    def side_files(self, name: str, source: Source | None) -> SideFiles | None:
        """Return the side files of the session file ``name``; ``None`` if the file is not in a folder of the agent.

        ``source``: the session, or its new part; ``None`` to return only the files that the path determines.
        """

    @abstractmethod
    def side_path(self, name: str, id: str, workspace: Workspace, file: str = "") -> str | None:
        """Return the path of the side file ``name`` if the session ``id`` is resumed in ``workspace``.

        ``file``: the path of the session's file. This path and the result are below the agent's first root,
        ``formats.ROOTS[agent][0]``. The result is ``None`` if the agent does not need the file.
        """


class Referring(Accompanied):
    """A format whose entries contain the names of sidecar files instead of their content."""

    @abstractmethod
    def resolve(self, payload: bytes, fetch: Callable[[str], bytes | None], substitute: str = "") -> bytes:
        """Return ``payload`` with the name of each sidecar file replaced by the content of the file. Never raises.

        ``fetch``: a function that returns the content of the file with a given name, or ``None`` if the content is not
        available. In this case, the name is kept. If the name is in an image block and ``substitute`` is not empty, the
        block is replaced by a text block with the text ``substitute``.
        """


class Counting(Format):
    """A format whose agent records the token counts of an answer separately from the answer."""

    @abstractmethod
    def counts(self, payload: bytes) -> Iterable[AnswerUsage]:
        """Return the token counts in the lines of ``payload``, which is a record or the tail. Never raises."""


class Delegating(Format):
    """A format whose agent can start a separate session when a tool is called."""

    @abstractmethod
    def starting_call(self, payload: bytes, id: str, sidecars: Mapping[str, bytes]) -> str:
        """Return the id of the call in ``payload`` that started the session ``id``, or "" if there is none.

        ``payload``: a record of another session. ``sidecars``: the contents of the sidecar files of the session ``id``,
        by name.
        """

    @abstractmethod
    def is_delegated(self, source_id: str, header: SessionHeader) -> bool:
        """Return whether a tool call, and not the user, started the session."""


class Remembering(Format):
    """A format whose agent stores the former content of the files that it changes."""

    RECORDED: str
    """The reason that is recorded in the checkpoints that are derived from the agent's records."""

    @abstractmethod
    def mentions_changes(self, data: bytes) -> bool:
        """Return whether ``data``, which consists of lines of a session file, may record a file change."""

    @abstractmethod
    def copy_folders(self, name: str, source: Source) -> Sequence[str]:
        """Return the folders that may contain the agent's copies of files, relative to the folder of the session file.

        At least one of these folders must exist. If the agent stores no copies, the result is the folder of the session
        file. ``name``: the path of the session file.
        """

    @abstractmethod
    def file_changes(self, source: Source) -> Iterable[RecordedChange]:
        """Return the file changes that are recorded in a session, in the order of the session file. Never raises."""


class Resumable(Format):
    """A format whose agent can continue a session from a file that gitsession wrote."""

    def native_id(self, source_id: str) -> str:
        """Return the agent's id for the session ``source_id``: the same id, or an id derived from it."""
        return source_id

    @abstractmethod
    def session_path(self, header: SessionHeader, workspace: Workspace) -> str:
        """Return the path of the session's file, below the agent's first root, ``formats.ROOTS[agent][0]``.

        The path is derived from the id and the start time in ``header``. If the agent has no root because it stores its
        sessions in the project, the path is below the project's folder.
        """

    def globs(self, header: SessionHeader, workspace: Workspace) -> Sequence[str]:
        """Return globs for the paths at which the agent may have stored this session's file.

        The globs are relative to the same folder as the result of ``session_path``.
        """
        return ()

    @abstractmethod
    def relocate(self, data: bytes, id: str, cwd: str) -> bytes:
        """Return ``data`` as the file of the session ``id`` in the folder ``cwd``. Only the header line is changed."""

    @abstractmethod
    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        """Return the command that continues the session in the agent.

        The command must be run in the session's folder. ``file``: the path of the session's file.
        """


class Importing(Resumable):
    """A format whose agent stores its sessions in a database and can import a session from a file.

    ``session_path`` returns a path that gitsession chooses. ``globs`` returns no globs, because gitsession searches the
    database and not files.
    """

    @abstractmethod
    def import_command(self, file: str) -> list[str]:
        """Return the command with which the agent imports ``file``. The command must be run in the session's folder."""
