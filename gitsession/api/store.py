"""The store API: open, create or clone a store, and access its sessions."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from gitsession import paths
from gitsession.api.opened import Handle, OpenStore, folder_of
from gitsession.api.session import Session
from gitsession.errors import GitSessionError, InvalidName, Malformed, NotFound, Refused, require
from gitsession.formats import FORMATS
from gitsession.index.catalogue import Catalogue, Row
from gitsession.index.current_folder import is_of, of_folder
from gitsession.index.names import marks_of
from gitsession.live import follow as following
from gitsession.live import spool
from gitsession.live.follow import NewEntry
from gitsession.sessions import commit_writer
from gitsession.sessions import session as sessions
from gitsession.sessions.node import Node
from gitsession.sessions.revealed_store import RevealedStore
from gitsession.store import create, refs
from gitsession.store.git_store import Durability, GitStore
from gitsession.store.maintenance import MaintenanceResult, is_due, maintain

if TYPE_CHECKING:
    from gitsession.api.agents import AgentSessions
    from gitsession.api.purges import Purges, StoredSecrets
    from gitsession.api.remotes import Remotes
    from gitsession.api.trash import ArchivedSessions, Trash
    from gitsession.archive.trash import ExpiredSession, Retention
    from gitsession.checkpoints.rewinding import RewindResult
    from gitsession.compaction.policy import CompactionPolicy
    from gitsession.exporting.export_session import ExportResult
    from gitsession.git.engine import StoreRepository
    from gitsession.importing.import_session import ImportResult
    from gitsession.index.prompts import RecentPrompt
    from gitsession.index.search import Hit, SearchQuery
    from gitsession.live.ingesting import IngestResult
    from gitsession.repair.repair import RepairResult
    from gitsession.sessions.operation_log import Operation, UndoScope, Verb, WorkspaceWrite
    from gitsession.store.interface import Transaction
    from gitsession.sync.syncing import SyncReport
    from gitsession.sync.transport import TransportOptions
    from gitsession.verify.findings import Report
    from gitsession.workspace.root import WorkspaceRoot


_STOP_SECONDS = 5.0
"""Maximum time to wait for a cancelled compaction when a store is closed."""


def default_path(path: str | None = None) -> Path:
    """Return the path of the user's store.

    The path is the first of these values that is set: ``path``, ``$GITSESSION_DIR``, and ``gitsession.store`` in the
    user's git configuration. If none is set, the store is in the user's data folder (``gitsession.paths``).
    """
    from gitsession.git import process

    return Path(paths.store_path(path, os.environ, os.path.expanduser("~"), process.user_setting))


class Store:
    """A store of sessions. Open one with ``open``, ``create`` or ``clone``.

    All methods are synchronous, and threads can share a store. Close the store, or use it as a context manager. Less
    common operations are methods of its attributes ``remotes``, ``trash``, ``archive``, ``purges``, ``secrets`` and
    ``agents``.
    """

    def __init__(
        self, objects: GitStore, clock: Callable[[], int] = commit_writer.now_ms, *, tends: bool = True
    ) -> None:
        """Wrap an open object store. Programs call ``open``, ``create`` or ``clone`` instead.

        Args:
            objects: The object store.
            clock: A function that returns the current Unix time in ms.
            tends: Whether ``close`` also repeats purges of restored data and merges packs.
        """
        self.objects = objects
        self._opened = OpenStore(objects, clock)
        if objects.local_dir is not None and create.is_partial(objects.local_dir):
            from gitsession.sync import transport

            transport.fetch_on_demand(objects)
        self._tends = tends

    # ---- attributes, whose modules are loaded on first use

    @functools.cached_property
    def agents(self) -> AgentSessions:
        """The import of agents' session files, and the resumption of sessions in agents."""
        from gitsession.api.agents import AgentSessions

        return AgentSessions(self._opened)

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
        """The archived sessions, which are stored behind one ref."""
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
        clock: Callable[[], int] = commit_writer.now_ms,
        damaged: bool = False,
        compaction: CompactionPolicy | None = None,
    ) -> Self:
        """Open the store at ``path``.

        Args:
            path: The path of the store. By default, the user's store is opened, and is created if it does not exist.
            durability: The time from which an appended entry survives a power failure: ``"entry"`` (when ``append``
                returns), ``"turn"`` (after the next ``flush``) or ``"none"`` (no guarantee).
            flush_on_close: Whether ``close`` transfers the journal to git. Pass False in a process that appends once
                and exits. The next process that flushes the store also transfers these entries.
            clock: A function that returns the current Unix time in ms.
            damaged: Whether to open a store that lacks essential files, so that ``repair`` can restore them.
            compaction: The policy of automatic compaction for all sessions. By default, the user's git configuration
                determines it, and without such settings, nothing is compacted automatically.

        Returns:
            The open store.

        Raises:
            NotAStore: There is no store at the path, or the store is of an unsupported kind.
            Corrupt: The store is damaged.
            Unavailable: The store cannot be created, or its files cannot be opened.
            ValueError: The value of ``durability`` is not supported.
        """
        if path is None:
            path = default_path()
            if not path.exists():
                create.create(path)
        objects = GitStore.open(path, durability=durability, flush_on_close=flush_on_close, damaged=damaged)
        if flush_on_close and not damaged:
            objects.flush_left()
        store = cls(objects, clock, tends=flush_on_close)
        if compaction is not None:
            store._opened.compaction = compaction
        if not damaged and create.is_purge_pending(path):
            store._settle()
        return store

    @classmethod
    def create(cls, path: str | Path, *, clock: Callable[[], int] = commit_writer.now_ms) -> Self:
        """Create a store at ``path`` and open it. If ``path`` is already a store, only open it.

        Args:
            path: The path of the store: a path that does not exist yet, an empty folder, or a store.
            clock: A function that returns the current Unix time in ms.

        Returns:
            The open store.

        Raises:
            NotAStore: The path exists, and is neither a store nor an empty folder.
            Unavailable: The store cannot be written.
        """
        create.create(path)
        return cls(GitStore.open(path), clock)

    @classmethod
    def in_memory(cls, *, clock: Callable[[], int] = commit_writer.now_ms) -> Self:
        """Create an empty store in memory, for tests of programs and for agents whose sessions need not be kept.

        No file is written. The store belongs to this process, its threads can share it, and its data is lost with the
        object. Secrets are redacted by the built-in rules. Each thread has its own catalog, and each search builds its
        index again, so a large store belongs on disk.

        Sessions, branches, contexts, compaction, search, ``undo``, the trash, the archive, ``follow``, imports and
        exports work as in a store on disk. Operations that need git or files of the store raise ``Unavailable``:
        remotes, ``purges``, ``verify``, ``repair``, ``maintain``, ``drain``, ``unfinished``, and checkpoints and
        rewinds of files.

        Args:
            clock: A function that returns the current Unix time in ms.

        Returns:
            The open store.
        """
        from gitsession.store.memory import MemoryStore

        return cls(cast(GitStore, MemoryStore()), clock, tends=False)

    @classmethod
    def clone(
        cls,
        url: str,
        path: str | Path,
        *,
        filter: str = "",
        namespace: str = "",
        transport: TransportOptions | None = None,
        clock: Callable[[], int] = commit_writer.now_ms,
    ) -> tuple[Self, SyncReport]:
        """Clone a remote into a new store and open it. The remote is named ``origin``.

        Args:
            url: The URL of the remote, or the path of a repository.
            path: The path of the new store: a path that does not exist yet, or an empty folder.
            filter: A filter for a partial clone, such as ``blob:limit=64k``. Objects that it excludes are fetched when
                they are read.
            namespace: The namespace of the sessions, if the remote is a code repository. The refs of the sessions are
                below ``refs/<namespace>/``.
            transport: Options for git's progress output and password prompts. Both are off by default.
            clock: A function that returns the current Unix time in ms.

        Returns:
            The open store, and a report of the fetched refs.

        Raises:
            Refused: The folder is not empty, or the remote has branches that are not part of a store.
            NotAStore: This release cannot open the cloned store.
            InvalidName: The URL or the namespace is invalid.
            Unavailable: The remote cannot be reached, or the store cannot be written.
        """
        from gitsession.sync import cloning
        from gitsession.sync.transport import TransportOptions

        report = cloning.clone(url, Path(path), transport or TransportOptions(), filter=filter, namespace=namespace)
        return cls.open(path, clock=clock), report

    # ---- sessions

    def new_session(self, *, agent: str, cwd: str | None = None, parent: Session | None = None) -> Session:
        """Create a session. The session is stored when its first user message is appended.

        Entries that are appended before that message are kept in memory. Until then, ``context()`` returns an empty
        context without these entries, and methods that require a stored session or entry raise ``NotFound``. Examples
        are ``label``, ``rename``, ``fork`` and ``files.take_checkpoint``.

        Args:
            agent: The name of the agent that writes the session. If there is no context profile with this name, the
                session uses the profile ``"pi"``. See ``Session.context``.
            cwd: The working directory of the session. The project of this folder is recorded too.
            parent: The session that starts the new one, as an agent starts a sub-agent. Its tip is recorded as the
                entry at which the new session began (``Session.origin``). If both have the same agent and the same
                folder, the new session records the set of instructions that is in force there, if it can be read.

        Returns:
            The new session.

        Raises:
            InvalidName: The agent name is empty.
        """
        return self._new_session(agent, cwd, parent=parent)

    def _new_session(
        self, agent: str, cwd: str | None, *, parent: Session | None = None, key: str | None = None
    ) -> Session:
        from gitsession.discovery.projects import identity_of

        require(agent, str, "the name of an agent")
        if not agent.strip():
            hint = "pass the name of the program that writes the session, as in new_session(agent='my-agent')"
            raise InvalidName("cannot create a session: the agent name is empty", hint=hint)
        folder = None if cwd is None else os.path.abspath(cwd)
        project = None if folder is None else identity_of(Path(folder))
        starter = None if parent is None else parent._session
        session = sessions.StoredSession.new(self.objects, agent, folder, self._opened.clock, project, starter, key)
        opened = Session(self._opened, session)
        if parent is not None:
            from gitsession.api import session_instructions

            session_instructions.inherit(opened._handle, parent._handle, agent, folder)
        return opened

    def keyed_session(self, key: str, *, agent: str, cwd: str | None = None) -> Session:
        """Return the session that a program knows by an id of its own. Create and store it if there is none.

        Two processes that ask for the same key at the same time get the same session.

        Args:
            key: The program's own id of the session, such as the id of a thread.
            agent: The name of the program that writes the session.
            cwd: The working directory of a new session.

        Returns:
            A handle to the session, on its active branch.

        Raises:
            InvalidName: The key or the agent name is empty.
        """
        require(key, str, "the key of a session")
        if not key.strip():
            raise InvalidName("cannot find the session: its key is empty", hint="pass the program's id of the session")
        with self._opened.lock_keys():
            found = self.find_keyed(key, agent=agent)
            return found or self._new_session(agent, cwd, key=key)

    def find_keyed(self, key: str, *, agent: str) -> Session | None:
        """Return the session that a program knows by an id of its own; ``None`` if there is none.

        Args:
            key: The program's own id of the session.
            agent: The name of the program that writes the session.
        """
        row = self._opened.catalogues.get().by_key(agent, key)
        return None if row is None else self._handle(row, row.active)

    def session(self, address: str, *, cwd: str | None = None) -> Session:
        """Return the session that an address names.

        The address ``@`` is the first session in the following order, and ``-`` is the second:

        1. sessions whose working directory is ``cwd`` or a folder above it in the same repository
        2. other sessions of the same project
        3. sessions of folders above the repository

        In each group, the newest session is first. Sessions of sub-agents are used only if there is no other session.

        Args:
            address: A unique part of a session id, the beginning of the agent's own id with or without ``<agent>:``
                before it, ``@`` or ``-``. If no other session matches, and the address has at least seven characters
                of the id of an archived session, that session is restored.
            cwd: The folder to which ``@`` and ``-`` refer. Defaults to the working directory of the process.

        Returns:
            A handle to the session, on its active branch.

        Raises:
            NotFound: No session matches.
            Ambiguous: Several sessions match.
        """
        row = self._opened.known(address)
        branch = None  # that of the store, because ``row`` may be outdated
        if row is None:
            row = self._opened.find(address, cwd)
            branch = row.active
        return self._handle(row, branch)

    def _handle(self, row: Row, branch: str | None) -> Session:
        found = sessions.StoredSession.open(self.objects, row.sid, self._opened.clock, branch, view=row.view)
        return Session(self._opened, found)

    def sessions(self, newest: int | None = None) -> list[Row]:
        """Return the sessions, the newest first.

        Args:
            newest: Maximum number of sessions. If the catalog of a large store is new, a short list is returned without
                reading all sessions. Defaults to no limit.
        """
        return self._opened.catalogues.get(newest=newest).sessions(newest)

    def sessions_of(self, folder: str | Path, among: Sequence[Row] | None = None) -> list[Row]:
        """Return the sessions from which ``session("@", cwd=folder)`` selects, the newest first.

        Args:
            folder: The folder.
            among: The sessions to select from, as ``sessions`` returns them. Defaults to all sessions.

        Returns:
            The sessions of the folder, of the folders above it, and of its project.
        """
        return of_folder(self.sessions() if among is None else among, folder_of(os.fspath(folder)))

    def catalogue(self, *, fresh: bool = True) -> Catalogue:
        """Return the catalog (the derived index of the store) of the calling thread.

        Call this method in each thread, and do not share the result: each thread has its own SQLite connection.

        Args:
            fresh: Whether to update the catalog first. An update reads each changed session in full.
        """
        return self._opened.catalogues.get(fresh=fresh)

    def expired(self, rules: Retention) -> list[ExpiredSession]:
        """Select the sessions that retention rules would move to the trash or to the archive. Nothing is moved.

        Args:
            rules: The rules by age, number, size and label.

        Returns:
            The selected sessions with the reasons, the newest session first.
        """
        from gitsession.archive import trash

        catalogue = self.catalogue()

        def labels(sid: str) -> set[str]:
            return {mark.value for mark in marks_of(catalogue.db, sid) if mark.what == "label" and mark.value}

        rows = catalogue.sessions()
        return trash.select_expired(rows, rules, labels=labels, size=lambda sid: trash.size_of(self.objects, sid))

    def search(
        self, query: str, *, regex: bool = False, agent: str = "", project: str = "", folder: str | Path | None = None,
        file: str = "", role: str = "", since_ms: int = 0, until_ms: int | None = None, most: int = 20,
    ) -> list[Hit]:  # fmt: skip
        """Search the conversations of all sessions.

        Args:
            query: The words to search for. All words must occur. Other forms of a word, such as ``tested`` for
                ``testing``, match too. Longer words match the last word, and ``log*`` matches all words that begin with
                ``log``. Words in quotation marks match exactly and must be adjacent.
            regex: Whether ``query`` is a regular expression of Python's ``re``. All entries that pass the filters are
                read. ``^`` and ``$`` match at each line. The time for one entry is not limited.
            agent: Search only sessions of this agent.
            project: Search only sessions that belong to the project of this folder, or whose working directory is this
                folder or a folder below it.
            folder: Search only the sessions that ``sessions_of(folder)`` returns.
            file: Search only sessions whose tool calls changed this file, or a file in this folder.
            role: Search only text of this role: ``"user"``, ``"assistant"``, ``"tool"``, ``"shell"``, ``"custom"``,
                ``"summary"`` or ``"title"``.
            since_ms: Search only text that is not older than this Unix time in ms.
            until_ms: Search only text that is older than this Unix time in ms.
            most: The maximum number of hits.

        Returns:
            The hits, the best first; those of a regular expression, the newest first.

        Raises:
            InvalidName: The role is unknown, or the regular expression is invalid.
            Unavailable: SQLite has no full-text search (FTS5), or another process is building the index.
        """
        from gitsession.index import search

        wanted = self._search_query(
            query, regex=regex, agent=agent, project=project, folder=folder, file=file, role=role, since_ms=since_ms,
            until_ms=until_ms, most=most,
        )  # fmt: skip
        with self.objects.without_fetching():
            return search.search(self.catalogue(), self.objects, wanted)

    def suggest_query(self, query: str, **filters: Any) -> str:
        """Return a query with hits, in which unknown words are replaced by known ones with almost the same spelling.

        Args:
            query: A query without hits.
            filters: The filters of the search, as for ``search``.

        Returns:
            The query; "" if there is none.

        Raises:
            InvalidName: The role is unknown.
            Unavailable: SQLite has no full-text search (FTS5), or another process is building the index.
        """
        from gitsession.index import search

        wanted = self._search_query(query, **filters)
        with self.objects.without_fetching():
            return search.suggest(self.catalogue(), self.objects, wanted)

    def _search_query(
        self, query: str, *, regex: bool = False, agent: str = "", project: str = "", folder: str | Path | None = None,
        file: str = "", role: str = "", since_ms: int = 0, until_ms: int | None = None, most: int = 20,
    ) -> SearchQuery:  # fmt: skip
        from gitsession.discovery.projects import identity_of
        from gitsession.index import search
        from gitsession.index.search_words import ROLES

        if role and role not in ROLES:
            raise InvalidName(f"cannot search: unknown role {role!r}", hint=f"choose one of {', '.join(ROLES)}")
        matches = search.regular_expression(query) if regex else None
        catalogue = self.catalogue()
        among: set[str] | None = None
        if agent or project or file or folder is not None:
            identity = identity_of(Path(project)) if project else None
            found = catalogue.sessions() if folder is None else self.sessions_of(folder)
            among = {row.sid for row in found if is_of(row, project, identity) and agent in ("", row.agent)}
            if file:
                from gitsession.index.file_changes import sessions_that_changed

                among &= sessions_that_changed(catalogue.db, os.path.abspath(file), file)
        return search.SearchQuery(
            query=query, sessions=among, role=role, since_ms=since_ms, until_ms=until_ms, most=most, regex=matches
        )

    def prompts(
        self,
        query: str = "",
        *,
        folder: str | Path | None = None,
        agent: str = "",
        most: int = 100,
        histories: bool = False,
        on_problem: Callable[[str], None] = lambda problem: None,
    ) -> list[RecentPrompt]:
        """Return the prompts of the user in all sessions, the newest first.

        Of prompts with the same text, only the newest is returned. Texts that agents insert as prompts are left out.

        Args:
            query: Words that the prompts must contain, as for ``search``.
            folder: Return only prompts of the sessions that ``sessions_of(folder)`` returns.
            agent: Return only prompts to this agent.
            most: The maximum number of prompts.
            histories: Whether to also read the prompt histories of the agents on this machine, which contain prompts of
                sessions that are not stored. Secrets in these prompts are replaced by placeholders.
            on_problem: A function that is called with a message for each history that is damaged or cannot be read.

        Raises:
            Unavailable: SQLite has no full-text search (FTS5), or another process is building the index.
        """
        from gitsession.discovery import prompt_histories
        from gitsession.index.prompts import PromptQuery, recent_prompts

        catalogue = self.catalogue()
        rows = catalogue.sessions()
        here = None if folder is None else folder_of(os.fspath(folder))
        of_here = rows if here is None else of_folder(rows, here)
        wanted = PromptQuery(
            query=query,
            rows=rows,
            sessions={row.sid: row for row in of_here if agent in ("", row.agent)},
            most=most,
            folder=here,
        )
        if histories:
            place = Path("." if folder is None else folder)
            guard = functools.cache(self._opened.guard)  # loaded for the first prompt of a history
            wanted = replace(
                wanted,
                typed=lambda: prompt_histories.read(Path.home(), os.environ, place, on_problem, agent=agent),
                redact=lambda text: guard().words(text),
            )
        with self.objects.without_fetching():
            return recent_prompts(catalogue, self.objects, wanted)

    def follow(self, *, every: float = following.EVERY_SECONDS, idle: bool = False) -> Iterator[NewEntry | None]:
        """Yield each entry that any process appends to a branch after this call. The iterator never ends.

        Entries that are appended between this call and the first ``next`` are yielded too. Labels, titles, signatures
        and checkpoints are not yielded. If a fork is created, its shared history is yielded with the id of the fork.

        The iterator polls the store and uses no thread. Entries that agents' hooks report are yielded after ``drain``
        has ingested them.

        Args:
            every: The interval between two polls, in seconds.
            idle: Whether to yield ``None`` after a poll that finds no entry.

        Yields:
            The new entry with its session and branch, or ``None``.

        Raises:
            Corrupt: An entry cannot be read.
            Unavailable: The store cannot be read.
        """
        return following.follow(self.objects, every=every, idle=idle)

    # ---- files of agents

    def import_file(
        self, path: str | Path, *, agent: str = "", final: bool = False, dry_run: bool = False
    ) -> list[ImportResult]:
        """Import the session in a file, or all sessions in a database.

        Import a file again when it has changed. Only its new entries are added. If importing a session from a database
        fails, the sessions before it remain imported.

        Args:
            path: The path of an agent's session file or database.
            agent: The agent that wrote the file, or ``"jsonl"`` for a file of ``export``. By default, the agent is
                detected.
            final: Whether the file is complete. If so, text after the last line end is imported too.
            dry_run: Whether to report the result without writing to the store.

        Returns:
            The result of each session.

        Raises:
            NotFound: The agent is unknown, or the file is not a session file of a known agent.
            Malformed: The file is not a regular file, or its content is invalid.
            NoBase: The file continues a session that is not in the store.
            Refused: The session was created by a later release.
            Corrupt: The store is damaged.
            Unavailable: The store cannot be written, or another process keeps writing to the session.
            OSError: The file cannot be read.
        """
        from gitsession.discovery import sources
        from gitsession.exporting import json_lines

        if agent == json_lines.AGENT:
            return [self._import_lines(Path(path), dry_run=dry_run)]
        if agent and agent not in FORMATS:
            hint = f"choose one of {', '.join(sorted([*FORMATS, json_lines.AGENT]))}"
            raise NotFound(f"cannot import '{path}': unknown agent {agent!r}", hint=hint)
        path = Path(path)
        if path.exists() and not path.is_file():
            raise Malformed("not a regular file", where=str(path), hint="pass the files of a folder one by one")
        import secrets

        group = secrets.token_hex(8)
        done = [
            self.agents.import_session(found.format, found.load(), path=found.path, group=group, dry_run=dry_run)
            for found in sources.at(path, FORMATS[agent] if agent else None, final=final)
        ]
        if not done:
            raise sources.unrecognized(path)
        return done

    def _import_lines(self, path: Path, *, dry_run: bool) -> ImportResult:
        from gitsession.sync import import_json_lines

        command = f"import {os.fsencode(path.absolute()).decode('utf-8', 'replace')}"
        with open(path, "rb") as file:
            try:
                return import_json_lines.import_lines(
                    self.objects, file, clock=self._opened.clock, command=command, dry_run=dry_run
                )
            except Malformed as error:
                raise Malformed(f"cannot import '{path}': {error}", hint=error.hint) from None

    def export(
        self,
        session: str,
        at: Node | None = None,
        *,
        to: str | None = None,
        original: bool = False,
        with_secrets: bool = False,
    ) -> ExportResult:
        """Export a session in an agent's format, or as JSON Lines, Markdown or HTML.

        In the format of the session's own agent, imported lines are exported unchanged. Entries that gitsession wrote
        are converted to that format and follow the imported lines.

        Args:
            session: The id of the session, or another address that ``Store.session`` accepts.
            at: The last entry of the exported history. By default, all branches are exported.
            to: The format: an agent (``"aider"``, ``"claude"``, ``"codex"``, ``"librecode"``, ``"omp"``, ``"opencode"``
                or ``"pi"``), ``"jsonl"``, ``"markdown"`` or ``"html"``. Defaults to the agent of the session.
            original: Whether to export only the imported lines.
            with_secrets: Whether to export the secrets whose originals are in the local vault, instead of placeholders.
                HTML never contains them.

        Returns:
            The content of the file. ``other_files`` contains the session's other files, and the files of the sessions
            that it continues. ``hidden`` is the number of placeholders.

        Raises:
            NotFound: No session matches.
            Ambiguous: Several sessions match.
            Refused: The format is unknown, or ``with_secrets`` is combined with HTML.
            Corrupt: An entry to be exported cannot be read.
            Unavailable: HTML requires libraries that are not installed.
        """
        from gitsession.exporting import HTML, export_session, markdown, session_files

        require(at, Node | None, "an entry, as session.resolve('leaf') returns")
        if to == HTML and not original:
            return self._export_html(session, at, with_secrets=with_secrets)
        sid = self._sid_of(session)
        shown = RevealedStore(self.objects, reveals=with_secrets)
        if original:
            sent = export_session.export_original(shown, sid, at)
        else:
            begun = self._begun_in(sid) if to == markdown.AGENT else {}
            sent = export_session.export(shown, sid, to, at, begun=begun)
        bases = session_files.bases(shown, sent.agent, sent.data, self.agents.find)
        files = [*bases, *(session_files.other_files(shown, sent.agent, sid, sent.data) if at is None else ())]
        beside = {file.name: file.data for file in reversed(files)}
        return replace(sent, other_files=tuple(sorted(beside.items()))).from_store(shown)

    def _begun_in(self, sid: str) -> dict[str, list[str]]:
        """Return the references of the sessions that began in a session, by the oid of the entry (``begun_in``)."""
        from gitsession.index.origins import begun_in

        catalogue = self.catalogue()
        row = catalogue.session(sid)
        found = begun_in(self.objects, catalogue, row) if row is not None else {}
        return {oid: [row.reference for row in rows] for oid, rows in found.items()}

    def _export_html(self, session: str, at: Node | None, *, with_secrets: bool) -> ExportResult:
        from gitsession import web
        from gitsession.exporting import HTML
        from gitsession.exporting.export_session import ExportResult
        from gitsession.sync import secret_scan

        if with_secrets:
            what = f"cannot export session {session} as HTML with secrets: an HTML file is made to be shared"
            raise Refused(what, hint="omit --with-secrets")
        web.check_installed()
        from gitsession.web import export

        allowed = frozenset(secret_scan.allowances(self.objects) if self.objects.local_dir is not None else ())
        catalogue, row = self.catalogue(), self._opened.find(session)
        done = export.export(self.objects, catalogue, row, self.secrets.guard(), at=at, allowed=allowed)
        notes = {"left out: entries without a readable form": done.left_out} if done.left_out else {}
        suspicious = tuple(map(str, done.suspicious))
        return ExportResult(HTML, done.data, notes=notes, hidden=done.hidden, suspicious=suspicious)

    def drain(self, *, wait_seconds: float = 0.0) -> IngestResult:
        """Ingest agents' spooled hook events: import new entries of the sessions, and record checkpoints.

        Args:
            wait_seconds: The maximum time to wait for another process that is ingesting, in seconds.

        Returns:
            The number of ingested events, and the failures.

        Raises:
            Unavailable: The store cannot be written.
        """
        from gitsession.api.imports import Imports
        from gitsession.live import ingesting

        if not spool.waiting(os.fspath(self.objects.git_dir)):
            return ingesting.IngestResult()
        imports = Imports(self.agents, logged=False, histories=False)  # hooks record more detailed snapshots

        def take_in(agent: str, source_id: str, file: str) -> str | None:
            return imports.follow(agent, source_id, file, Path.home(), os.environ)

        def record(sid: str, at_ms: int, is_start: bool) -> None:
            from gitsession.api import session_instructions

            handle = Handle(self._opened, sessions.StoredSession.open(self.objects, sid, self._opened.clock))
            session_instructions.capture(handle, at_ms, is_start=is_start, home=Path.home(), environment=os.environ)

        try:
            return ingesting.ingest(
                self.objects, take_in, record, home=Path.home(), clock=self._opened.clock, wait_seconds=wait_seconds
            )
        finally:
            imports.finish()

    # ---- the store as a whole

    def operations(self) -> list[Operation]:
        """Return the operations in the operation log, the newest first."""
        from gitsession.sessions import operation_log

        return list(operation_log.history(self.objects))

    def undo(
        self, workspace: str | Path | None = None, *, session: str | None = None, project: str | Path | None = None
    ) -> RewindResult:
        """Undo the last command, in any session, that moved refs or wrote files.

        Files that have changed since the command are merged. Files that cannot be merged are left unchanged. Refs that
        were already sent to other stores are not moved back.

        If the undo removes the branch of a ``Session`` handle, the handle can no longer be used. For example, this
        happens after a rewind that created a branch. Call ``session.switch`` with another branch, or get a new handle
        from ``session``.

        Args:
            workspace: The folder in which files are restored. By default, it is the folder that the command wrote to,
                or the current repository if it has the same project. This argument does not select the command.
            session: The address of a session. Only commands that changed this session are undone.
            project: A folder. Only commands that changed sessions of this folder, of folders above or below it, or of
                its project are undone.

        Returns:
            The undone operation and the outcome for each file.

        Raises:
            NotFound: There is nothing to undo.
            Refused: Later changes would be lost, the command also changed sessions outside ``session`` or ``project``,
                or the command set a label or title that was already sent to another store.
        """
        return self._take_next("undo", workspace, session, project)

    def redo(
        self, workspace: str | Path | None = None, *, session: str | None = None, project: str | Path | None = None
    ) -> RewindResult:
        """Redo the command that was undone last. See ``undo`` for the arguments and errors."""
        return self._take_next("redo", workspace, session, project)

    def _take_next(
        self, verb: Verb, workspace: str | Path | None, session: str | None, project: str | Path | None
    ) -> RewindResult:
        from gitsession.api import workspaces
        from gitsession.checkpoints import undoing

        scope = self._undo_scope(session, project)

        def open_root(files: WorkspaceWrite) -> WorkspaceRoot:
            return workspaces.open_root(self._opened, files.session, workspace, recorded=files.workspace, writes=True)

        def open_session(sid: str) -> sessions.StoredSession:
            return sessions.StoredSession.open(self.objects, sid, self._opened.clock)

        return undoing.take_next(
            self.objects, verb, self._opened.clock, open_root=open_root, open_session=open_session, scope=scope
        )

    def next_undo(self, *, session: str | None = None, project: str | Path | None = None) -> str:
        """Return the command that ``undo`` would undo. See ``undo`` for the arguments and errors."""
        from gitsession.sessions import operation_log

        return operation_log.next_step(self.objects, "undo", self._undo_scope(session, project)).command

    def _undo_scope(self, session: str | None, project: str | Path | None) -> UndoScope:
        from gitsession.api import workspaces
        from gitsession.sessions import operation_log

        if session is not None:
            return workspaces.of_session(self._sid_of(session))
        if project is not None:
            return workspaces.of_folder(self.objects, self.sessions(), folder_of(os.fspath(project)))
        return operation_log.unlimited

    def _sid_of(self, address: str) -> str:
        """Return the id of a session, which need not be in the catalog if ``address`` is its full id."""
        return address if isinstance(address, str) and refs.is_sid(address) else self._opened.find(address).sid

    def repository(self, transaction: Transaction | None = None) -> StoreRepository:
        """Return a ``pygit2.Repository`` of this store for the calling thread (docs/reference/git.md).

        The repository includes entries that are not flushed yet. The repository cannot move refs.

        Args:
            transaction: A transaction of ``objects.transaction()``, which stores the objects that are created in the
                repository. By default, the repository is read-only.
        """
        from gitsession.git import engine

        return engine.repository(self.objects, transaction, head=f"ref: {create.MAIN}")

    def unfinished(self) -> list[str]:
        """Return descriptions of the rewinds and undos that were interrupted and must be finished or aborted."""
        from gitsession.checkpoints import intents

        return [intent.description for intent in intents.pending(self.objects)]

    def verify(
        self,
        sid: str | None = None,
        *,
        sample: int | None = None,
        max_seconds: float | None = None,
        quick: bool = False,
        notices: bool = False,
    ) -> Report:
        """Check the journal and every entry against docs/reference/format.md, and run ``git fsck --strict``.

        Args:
            sid: The id of a session. If it is set, only the entries of this session are checked.
            sample: The maximum number of entries to check. With ``sample`` or ``max_seconds``, a check of the whole
                store continues where the last such check ended (``Report.covered``).
            max_seconds: The maximum duration of the check, in seconds.
            quick: Whether to check only data that was added since the last complete check without findings. If there
                was no such check, all data is checked.
            notices: Whether to also report irregularities that the agent itself may have written. Such a report
                requires a complete check.

        Returns:
            The findings.

        Raises:
            Unavailable: The program ``git`` cannot be found.
            ValueError: ``notices`` is combined with ``sample``, ``max_seconds`` or ``quick``.
        """
        if notices and (quick or sample is not None or max_seconds is not None):
            raise ValueError("notices cannot be combined with quick, sample or max_seconds")
        if create.is_purge_pending(self.objects.git_dir):
            self._settle()  # the remains of an interrupted purge are not damage
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
            sources: Repositories, session files or URLs to copy lost objects from. These sources are tried first,
                followed by the alternates, the imported agent files, and the remotes.
            dry_run: Whether to report the repairs without making them.

        Returns:
            The repaired data, and the damage that remains.

        Raises:
            Unavailable: The store cannot be written, or one of its files cannot be read.
        """
        from tempfile import TemporaryDirectory

        from gitsession.repair import donors
        from gitsession.repair import repair as repairing

        git_dir = self.objects.git_dir
        with contextlib.closing(Catalogue(git_dir)) as catalogue, TemporaryDirectory(prefix="gitsession-") as folder:
            known = catalogue.last_seen_refs()
            named = enumerate(map(str, sources))
            found_donors = [donors.donor_of(source, Path(folder) / f"named-{number}") for number, source in named]
            found_donors += [*donors.alternates(git_dir), donors.AgentFiles(catalogue), donors.FirstCommitDonor()]
            found_donors += donors.remotes(git_dir, Path(folder))
            return repairing.repair(self.objects, found_donors, seen=known.items(), dry_run=dry_run)

    def maintain(self) -> MaintenanceResult:
        """Merge packs, pack refs, remove files that killed processes left, and repeat purges of restored data.

        If the store's setting ``gitsession.archiveAfter`` is an age, sessions whose newest entry is older are archived.

        Raises:
            Refused: The setting is invalid.
        """
        from gitsession.archive import archiving

        self.purges.settle(thorough=True)
        age_ms = archiving.age_limit_ms(self.objects.git_dir)
        old = []
        if age_ms is not None:
            unchanged = self.objects.refs(refs.SESSIONS)  # before the catalog, which may be newer
            old = archiving.select_old(self.objects, self.sessions(), self._opened.clock() - age_ms)
            old = old and archiving.archive(self.objects, old, unchanged=unchanged)
        return replace(maintain(self.objects), archived=tuple(old))

    def flush(self) -> None:
        """Transfer the journal to git."""
        self.objects.flush()

    def close(self) -> None:
        """Flush and close the store, and merge packs if there are many. A second call has no effect.

        Automatic compactions that are still running are cancelled.
        """
        for running in self._opened.compactions:
            running.stop(_STOP_SECONDS)
        if self._tends and not self.objects.is_closed:
            self._settle()
            with contextlib.suppress(GitSessionError):  # without git, the packs are merged later
                if is_due(self.objects):
                    maintain(self.objects)
        self._opened.catalogues.close()
        self.objects.close()

    def _settle(self) -> None:
        """Repeat purges of restored data. If that fails, the next process that opens the store tries again."""
        with contextlib.suppress(GitSessionError, OSError):
            if not self.objects.read_only and self.objects.ref(refs.TOMBSTONES) is not None:
                self.purges.settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
