"""Sessions of agents: imported as their programs wrote them, and resumed by these."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path
from typing import Any

from gitsession.api.opened import OpenStore
from gitsession.discovery import projects, sources
from gitsession.discovery.sources import LoadedSession
from gitsession.errors import Corrupt, Malformed, MissingObject, Unavailable, require
from gitsession.exporting import resume
from gitsession.exporting.resume import Resumption
from gitsession.formats import Format, Remembering, Source
from gitsession.importing import import_session
from gitsession.importing.import_session import ImportResult, PurgedCopies
from gitsession.index.catalogue import Stat
from gitsession.model.entries import Continuation
from gitsession.model.entries import SessionHeader as Header
from gitsession.sessions import export_record, graph, purged_ids
from gitsession.sessions.export_record import ExportedFile
from gitsession.sessions.node import Node
from gitsession.sessions.tombstone_set import Tombstones


class AgentSessions:
    """The sessions of agents, as a store imports and resumes them: ``store.agents``."""

    def __init__(self, opened: OpenStore) -> None:
        self.opened = opened
        self._objects = opened.objects
        self._projects: dict[str, str | None] = {}
        self._brought_in: dict[tuple[str, str], str] = {}
        self._places: dict[str, list[Path]] = {}

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
        """Import one session file. ``group``: imports in a row with one group are undone as one.

        Raises ``Malformed`` where ``data`` is no session, ``NoBase`` where it goes on from one that is not here,
        ``Refused``, ``Corrupt`` and ``Unavailable``.
        """
        kept, missing = sources.attachments(path, data, format) if path else ({}, [])
        taken = LoadedSession(format.split(data, name=name, final=final), kept, missing)
        return self.import_session(format, taken, path=path, group=group, dry_run=dry_run)

    def import_session(
        self,
        format: Format,
        taken: LoadedSession,
        *,
        path: Path | None = None,
        group: str | None = None,
        dry_run: bool = False,
        logged: bool = True,
        histories: bool = True,
    ) -> ImportResult:
        """Import a session that ``discovery.sources`` read. ``logged``: as a command, which ``undo`` takes back.

        ``histories``: what its agent recorded of files too, as checkpoints.
        """
        source = taken.source
        place = os.fsencode(path).decode("utf-8", "replace") if path is not None else source.source_id
        command = import_session.ImportOperation(f"import {place}", self.opened.clock(), group) if logged else None
        imported = functools.partial(
            import_session.import_source,
            self._objects,
            format,
            source,
            taken.attachments,
            command=command,
            project=self._project(format, source),
            dry_run=dry_run,
            find=lambda source_id: self.find(format.AGENT, source_id),
            continuation=self._continuation(format, source),
            is_elsewhere=lambda sid, payloads: self._is_elsewhere(format, source, sid, path, payloads),
        )
        try:
            done = imported(purged_keys=purged_ids.read(self._objects.git_dir))
        except PurgedCopies as copied:
            if not dry_run:
                self._purge_copies(copied)
            done = imported().with_problem(f"{copied}: not taken in")
        self._brought_in[format.AGENT, source.segment or source.source_id] = done.session
        if path is not None:
            self._places.setdefault(done.session, []).append(path.absolute())
        if path is not None and histories and not dry_run and not done.is_purged and isinstance(format, Remembering):
            done = self._with_history(format, source, path, done)
        return done.with_missing(taken.missing)

    def _purge_copies(self, copied: PurgedCopies) -> None:
        from gitsession.purge import purging  # an import that finds no copy does not need it

        purging.add(self._objects, Tombstones(copied.digests), self.opened.clock())
        self.opened.forget()

    def _is_elsewhere(
        self, format: Format, source: Source, sid: str, path: Path | None, payloads: Collection[bytes]
    ) -> bool:
        """Return whether another file that was imported as session ``sid`` still has one of ``payloads``."""
        places = {*self._places.get(sid, ()), *self.opened.catalogues.get(fresh=False).files_of(sid)}
        for place in places - {path.absolute() if path is not None else None}:
            try:
                held = format.split(sources.read(place)[1], name=sources.name_of(place))
            except (OSError, Malformed):
                continue  # gone, or another file by now
            lines = (record.payload for record in held.records)
            if held.source_id == source.source_id and any(line in payloads for line in lines):
                return True
        return False

    def _continuation(self, format: Format, source: Source) -> Continuation | None:
        """Return the session that a file was written from, if ``resume`` wrote it here for an agent."""
        written = export_record.resumed_as(self._objects.git_dir, format.AGENT, source.source_id)
        if written is None or not written.entry or not graph.branches(self._objects, written.session):
            return None
        return Continuation(session=written.session, entry=written.entry, line=written.line)

    def _with_history(self, format: Format, source: Source, path: Path, done: ImportResult) -> ImportResult:
        """Add checkpoints of what the agent recorded of files; if they cannot be read, the import is kept."""
        from gitsession.importing import file_history

        try:
            file_history.keep(self._objects, format, source, path, done.session)
        except (MissingObject, Corrupt, Malformed) as error:
            return done.with_problem(f"what its agent recorded of files is not kept: {error}")
        return done

    def find(self, agent: str, source_id: str) -> str | None:
        """Return the session that an agent calls ``source_id``, or one of its files, as imported last.

        Of several the one that began first: an earlier release took a thread's later files for sessions of their own.
        """
        known = self._brought_in.get((agent, source_id))
        if known is not None and graph.branches(self._objects, known):
            return known
        catalogue = self.opened.catalogues.get()
        rows = sorted(catalogue.by_source(agent, source_id), key=lambda row: (row.created_ms, row.sid))
        return rows[0].sid if rows else catalogue.by_segment(agent, source_id)

    def _project(self, format: Format, source: Source) -> str | None:
        """Return the project of a session file; computed once for each folder."""
        said = [source.header, *(format.read(record.payload) for record in source.meta)]
        cwd = next((header.cwd for header in said if isinstance(header, Header) and header.cwd), None)
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
    ) -> Resumption:
        """Put the session where ``agent``, by default its own, looks for it in ``cwd``, and say what goes on with it.

        ``at``: the entry it goes on from. No file is overwritten. Raises ``Refused``, ``Corrupt``, ``OSError``.
        """
        require(at, Node | None, "an entry, as session.resolve('leaf') returns")
        where = resume.workspace(cwd, Path.home(), os.environ)
        found = resume.plan(self._objects, sid, agent, at, where, os.environ, self.find)
        if not dry_run:
            new = [place for place in found.beside if not place.exists()]
            resume.perform(found)
            with contextlib.suppress(Malformed):  # nothing was said in it yet
                handed = resume.source_of(found)
                line = max((record.line for record in handed.records), default=0)
                said = resume.said(handed).hex()
                if not found.is_there:
                    self.record_export(
                        sid, found.file, found.sent.agent, found.data,
                        id=handed.source_id, conversation=said, entry=found.entry, line=line,
                    )  # fmt: skip
            for place in new:
                self.record_export(sid, place, found.sent.agent, found.beside[place])
        return found

    def record_export(self, sid: str, path: Path, agent: str, data: bytes, **resumed: Any) -> None:
        """Remember that ``data``, in the form of ``agent``, was written to ``path``: a purge looks there.

        ``resumed``: ``id``, ``conversation``, ``entry`` and ``line`` of ``ExportedFile``, if it is to go on there.
        """
        export = ExportedFile(os.fspath(path.absolute()), sid, agent, sha256(data).hexdigest(), **resumed)
        with contextlib.suppress(OSError, Unavailable), self._objects.locked():  # a store that is read-only here
            export_record.add(self._objects.git_dir, export)

    def find_handover(self, format: Format, taken: LoadedSession, place: Path, stamp: Stat) -> str | None:
        """Return the session that ``resume`` wrote for an agent as this one, if it was not continued there.

        ``place``, ``stamp``: where it lies, and how it stood before it was read.
        """
        source = taken.source
        if self.find(format.AGENT, source.source_id):
            return None
        written = export_record.resumed_as(self._objects.git_dir, format.AGENT, source.source_id)
        if written is not None and written.conversation == resume.said(source).hex():
            return written.session
        return export_record.unchanged(self._objects.git_dir, format.AGENT, place, stamp.st_size, stamp.st_mtime_ns)
