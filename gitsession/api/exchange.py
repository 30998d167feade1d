"""Agents' files at the front door: sessions in and out."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Collection
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.api.opened import Opened, now_ms
from gitsession.discovery import discover, projects, sources
from gitsession.discovery.sources import Taken
from gitsession.errors import Corrupt, Malformed, MissingObject, NotFound, Unavailable, require
from gitsession.exporting import export_session, resume, session_files
from gitsession.exporting.export_session import SentOut
from gitsession.exporting.resume import Resumption
from gitsession.formats import FORMATS, Format, Remembering, Source
from gitsession.importing import import_session as bring_in
from gitsession.importing.import_session import BroughtIn
from gitsession.index.catalogue import Handed
from gitsession.live import spool
from gitsession.model.entries import Continuation
from gitsession.model.entries import Session as Header
from gitsession.sessions import export_record, graph
from gitsession.sessions.export_record import ExportedFile
from gitsession.sessions.node import Node
from gitsession.sessions.revealed import Shown
from gitsession.store.git_store import GitStore

if TYPE_CHECKING:
    from gitsession.index.catalogue import Stat
    from gitsession.live.ingesting import Drained


class Exchanging(Opened):
    """What ``Store`` does with agents' files."""

    def __init__(self, objects: GitStore, clock: Callable[[], int] = now_ms) -> None:
        super().__init__(objects, clock)
        self._projects: dict[str, str | None] = {}
        self._brought_in: dict[tuple[str, str], str] = {}
        self._places: dict[str, list[Path]] = {}

    def import_file(
        self, path: str | Path, *, agent: str = "", final: bool = False, dry_run: bool = False
    ) -> list[BroughtIn]:
        """Take in the session at ``path``, or all sessions of a database; again whenever it has changed.

        ``agent``: whose it is, where it does not show. ``final``: the file is closed, take what follows its last line
        end too. Raises ``NotFound`` where no agent wrote it, ``Malformed``, ``NoBase`` where it goes on from a session
        that is not here, ``Refused``, ``Corrupt``, ``Unavailable``, ``OSError``; what came before it in a database is
        taken in then.
        """
        if agent and agent not in FORMATS:
            raise NotFound(f"no agent {agent!r}", hint=f"there are {', '.join(FORMATS)}")
        path = Path(path)
        if path.exists() and not path.is_file():
            raise Malformed("not a regular file", where=str(path), hint="name the files in a folder, one by one")
        group = secrets.token_hex(8)
        done = [
            self.take_in(found.format, found.take(), path=found.place, group=group, dry_run=dry_run)
            for found in sources.at(path, FORMATS[agent] if agent else None, final=final)
        ]
        if not done:
            raise discover.unrecognized(path)
        return done

    def bring_in(
        self,
        format: Format,
        data: bytes,
        *,
        path: Path | None = None,
        name: str = "",
        final: bool = False,
        group: str | None = None,
        dry_run: bool = False,
    ) -> BroughtIn:
        """Import one session file. ``group``: imports in a row with one group are undone as one.

        Raises ``Malformed`` where ``data`` is no session, ``NoBase`` where it goes on from one that is not here,
        ``Refused``, ``Corrupt`` and ``Unavailable``.
        """
        kept, missing = discover.attachments(path, data, format) if path else ({}, [])
        taken = Taken(format.split(data, name=name, final=final), kept, missing)
        return self.take_in(format, taken, path=path, group=group, dry_run=dry_run)

    def take_in(
        self,
        format: Format,
        taken: Taken,
        *,
        path: Path | None = None,
        group: str | None = None,
        dry_run: bool = False,
        logged: bool = True,
        histories: bool = True,
    ) -> BroughtIn:
        """Import one session that was read already (``discovery.sources``). ``logged``: as a command, to be undone.

        ``histories``: what its agent recorded of files too, as checkpoints.
        """
        source = taken.source
        place = os.fsencode(path).decode("utf-8", "replace") if path is not None else source.source_id
        command = bring_in.Command(f"import {place}", self._clock(), group) if logged else None
        done = bring_in.bring_in(
            self.objects,
            format,
            source,
            taken.attachments,
            command=command,
            project=self._project(format, source),
            dry_run=dry_run,
            find=lambda source_id: self._session_of(format.AGENT, source_id),
            continuation=self._continuation(format, source),
            is_elsewhere=lambda sid, payloads: self._is_elsewhere(format, source, sid, path, payloads),
        )
        self._brought_in[format.AGENT, source.segment or source.source_id] = done.session
        if path is not None:
            self._places.setdefault(done.session, []).append(path.absolute())
        if path is not None and histories and not dry_run and not done.is_purged and isinstance(format, Remembering):
            done = self._with_history(format, source, path, done)
        return done.with_missing(taken.missing)

    def _is_elsewhere(
        self, format: Format, source: Source, sid: str, path: Path | None, payloads: Collection[bytes]
    ) -> bool:
        """Return whether another file that was imported as session ``sid`` still has one of ``payloads``."""
        places = {*self._places.get(sid, ()), *self.catalogue(fresh=False).files_of(sid)}
        for place in places - {path.absolute() if path is not None else None}:
            try:
                held = format.split(discover.read(place)[1], name=discover.name_of(place))
            except (OSError, Malformed):
                continue  # gone, or another file by now
            lines = (record.payload for record in held.records)
            if held.source_id == source.source_id and any(line in payloads for line in lines):
                return True
        return False

    def _continuation(self, format: Format, source: Source) -> Continuation | None:
        """Return the session that a file was written from, if ``resume`` wrote it here for an agent."""
        handed = self.catalogue(fresh=False).handed(format.AGENT, source.source_id)
        if handed is None or not handed.entry:
            return None
        return Continuation(session=handed.sid, entry=handed.entry, line=handed.line)

    def _with_history(self, format: Format, source: Source, path: Path, done: BroughtIn) -> BroughtIn:
        """A line of checkpoints that cannot be read costs the session nothing."""
        from gitsession.importing import file_history

        try:
            file_history.keep(self.objects, format, source, path, done.session)
        except (MissingObject, Corrupt, Malformed) as error:
            return done.with_problem(f"what its agent recorded of files is not kept: {error}")
        return done

    def drain(self, *, wait_seconds: float = 0.0) -> Drained:
        """Take in what agents' hooks have left: sessions as far as their files go, and checkpoints (docs/live.md).

        ``wait_seconds``: for another process that is at it. Raises ``Unavailable``.
        """
        from gitsession.api.imports import Imports
        from gitsession.live import ingesting as draining

        if not spool.waiting(os.fspath(self.objects.git_dir)):
            return draining.Drained()
        imports = Imports(self, logged=False, histories=False)  # hooks look for themselves, and know more

        def take_in(agent: str, source_id: str, file: str) -> str | None:
            return imports.follow(agent, source_id, file, Path.home(), os.environ)

        try:
            return draining.drain(self.objects, take_in, home=Path.home(), clock=self._clock, wait_seconds=wait_seconds)
        finally:
            imports.finish()

    def _session_of(self, agent: str, source_id: str) -> str | None:
        """The session that an agent calls so, or one of its files; what this handle imported is known at once.

        Of several the one that began first: an earlier release took a thread's later files for sessions of their own.
        """
        known = self._brought_in.get((agent, source_id))
        if known is not None and graph.branches(self.objects, known):
            return known
        catalogue = self.catalogue()
        rows = sorted(catalogue.by_source(agent, source_id), key=lambda row: (row.created_ms, row.sid))
        return rows[0].sid if rows else catalogue.by_segment(agent, source_id)

    def _project(self, format: Format, source: Source) -> str | None:
        """Which project a session file belongs to; asked once for each folder."""
        said = [source.header, *(format.read(record.payload) for record in source.meta)]
        cwd = next((header.cwd for header in said if isinstance(header, Header) and header.cwd), None)
        if cwd is None:
            return None
        if cwd not in self._projects:
            self._projects[cwd] = projects.identity_of(Path(cwd))
        return self._projects[cwd]

    def export(
        self,
        sid: str,
        at: Node | None = None,
        *,
        to: str | None = None,
        as_it_came: bool = False,
        with_secrets: bool = False,
    ) -> SentOut:
        """The session as a file of the agent ``to``, by default its own; ``at``: only the line that ends there.

        The agent's own lines are as it wrote them, and what was made here follows; ``as_it_came``: without it. Other
        files that the agent has of the session, and those that it goes on from, are in ``SentOut.beside``.
        Secrets are placeholders, which ``SentOut.hidden`` counts; ``with_secrets``: only those that are not here are.
        Raises ``Refused`` and ``Corrupt``.
        """
        require(at, Node | None, "an entry, as session.resolve('leaf') returns")
        shown = Shown(self.objects, reveals=with_secrets)
        sent = export_session.home(shown, sid, at) if as_it_came else export_session.send(shown, sid, to, at)
        bases = session_files.bases(shown, sent.agent, sent.data, self._session_of)
        whole = [*bases, *(session_files.others(shown, sent.agent, sid, sent.data) if at is None else ())]
        beside = {file.name: file.data for file in reversed(whole)}
        return replace(sent, beside=tuple(sorted(beside.items()))).from_store(shown)

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
        found = resume.plan(self.objects, sid, agent, at, where, os.environ, self._session_of)
        if not dry_run:
            new = [place for place in found.beside if not place.exists()]
            resume.perform(found)
            with contextlib.suppress(Malformed):  # nothing was said in it yet
                handed = resume.source_of(found)
                line = max((record.line for record in handed.records), default=0)
                written = Handed(sid, resume.said(handed), found.entry, line)
                self.catalogue().hand_over(found.sent.agent, handed.source_id, written)
                if not found.is_there:
                    self.record_export(sid, found.file, found.sent.agent, found.data, handed.source_id, written.digest)
            for place in new:
                self.record_export(sid, place, found.sent.agent, found.beside[place])
        return found

    def record_export(
        self, sid: str, path: Path, agent: str, data: bytes, id: str = "", conversation: bytes = b""
    ) -> None:
        """Remember that ``data``, in the form of ``agent``, was written to ``path``: a purge looks there.

        ``id``, ``conversation``: what the agent calls the session, and ``resume.said`` of it, if it is to go on there.
        """
        place = os.fspath(path.absolute())
        export = ExportedFile(place, sid, agent, sha256(data).hexdigest(), id, conversation.hex())
        with contextlib.suppress(OSError, Unavailable), self.objects.locked():  # a store that is read-only here
            export_record.add(self.objects.git_dir, export)

    def handed(self, format: Format, taken: Taken, place: Path, stamp: Stat) -> str | None:
        """The session that was handed over to an agent as this one, where nothing was said in it there since.

        ``place``, ``stamp``: where it lies, and how it stood before it was read.
        """
        source = taken.source
        found = self.catalogue(fresh=False).handed(format.AGENT, source.source_id)
        sid, digest = (found.sid, found.digest) if found is not None else ("", b"")
        if found is None:  # a purge removes the catalogue
            sid, digest = export_record.resumed_as(self.objects.git_dir, format.AGENT, source.source_id) or ("", b"")
        if self._session_of(format.AGENT, source.source_id):
            return None
        if digest == resume.said(source):
            return sid
        return export_record.unchanged(self.objects.git_dir, format.AGENT, place, stamp.st_size, stamp.st_mtime_ns)
