"""A store as a program sees it. Every method is a line or two that calls down."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gitsession import location
from gitsession.api import care
from gitsession.api.catalogues import Catalogues
from gitsession.api.session import Session
from gitsession.context.line import Memory
from gitsession.errors import Corrupt, GitSessionError, Malformed, MissingObject, NotFound
from gitsession.exchange import bring_in, discover, projects, resume, send_out, sources
from gitsession.exchange.bring_in import BroughtIn
from gitsession.exchange.repair import Repaired
from gitsession.exchange.resume import Resumption
from gitsession.exchange.send_out import SentOut
from gitsession.exchange.sources import Taken
from gitsession.formats import FORMATS, REMEMBERING, Format, Source
from gitsession.index import search
from gitsession.index.catalogue import Catalogue, Row
from gitsession.index.here import Here, everybodys, is_of
from gitsession.index.search import Hit
from gitsession.live import follow as following
from gitsession.live import spool
from gitsession.live.follow import News
from gitsession.model.entries import Session as Header
from gitsession.session import graph, oplog, trash
from gitsession.session import session as sessions
from gitsession.session.findings import Report
from gitsession.session.node import Node
from gitsession.session.oplog import Operation
from gitsession.session.shown import Shown
from gitsession.store import create, gitcli, refs
from gitsession.store.gitstore import Durability, GitStore
from gitsession.store.maintain import Maintained, is_due, maintain

if TYPE_CHECKING:
    from gitsession.api.purges import Trashed
    from gitsession.api.redacting import Redaction
    from gitsession.api.remotes import Remotes
    from gitsession.live.drain import Drained
    from gitsession.rewind.perform import Rewound
    from gitsession.session.secrets import FoundSecret, SecretSearch
    from gitsession.sync.finding import PurgePlan
    from gitsession.sync.purging import Purged
    from gitsession.sync.remotes import Remote
    from gitsession.sync.retention import Expired, Retention
    from gitsession.sync.syncing import SyncReport
    from gitsession.sync.transport import Talk


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def default_path(given: str | None = None) -> Path:
    """Where the user's store lies (``location``)."""
    return location.store_path(given, os.environ, Path.home(), gitcli.user_setting)


def _here(cwd: str | None) -> Here:
    place = os.path.abspath(cwd or ".")
    return Here(place, everybodys(str(Path.home()), os.environ), lambda: projects.identity_of(Path(place)))


class Store:
    """A store of sessions: ``Store.open()`` for the user's own, ``Store.create(path)`` for another.

    Synchronous and safe to share between threads; close it, or use it in a ``with``.
    """

    def __init__(self, objects: GitStore, clock: Callable[[], int] = now_ms, *, tends: bool = True) -> None:
        """Use ``open`` or ``create``."""
        self.objects = objects
        if create.is_partial(objects.git_dir):
            from gitsession.sync import promised

            promised.follow(objects)
        self._clock = clock
        self._tends = tends
        self._projects: dict[str, str | None] = {}
        self._catalogues = Catalogues(objects)
        self._memory = Memory()
        self._brought_in: dict[tuple[str, str], str] = {}

    @classmethod
    def open(
        cls,
        path: str | Path | None = None,
        *,
        durability: Durability = "entry",
        flush_on_close: bool = True,
        clock: Callable[[], int] = now_ms,
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
            store._settle_quietly()
        return store

    @classmethod
    def create(cls, path: str | Path, *, clock: Callable[[], int] = now_ms) -> Self:
        """A new store at ``path``, or the one that is there. Raises ``NotAStore`` where something else is."""
        create.create(path)
        return cls(GitStore.open(path), clock)

    # ---- sessions

    def new_session(self, *, agent: str, cwd: str | None = None) -> Session:
        """A session that begins with its first user message. ``cwd``: the folder it is held in."""
        here = None if cwd is None else os.path.abspath(cwd)
        project = None if here is None else projects.identity_of(Path(here))
        return self._front(sessions.Session.new(self.objects, agent, here, self._clock, project))

    def session(self, address: str, *, cwd: str | None = None) -> Session:
        """The session that ``address`` names: a unique part of its id, ``<agent>:<source id>``, ``@``, ``-``.

        ``@`` is the newest session held in ``cwd`` (this process's folder) or above it in its repository; where there
        is none, the newest of its project; then the newest held above that. ``-`` is the one before it.
        Raises ``NotFound`` or ``Ambiguous``.
        """
        row = self.catalogue().find(address, _here(cwd) if address in ("@", "-") else None)
        return self._front(sessions.Session.open(self.objects, row.sid, self._clock, row.active, view=row.view))

    def _front(self, session: sessions.Session) -> Session:
        return Session(self.objects, self._catalogues, self._memory, session)

    def sessions(self) -> list[Row]:
        """The catalogue, the newest first."""
        return self.catalogue().sessions()

    def catalogue(self, *, fresh: bool = True) -> Catalogue:
        """The derived index. For this thread only: a transaction of SQLite is its connection's.

        ``fresh``: brought up to date, which looks at the whole of each session that has changed.
        """
        return self._catalogues.get(fresh=fresh)

    def search(
        self, query: str, *, agent: str = "", project: str = "", role: str = "", since_ms: int = 0, most: int = 20
    ) -> list[Hit]:
        """Where all words of ``query`` were said, the best first; in quotation marks side by side, ``log*`` longer too.

        ``project``: held in a folder or below it, and wherever else that project lies. ``role``: of
        ``gitsession.index.wording.ROLES``. Raises ``Unavailable``.
        """
        catalogue = self.catalogue()
        identity = projects.identity_of(Path(project)) if project else None
        rows = (row for row in catalogue.sessions() if is_of(row, project, identity))
        among = {row.sid: row for row in rows if agent in ("", row.agent)}
        wanted = search.Wanted(query=query, sessions=among, role=role, since_ms=since_ms, most=most)
        with self.objects.asking_nobody():
            return search.search(catalogue, self.objects, wanted)

    def follow(self, *, every: float = following.EVERY_SECONDS, idle: bool = False) -> Iterator[News | None]:
        """Every entry that comes from now on, whoever writes it: ``News`` (``session``, ``branch``, ``node``).

        An iterator that never ends; break out of it. ``every``: seconds between two looks; ``idle``: one that finds
        nothing gives ``None``. No thread runs for it. What agents' hooks have left comes when it is taken in.
        """
        return following.follow(self.objects, every=every, idle=idle)

    # ---- import and export

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
            raise NotFound(f"{path}: no agent wrote this that gitsession knows", hint="say whose it is")
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
        """Import one session that was read already (``exchange.sources``). ``logged``: as a command, to be undone.

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
        )
        self._brought_in[format.AGENT, source.source_id] = done.session
        if path is not None and histories and not dry_run and not done.is_purged and format.AGENT in REMEMBERING:
            done = self._with_history(format, source, path, done)
        return done.with_missing(taken.missing)

    def _with_history(self, format: Format, source: Source, path: Path, done: BroughtIn) -> BroughtIn:
        """A line of checkpoints that cannot be read costs the session nothing."""
        from gitsession.exchange import file_history

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
        from gitsession.live import drain as draining

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
        """The session that an agent calls so; what this handle brought in is known before the catalogue knows it."""
        known = self._brought_in.get((agent, source_id))
        if known is not None and graph.branches(self.objects, known):
            return known
        return next((row.sid for row in self.catalogue().by_source(agent, source_id)), None)

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

        The agent's own lines are as it wrote them, and what was made here follows; ``as_it_came``: without it.
        Secrets are placeholders, which ``SentOut.hidden`` counts; ``with_secrets``: only those that are not here are.
        Raises ``Refused`` and ``Corrupt``.
        """
        shown = Shown(self.objects, reveals=with_secrets)
        sent = send_out.home(shown, sid, at) if as_it_came else send_out.send(shown, sid, to, at)
        return sent.from_store(shown)

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
        where = resume.workspace(cwd, Path.home(), os.environ)
        found = resume.plan(self.objects, sid, agent, at, where, os.environ, self._session_of)
        if not dry_run:
            resume.perform(found)
            with contextlib.suppress(Malformed):  # nothing was said in it yet
                handed = resume.source_of(found)
                self.catalogue().hand_over(sid, found.sent.agent, handed.source_id, resume.said(handed))
        return found

    def handed(self, format: Format, taken: Taken) -> str | None:
        """The session that was handed over to an agent as this one, where nothing was said in it there since."""
        source = taken.source
        found = self.catalogue(fresh=False).handed(format.AGENT, source.source_id)
        if found is None or found[1] != resume.said(source) or self._session_of(format.AGENT, source.source_id):
            return None
        return found[0]

    # ---- other repositories

    def remotes(self) -> list[Remote]:
        """Other repositories, by name. Git's own configuration has them."""
        return self._remotes.listed()

    def add_remote(self, name: str, url: str, *, namespace: str = "", home: bool = False) -> Remote:
        """Remember a repository. ``namespace``: it is shared with code, sessions lie below ``refs/<namespace>/``.

        ``home``: of several, it rules names. Raises ``InvalidName`` and ``Refused``.
        """
        return self._remotes.add(name, url, namespace=namespace, home=home)

    def remove_remote(self, name: str) -> Remote:
        """Forget one; what came from it stays. Raises ``NotFound``."""
        return self._remotes.remove(name)

    def pull(self, remote: str = "", *, talk: Talk | None = None) -> SyncReport:
        """Take in what a remote has, by default the home remote (docs/sync.md).

        ``talk``: how git talks to the user meanwhile; without, it says and asks nothing. Raises ``NotFound``,
        ``Refused`` and ``Unavailable``.
        """
        return self._remotes.pull(remote, talk)

    def push(self, remote: str = "", *, sessions: Iterable[str] = (), talk: Talk | None = None) -> SyncReport:
        """Send what a remote lacks, of all sessions or of those named. Nothing is forced. Raises as ``pull``."""
        return self._remotes.push(remote, [self.session(session).id for session in sessions], talk)

    def sync(self, remote: str = "", *, talk: Talk | None = None) -> SyncReport:
        """Both, until both have the same. Raises as ``pull``."""
        return self._remotes.sync(remote, talk)

    def bundle(self, path: str | Path, sessions: Iterable[str] = ()) -> list[str]:
        """Put sessions, or all, into a new file; their ids. Raises ``Refused``, ``NotFound`` and ``Unavailable``."""
        return self._remotes.bundle(Path(path), [self.session(session).id for session in sessions])

    def unbundle(self, path: str | Path, *, talk: Talk | None = None) -> SyncReport:
        """Take in what is in such a file. A line that went on without ours comes in beside it. Raises as ``pull``."""
        return self._remotes.unbundle(Path(path), talk)

    @property
    def _remotes(self) -> Remotes:
        from gitsession.api.remotes import Remotes

        return Remotes(self.objects)

    @classmethod
    def clone(
        cls,
        url: str,
        path: str | Path,
        *,
        filter: str = "",
        namespace: str = "",
        talk: Talk | None = None,
        clock: Callable[[], int] = now_ms,
    ) -> tuple[Self, SyncReport]:
        """A new store at ``path`` of what is at ``url``, which is its remote ``origin``; and what came.

        ``filter``: what to leave out until it is read, as git says it (``blob:limit=64k``). ``namespace``: it is shared
        with a code repository. Raises ``Refused``, ``NotAStore``, ``InvalidName`` and ``Unavailable``.
        """
        from gitsession.api import remotes

        report = remotes.clone(url, Path(path), talk, filter=filter, namespace=namespace)
        return cls.open(path, clock=clock), report

    # ---- the store as a whole

    def operations(self) -> list[Operation]:
        """The operation log, newest first."""
        return list(oplog.history(self.objects))

    def undo(self, workspace: str | Path | None = None) -> Rewound:
        """Take back the last command that moved refs, or wrote files: those that are still as it left them.

        ``workspace``: where those files are, if not where they were. Raises ``NotFound``, or ``Refused`` where work
        would be lost.
        """
        from gitsession.api import workspaces

        return workspaces.take_next(self.objects, self._catalogues, "undo", self._clock, workspace)

    def redo(self, workspace: str | Path | None = None) -> Rewound:
        """Do again what was last undone."""
        from gitsession.api import workspaces

        return workspaces.take_next(self.objects, self._catalogues, "redo", self._clock, workspace)

    # ---- what leaves the store

    def remove(self, sid: str) -> None:
        """Put a session into the trash. Remotes keep theirs. Raises ``NotFound``."""
        trash.remove(self.objects, sid, self._clock())

    def restore(self, part: str) -> str:
        """Take the session with ``part`` in its name out of the trash; its name. Raises ``NotFound``, ``Ambiguous``."""
        sid = trash.find(self.objects, part)
        trash.restore(self.objects, sid, self._clock())
        return sid

    def trashed(self) -> list[Trashed]:
        """What is in the trash, the newest first."""
        from gitsession.api import purges

        return purges.trashed(self.objects)

    def plan_purge(self, sid: str | None = None, at: Node | None = None, *, text: str = "") -> PurgePlan:
        """What a purge would take: a session, here or in the trash; the entry ``at`` of it; or what says ``text``, in
        it or in all sessions. Reads only. Raises ``NotFound``.
        """
        from gitsession.api import purges

        return purges.wanted(self.objects, sid, at, text)

    def purge(self, what: PurgePlan) -> Purged:
        """Take it out of this store for good: nothing of it is left, and no ``undo`` brings it back.

        Raises ``Refused`` where a copy would stay, ``Unavailable`` where others keep writing; what was begun goes on
        when the store is opened again.
        """
        from gitsession.api import purges

        return purges.purge(self.objects, self._catalogues, self._memory, what, self._clock)

    def secrets(self, sid: str | None = None) -> SecretSearch:
        """What is secret in what is stored already, of one session or of all: to iterate over (docs/secrets.md)."""
        from gitsession.api import redacting

        sids = [sid] if sid is not None else [row.sid for row in self.catalogue().sessions()]
        return redacting.search(self.objects, sids)

    def redact(self, found: Iterable[FoundSecret]) -> Redaction:
        """Hide what ``secrets`` found in entries. The old ones are purged, here and wherever this store is synced with.

        Raises ``Refused`` where a copy would stay, ``Unavailable`` where others keep writing.
        """
        from gitsession.api import redacting

        return redacting.redact(self.objects, self._catalogues, self._memory, found, self._clock)

    def settle_purges(self) -> Purged:
        """Purge what came in that was purged before: from a remote, or by plain git. Cheap where nothing did."""
        from gitsession.api import purges

        return purges.settle(self.objects, self._catalogues, self._memory)

    def _settle_quietly(self) -> None:
        """The same on the way: what cannot be done now is done by the next one."""
        with contextlib.suppress(GitSessionError, OSError):
            if not self.objects.read_only and self.objects.ref(refs.TOMBSTONES) is not None:
                self.settle_purges()

    def plan_retention(self, rules: Retention) -> list[Expired]:
        """The sessions that ``rules`` let go. Reads only."""
        from gitsession.api import purges

        return purges.leaving(self.objects, self._catalogues, rules)

    def retain(self, leaves: list[Expired]) -> None:
        """Put them into the trash, as one command."""
        from gitsession.api import purges

        purges.let_go(self.objects, leaves, self._clock())

    def unfinished(self) -> list[str]:
        """What was begun in workspaces, and has not ended: a rewind that was killed."""
        from gitsession.rewind import intent as intents

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
        """Check what is kept: the journal, git's own `fsck --strict`, every entry against docs/format.md.

        ``sid``: only the entries of one session. ``sample`` and ``max_seconds``: only so many entries, and for so long;
        of the whole store, the next part of a round that goes on from call to call (``covered``). ``quick``: only what
        is new since the last check of all that found nothing; where that cannot be told, all. ``notices``: also what
        is odd and may be as it was written; it needs all there is, so neither a part nor ``quick``.
        Raises ``Unavailable`` where there is no git.
        """
        if notices and (quick or sample is not None or max_seconds is not None):
            raise ValueError("notices are of all there is: neither quick, nor of a sample or a limit of time")
        return care.verify(
            self.objects,
            sid,
            sample=sample,
            max_seconds=max_seconds,
            quick=quick,
            notices=notices,
            now_ms=self._clock(),
        )

    def repair(self, sources: Sequence[str | Path] = (), *, dry_run: bool = False) -> Repaired:
        """Heal what is damaged from copies, and set damaged files aside; nothing is deleted.

        ``sources``: repositories, session files or URLs to take lost objects from, before the alternates, the agents'
        own files that were imported, and the remotes. ``dry_run``: only say what would be done.
        """
        return care.repair(self.objects, sources, dry_run=dry_run)

    def maintain(self) -> Maintained:
        """Merge packs, pack refs, clean up after killed processes."""
        return maintain(self.objects)

    def flush(self) -> None:
        """Hand everything over to git."""
        self.objects.flush()

    def close(self) -> None:
        """Hand over to git and let go. Idempotent. Where many packs have gathered, they are merged."""
        if self._tends and not self.objects.is_closed:
            self._settle_quietly()
        self._catalogues.close()
        if self._tends and is_due(self.objects):
            with contextlib.suppress(GitSessionError):  # without git the packs can wait
                maintain(self.objects)
        self.objects.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
