"""What the module of an agent offers: ``Format``, and besides it what only some agents have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeGuard

from gitsession.formats.base.histories import Noted
from gitsession.formats.base.lines import Data
from gitsession.formats.base.outgoing import Outgoing, Written
from gitsession.formats.base.places import Beside, Root, Workspace
from gitsession.formats.base.record import Source
from gitsession.model.entries import Entry, Session
from gitsession.model.headline import Headline
from gitsession.model.usage import Counted


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


class Streamed(Format, Protocol):
    """A format that can split a file too large to hold in memory."""

    def split(self, data: Data, *, name: str = "", final: bool = False) -> Source:
        """``Format.split``. The records of a stored file read their payloads when they are asked for them."""


class Accompanied(Format, Protocol):
    """What a module offers besides whose agent keeps files beside a session's own."""

    def beside(self, data: Data, name: str) -> Sequence[Beside]:
        """The files that belong to the session of ``data`` and lie beside its own, whose place is ``name``."""


class Referring(Accompanied, Protocol):
    """An ``Accompanied`` format whose entries hold the names of such files in place of their content."""

    def resolve(self, payload: bytes, fetch: Callable[[str], bytes | None], substitute: str = "") -> bytes:
        """Return ``payload`` with what ``fetch`` returns for the names in it. Never raises.

        Where it returns ``None``, the name stays, or an image block becomes the text ``substitute``.
        """


class Scattered(Format, Protocol):
    """What a module offers besides whose agent kept a session as a description, a file a message and one a part."""

    def is_info(self, head: bytes) -> bool:
        """Whether it is the description of a session, whose messages lie elsewhere."""

    def from_folders(
        self, info: bytes, files: Mapping[str, bytes], parts: Mapping[str, Mapping[str, bytes]], *, final: bool = False
    ) -> Source:
        """The session of ``info``: the ``files`` of its messages by name, and for each name those of its ``parts``."""


class InProject(Format, Protocol):
    """What a module offers besides whose agent keeps its sessions with the project."""

    IN_PROJECT: str
    """Its session file, at the top of every repository it was run in."""


class Counting(Format, Protocol):
    """What a module offers besides whose agent does not say with an answer what it took."""

    def counts(self, payload: bytes) -> Iterable[Counted]:
        """What the lines of a record say that answers took, or those that wait for the next record. Never raises."""


class Delegating(Format, Protocol):
    """What a module offers besides whose agent begins sessions of their own from calls in another."""

    def began(self, payload: bytes, id: str, beside: Mapping[str, bytes]) -> str:
        """The call by which the session ``id`` was begun, if that record of another session says so; else "".

        ``beside``: the files beside that of ``id``, by name.
        """

    def is_delegated(self, source_id: str, header: Session) -> bool:
        """Return whether the session ``source_id`` of ``header`` is a sub-agent's: a call began it, not the user."""


class Remembering(Format, Protocol):
    """What a module offers besides whose agent keeps what files were before it changed them."""

    RECORDED: str
    """What a checkpoint of it says that it is."""

    def copies(self, name: str, source: Source) -> Sequence[str]:
        """The folders in which copies may lie, relative to that of the session's file, whose place is ``name``.

        One at least must be there: an agent without copies says its file's own.
        """

    def noted(self, source: Source) -> Iterable[Noted]:
        """What the lines of a session, in the order of its file, say of files. Never raises."""


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


class Continuing(Format, Protocol):
    """A format whose agent has files that continue others, and do not repeat them."""

    def base_of(self, data: bytes) -> str | None:
        """The agent's id for the file that ``data`` goes on from; ``None`` for a file of its own."""

    def place_of(self, data: bytes, segment: str | None) -> str:
        """Return the path of the file ``data`` below the agent's folder. ``segment``: the id of a later file."""


class Importing(Resumable, Protocol):
    """What a module offers besides whose agent keeps its sessions in a database, and takes one in from a file.

    ``place`` then is one of ours, and nothing lies elsewhere: its database is looked at instead.
    """

    def take_in_command(self, file: str) -> list[str]:
        """What makes the export ``file`` a session of the agent's in the folder where it is run."""
