"""One invocation of the command line: its store, and the sessions and entries that its arguments address.

Modules that a command does not use are not imported.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from typing import TYPE_CHECKING, TypeVar

import click

from gitsession.cli.output import current_folder, warn
from gitsession.errors import Ambiguous, NotAStore, NotFound
from gitsession.index.current_folder import CurrentFolder, shared_folders
from gitsession.line_text import count
from gitsession.live import spool
from gitsession.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from gitsession.api import Session, Store
    from gitsession.index.catalogue import Catalogue, Row
    from gitsession.sessions.node import Node
    from gitsession.store.git_store import GitStore

T = TypeVar("T")

DRAIN_WAIT_SECONDS = 10.0
"""Maximum time in seconds to wait until another process has ingested hook events."""
_DRAIN_SECONDS = 1.0


class App:
    """The global options of a command line, and the store that they select."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._store: Store | None = None
        self._catalogue: Catalogue | None = None
        self._objects: GitStore | None = None
        self._aside: TemporaryDirectory[str] | None = None
        self._drained = -_DRAIN_SECONDS

    @functools.cached_property
    def location(self) -> str:
        """Path of the store as text, for commands that must start without ``pathlib``."""
        from gitsession.paths import store_path

        return store_path(self._path, os.environ, os.path.expanduser("~"), _git_setting)

    @functools.cached_property
    def path(self) -> Path:
        """Path of the store, whether or not it exists."""
        from pathlib import Path

        return Path(self.location)

    def store(self, *, make: bool = False, damaged: bool = False, ingest: bool = True) -> Store:
        """Return the store. The first call opens the store.

        ``make``: whether to create a missing store; if false, ``NotAStore`` is raised. ``damaged``: whether to open the
        store for a repair. ``ingest``: whether to ingest agents' hook events after opening the store.
        """
        from gitsession.api import Store

        if self._store is None:
            if not make:
                self.require()
            self._store = Store.create(self.path) if make else Store.open(self.path, damaged=damaged)
            if ingest and not damaged and not self._store.objects.read_only:
                self.drain()
        return self._store

    def drain(self) -> None:
        """Ingest agents' hook events, if there are any. If this fails, only print a warning."""
        try:
            if self._store is not None and spool.is_due(self.location):
                self._store.drain(wait_seconds=DRAIN_WAIT_SECONDS)
        except Exception as error:  # an invalid event must not prevent access to the store
            warn(f"warning: cannot ingest hook events yet: {error}")

    def drain_at_times(self) -> None:
        """Ingest agents' hook events, at most once a second, for commands that serve requests."""
        if time.monotonic() - self._drained >= _DRAIN_SECONDS:
            self.drain()
            self._drained = time.monotonic()

    def dry_run_store(self) -> Store:
        """Return a store for a dry run: the existing store, or else a temporary store."""
        import tempfile

        from gitsession.api import Store

        if self._store is None and not os.path.lexists(self.path):
            self._aside = tempfile.TemporaryDirectory(prefix="gitsession-")
            self._store = Store.create(os.path.join(self._aside.name, "store.git"))
        if self._store is None:
            self.require()
            self._store = Store.open(self.path)  # not `self.store()`, which would ingest the spool
        return self._store

    def require(self) -> None:
        """Raise ``NotAStore`` with a hint if there is no store."""
        if not os.path.lexists(self.location):
            raise NotAStore(
                f"cannot open the store '{self.location}': it does not exist",
                hint="run `gitsession import --all` to create one with your agents' sessions, or `gitsession init`",
            )

    def catalogue(self) -> Catalogue:
        """Return an up-to-date catalog. Open the store only if the catalog is stale or the spool must be ingested."""
        return self._fresh_catalogue() or self.store().catalogue()

    def sessions(self, newest: int | None) -> list[Row]:
        """Return the sessions as ``Store.sessions`` does. Open the store only if necessary, as for ``catalogue``."""
        catalogue = self._fresh_catalogue()
        return self.store().sessions(newest) if catalogue is None else catalogue.sessions(newest)

    def _fresh_catalogue(self) -> Catalogue | None:
        """Return an up-to-date catalog without opening the store; ``None`` if the store must be opened.

        Opening the store also flushes what a killed writer left in the journal.
        """
        from gitsession.index.catalogue import Catalogue
        from gitsession.store.change_stamp import has_journal

        if self._store is not None:
            return None
        self.require()
        if spool.is_due(self.location) or has_journal(self.location):
            return None
        if self._catalogue is None:
            self._catalogue = Catalogue(self.location)
        if not self._catalogue.is_fresh():
            self._catalogue.close()
            self._catalogue = None
        return self._catalogue

    def objects(self) -> GitStore:
        """Return the object store without opening a ``Store``, for commands that must start fast.

        In a partial clone, it fetches missing objects. If a purge was interrupted, open the ``Store``, which completes
        the purge.
        """
        from gitsession.store import create
        from gitsession.store.git_store import GitStore

        if self._store is not None or create.is_purge_pending(self.location):
            return self.store().objects
        if self._objects is None:
            self._objects = GitStore.open(self.path, flush_on_close=False)
            self._objects.flush_left()
            if create.is_partial(self.path):
                from gitsession.sync import transport

                transport.fetch_on_demand(self._objects)
        return self._objects

    def warn_of_damage(self) -> bool:
        """Warn if a quick check finds damage in the journal. Return whether a warning was printed."""
        from gitsession.store.change_stamp import is_journal_doubtful

        is_open = self._store is not None or self._objects is not None
        lost = self.objects().unread_records() if is_open or is_journal_doubtful(self.location) else 0
        if lost:
            warn(f"warning: the journal is damaged: {count(lost, 'record')} or more cannot be read")
            warn("hint: run `gitsession repair`")
        return bool(lost)

    def row(self, address: str, *, restores: bool = True) -> tuple[Row, str]:
        """Return the catalog row of the session in ``SESSION[@ENTRY]``, and the text ENTRY (may be "").

        ``restores``: whether to restore a session that is archived.
        """
        name, entry = split(address)
        return self._found(name, lambda name: self._row(name, restores)), entry

    def listed_row(self, address: str) -> Row:
        """Return the row of a session, and never restore it. Raises ``NotFound``, with a hint if it is archived."""
        from gitsession.archive import archive_set  # for few commands

        try:
            return self.row(address, restores=False)[0]
        except NotFound:
            archived = [sid for sid in archive_set.read(self.objects()) if address.lower() in sid]
            if len(archived) != 1:
                raise
        hint = f"run `gitsession restore {archived[0]}` first, which restores it for all who share the archive"
        raise NotFound(f"session {archived[0]} is in the archive", hint=hint)

    def _row(self, name: str, restores: bool) -> Row:
        try:
            return self.catalogue().find(name, here() if name in ("@", "-") else None)
        except Ambiguous:
            raise
        except NotFound:
            if not restores:
                raise
            restored = self.store().session(name)
        return self.catalogue().find(restored.id, None)

    def _found(self, name: str, find: Callable[[str], T]) -> T:
        """Return ``find(name)``.

        If ``name`` matches several sessions, and fzf can be shown, let the user select one of them. Otherwise, raise
        the error of ``find``.
        """
        try:
            return find(name)
        except Ambiguous as error:
            from gitsession.cli.picking import pick_session

            sid = pick_session(error)
            if sid is None:
                raise
            return find(sid)

    def session(self, address: str) -> Session:
        """Return the session with this address. Raises ``UsageError`` if the address names an entry."""
        name, entry = split(address)
        if entry:
            raise click.UsageError(
                f"this command requires a session, not an entry: pass {name!r} without {'@' + entry!r}"
            )
        return self._found(name, lambda name: self.store().session(name))

    def branch(self, address: str) -> Session:
        """Return the session in ``SESSION[@BRANCH]`` on that branch, or on its active branch."""
        name, branch = split(address)
        session = self._found(name, lambda name: self.store().session(name))
        return session.on(branch) if branch else session

    def entry(self, address: str) -> tuple[Session, Node]:
        """Return the session and the entry that ``SESSION[@ENTRY]`` names. The entry defaults to the leaf.

        If a purge has changed the oid of the entry, print a warning and return the entry with the new oid.
        """
        name, entry = split(address)
        session = self._found(name, lambda name: self.store().session(name))
        return session, self._resolved(entry, session.resolve)

    def node(self, address: str) -> tuple[Row, Node]:
        """Return the same entry as ``entry``, and the catalog row of its session, without opening a ``Store``."""
        from gitsession.sessions import entry_addresses

        row, entry = self.row(address)
        store = self.objects()
        return row, self._resolved(entry, lambda name: entry_addresses.resolve(store, row.sid, name, branch=row.active))

    def _resolved(self, entry: str, resolve: Callable[[str], Node]) -> Node:
        try:
            return resolve(entry or "leaf")
        except NotFound:
            from gitsession.sessions import local_records

            found = local_records.find_renamed(self.path, entry.lower())
            if len(found) != 1:
                raise
            old, new = found[0]
            warn(f"warning: a purge has changed the id of the entry from {old[:12]} to {new[:12]}")
            return resolve(new)

    def close(self) -> None:
        if self._catalogue is not None:
            self._catalogue.close()
        if self._objects is not None:
            self._objects.close()
        if self._store is not None:
            self._store.close()
        for objects in (self._objects, self._store.objects if self._store is not None else None):
            if objects is None:
                continue
            if objects.is_new_clone:
                warn(f"note: '{self.location}' is a clone that git made; its settings and refspecs are now complete")
            for moved, renamed in objects.renamed_branches:
                warn(f"warning: another program moved the ref {moved}, so the new entries are on {renamed}")
            for name in objects.set_aside:
                warn(f"warning: a damaged journal file was renamed to {name}")
                warn("hint: run `gitsession repair`")
            if objects.last_flush_error is not None:
                warn(f"warning: the new entries are in the journal, but not in git yet: {objects.last_flush_error}")
        if self._aside is not None:
            self._aside.cleanup()


_DATED = pattern(r"\w+:.*?@\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
"""An address whose session id contains ``@``. An aider session has no id, so its folder and time are used as the id."""


def split(address: str) -> tuple[str, str]:
    """Split ``SESSION[@ENTRY]`` into session and entry. A leading ``@`` is the address of a session."""
    if address == "@" or address.startswith("@@"):
        return "@", address[2:]
    dated = _DATED.match(address)
    start = dated.end() if dated else 0
    rest, at, entry = address[start:].partition("@")
    session = address[:start] + rest
    if at and not session:
        raise NotFound(
            f"the address {address!r} does not contain a session",
            hint=f"pass SESSION{address}, or @{address} for the newest session of this folder",
        )
    return session, entry


def no_such_agent(agent: str, rows: Sequence[Row]) -> str:
    """Return a message that there are no sessions of ``agent``; "" if the agent has sessions."""
    agents = sorted({row.agent for row in rows})
    if not agent or agent in agents:
        return ""
    return f"no sessions of agent {agent!r}" + (f" (agents with sessions: {', '.join(agents)})" if agents else "")


def here() -> CurrentFolder:
    """Return the working directory as a ``CurrentFolder``. Its path is empty if the working directory was deleted."""
    return CurrentFolder(current_folder(), shared_folders(os.path.expanduser("~"), os.environ), _project_here)


def _project_here() -> str | None:
    from pathlib import Path

    from gitsession.discovery.projects import identity_of

    return identity_of(Path())


def _git_setting(name: str) -> str | None:
    from gitsession.git import process

    return process.user_setting(name)


_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def project_identity(project: str | None) -> str | None:
    """Return the identity of the project in the folder ``project``; ``None`` if there is no such project."""
    if not project:
        return None
    from pathlib import Path

    from gitsession.discovery.projects import identity_of

    return identity_of(Path(project))


class Since(click.ParamType[int]):
    """A date or an age, such as 2026-11-21, 30m, 12h, 3d or 2w. The value is a Unix time in ms."""

    name = "when"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value[-1:] in _SECONDS and value[:-1].isdigit() and len(value) < 10:
            return int((time.time() - int(value[:-1]) * _SECONDS[value[-1]]) * 1000)
        try:
            return int(time.mktime(time.strptime(value, "%Y-%m-%d")) * 1000)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is neither a date (2026-11-21) nor an age (30m, 12h, 3d, 2w)", param, ctx)


def program(store: Path) -> list[str]:
    """Return the command that runs this program on ``store`` from any folder."""
    return [*runner(), "--store", os.fspath(store)]


def hook_program(store: Path) -> list[str]:
    """Return the command that agents' hooks run.

    The script ``gitsession`` is not used: installers write an ``import re`` into it, which takes half as long as the
    start of Python.
    """
    return [*_MODULE, "--store", os.fspath(store)]


_MODULE = (sys.executable, "-P", "-m", "gitsession")


def runner() -> list[str]:
    """Return the command that runs this program from any folder.

    If the name of the running script is ``gitsession`` or ``git-session``, return the path of the script. Otherwise,
    return ``python -P -m gitsession``.
    """
    here = os.path.abspath(sys.argv[0])
    if os.path.basename(here) in ("gitsession", "git-session") and os.access(here, os.X_OK):
        return [here]
    return [*_MODULE]
