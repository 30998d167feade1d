"""The API for agents' session files: import sessions, and resume sessions in an agent."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from gitsession.api.opened import OpenStore
from gitsession.discovery import projects, sources
from gitsession.discovery.side_files import SideFile, SideFileFinder
from gitsession.discovery.sources import LoadedSession
from gitsession.errors import Corrupt, Malformed, MissingObject, RefMoved, Unavailable, require
from gitsession.exporting import resume
from gitsession.exporting.resume import ResumePlan
from gitsession.formats import Format, Remembering, SideFiles, Source, WithSideFiles
from gitsession.importing import import_session
from gitsession.importing.import_session import Begin, ImportResult, PurgedCopies
from gitsession.importing.import_state import ImportState
from gitsession.index.catalogue import Stat, recorded_status
from gitsession.model.entries import Continuation, SessionHeader
from gitsession.sessions import graph, local_records, operation_log
from gitsession.sessions.local_records import ExportedFile
from gitsession.sessions.node import Node
from gitsession.sessions.tombstone_set import Tombstones


class AgentSessions:
    """Import of agents' session files, and resumption of sessions in agents: ``store.agents``."""

    def __init__(self, opened: OpenStore) -> None:
        self.opened = opened
        self._objects = opened.objects
        self._projects: dict[str, str | None] = {}
        self._imported: dict[tuple[str, str], str] = {}
        self._paths: dict[str, list[Path]] = {}

    def import_data(
        self,
        format: Format,
        data: bytes,
        *,
        path: Path | None = None,
        name: str = "",
        final: bool = False,
        group: str | None = None,
        dry_run: bool = False,
    ) -> ImportResult:
        """Import the content of one session file.

        Args:
            format: The format of the agent that wrote the file.
            data: The content of the file.
            path: The path of the file. The path is required to find the files that the session refers to.
            name: The path without its extension. This name identifies the session if the file contains no session id.
            final: Whether the file is complete. If so, text after the last line end is imported too.
            group: An id of a group of imports. Consecutive imports of the same group are undone together.
            dry_run: Whether to report the result without writing to the store.

        Returns:
            The result of the import.

        Raises:
            Malformed: The data is not a session.
            NoBase: The file continues a session that is not in the store.
            Refused: The session was created by a later release.
            Corrupt: The store is damaged.
            Unavailable: The store cannot be written, or another process keeps writing to the session.
        """
        attachments, missing = sources.attachments(path, data, format) if path else ({}, [])
        loaded = LoadedSession(format.split(data, name=name, final=final), attachments, missing)
        return self.import_session(format, loaded, path=path, group=group, dry_run=dry_run)

    def import_session(
        self,
        format: Format,
        loaded: LoadedSession,
        *,
        path: Path | None = None,
        group: str | None = None,
        dry_run: bool = False,
        logged: bool = True,
        histories: bool = True,
        earlier: ImportState | None = None,
        finder: SideFileFinder | None = None,
    ) -> ImportResult:
        """Import a session that ``discovery.sources`` has read.

        Args:
            format: The format of the agent that wrote the session.
            loaded: The session.
            path: The path of the session's file, or its location in a database.
            group: An id of a group of imports. Consecutive imports of the same group are undone together.
            dry_run: Whether to report the result without writing to the store.
            logged: Whether to log the import as an operation, so that it can be undone.
            histories: Whether to also import the file contents that the agent recorded, as checkpoints.
            earlier: The state after the last import, if ``loaded`` lacks the records before it.
            finder: The search for side files, if several sessions are imported.

        Returns:
            The result of the import.

        Raises:
            NoBase: The file continues a session that is not in the store.
            Refused: The session was created by a later release.
            Corrupt: The store is damaged.
            Unavailable: The store cannot be written, or another process keeps writing to the session.
            RefMoved: The session has changed since ``earlier``. Import the whole session.
        """
        source = loaded.source
        begin = self._begin(path if path is not None else Path(source.source_id), group) if logged else None
        done = self._import_entries(format, loaded, path, begin, earlier, dry_run=dry_run)
        self._imported[format.AGENT, source.segment or source.source_id] = done.session
        if path is not None:
            self._paths.setdefault(done.session, []).append(path.absolute())
        if path is not None and not dry_run and not done.is_purged:
            if histories and isinstance(format, Remembering):
                done = self._with_history(format, source, path, _cwd_of(format, source), done, earlier)
            finder, begin = finder or SideFileFinder(), begin or self._objects.transaction
            done = self._with_side_files(done, path, format, source, finder, begin, loaded.side_files)
        missing = (f"the agent no longer has the file '{name}': only its name is stored" for name in loaded.missing)
        return done.with_problems(*missing)

    def _import_entries(
        self, format: Format, loaded: LoadedSession, path: Path | None, begin: Begin | None,
        earlier: ImportState | None, *, dry_run: bool,
    ) -> ImportResult:  # fmt: skip
        """Import the entries of a session. Copies of purged entries are purged, or the result has a problem."""
        source = loaded.source
        imported = functools.partial(
            import_session.import_source,
            self._objects,
            format,
            source,
            loaded.attachments,
            begin=begin,
            project=self._project(_cwd_of(format, source)),
            dry_run=dry_run,
            find=lambda source_id: self.find(format.AGENT, source_id),
            continuation=self._continuation(format, source),
            is_elsewhere=lambda sid, payloads: self._is_elsewhere(format, source, sid, path, payloads),
            read=loaded.state,
            earlier=earlier,
        )
        try:
            return imported(purged_keys=local_records.purged_keys(self._objects.local_dir))
        except PurgedCopies as copied:
            if earlier is not None:
                raise RefMoved("the copies of purged entries are purged too") from copied
            if not dry_run:
                self._purge_copies(copied)
            return imported().with_problems(f"not imported: {copied}")

    def find_side_files(
        self, format: Format, path: Path, source: Source | None, finder: SideFileFinder
    ) -> Iterator[SideFile]:
        """Yield the side files of a session that exist.

        Args:
            format: The format of the agent.
            path: The path of the session's file.
            source: The session or its new part; ``None`` if its file has not changed since the last import.
            finder: The search for the files.
        """
        wanted = _side_files(format, path, source)
        if wanted is not None:
            yield from finder.find(wanted, self._recorded_side_files(path))

    def _recorded_side_files(self, path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
        return self.opened.catalogues.get(fresh=False).side_files(path.absolute())

    def has_new_side_files(self, format: Format, path: Path | str, finder: SideFileFinder) -> bool:
        """Return whether a side file has changed since the last import of the session in ``path``."""
        wanted = _side_files(format, path, None)
        if wanted is None:
            return False
        recorded = self._recorded_side_files(Path(path))
        found = finder.find(wanted, recorded)
        return any(recorded.get(each.name, ((), ""))[0] != recorded_status(each.stamp) for each in found)

    def import_side_files(
        self, format: Format, path: Path, sid: str, finder: SideFileFinder, *, group: str | None, logged: bool
    ) -> ImportResult:
        """Import only the side files of a session whose file has not changed since its import."""
        begin = self._begin(path, group) if logged else self._objects.transaction
        done = ImportResult(session=sid, entries=0, new=0, rewritten=None, branch="", moves=(), problems=())
        return self._with_side_files(done, path, format, None, finder, begin)

    def _with_side_files(
        self, done: ImportResult, path: Path, format: Format, source: Source | None, finder: SideFileFinder,
        begin: Begin, given: Iterable[SideFile] = (),
    ) -> ImportResult:  # fmt: skip
        """Store the side files of a session, and those in ``given``, and report files that cannot be stored."""
        files = [*given, *self.find_side_files(format, path, source, finder)]
        done = self._store_side_files(done, path, files, begin) if files else done
        return done.with_problems(*finder.take_problems())

    def _store_side_files(
        self, done: ImportResult, path: Path, files: Sequence[SideFile], begin: Begin
    ) -> ImportResult:
        """Store side files. If this fails, the entries stay imported."""
        from gitsession.importing import side_files

        try:
            stored = side_files.store_side_files(
                self._objects, done.session, files, self._recorded_side_files(path), begin
            )
        except (MissingObject, Corrupt, Malformed) as error:
            return done.with_problems(f"cannot store the side files: {error}")
        self.opened.catalogues.get(fresh=False).remember_side_files({path.absolute(): stored.states})
        state = done.state
        if state is not None and stored.moves:
            state = replace(
                state, refs={**state.refs, **{move.ref: move.new for move in stored.moves if move.new is not None}}
            )
        return replace(
            done,
            moves=(*done.moves, *stored.moves),
            problems=(*done.problems, *stored.problems),
            side_files=tuple(sorted(stored.added)),
            state=state,
        )

    def _begin(self, path: Path, group: str | None) -> Begin:
        """Return a function that begins the transaction of an import, and records it in the operation log."""
        location = os.fsencode(path).decode("utf-8", "replace")
        return functools.partial(
            operation_log.recording, self._objects, f"import {location}", self.opened.clock(), group
        )

    def _purge_copies(self, copied: PurgedCopies) -> None:
        from gitsession.purge import purging  # loaded only when an import finds a copy

        purging.add(self._objects, Tombstones(copied.digests), self.opened.clock())
        self.opened.forget()

    def _is_elsewhere(
        self, format: Format, source: Source, sid: str, path: Path | None, payloads: Collection[bytes]
    ) -> bool:
        """Return whether another imported file of session ``sid`` still contains one of ``payloads``."""
        files = {*self._paths.get(sid, ()), *self.opened.catalogues.get(fresh=False).files_of(sid)}
        for file in files - {path.absolute() if path is not None else None}:
            try:
                other = format.split(sources.read(file)[1], name=sources.name_of(file))
            except (OSError, Malformed):
                continue  # the file was deleted or replaced
            lines = (record.payload for record in other.records)
            if other.source_id == source.source_id and any(line in payloads for line in lines):
                return True
        return False

    def _continuation(self, format: Format, source: Source) -> Continuation | None:
        """Return the entry that a file continues, if ``resume`` wrote this file on this machine."""
        written = local_records.resumed_as(self._objects.local_dir, format.AGENT, source.source_id)
        if written is None or not written.entry or not graph.branches(self._objects, written.session):
            return None
        return Continuation(session=written.session, entry=written.entry, line=written.line)

    def _with_history(
        self, format: Remembering, source: Source, path: Path, cwd: str | None, done: ImportResult,
        earlier: ImportState | None,
    ) -> ImportResult:  # fmt: skip
        """Add checkpoints of the file contents that the agent recorded. If this fails, the entries stay imported.

        If the import continued, there are no new contents. The contents that earlier lines recorded are added by the
        next import that finds the agent's copies.
        """
        from gitsession.importing import file_history

        has_copies = cwd is not None and bool(file_history.copy_folders(format, source, path))
        try:
            if earlier is None:
                file_history.add_checkpoints(self._objects, format, source, path, done.session, cwd)
        except (MissingObject, Corrupt, Malformed) as error:
            return done.with_problems(f"cannot store the agent's file history: {error}")
        if done.state is None or not has_copies or (earlier is not None and not earlier.has_replayed):
            return done
        return replace(done, state=done.state.after_replay(self._objects))

    def find(self, agent: str, source_id: str) -> str | None:
        """Return the id of the session with the agent's id ``source_id``.

        Several sessions can have the same ``source_id``, because an earlier release imported the later files of a
        thread as separate sessions. In this case, the session that this object imported is returned, or else the
        session that began first.

        Args:
            agent: The name of the agent.
            source_id: The agent's id of the session, or of one of its files.

        Returns:
            The session id, or ``None`` if there is no such session.
        """
        known = self._imported.get((agent, source_id))
        if known is not None and graph.branches(self._objects, known):
            return known
        catalogue = self.opened.catalogues.get()
        rows = sorted(catalogue.by_source(agent, source_id), key=lambda row: (row.created_ms, row.sid))
        return rows[0].sid if rows else catalogue.by_segment(agent, source_id)

    def _project(self, cwd: str | None) -> str | None:
        """Return the project of a session's folder, which is computed once for each folder."""
        if cwd is None:
            return None
        if cwd not in self._projects:
            self._projects[cwd] = projects.identity_of(Path(cwd))
        return self._projects[cwd]

    def resume(
        self,
        sid: str,
        at: Node | None = None,
        *,
        agent: str | None = None,
        cwd: str | Path = ".",
        dry_run: bool = False,
    ) -> ResumePlan:
        """Write the session to the agent's session folder, and return the commands that continue it in the agent.

        No file is overwritten. If the agent already has a file with the beginning of the session, the later entries are
        appended to that file.

        Args:
            sid: The id of the session.
            at: The entry to continue from. Defaults to the leaf of the active branch.
            agent: The name of the agent. Defaults to the agent of the session.
            cwd: The working directory in which the agent is started.
            dry_run: Whether to plan the files and commands without writing anything.

        Returns:
            The written files, and the commands to run.

        Raises:
            Refused: The agent is unknown or cannot continue a session from a file, the agent's file has changed since
                its import, a different file exists at the same path, or there are no messages up to ``at``.
            Corrupt: An entry to be exported cannot be read.
            OSError: A file cannot be written.
        """
        require(at, Node | None, "an entry, as session.resolve('leaf') returns")
        workspace = resume.workspace(cwd, Path.home(), os.environ)
        found = resume.plan(self._objects, sid, agent, at, workspace, os.environ, self.find)
        if not dry_run:
            new = [path for path in found.other_files if not path.exists()]
            resume.perform(found)
            with contextlib.suppress(Malformed):  # the file has no messages yet
                source = resume.source_of(found)
                line = max((record.line for record in source.records), default=0)
                digest = resume.content_digest(source).hex()
                if not found.is_complete:
                    self.record_export(
                        sid, found.file, found.export.agent, found.data,
                        id=source.source_id, conversation=digest, entry=found.entry, line=line,
                    )  # fmt: skip
            for path in new:
                self.record_export(sid, path, found.export.agent, found.other_files[path])
        return found

    def record_export(self, sid: str, path: Path, agent: str, data: bytes, **resumed: Any) -> None:
        """Record that a session was exported to ``path``, so that a purge can find the file.

        Args:
            sid: The id of the session.
            path: The path of the exported file.
            agent: The format of the file: the name of an agent or another export format.
            data: The content of the file.
            resumed: The fields ``id``, ``conversation``, ``entry`` and ``line`` of ``ExportedFile``, if an agent
                continues the session in this file.
        """
        export = ExportedFile(os.fspath(path.absolute()), sid, agent, sha256(data).hexdigest(), **resumed)
        with contextlib.suppress(OSError, Unavailable), self._objects.locked():  # the store is read-only
            local_records.add_export(self._objects.git_dir, export)

    def find_handover(self, format: Format, loaded: LoadedSession, path: Path, stamp: Stat) -> str | None:
        """Return the session that ``resume`` wrote to a file, if the agent has not continued it in this file.

        Args:
            format: The format of the agent.
            loaded: The session in the file.
            path: The path of the file.
            stamp: The status of the file before it was read.

        Returns:
            The id of the session; ``None`` if ``resume`` did not write the file, or if the agent has continued it.
        """
        source = loaded.source
        if self.find(format.AGENT, source.source_id):
            return None
        written = local_records.resumed_as(self._objects.local_dir, format.AGENT, source.source_id)
        if written is not None and written.conversation == resume.content_digest(source).hex():
            return written.session
        status = stamp.st_size, stamp.st_mtime_ns
        return local_records.unchanged_export(self._objects.local_dir, format.AGENT, path, *status)


def _side_files(format: Format, path: Path | str, source: Source | None) -> SideFiles | None:
    return format.side_files(sources.name_of(path), source) if isinstance(format, WithSideFiles) else None


def _cwd_of(format: Format, source: Source) -> str | None:
    """Return the folder of a session, as given in the header of ``source`` or in the header line of the file."""
    headers = [source.header, *(format.read(record.payload) for record in source.meta)]
    return next((header.cwd for header in headers if isinstance(header, SessionHeader) and header.cwd), None)
