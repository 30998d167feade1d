"""Where an object that is lost may be had: other repositories, and the agents' own files. Nobody here is trusted.

A donor answers ``read(oid, sid)`` with bytes; whoever asks hashes them. It is opened when it is first asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from gitsession.errors import GitSessionError, Unavailable
from gitsession.exchange import journals, sources
from gitsession.exchange.bring_in import bring_in
from gitsession.index.catalogue import Catalogue
from gitsession.store import config, create, gitcli
from gitsession.store.base import Kind, Oid, RefValue
from gitsession.store.frames import ASIDE, file_name, numbers
from gitsession.store.git import GitDoor
from gitsession.store.memory import MemoryStore


class Donor(Protocol):
    """``is_copy``: whether it is a copy of this store, that the user named: what it alone has comes back. ``journals``:
    the journal files it has beside its objects.
    """

    name: str
    is_copy: bool
    journals: Sequence[bytes]

    def read(self, oid: Oid, sid: str) -> tuple[Kind, bytes] | None:
        """What it has under that name; ``sid``: the session that misses it, "" where it is none's."""

    def refs(self) -> Mapping[str, RefValue]:
        """What its refs hold."""


class Repository:
    """A clone, another store, or an alternate, on this machine. What waits in a store's journal counts."""

    def __init__(self, git_dir: Path, name: str, *, is_copy: bool = False) -> None:
        self.name, self.is_copy = name, is_copy
        # The journal first: what leaves it is in git before it goes.
        aside, live = journal_files(git_dir)
        self.journals: Sequence[bytes] = (*aside, *live)
        self._pending = journals.objects_of(journals.records(self.journals))
        self._moved = {ref: new for record in journals.records(live) for ref, _, new in record.moves}
        self._door = GitDoor(git_dir)

    def read(self, oid: Oid, sid: str) -> tuple[Kind, bytes] | None:
        try:
            return self._pending.get(oid) or self._door.read(oid)
        except GitSessionError:
            return None

    def refs(self) -> Mapping[str, RefValue]:
        held = {**self._door.refs("refs/"), **self._moved}
        return {name: value for name, value in held.items() if value is not None}


def journal_files(git_dir: Path) -> tuple[list[bytes], list[bytes]]:
    """The journal files of a store that were set aside, and the others; none of a clone."""
    place = git_dir / create.JOURNAL
    aside, live = sorted(place.glob(f"{ASIDE}*")), [place / file_name(number) for number in numbers(str(place))]
    return [file.read_bytes() for file in aside], [file.read_bytes() for file in live]


class Remote:
    """A repository behind a URL: fetched into a bare repository of its own, where git checks every object."""

    journals: Sequence[bytes] = ()

    def __init__(self, url: str, place: Path, name: str, *, is_copy: bool = False) -> None:
        self.name, self.is_copy = name, is_copy
        self._url, self._place = url, place
        self._fetched: Repository | None = None

    def read(self, oid: Oid, sid: str) -> tuple[Kind, bytes] | None:
        return self._repository().read(oid, sid)

    def refs(self) -> Mapping[str, RefValue]:
        return self._repository().refs()

    def _repository(self) -> Repository:
        if self._fetched is None:
            gitcli.run(None, "init", "-q", "--bare", str(self._place))
            if self._url.startswith("-"):  # git would take it for an option, and some name a program to run
                raise Unavailable(f"{self._url!r} is no address of a repository")
            checked = ("-c", "transfer.fsckObjects=true", "fetch", "-q", "--no-tags", "--end-of-options")
            gitcli.run(self._place, *checked, self._url, "+refs/heads/*:refs/heads/*", user_config=True)
            self._fetched = Repository(self._place, self.name)
        return self._fetched


class AgentFile:
    """A session file, imported again into a store that is thrown away: the same bytes make the same objects."""

    is_copy = False
    journals: Sequence[bytes] = ()

    def __init__(self, path: Path) -> None:
        self.name = os.fsencode(path).decode("utf-8", "replace")
        self._path = path
        self._made: list[MemoryStore] = []

    def read(self, oid: Oid, sid: str) -> tuple[Kind, bytes] | None:
        return next((made.read(oid) for made in self._stores() if made.contains(oid)), None)

    def refs(self) -> Mapping[str, RefValue]:
        return self._stores()[0].refs("refs/")

    def _stores(self) -> list[MemoryStore]:
        """As our rules for secrets make it, and as it was made before there were any."""
        if not self._made:
            self._made = [MemoryStore(), MemoryStore(redacts=False)]
            try:
                for found in sources.again(self._path):
                    taken = found.take()
                    for made in self._made:
                        bring_in(made, found.format, taken.source, taken.attachments)
            except (GitSessionError, OSError):
                pass  # gone, or another file by now: it gives what it has
        return self._made


class AgentFiles:
    """The files that the catalogue remembers, each asked only for its own session."""

    name = "the agent's own file"
    is_copy = False
    journals: Sequence[bytes] = ()

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._files: dict[str, list[AgentFile]] = {}

    def read(self, oid: Oid, sid: str) -> tuple[Kind, bytes] | None:
        if sid not in self._files:
            self._files[sid] = [AgentFile(path) for path in self._catalogue.files_of(sid)]
        return next((found for file in self._files[sid] if (found := file.read(oid, sid)) is not None), None)

    def refs(self) -> Mapping[str, RefValue]:
        return {}


class Beginning:
    """The first commit, which every store makes alike."""

    name = "what every store begins with"
    is_copy = False
    journals: Sequence[bytes] = ()

    def read(self, oid: Oid, sid: str) -> tuple[Kind, bytes] | None:
        return create.first_commit()[1].get(oid)

    def refs(self) -> Mapping[str, RefValue]:
        return {create.MAIN: create.first_commit()[0]}


def named(where: str, place: Path, *, is_copy: bool = True) -> Donor:
    """The donor that a user names: a repository, a session file, or else a URL."""
    path = Path(where)
    if path.is_dir():
        return Repository(path / ".git" if (path / ".git").is_dir() else path, where, is_copy=is_copy)
    return AgentFile(path.absolute()) if path.is_file() else Remote(where, place, where, is_copy=is_copy)


def alternates(git_dir: Path) -> Iterator[Donor]:
    """Object directories that git was told to look into, too."""
    try:
        lines = (git_dir / "objects/info/alternates").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        objects = Path(os.path.normpath(git_dir / "objects" / line))
        if line and not line.startswith("#") and objects.name == "objects":
            yield Repository(objects.parent, f"the alternate {line}")


def remotes(git_dir: Path, place: Path) -> Iterator[Donor]:
    """The remotes that the store's own configuration names."""
    words = ("config", "--file", str(git_dir / config.FILE), "--get-regexp", r"^remote\..*\.url$")
    answer = gitcli.run(None, *words, accept=range(256))
    for number, line in enumerate(answer.out.decode("utf-8", "surrogateescape").splitlines()):
        key, _, url = line.partition(" ")
        if url:
            found = named(url, place / f"fetched-{number}", is_copy=False)
            found.name = f"the remote {key.removeprefix('remote.').removesuffix('.url')}"
            yield found
