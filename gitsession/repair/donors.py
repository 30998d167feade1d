"""Sources of lost objects, called donors: other repositories, and agents' own files.

No donor is trusted: the caller of ``Donor.read`` checks the hash of the returned bytes.
"""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gitsession.discovery import sources
from gitsession.discovery.sources import FoundSession
from gitsession.durable import read_regular
from gitsession.errors import GitSessionError, NoBase, Unavailable
from gitsession.exporting import session_files
from gitsession.exporting.session_files import ImportQueue, WaitingFile
from gitsession.formats import Format
from gitsession.git import config, process
from gitsession.git.repository import VerifiedRepository
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.importing.import_session import import_source
from gitsession.index.catalogue import Catalogue
from gitsession.repair import journals
from gitsession.store import create
from gitsession.store.journal_frames import ASIDE, file_name, numbers
from gitsession.store.memory import MemoryStore


class UnreadFile(NamedTuple):
    """An agent's file from which nothing could be rebuilt. ``what`` states the reason."""

    path: str
    what: str


class Donor(ABC):
    """A source of lost objects. By default, it has no refs.

    Attributes:
        name: Name of the donor in messages.
        is_copy: Whether the donor is a copy of this store that the user named. Refs that only a copy has are restored.
        journals: Content of the donor's journal files.
    """

    name: str
    is_copy = False
    journals: Sequence[bytes] = ()

    @property
    def unread(self) -> Sequence[UnreadFile]:
        """The agents' files that could not be imported so far."""
        return ()

    @abstractmethod
    def read(self, oid: Oid, sid: str) -> tuple[Kind, bytes] | None:
        """Return the object; ``None`` if the donor does not have it.

        ``sid``: session that lacks the object; "" if unknown.
        """

    def refs(self) -> Mapping[str, RefValue]:
        """Return the values of the donor's refs."""
        return {}


class Repository(Donor):
    """A clone, another store, or an alternate on this machine, including the pending records of its journal."""

    def __init__(self, git_dir: Path, name: str, *, is_copy: bool = False) -> None:
        self.name, self.is_copy = name, is_copy
        # The journal is read first, so that records that are flushed in the meantime are found in git.
        folder = git_dir / create.JOURNAL
        files = sorted(folder.glob(f"{ASIDE}*")), [folder / file_name(number) for number in numbers(str(folder))]
        aside, live = ([file.read_bytes() for file in part] for part in files)
        self.journals = (*aside, *live)
        self._pending = journals.objects_of(journals.records(self.journals))
        self._moved = {ref: new for record in journals.records(live) for ref, _, new in record.moves}
        self._verified = VerifiedRepository(git_dir)

    def read(self, oid: Oid, sid: str) -> tuple[Kind, bytes] | None:
        try:
            return self._pending.get(oid) or self._verified.read(oid)
        except GitSessionError:
            return None

    def refs(self) -> Mapping[str, RefValue]:
        values = {**self._verified.refs.list("refs/"), **self._moved}
        return {name: value for name, value in values.items() if value is not None}


class RemoteDonor(Donor):
    """A repository at a URL. It is fetched into its own bare repository, and git checks every object."""

    def __init__(self, url: str, folder: Path, *, is_copy: bool = False) -> None:
        self.name, self.is_copy = url, is_copy
        self._url, self._folder = url, folder

    def read(self, oid: Oid, sid: str) -> tuple[Kind, bytes] | None:
        return self._repository.read(oid, sid)

    def refs(self) -> Mapping[str, RefValue]:
        return self._repository.refs()

    @functools.cached_property
    def _repository(self) -> Repository:
        process.run(None, "init", "-q", "--bare", str(self._folder))
        if self._url.startswith("-"):  # git would parse it as an option, and some options name a program to run
            raise Unavailable(f"invalid repository URL {self._url!r}: it begins with '-'")
        checked = ("-c", "transfer.fsckObjects=true", "fetch", "-q", "--no-tags", "--end-of-options")
        process.run(self._folder, *checked, self._url, "+refs/heads/*:refs/heads/*", user_config=True)
        return Repository(self._folder, self.name)


class RebuiltObjects(Donor):
    """A donor of objects that are rebuilt from agents' files. The files are imported again, into temporary stores.

    The same bytes yield the same objects. If a file continues another file, and ``locate`` finds the other file, the
    other file is imported first, into the same store.
    """

    def __init__(self, locate: Callable[[WaitingFile], Iterable[Path]] = session_files.nearby_files) -> None:
        self._locate = locate
        self._store_pairs = [_stores()]
        self._queue = ImportQueue()
        self._known: dict[tuple[str, str], str] = {}
        self._tried: set[Path] = set()
        self._failed: dict[Path, str] = {}

    def add(self, paths: Iterable[Path]) -> None:
        """Import the files at ``paths``. Files that were added before are skipped."""
        new = [path for path in paths if path not in self._tried]
        for path in new:
            self._import_file(path)
        if new:
            self._queue.import_waiting(self._import_file, self._locate)
            # The files that these files continue were not found. They are not searched for again with every added file.
            self._failed |= {waiting.path: str(waiting.error) for waiting in self._queue.waiting}
            self._queue.waiting.clear()

    def read(self, oid: Oid, sid: str) -> tuple[Kind, bytes] | None:
        return next((store.read(oid) for pair in self._store_pairs for store in pair if store.contains(oid)), None)

    @property
    def unread(self) -> Sequence[UnreadFile]:
        return [UnreadFile(os.fsencode(path).decode("utf-8", "replace"), what) for path, what in self._failed.items()]

    def _import_file(self, path: Path, format: Format | None = None, *, named: bool = False) -> None:
        self._tried.add(path)
        is_session = False
        try:
            for found in sources.reopen(path):
                is_session = True
                try:
                    self._import(found)
                except NoBase as error:
                    self._queue.waiting.append(WaitingFile(path, found.format, named, error))
            if not is_session:
                raise sources.unrecognized(path)
        except (OSError, GitSessionError) as error:
            self._failed[path] = getattr(error, "strerror", None) or str(error)

    def _import(self, found: FoundSession) -> None:
        session = found.load()
        source, agent = session.source, found.format.AGENT
        id = source.segment or source.source_id
        pair = self._store_pairs[0]
        if (agent, id) in self._known and source.base is None and source.segment is None:
            pair = _stores()  # this may be another copy of an imported file, whose import must not affect its objects
            self._store_pairs.append(pair)
        for store in pair:
            result = import_source(
                store, found.format, source, session.attachments, find=lambda id: self._known.get((agent, id))
            )
        self._known.setdefault((agent, id), result.session)
        self._queue.imported.append((found.path, id))


def _stores() -> tuple[MemoryStore, MemoryStore]:
    """Return a store that redacts by the current rules, and one that does not redact, as early releases did."""
    return MemoryStore(), MemoryStore(redacts=False)


class NamedFileDonor(RebuiltObjects):
    """A session file that the user names, and the files in the same folder that it continues."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.name = os.fsencode(path).decode("utf-8", "replace")
        self._path = path

    def read(self, oid: Oid, sid: str) -> tuple[Kind, bytes] | None:
        self.add([self._path])
        return super().read(oid, sid)

    def refs(self) -> Mapping[str, RefValue]:
        """Return the refs of the session; none if the session has several files, because some refs may be missing."""
        self.add([self._path])
        return self._store_pairs[0][0].refs("refs/") if self._tried == {self._path} else {}


class AgentFiles(RebuiltObjects):
    """The agents' files that the catalog lists for each requested session, and the files that they continue."""

    name = "the agent's own file"

    def __init__(self, catalogue: Catalogue) -> None:
        super().__init__(self._bases)
        self._catalogue = catalogue
        self._requested: set[str] = set()

    def read(self, oid: Oid, sid: str) -> tuple[Kind, bytes] | None:
        if sid not in self._requested:
            self._requested.add(sid)
            self.add(self._catalogue.files_of(sid))
        return super().read(oid, sid)

    def _bases(self, waiting: WaitingFile) -> Iterator[Path]:
        """Yield the files that may contain the session that ``waiting`` continues.

        First come the files that the catalog lists for that session. Then come the session files in the folder of
        ``waiting.path`` whose names end in the id of that session (``discover.files_with_id``).
        """
        id, agent = waiting.error.source_id, waiting.format.AGENT if waiting.format is not None else ""
        rows = sorted(self._catalogue.by_source(agent, id), key=lambda row: (row.created_ms, row.sid))
        sid = rows[0].sid if rows else self._catalogue.by_segment(agent, id)
        yield from self._catalogue.files_of(sid) if sid is not None else ()
        yield from session_files.nearby_files(waiting)


class FirstCommitDonor(Donor):
    """A donor of the first commit, which is the same in every store."""

    name = "the first commit of every store"

    def read(self, oid: Oid, sid: str) -> tuple[Kind, bytes] | None:
        return create.first_commit()[1].get(oid)

    def refs(self) -> Mapping[str, RefValue]:
        return {create.MAIN: create.first_commit()[0]}


def donor_of(argument: str, folder: Path, *, is_copy: bool = True) -> Donor:
    """Return the donor for a user's argument: a repository, a session file, or a URL.

    ``folder``: a folder that does not exist yet, into which a URL is fetched.
    """
    path = Path(argument)
    if path.is_dir():
        return Repository(path / ".git" if (path / ".git").is_dir() else path, argument, is_copy=is_copy)
    if path.is_file():
        return NamedFileDonor(path.absolute())
    return RemoteDonor(argument, folder, is_copy=is_copy)


def alternates(git_dir: Path) -> Iterator[Donor]:
    """Yield the repositories of the alternate object directories."""
    try:
        data = read_regular(git_dir / "objects/info/alternates") or b""
    except OSError:
        return
    lines = data.decode("utf-8", "surrogateescape").splitlines()
    for line in lines:
        objects = Path(os.path.normpath(git_dir / "objects" / line))
        if line and not line.startswith("#") and objects.name == "objects":
            yield Repository(objects.parent, f"the alternate {line}")


def remotes(git_dir: Path, folder: Path) -> Iterator[Donor]:
    """Yield the remotes in the store's own git configuration. ``folder``: the folder into which they are fetched."""
    arguments = ("config", "--file", str(git_dir / config.FILE), "--get-regexp", r"^remote\..*\.url$")
    result = process.run(None, *arguments, accept=range(256))
    for number, line in enumerate(result.out.decode("utf-8", "surrogateescape").splitlines()):
        key, _, url = line.partition(" ")
        if url:
            donor = donor_of(url, folder / f"fetched-{number}", is_copy=False)
            donor.name = f"the remote {key.removeprefix('remote.').removesuffix('.url')}"
            yield donor
