"""The store API: open, create or clone a store, and use its sessions."""

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
    """Return the path of the user's store.

    The first that is set wins: ``given``, the environment, the user's git configuration, the default (``paths``).
    """
    return paths.store_path(given, os.environ, Path.home(), process.user_setting)


class Store:
    """A store of sessions. Open one with ``open``, ``create`` or ``clone``.

    A store is synchronous and safe to share between threads. Close it, or use it as a context manager.
    Less common operations are in ``remotes``, ``trash``, ``archive``, ``purges``, ``secrets`` and ``agents``.
    """

    def __init__(self, objects: GitStore, clock: Callable[[], int] = sessions.now_ms, *, tends: bool = True) -> None:
        """Wrap open objects. Programs call ``open``, ``create`` or ``clone`` instead.

        Args:
            objects: The storage of the store.
            clock: Returns the current Unix time in ms.
            tends: Whether ``close`` purges again what came back, and merges packs.
        """
        self.objects = objects
        self._opened = OpenStore(objects, clock)
        self.agents = AgentSessions(self._opened)  # created now: it remembers what this handle imported
        if create.is_partial(objects.git_dir):
            from gitsession.sync import transport

            transport.fetch_on_demand(objects)
        self._tends = tends

    # ---- parts, each loaded when it is first used

    @functools.cached_property
    def remotes(self) -> Remotes:
        """The remotes of the store."""
        from gitsession.api.remotes import Remotes

        return Remotes(self._opened)

    @functools.cached_property
    def trash(self) -> Trash:
        """The removed sessions, which can be restored."""
        from gitsession.api.trash import Trash

        return Trash(self._opened)

    @functools.cached_property
    def archive(self) -> ArchivedSessions:
        """The archived sessions, which are kept behind one ref."""
        from gitsession.api.trash import ArchivedSessions

        return ArchivedSessions(self._opened)

    @functools.cached_property
    def purges(self) -> Purges:
        """The permanent removal of entries and sessions."""
        from gitsession.api.purges import Purges

        return Purges(self._opened)

    @functools.cached_property
    def secrets(self) -> StoredSecrets:
        """The search for stored secrets, and their redaction."""
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
        """Open the store at ``path``.

        Args:
            path: The store. By default the user's store, which is created if it does not exist.
            durability: When an append survives a power cut: ``"entry"`` (when it returns), ``"turn"`` (after the next
                ``flush``) or ``"none"`` (no guarantee).
            flush_on_close: Whether ``close`` transfers the journal to git. Pass False in a process that appends once
                and ends; the next process that flushes transfers its entries too.
            clock: Returns the current Unix time in ms.
            damaged: Open the store even if files that make it a store are lost, to ``repair`` it.

        Returns:
            The open store.

        Raises:
            NotAStore: The path holds no store, or one of an unsupported kind.
            Corrupt: The store is damaged.
            Unavailable: The store cannot be created, or its files cannot be opened.
            ValueError: The durability is unknown.
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
        """Create a store at ``path`` and open it. If there is a store at ``path`` already, open that one.

        Args:
            path: A new or empty folder, or a store.
            clock: Returns the current Unix time in ms.

        Returns:
            The open store.

        Raises:
            NotAStore: The path holds something other than a store.
            Unavailable: The store cannot be written.
        """
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
        """Clone a remote into a new store and open it. The remote is named ``origin``.

        Args:
            url: The remote.
            path: A new or empty folder.
            filter: A git filter of objects to fetch only when they are read (``blob:limit=64k``).
            namespace: The namespace of the sessions, if the remote is a code repository: they are below
                ``refs/<namespace>/``.
            talk: How git reports progress and asks for passwords; by default it does neither.
            clock: Returns the current Unix time in ms.

        Returns:
            The open store, and the report of what was fetched.

        Raises:
            Refused: The path is not empty, or the branches of the remote are not those of a store.
            NotAStore: This release cannot open the cloned store.
            InvalidName: The URL or the namespace is invalid.
            Unavailable: The remote cannot be reached, or the store cannot be written.
        """
        from gitsession.sync import cloning
        from gitsession.sync.transport import TransportOptions

        report = cloning.clone(url, Path(path), talk or TransportOptions(), filter=filter, namespace=namespace)
        return cls.open(path, clock=clock), report

    # ---- sessions

    def new_session(self, *, agent: str, cwd: str | None = None) -> Session:
        """Create a session. Nothing is stored before its first user message.

        Args:
            agent: The name of the agent that writes the session.
            cwd: The working directory of the session. Its project is recorded too.

        Returns:
            The new session.
        """
        here = None if cwd is None else os.path.abspath(cwd)
        project = None if here is None else projects.identity_of(Path(here))
        session = sessions.StoredSession.new(self.objects, agent, here, self._opened.clock, project)
        return Session(self._opened, session)

    def session(self, address: str, *, cwd: str | None = None) -> Session:
        """Return the session that an address names.

        Args:
            address: A part of one session's id, ``<agent>:<source id>``, ``@`` or ``-``. ``@`` is the newest session
                whose working directory is ``cwd`` or a folder above it in the same repository; if there is none, the
                newest of the same project; if there is none, the newest of a folder above the repository. ``-`` is the
                session before ``@`` in this order.
            cwd: The folder that ``@`` and ``-`` start from. By default that of the process.

        Returns:
            A handle of the session, on its active branch.

        Raises:
            NotFound: No session matches.
            Ambiguous: Several sessions match.
        """
        row = self._opened.find(address, cwd)
        found = sessions.StoredSession.open(self.objects, row.sid, self._opened.clock, row.active, view=row.view)
        return Session(self._opened, found)

    def sessions(self) -> list[Row]:
        """Return all sessions, the newest first."""
        return self.catalogue().sessions()

    def catalogue(self, *, fresh: bool = True) -> Catalogue:
        """Return the catalog (the derived index of the store) of the calling thread.

        It belongs to this thread because a transaction of SQLite belongs to its connection.

        Args:
            fresh: Whether to update it first, which reads all of each session that has changed.
        """
        return self._opened.catalogues.get(fresh=fresh)

    def expired(self, rules: Retention) -> list[ExpiredSession]:
        """Select the sessions that retention rules move to the trash or to the archive. Nothing is moved.

        Args:
            rules: The rules by age, number, size and label.

        Returns:
            The selected sessions and the reasons, the newest session first.
        """
        from gitsession.archive import trash

        catalogue = self.catalogue()

        def labels(sid: str) -> set[str]:
            return {mark.value for mark in marks_of(catalogue.db, sid) if mark.what == "label" and mark.value}

        rows = catalogue.sessions()
        return trash.select_expired(rows, rules, labels=labels, size=lambda sid: trash.size_of(self.objects, sid))

    def search(
        self, query: str, *, agent: str = "", project: str = "", role: str = "", since_ms: int = 0, most: int = 20
    ) -> list[Hit]:
        """Search the conversations of all sessions.

        Args:
            query: Words that must all occur. Words in quotation marks must be adjacent; ``log*`` also matches longer
                words.
            agent: Only sessions of this agent.
            project: Only sessions whose working directory is this folder or below it, or that belong to the same
                project.
            role: Only text of this role, one of ``gitsession.index.search_words.ROLES``.
            since_ms: Only text since this time (Unix time in ms).
            most: Maximum number of hits.

        Returns:
            The hits, the best first.

        Raises:
            Unavailable: SQLite has no full-text search (FTS5), or another process is building the index.
        """
        catalogue = self.catalogue()
        identity = projects.identity_of(Path(project)) if project else None
        rows = (row for row in catalogue.sessions() if is_of(row, project, identity))
        among = {row.sid: row for row in rows if agent in ("", row.agent)}
        wanted = search.SearchQuery(query=query, sessions=among, role=role, since_ms=since_ms, most=most)
        with self.objects.without_fetching():
            return search.search(catalogue, self.objects, wanted)

    def follow(self, *, every: float = following.EVERY_SECONDS, idle: bool = False) -> Iterator[NewEntry | None]:
        """Yield each entry that any process appends from now on. The iterator never ends.

        No thread runs for it: it polls the store. Entries of agents' hooks appear when they are ingested (``drain``).

        Args:
            every: Interval between two polls, in seconds.
            idle: Whether to yield ``None`` after a poll that finds no entry.

        Yields:
            The entry with its session and its branch, or ``None``.

        Raises:
            Corrupt: An entry cannot be read.
            Unavailable: The store cannot be read.
        """
        return following.follow(self.objects, every=every, idle=idle)

    # ---- files of agents

    def import_file(
        self, path: str | Path, *, agent: str = "", final: bool = False, dry_run: bool = False
    ) -> list[ImportResult]:
        """Import the session in a file, or all sessions in a database. Import it again when it has changed.

        If one session of a database fails, those before it remain imported.

        Args:
            path: A session file or a database of an agent.
            agent: The agent that wrote it. By default it is detected.
            final: Whether the file is complete, so that text after its last line end is imported too.
            dry_run: Whether to compute the results without writing anything.

        Returns:
            The result of each session.

        Raises:
            NotFound: The agent is unknown, or the file is not a session of a known agent.
            Malformed: The file is not a regular file, or its content is invalid.
            NoBase: The file continues a session that is not in the store.
            Refused: The session was created by a later release.
            Corrupt: The store is damaged.
            Unavailable: The store cannot be written, or another process keeps writing to the session.
            OSError: The file cannot be read.
        """
        if agent and agent not in FORMATS:
            raise NotFound(f"unknown agent {agent!r}", hint=f"supported agents: {', '.join(sorted(FORMATS))}")
        path = Path(path)
        if path.exists() and not path.is_file():
            raise Malformed("not a regular file", where=str(path), hint="pass the files of a folder one by one")
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
        """Export a session as a file of an agent.

        The lines of the agent are written unchanged, and entries made in gitsession follow in the agent's format.

        Args:
            sid: The id of the session.
            at: The entry at which the exported history ends. By default all branches are exported.
            to: An agent, or ``jsonl`` or ``markdown``. By default the agent of the session.
            as_it_came: Whether to write only what was imported.
            with_secrets: Whether to write secrets whose originals are in the local vault, instead of placeholders.

        Returns:
            The file. Its ``beside`` has the other files that the agent has of the session and those that it continues;
            its ``hidden`` is the number of placeholders.

        Raises:
            Refused: There is no such format.
            Corrupt: An entry that the file needs cannot be read.
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
        """Ingest the spooled events of agents' hooks: import the sessions so far, and record checkpoints.

        Args:
            wait_seconds: How long to wait, in seconds, if another process is ingesting.

        Returns:
            The counts, and the failures.

        Raises:
            Unavailable: The store cannot be written.
        """
        from gitsession.api.imports import Imports
        from gitsession.live import ingesting

        if not spool.waiting(os.fspath(self.objects.git_dir)):
            return ingesting.IngestResult()
        imports = Imports(self.agents, logged=False, histories=False)  # hooks record files in more detail

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
        """Return the operations of the log, the newest first."""
        return list(operation_log.history(self.objects))

    def undo(
        self, workspace: str | Path | None = None, *, session: str | None = None, project: str | Path | None = None
    ) -> RewindResult:
        """Undo the last command that moved refs or wrote files.

        Files that have changed since are merged; if that is not possible, they stay as they are. Refs that other stores
        have stay too.

        Args:
            workspace: The folder of the files. By default the one that the command wrote to.
            session: Only commands that changed the session of this address.
            project: Only commands that changed sessions of this folder, of folders above or below it, or of its
                project.

        Returns:
            The undone operation and the outcome for each file.

        Raises:
            NotFound: There is nothing to undo.
            Refused: Work would be lost, or the command also changed sessions outside ``session`` or ``project``.
        """
        return self._take_next("undo", workspace, session, project)

    def redo(
        self, workspace: str | Path | None = None, *, session: str | None = None, project: str | Path | None = None
    ) -> RewindResult:
        """Redo the operation that was undone last. See ``undo`` for the arguments and errors."""
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

        It has all entries, flushed or not, and moves no refs.

        Args:
            transaction: A transaction of ``objects.transaction()`` that writes the objects created in the repository.
                By default the repository is read-only.
        """
        from gitsession.git import engine

        return engine.repository(self.objects, transaction, head=f"ref: {create.MAIN}")

    def unfinished(self) -> list[str]:
        """Return descriptions of the rewinds and undos that were killed and must be finished or aborted."""
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
        """Check the journal, git's ``fsck --strict``, and every entry against docs/reference/format.md.

        Args:
            sid: Check only the entries of this session.
            sample: Maximum number of entries to check. With ``sample`` or ``max_seconds``, a check of the whole store
                continues where the last such check ended (``Report.covered``).
            max_seconds: Maximum duration, in seconds.
            quick: Check only what is new since the last complete check without findings; everything if that is unknown.
            notices: Also report oddities that may be as the agent wrote them. This needs a complete check.

        Returns:
            The findings.

        Raises:
            Unavailable: There is no git.
            ValueError: ``notices`` is combined with ``sample``, ``max_seconds`` or ``quick``.
        """
        if notices and (quick or sample is not None or max_seconds is not None):
            raise ValueError("notices cannot be combined with quick, sample or max_seconds")
        if create.is_purge_pending(self.objects.git_dir):
            self._settle()  # the remains of a killed purge are no damage
        from gitsession.verify import entry_walk, store_check

        if sid is not None:
            create.check_readable(self.objects.git_dir)
            report = entry_walk.verify(self.objects, sid, sample=sample, max_seconds=max_seconds, notices=notices)
            report.problems[:0] = store_check.files_of_refs(self.objects)
            return report
        # Open a separate catalog without an update: an update would read the data to be checked.
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
        """Restore damaged data from copies and quarantine damaged files. Nothing is deleted.

        Args:
            sources: Repositories, session files or URLs with lost objects. They are tried first, then the alternates,
                the imported files of agents, and the remotes.
            dry_run: Whether to report what would be done without doing it.

        Returns:
            What was repaired, and what was not.

        Raises:
            Unavailable: The store cannot be written, or one of its files cannot be read.
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
        """Merge packs, pack refs, remove files of killed processes, and purge again what git commands brought back."""
        self.purges.settle(thorough=True)
        return maintain(self.objects)

    def flush(self) -> None:
        """Transfer the journal to git."""
        self.objects.flush()

    def close(self) -> None:
        """Flush and close the store; merge packs if there are many. Calling it again does nothing."""
        if self._tends and not self.objects.is_closed:
            self._settle()
        self._opened.catalogues.close()
        if self._tends and is_due(self.objects):
            with contextlib.suppress(GitSessionError):  # without git the packs can wait
                maintain(self.objects)
        self.objects.close()

    def _settle(self) -> None:
        """Purge again what came back. If that is impossible now, the next process that opens the store tries again."""
        with contextlib.suppress(GitSessionError, OSError):
            if not self.objects.read_only and self.objects.ref(refs.TOMBSTONES) is not None:
                self.purges.settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
