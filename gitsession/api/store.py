"""A store as a program sees it. Every method is a line or two that calls down.

What it does with agents' files, with other repositories and with what is to go stands in files of their own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gitsession import paths
from gitsession.api.exchange import Exchanging
from gitsession.api.opened import here_of, now_ms
from gitsession.api.remotes import Syncing
from gitsession.api.removal import Leaving
from gitsession.api.session import Session
from gitsession.discovery import projects
from gitsession.errors import GitSessionError
from gitsession.git import process
from gitsession.index import search
from gitsession.index.here import is_of
from gitsession.index.search import Hit
from gitsession.live import follow as following
from gitsession.live.follow import News
from gitsession.sessions import operation_log, session_ids
from gitsession.sessions import session as sessions
from gitsession.sessions.operation_log import Operation, UndoScope, Verb
from gitsession.store import create
from gitsession.store.git_store import Durability, GitStore
from gitsession.store.maintenance import Maintained, is_due, maintain

if TYPE_CHECKING:
    from gitsession.checkpoints.rewinding import Rewound
    from gitsession.git.engine import StoreRepository
    from gitsession.repair.repair import Repaired
    from gitsession.store.interface import Transaction
    from gitsession.sync.syncing import SyncReport
    from gitsession.sync.transport import Talk
    from gitsession.verify.findings import Report


def default_path(given: str | None = None) -> Path:
    """Where the user's store lies (``location``)."""
    return paths.store_path(given, os.environ, Path.home(), process.user_setting)


class Store(Exchanging, Syncing, Leaving):
    """A store of sessions: ``Store.open()`` for the user's own, ``Store.create(path)`` for another.

    Synchronous and safe to share between threads; close it, or use it in a ``with``.
    """

    def __init__(self, objects: GitStore, clock: Callable[[], int] = now_ms, *, tends: bool = True) -> None:
        """Use ``open`` or ``create``."""
        super().__init__(objects, clock)
        if create.is_partial(objects.git_dir):
            from gitsession.sync import promised

            promised.follow(objects)
        self._tends = tends

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
        from gitsession.sync import cloning
        from gitsession.sync.transport import Talk

        report = cloning.clone(url, Path(path), talk or Talk(), filter=filter, namespace=namespace)
        return cls.open(path, clock=clock), report

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
        row = self._row(address, cwd)
        return self._front(sessions.Session.open(self.objects, row.sid, self._clock, row.active, view=row.view))

    def _front(self, session: sessions.Session) -> Session:
        return Session(self.objects, self._catalogues, self._memory, session)

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

    # ---- the store as a whole

    def operations(self) -> list[Operation]:
        """The operation log, newest first."""
        return list(operation_log.history(self.objects))

    def undo(
        self, workspace: str | Path | None = None, *, session: str | None = None, project: str | Path | None = None
    ) -> Rewound:
        """Take back the last command that moved refs, or wrote files: those that are still as it left them.

        ``workspace``: where those files are, if not where they were. ``session``, ``project``: only of the session at
        this address, or of those held in this folder, above or below it, or of its project; else of all. Raises
        ``NotFound``, or ``Refused`` where work would be lost, or a command changed sessions outside of these too.
        """
        return self._take_next("undo", workspace, session, project)

    def redo(
        self, workspace: str | Path | None = None, *, session: str | None = None, project: str | Path | None = None
    ) -> Rewound:
        """Do again what was last undone. The arguments are those of ``undo``."""
        return self._take_next("redo", workspace, session, project)

    def _take_next(
        self, verb: Verb, workspace: str | Path | None, session: str | None, project: str | Path | None
    ) -> Rewound:
        from gitsession.api import scopes, workspaces

        scope: UndoScope = operation_log.anywhere
        if session is not None:
            scope = scopes.of_session(session if session_ids.is_one(session) else self._row(session).sid)
        elif project is not None:
            scope = scopes.of_folder(self.objects, self.sessions(), here_of(os.fspath(project)))
        return workspaces.take_next(self.objects, self._catalogues, verb, self._clock, workspace, scope)

    def repository(self, transaction: Transaction | None = None) -> StoreRepository:
        """Return a ``pygit2.Repository`` of this store for the thread that asks: one per thread (docs/git.md).

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
        """Check what is kept: the journal, git's own `fsck --strict`, every entry against docs/format.md.

        ``sid``: only the entries of one session. ``sample`` and ``max_seconds``: only so many entries, and for so long;
        of the whole store, the next part of a round that goes on from call to call (``covered``). ``quick``: only what
        is new since the last check of all that found nothing; where that cannot be told, all. ``notices``: also what
        is odd and may be as it was written; it needs all there is, so neither a part nor ``quick``.
        Raises ``Unavailable`` where there is no git.
        """
        if notices and (quick or sample is not None or max_seconds is not None):
            raise ValueError("notices are of all there is: neither quick, nor of a sample or a limit of time")
        from gitsession.api import maintenance

        return maintenance.verify(
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
        from gitsession.api import maintenance

        return maintenance.repair(self.objects, sources, dry_run=dry_run)

    def maintain(self) -> Maintained:
        """Merge packs, pack refs, clean up after killed processes; purge what plain git brought back."""
        self.settle_purges(thorough=True)
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
