"""A store, as a program uses it."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gitsession import paths
from gitsession.api.agents import AgentSessions
from gitsession.api.opened import OpenStore, here_of
from gitsession.api.session import Session
from gitsession.discovery import projects, sources
from gitsession.errors import GitSessionError, Malformed, NotFound, require
from gitsession.exporting import export_session, session_files
from gitsession.exporting.export_session import ExportResult
from gitsession.formats import FORMATS
from gitsession.git import process
from gitsession.importing.import_session import ImportResult
from gitsession.index import search
from gitsession.index.catalogue import Catalogue, Row
from gitsession.index.current_folder import is_of
from gitsession.index.names import marks_of
from gitsession.index.search import Hit
from gitsession.live import follow as following
from gitsession.live import spool
from gitsession.live.follow import NewEntry
from gitsession.sessions import operation_log, session_ids
from gitsession.sessions import session as sessions
from gitsession.sessions.node import Node
from gitsession.sessions.operation_log import Operation, UndoScope, Verb, WorkspaceWrite
from gitsession.sessions.revealed_store import RevealedStore
from gitsession.store import create, refs
from gitsession.store.git_store import Durability, GitStore
from gitsession.store.maintenance import MaintenanceResult, is_due, maintain

if TYPE_CHECKING:
    from gitsession.api.purges import Purges, StoredSecrets
    from gitsession.api.remotes import Remotes
    from gitsession.api.trash import ArchivedSessions, Trash
    from gitsession.archive.trash import ExpiredSession, Retention
    from gitsession.checkpoints.rewinding import RewindResult
    from gitsession.git.engine import StoreRepository
    from gitsession.live.ingesting import IngestResult
    from gitsession.repair.repair import RepairResult
    from gitsession.store.interface import Transaction
    from gitsession.sync.syncing import SyncReport
    from gitsession.sync.transport import TransportOptions
    from gitsession.verify.findings import Report
    from gitsession.workspace.root import WorkspaceRoot


def default_path(given: str | None = None) -> Path:
    """Return where the user's store lies (``paths``)."""
    return paths.store_path(given, os.environ, Path.home(), process.user_setting)


class Store:
    """A store of sessions: ``Store.open()`` for the user's own, ``Store.create(path)`` for another.

    Synchronous and safe to share between threads; close it, or use it in a ``with``. What not every program needs is in
    its parts: ``remotes``, ``trash``, ``archive``, ``purges``, ``secrets`` and ``agents``.
    """

    def __init__(self, objects: GitStore, clock: Callable[[], int] = sessions.now_ms, *, tends: bool = True) -> None:
        """Use ``open`` or ``create``."""
        self.objects = objects
        self._opened = OpenStore(objects, clock)
        self.agents = AgentSessions(self._opened)  # not made later: it remembers what this handle imported
        if create.is_partial(objects.git_dir):
            from gitsession.sync import transport

            transport.fetch_on_demand(objects)
        self._tends = tends

    # ---- parts, each loaded when it is first used

    @functools.cached_property
    def remotes(self) -> Remotes:
        """Other repositories that sessions are synced with."""
        from gitsession.api.remotes import Remotes

        return Remotes(self._opened)

    @functools.cached_property
    def trash(self) -> Trash:
        """Sessions that were removed and can be restored."""
        from gitsession.api.trash import Trash

        return Trash(self._opened)

    @functools.cached_property
    def archive(self) -> ArchivedSessions:
        """Old sessions, kept whole behind one ref."""
        from gitsession.api.trash import ArchivedSessions

        return ArchivedSessions(self._opened)

    @functools.cached_property
    def purges(self) -> Purges:
        """Removal for good."""
        from gitsession.api.purges import Purges

        return Purges(self._opened)

    @functools.cached_property
    def secrets(self) -> StoredSecrets:
        """Secrets in what is stored: search and redaction."""
        from gitsession.api.purges import StoredSecrets

        return StoredSecrets(self._opened)

    # ---- opening

    @classmethod
    def open(
        cls,
        path: str | Path | None = None,
        *,
        durability: Durability = "entry",
        flush_on_close: bool = True,
        clock: Callable[[], int] = sessions.now_ms,
        damaged: bool = False,
    ) -> Self:
        """The store at ``path``; without one, the user's own, made if it is not there yet.

        ``durability``: ``entry`` (an append that returned survives a power cut), ``turn`` (after ``flush``), ``none``.
        ``flush_on_close=False`` is for processes that append once and end: the next one hands theirs over to git.
        ``damaged=True`` opens a store also where what makes it one is lost, to ``repair`` it.
        Raises ``NotAStore`` and ``Corrupt``.
        """
        if path is None:
            path = default_path()
            if not path.exists():
                create.create(path)
        objects = GitStore.open(path, durability=durability, flush_on_close=flush_on_close, damaged=damaged)
        store = cls(objects, clock, tends=flush_on_close)
        if not damaged and create.is_purge_pending(path):
            store._settle()
        return store

    @classmethod
    def create(cls, path: str | Path, *, clock: Callable[[], int] = sessions.now_ms) -> Self:
        """A new store at ``path``, or the one that is there. Raises ``NotAStore`` where something else is."""
        create.create(path)
        return cls(GitStore.open(path), clock)

    @classmethod
    def clone(
        cls,
        url: str,
        path: str | Path,
        *,
        filter: str = "",
        namespace: str = "",
        talk: TransportOptions | None = None,
        clock: Callable[[], int] = sessions.now_ms,
    ) -> tuple[Self, SyncReport]:
        """A new store at ``path`` of what is at ``url``, which is its remote ``origin``; and what came.

        ``filter``: what to leave out until it is read, as git says it (``blob:limit=64k``). ``namespace``: it is shared
        with a code repository. Raises ``Refused``, ``NotAStore``, ``InvalidName`` and ``Unavailable``.
        """
        from gitsession.sync import cloning
        from gitsession.sync.transport import TransportOptions

        report = cloning.clone(url, Path(path), talk or TransportOptions(), filter=filter, namespace=namespace)
        return cls.open(path, clock=clock), report

    # ---- sessions

    def new_session(self, *, agent: str, cwd: str | None = None) -> Session:
        """A session that begins with its first user message. ``cwd``: the folder it is held in."""
        here = None if cwd is None else os.path.abspath(cwd)
        project = None if here is None else projects.identity_of(Path(here))
        session = sessions.StoredSession.new(self.objects, agent, here, self._opened.clock, project)
        return Session(self._opened, session)

    def session(self, address: str, *, cwd: str | None = None) -> Session:
        """The session that ``address`` names: a unique part of its id, ``<agent>:<source id>``, ``@``, ``-``.

        ``@`` is the newest session held in ``cwd`` (this process's folder) or above it in its repository; where there
        is none, the newest of its project; then the newest held above that. ``-`` is the one before it.
        Raises ``NotFound`` or ``Ambiguous``.
        """
        row = self._opened.find(address, cwd)
        found = sessions.StoredSession.open(self.objects, row.sid, self._opened.clock, row.active, view=row.view)
        return Session(self._opened, found)

    def sessions(self) -> list[Row]:
        """List the sessions, the newest first."""
        return self.catalogue().sessions()

    def catalogue(self, *, fresh: bool = True) -> Catalogue:
        """Return the derived index. For this thread only: a transaction of SQLite is its connection's.

        ``fresh``: brought up to date, which looks at the whole of each session that has changed.
        """
        return self._opened.catalogues.get(fresh=fresh)

    def expired(self, rules: Retention) -> list[ExpiredSession]:
        """Select sessions to put into the trash or the archive, by rules, the newest first."""
        from gitsession.archive import trash

        catalogue = self.catalogue()

        def labels(sid: str) -> set[str]:
            return {mark.value for mark in marks_of(catalogue.db, sid) if mark.what == "label" and mark.value}

        rows = catalogue.sessions()
        return trash.select_expired(rows, rules, labels=labels, size=lambda sid: trash.size_of(self.objects, sid))

    def search(
        self, query: str, *, agent: str = "", project: str = "", role: str = "", since_ms: int = 0, most: int = 20
    ) -> list[Hit]:
        """Where all words of ``query`` were said, the best first; in quotation marks side by side, ``log*`` longer too.

        ``project``: held in a folder or below it, and wherever else that project lies. ``role``: of
        ``gitsession.index.search_words.ROLES``. Raises ``Unavailable``.
        """
        catalogue = self.catalogue()
        identity = projects.identity_of(Path(project)) if project else None
        rows = (row for row in catalogue.sessions() if is_of(row, project, identity))
        among = {row.sid: row for row in rows if agent in ("", row.agent)}
        wanted = search.SearchQuery(query=query, sessions=among, role=role, since_ms=since_ms, most=most)
        with self.objects.asking_nobody():
            return search.search(catalogue, self.objects, wanted)

    def follow(self, *, every: float = following.EVERY_SECONDS, idle: bool = False) -> Iterator[NewEntry | None]:
        """Every entry that comes from now on, whoever writes it: ``NewEntry`` (``session``, ``branch``, ``node``).

        An iterator that never ends; break out of it. ``every``: seconds between two looks; ``idle``: one that finds
        nothing gives ``None``. No thread runs for it. What agents' hooks have left comes when it is taken in.
        """
        return following.follow(self.objects, every=every, idle=idle)

    # ---- files of agents

    def import_file(
        self, path: str | Path, *, agent: str = "", final: bool = False, dry_run: bool = False
    ) -> list[ImportResult]:
        """Import the session at ``path``, or all sessions of a database; again whenever it has changed.

        ``agent``: whose it is, where it does not show. ``final``: the file is closed, take what follows its last line
        end too. Raises ``NotFound`` where no agent wrote it, ``Malformed``, ``NoBase`` where it goes on from a session
        that is not here, ``Refused``, ``Corrupt``, ``Unavailable``, ``OSError``; what came before it in a database is
        imported then.
        """
        if agent and agent not in FORMATS:
            raise NotFound(f"no agent {agent!r}", hint=f"there are {', '.join(FORMATS)}")
        path = Path(path)
        if path.exists() and not path.is_file():
            raise Malformed("not a regular file", where=str(path), hint="name the files in a folder, one by one")
        group = secrets.token_hex(8)
        done = [
            self.agents.import_session(found.format, found.take(), path=found.place, group=group, dry_run=dry_run)
            for found in sources.at(path, FORMATS[agent] if agent else None, final=final)
        ]
        if not done:
            raise sources.unrecognized(path)
        return done

    def export(
        self,
        sid: str,
        at: Node | None = None,
        *,
        to: str | None = None,
        as_it_came: bool = False,
        with_secrets: bool = False,
    ) -> ExportResult:
        """Return the session as a file of the agent ``to``, by default its own; ``at``: only the line that ends there.

        The agent's own lines are as it wrote them, and what was made here follows; ``as_it_came``: without it. Other
        files that the agent has of the session, and those that it goes on from, are in ``ExportResult.beside``.
        Secrets are placeholders, which ``ExportResult.hidden`` counts; ``with_secrets``: only those that are not here
        are. Raises ``Refused`` and ``Corrupt``.
        """
        require(at, Node | None, "an entry, as session.resolve('leaf') returns")
        shown = RevealedStore(self.objects, reveals=with_secrets)
        sent = (
            export_session.export_original(shown, sid, at) if as_it_came else export_session.export(shown, sid, to, at)
        )
        bases = session_files.bases(shown, sent.agent, sent.data, self.agents.find)
        whole = [*bases, *(session_files.others(shown, sent.agent, sid, sent.data) if at is None else ())]
        beside = {file.name: file.data for file in reversed(whole)}
        return replace(sent, beside=tuple(sorted(beside.items()))).from_store(shown)

    def drain(self, *, wait_seconds: float = 0.0) -> IngestResult:
        """Import what agents' hooks have spooled: sessions as far as their files go, and checkpoints.

        ``wait_seconds``: how long to wait for another process that does it. Raises ``Unavailable``.
        """
        from gitsession.api.imports import Imports
        from gitsession.live import ingesting

        if not spool.waiting(os.fspath(self.objects.git_dir)):
            return ingesting.IngestResult()
        imports = Imports(self.agents, logged=False, histories=False)  # hooks look for themselves, and know more

        def take_in(agent: str, source_id: str, file: str) -> str | None:
            return imports.follow(agent, source_id, file, Path.home(), os.environ)

        try:
            return ingesting.ingest(
                self.objects, take_in, home=Path.home(), clock=self._opened.clock, wait_seconds=wait_seconds
            )
        finally:
            imports.finish()

    # ---- the store as a whole

    def operations(self) -> list[Operation]:
        """The operation log, newest first."""
        return list(operation_log.history(self.objects))

    def undo(
        self, workspace: str | Path | None = None, *, session: str | None = None, project: str | Path | None = None
    ) -> RewindResult:
        """Take back the last command that moved refs, or wrote files: those that are still as it left them.

        ``workspace``: where those files are, if not where they were. ``session``, ``project``: only of the session at
        this address, or of those held in this folder, above or below it, or of its project; else of all. Raises
        ``NotFound``, or ``Refused`` where work would be lost, or a command changed sessions outside of these too.
        """
        return self._take_next("undo", workspace, session, project)

    def redo(
        self, workspace: str | Path | None = None, *, session: str | None = None, project: str | Path | None = None
    ) -> RewindResult:
        """Do again what was last undone. The arguments are those of ``undo``."""
        return self._take_next("redo", workspace, session, project)

    def _take_next(
        self, verb: Verb, workspace: str | Path | None, session: str | None, project: str | Path | None
    ) -> RewindResult:
        from gitsession.api import workspaces
        from gitsession.checkpoints import undoing

        scope: UndoScope = operation_log.anywhere
        if session is not None:
            scope = workspaces.of_session(session if session_ids.is_one(session) else self._opened.find(session).sid)
        elif project is not None:
            scope = workspaces.of_folder(self.objects, self.sessions(), here_of(os.fspath(project)))

        def open_root(files: WorkspaceWrite) -> WorkspaceRoot:
            return workspaces.open_root(
                self._opened, files.session, workspace, recorded=files.workspace, writes=True
            )

        def open_session(sid: str) -> sessions.StoredSession:
            return sessions.StoredSession.open(self.objects, sid, self._opened.clock)

        return undoing.take_next(
            self.objects, verb, self._opened.clock, open_root=open_root, open_session=open_session, scope=scope
        )

    def repository(self, transaction: Transaction | None = None) -> StoreRepository:
        """Return a ``pygit2.Repository`` of this store for the calling thread (docs/reference/git.md).

        It has everything that was appended, flushed or not, and is read-only. With ``transaction``, which
        ``objects.transaction()`` opens, the objects that it makes are written by that transaction. It moves no refs.
        """
        from gitsession.git import engine

        return engine.repository(self.objects, transaction, head=f"ref: {create.MAIN}")

    def unfinished(self) -> list[str]:
        """What was begun in workspaces, and has not ended: a rewind that was killed."""
        from gitsession.checkpoints import intents

        return [intent.words for intent in intents.pending(self.objects)]

    def verify(
        self,
        sid: str | None = None,
        *,
        sample: int | None = None,
        max_seconds: float | None = None,
        quick: bool = False,
        notices: bool = False,
    ) -> Report:
        """Check what is kept: the journal, git's own `fsck --strict`, every entry against docs/reference/format.md.

        ``sid``: only the entries of one session. ``sample`` and ``max_seconds``: only so many entries, and for so long;
        of the whole store, the next part of a round that goes on from call to call (``covered``). ``quick``: only what
        is new since the last check of all that found nothing; where that cannot be told, all. ``notices``: also what
        is odd and may be as it was written; it needs all there is, so neither a part nor ``quick``.
        Raises ``Unavailable`` where there is no git.
        """
        if notices and (quick or sample is not None or max_seconds is not None):
            raise ValueError("notices are of all there is: neither quick, nor of a sample or a limit of time")
        if create.is_purge_pending(self.objects.git_dir):
            self._settle()  # what a killed purge has left is no damage
        from gitsession.verify import entry_walk, store_check

        if sid is not None:
            create.check_readable(self.objects.git_dir)
            report = entry_walk.verify(self.objects, sid, sample=sample, max_seconds=max_seconds, notices=notices)
            report.problems[:0] = store_check.files_of_refs(self.objects)
            return report
        # A catalogue of its own, as it was left: bringing it up to date would read what is to be checked.
        with contextlib.closing(Catalogue(self.objects.git_dir)) as catalogue:
            seen = catalogue.last_seen_refs()
        return store_check.verify(
            self.objects,
            seen=seen,
            sample=sample,
            max_seconds=max_seconds,
            quick=quick,
            notices=notices,
            now_ms=self._opened.clock(),
        )

    def repair(self, sources: Sequence[str | Path] = (), *, dry_run: bool = False) -> RepairResult:
        """Heal what is damaged from copies, and set damaged files aside; nothing is deleted.

        ``sources``: repositories, session files or URLs to take lost objects from, before the alternates, the agents'
        own files that were imported, and the remotes. ``dry_run``: only say what would be done.
        """
        from tempfile import TemporaryDirectory

        from gitsession.repair import donors
        from gitsession.repair import repair as healing

        git_dir = self.objects.git_dir
        with contextlib.closing(Catalogue(git_dir)) as catalogue, TemporaryDirectory(prefix="gitsession-") as place:
            known = catalogue.last_seen_refs()
            asked = [donors.named(str(source), Path(place) / f"named-{n}") for n, source in enumerate(sources)]
            asked += [*donors.alternates(git_dir), donors.AgentFiles(catalogue), donors.FirstCommitDonor()]
            asked += donors.remotes(git_dir, Path(place))
            return healing.repair(self.objects, asked, seen=known.items(), dry_run=dry_run)

    def maintain(self) -> MaintenanceResult:
        """Merge packs, pack refs, clean up after killed processes; purge what plain git brought back."""
        self.purges.settle(thorough=True)
        return maintain(self.objects)

    def flush(self) -> None:
        """Hand everything over to git."""
        self.objects.flush()

    def close(self) -> None:
        """Hand over to git and let go. Idempotent. Where many packs have gathered, they are merged."""
        if self._tends and not self.objects.is_closed:
            self._settle()
        self._opened.catalogues.close()
        if self._tends and is_due(self.objects):
            with contextlib.suppress(GitSessionError):  # without git the packs can wait
                maintain(self.objects)
        self.objects.close()

    def _settle(self) -> None:
        """Purge again what came back, if that is possible now; the next process that opens the store tries again."""
        with contextlib.suppress(GitSessionError, OSError):
            if not self.objects.read_only and self.objects.ref(refs.TOMBSTONES) is not None:
                self.purges.settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
