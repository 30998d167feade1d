"""Sessions that consist of several files of the agent, and files that continue other files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

from gitsession.discovery import discover
from gitsession.errors import NoBase
from gitsession.exporting import export_session
from gitsession.formats import Continuing, Format, with_capability
from gitsession.sessions.meta import meta_of
from gitsession.store.interface import ObjectStore


class AgentFile(NamedTuple):
    """One of an agent's files. ``path``: its path below the agent's folder."""

    path: str
    data: bytes

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def pattern(self) -> str:
        """A glob pattern for the file. It matches any time in the name, because the time zone is unknown."""
        folder, _, name = self.path.rpartition("/")
        top = folder.partition("/")[0]
        ids = name.split("-", 6)[-1] if name.count("-") > 6 else name
        return f"{top}/*/*/*/*{ids}"


class WaitingFile(NamedTuple):
    """A file that cannot be imported before the file that it continues, which is its base.

    Attributes:
        path: The path of the file.
        format: The format of the file; ``None`` if it is recognized by its content.
        named: Whether the user named this file.
        error: The error of the import, with the id of the base.
    """

    path: Path
    format: Format | None
    named: bool
    error: NoBase


class ImportFile(Protocol):
    """A function that imports the sessions at ``path`` and adds the file to the lists of an ``ImportQueue``."""

    def __call__(self, path: Path, format: Format | None = None, *, named: bool = False) -> object: ...


def nearby_files(waiting: WaitingFile) -> Iterable[Path]:
    """Return the files that can be the base of ``waiting`` (see ``discover.files_with_id``)."""
    return discover.files_with_id(waiting.path, waiting.error.source_id)


class ImportQueue:
    """A queue that determines the order of import for files that continue each other.

    Attributes:
        imported: The paths of the imported files, each with the agent's id of the session.
        waiting: The files whose base is not imported yet.
    """

    def __init__(self) -> None:
        self.imported: list[tuple[Path, str]] = []
        self.waiting: list[WaitingFile] = []

    def import_waiting(
        self, import_file: ImportFile, locate: Callable[[WaitingFile], Iterable[Path]] = nearby_files
    ) -> None:
        """Import the bases that ``locate`` finds, and then the files in ``waiting`` whose bases are imported."""
        self._import_bases(import_file, locate)
        imported_ids = {id for _, id in self.imported}
        while ready := [each for each in self.waiting if each.error.source_id in imported_ids]:
            self.waiting = [each for each in self.waiting if each.error.source_id not in imported_ids]
            before = len(self.imported)
            for each in ready:
                import_file(each.path, each.format, named=each.named)
            imported_ids = {id for _, id in self.imported[before:]}

    def _import_bases(self, import_file: ImportFile, locate: Callable[[WaitingFile], Iterable[Path]]) -> None:
        tried = {path for path, _ in self.imported} | {each.path for each in self.waiting}
        at = 0
        while at < len(self.waiting):  # a base may be waiting for another file
            each = self.waiting[at]
            at += 1
            for base in locate(each):
                if base not in tried:
                    tried.add(base)
                    import_file(base, each.format)


def bases(store: ObjectStore, agent: str, data: bytes, find: Callable[[str, str], str | None]) -> list[AgentFile]:
    """Return the files that the file ``data`` continues, directly or indirectly, nearest first.

    The list ends at the first file that is not in the store. ``find``: a function that maps the name of an agent and
    the id of one of its files to the id of the session in this store, or to ``None``.
    """
    format = with_capability(agent, Continuing)
    if format is None:
        return []
    found: list[AgentFile] = []
    seen: set[str] = set()
    id = format.base_of(data)
    while id is not None and id not in seen:
        seen.add(id)
        sid = find(agent, id)
        if sid is None:
            break
        segment = id if id in meta_of(store, sid).segments else None
        base = export_session.segment(store, sid, segment)
        found.append(AgentFile(format.segment_path(base, segment), base))
        id = format.base_of(base)
    return found


def other_files(store: ObjectStore, agent: str, sid: str, data: bytes) -> Iterator[AgentFile]:
    """Yield the agent's files for a session, except the file with the content ``data``."""
    format = with_capability(agent, Continuing)
    later = meta_of(store, sid).segments if format is not None else ()
    for segment in (None, *later) if later else ():
        content = export_session.segment(store, sid, segment)
        if format is not None and content != data:
            yield AgentFile(format.segment_path(content, segment), content)
