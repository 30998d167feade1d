"""The front door: a store and its sessions as a program sees them. Every method is a line or two that calls down."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from gitsession import location
from gitsession.codec.digest import to_base64url
from gitsession.compaction import branches, strategies, trigger
from gitsession.compaction.background import Background
from gitsession.compaction.perform import perform
from gitsession.compaction.summarizers.extractive import Extractive
from gitsession.compaction.value import Ask, Plan
from gitsession.compaction.writing import Writing
from gitsession.context import fold, profiles
from gitsession.context.line import Line
from gitsession.context.policies import Policy, newly_cleared
from gitsession.context.value import Context
from gitsession.errors import GitSessionError, NotFound, Refused
from gitsession.exchange import bring_in, discover, donors, send_out
from gitsession.exchange.bring_in import BroughtIn
from gitsession.exchange.repair import Repaired, repair
from gitsession.exchange.send_out import SentOut
from gitsession.formats import Format
from gitsession.index import names, update
from gitsession.index.catalogue import Catalogue, Row
from gitsession.index.names import Names
from gitsession.index.states import Known
from gitsession.model.entries import Entry, Prune
from gitsession.session import checkup, graph, oplog
from gitsession.session import session as sessions
from gitsession.session import verify as checks
from gitsession.session.gaps import Gap
from gitsession.session.node import Node, load
from gitsession.session.oplog import Operation
from gitsession.session.session import OnMoved
from gitsession.store import create, gitcli
from gitsession.store.base import Oid
from gitsession.store.gitstore import Durability, GitStore
from gitsession.store.maintain import Maintained, is_due, maintain

__all__ = ["Session", "Store"]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def default_path(given: str | None = None) -> Path:
    """Where the user's store lies (``location``)."""
    return location.store_path(given, os.environ, Path.home(), gitcli.user_setting)


class Store:
    """A store of sessions: ``Store.open()`` for the user's own, ``Store.create(path)`` for another.

    Synchronous and safe to share between threads; close it, or use it in a ``with``.
    """

    def __init__(self, objects: GitStore, clock: Callable[[], int] = now_ms, *, tends: bool = True) -> None:
        """Use ``open`` or ``create``."""
        self.objects = objects
        self._clock = clock
        self._tends = tends
        self._catalogues: dict[tuple[int, int], Catalogue] = {}

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
        return cls(objects, clock, tends=flush_on_close)

    @classmethod
    def create(cls, path: str | Path, *, clock: Callable[[], int] = now_ms) -> Self:
        """A new store at ``path``, or the one that is there. Raises ``NotAStore`` where something else is."""
        create.create(path)
        return cls(GitStore.open(path), clock)

    # ---- sessions

    def new_session(self, *, agent: str, cwd: str | None = None) -> Session:
        """A session that begins with its first user message. ``cwd``: the folder it is held in."""
        here = None if cwd is None else os.path.abspath(cwd)
        return Session(self, sessions.Session.new(self.objects, agent, here, self._clock))

    def session(self, address: str, *, cwd: str | None = None) -> Session:
        """The session that ``address`` names: a unique part of its id, ``<agent>:<source id>``, ``@``, ``-``.

        ``@`` is the newest session held in ``cwd`` (this process's folder) or above it, ``-`` the one before it.
        Raises ``NotFound`` or ``Ambiguous``.
        """
        row = self.catalogue().find(address, cwd)
        return Session(self, sessions.Session.open(self.objects, row.sid, self._clock, row.active, view=row.view))

    def sessions(self) -> list[Row]:
        """The catalogue, the newest first."""
        return self.catalogue().sessions()

    def catalogue(self, *, fresh: bool = True) -> Catalogue:
        """The derived index. For this thread only: a transaction of SQLite is its connection's.

        ``fresh``: brought up to date, which looks at the whole of each session that has changed.
        """
        me = (os.getpid(), threading.get_ident())
        found = self._catalogues.get(me)
        if found is None:
            found = self._catalogues[me] = Catalogue(self.objects.git_dir)
        if fresh and not found.is_fresh():
            update.refresh(found, self.objects)
        return found

    # ---- import and export

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

        Raises ``Malformed`` where ``data`` is no session, ``Refused``, ``Corrupt`` and ``Unavailable``.
        """
        kept, missing = discover.attachments(path, data) if path else ({}, [])
        source = format.split(data, name=name, final=final)
        command = bring_in.Command(f"import {path or source.source_id}", self._clock(), group)
        done = bring_in.bring_in(self.objects, format, source, kept, command=command, dry_run=dry_run)
        return done.with_missing(missing)

    def export(self, sid: str, at: Node | None = None) -> SentOut:
        """The session as its agent wrote it, byte for byte; ``at``: only the line that ends there."""
        return send_out.home(self.objects, sid, at)

    # ---- the store as a whole

    def operations(self) -> list[Operation]:
        """The operation log, newest first."""
        return list(oplog.history(self.objects))

    def undo(self) -> Operation:
        """Take back the last command that moved refs. Raises ``NotFound``, or ``Refused`` where work would be lost."""
        return oplog.undo(self.objects, self._clock())

    def redo(self) -> Operation:
        """Do again what was last undone."""
        return oplog.redo(self.objects, self._clock())

    def verify(
        self,
        sid: str | None = None,
        *,
        sample: int | None = None,
        max_seconds: float | None = None,
        quick: bool = False,
    ) -> checks.Report:
        """Check what is kept: the journal, git's own `fsck --strict`, every entry against docs/format.md.

        ``sid``: only the entries of one session. ``quick``: only what is new since the last check of all that found
        nothing; where that cannot be told, all. Raises ``Unavailable`` where there is no git.
        """
        if sid is not None:
            create.check_readable(self.objects.git_dir)
            report = checks.verify(self.objects, sid, sample=sample, max_seconds=max_seconds)
            report.problems[:0] = checkup.files_of_refs(self.objects)
            return report
        with contextlib.closing(Catalogue(self.objects.git_dir)) as catalogue:
            seen = catalogue.last_seen_refs()
        return checkup.verify(self.objects, seen=seen, sample=sample, max_seconds=max_seconds, quick=quick)

    def repair(self, sources: Sequence[str | Path] = (), *, dry_run: bool = False) -> Repaired:
        """Heal what is damaged from copies, and set damaged files aside; nothing is deleted.

        ``sources``: repositories, session files or URLs to take lost objects from, before the alternates, the agents'
        own files that were imported, and the remotes. ``dry_run``: only say what would be done.
        """
        git_dir = self.objects.git_dir
        catalogue = Catalogue(git_dir)
        with contextlib.closing(catalogue), tempfile.TemporaryDirectory(prefix="gitsession-") as place:
            known = catalogue.last_seen_refs()
            asked = [donors.named(str(source), Path(place) / f"named-{n}") for n, source in enumerate(sources)]
            asked += [*donors.alternates(git_dir), donors.AgentFiles(catalogue), donors.Beginning()]
            asked += donors.remotes(git_dir, Path(place))
            return repair(self.objects, asked, seen=known.items(), dry_run=dry_run)

    def maintain(self) -> Maintained:
        """Merge packs, pack refs, clean up after killed processes."""
        return maintain(self.objects)

    def flush(self) -> None:
        """Hand everything over to git."""
        self.objects.flush()

    def close(self) -> None:
        """Hand over to git and let go. Idempotent. Where many packs have gathered, they are merged."""
        for pid, thread in list(self._catalogues):
            if pid == os.getpid():  # a forked child leaves its parent's as they are
                self._catalogues.pop((pid, thread)).close()
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


class Session:
    """One session: append to it, walk it, branch it. Entries come back as ``Node``; ``read`` gives what they mean."""

    def __init__(self, store: Store, session: sessions.Session) -> None:
        """Use ``Store.new_session`` or ``Store.session``."""
        self._store = store
        self._session = session

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def branch_name(self) -> str:
        """The branch this handle is on."""
        return self._session.branch_name

    @property
    def leaf(self) -> Node | None:
        return self._session.leaf

    def line(self) -> list[Node]:
        """The entries from the root to the leaf. Raises ``Corrupt`` where one of them is lost."""
        return self._session.line()

    def line_with_gaps(self) -> list[Node | Gap]:
        """The same, with a ``Gap`` (``oid``, ``problem``) in the place of each entry that cannot be read."""
        return self._session.line_with_gaps()

    def tree(self) -> graph.Tree:
        """Every entry of every branch."""
        return self._session.tree()

    def branches(self) -> dict[str, Oid]:
        """The leaf of each branch."""
        return self._session.branches()

    def read(self, at: str | Node) -> Entry:
        """What an entry means."""
        return self._session.read(self._session.resolve(at))

    def resolve(self, at: str | Node) -> Node:
        """The entry that an address names. Raises ``NotFound`` or ``Ambiguous``."""
        return self._session.resolve(at)

    def context(
        self,
        at: str | Node = "leaf",
        *,
        profile: str = profiles.DEFAULT,
        policies: Sequence[Policy] = (),
        window: int | None = None,
    ) -> Context:
        """What the model sees at an entry, by the rules of an agent (docs/context.md): one of ``PROFILES``.

        ``policies``: what to leave out, as a view. ``window``: how many tokens the model takes.
        Raises ``NotFound``, and ``Corrupt``, ``MissingObject`` or ``Malformed`` where damage would leave something out.
        """
        return fold.context(self._context_line(at), profile, policies, window=window)

    def _context_line(self, at: str | Node) -> Line:
        leaf = None if at == "leaf" and self.leaf is None else self._session.resolve(at).oid
        known = Known(self._store.catalogue(fresh=False), self.id, self._store.catalogue)
        return Line(self._store.objects, leaf, known)

    def prune(self, *policies: Policy, profile: str = profiles.DEFAULT) -> Node | None:
        """Make what policies leave out of tool results last: one ``prune`` entry; ``None`` where there is nothing."""
        before, after = self.context(profile=profile), self.context(profile=profile, policies=policies)
        nodes = [load(self._store.objects, oid) for oid in newly_cleared(before.items, after.items)]
        return self.append(Prune(targets=tuple(to_base64url(node.chain) for node in nodes))) if nodes else None

    def plan_compaction(
        self, strategy: str = strategies.DEFAULT, *, profile: str = profiles.DEFAULT, ask: Ask = strategies.NO_WISHES
    ) -> Plan:
        """What ``compact`` would do, without doing it: one of ``STRATEGIES`` (docs/compaction.md)."""
        return strategies.plan(self._context_line("leaf"), strategy, profile=profile, ask=ask)

    def plan_leaving(self, to: str | Node, *, profile: str = profiles.DEFAULT, window: int | None = None) -> Plan:
        """What ``compact`` would say, at the entry ``to``, of the branch this handle is on: since the two parted.

        ``window``: of the model that summarises, in tokens; the newest that fits is taken.
        """
        onto = self._session.resolve(to)
        ways = self._context_line("leaf"), self._context_line(onto)
        return branches.leaving(*ways, onto, profiles.profile(profile), window=window)

    def is_compaction_due(self, window: int, *, reserve: int | None = None, profile: str = profiles.DEFAULT) -> bool:
        """Whether less than the agent's reserve (or ``reserve``) is left of ``window``, both in tokens."""
        line = self._context_line("leaf")
        return trigger.is_due(fold.context(line, profile), line, window, reserve=reserve)

    def compact(
        self, plan: Plan | None = None, writing: Writing | None = None, *, undoable: bool = False
    ) -> Node | None:
        """Let a summary stand for older entries from here on: one ``compaction`` entry; ``None`` where none is due.

        ``plan``: of ``plan_compaction``; without one, pi's. ``writing``: who summarises and how; without it, by rule.
        ``undoable``: as an operation of the log, which ``Store.undo`` takes back while nothing was appended behind it.
        Raises ``SummaryFailed`` or ``Refused``; then nothing was written.
        """
        plan = plan or self.plan_compaction()
        if plan.nothing:
            return None
        command = f"compact {self.id} {plan.strategy}" if undoable else ""
        return self._perform(plan, writing or Writing(summarizer=Extractive()), command)

    def compact_in_background(self, plan: Plan, writing: Writing) -> Background:
        """The same on a thread of its own, while the session goes on: what is appended meanwhile is kept."""
        return Background(lambda cancelled: self._perform(plan, dataclasses.replace(writing, cancelled=cancelled)))

    def _perform(self, plan: Plan, writing: Writing, command: str = "") -> Node:
        return perform(self._store.objects, self._session, plan, writing, command=command)

    def append(self, entry: Entry, *, expected: Node | None = None, on_moved: OnMoved = "refuse") -> Node:
        """Write one entry after the leaf; it is durable when this returns.

        Without ``expected`` the entry goes after whatever is the leaf by then. With it, it goes after that entry only:
        where another writer was first, ``on_moved="refuse"`` raises ``LeafMoved``, and ``"fork"`` opens a branch beside
        theirs, on which this handle then stays. Raises ``Malformed`` for what the format cannot hold.
        """
        return self._session.append(entry, expected=expected, on_moved=on_moved)

    def branch(self, name: str, at: str | Node = "leaf") -> Session:
        """Start a branch at an entry; the session comes back on it."""
        if name in self.names().labels.values():
            raise Refused(f"{name!r} is a label in this session", hint="choose another name")
        self._session.branch(name, at)
        return self.on(name)

    def on(self, branch: str) -> Session:
        """The same session, on another branch. Nothing is moved. Raises ``NotFound``."""
        return Session(self._store, self._session.on(branch))

    def switch(self, branch: str) -> Node:
        """Make ``branch`` the active one on this machine, and go on there."""
        return self._session.switch(branch)

    def fork(self, at: str | Node = "leaf") -> Session:
        """A session of its own that begins at an entry of this one: one ref and one entry, however long the line."""
        catalogue = self._store.catalogue()
        row = catalogue.session(self.id)
        if row is None:
            raise NotFound(f"session {self.id} has no entries yet")
        called = names.names(catalogue, self.id)
        forked = self._session.fork(at, agent=row.agent, cwd=row.project, title=called.title, labels=called.chains)
        return Session(self._store, forked)

    def label(self, at: str | Node, label: str) -> Node:
        """Name an entry, in place of the name it had; an empty label takes the name away.

        Raises ``Refused`` where the name already leads to another entry of this session.
        """
        node, label = self._session.resolve(at), sessions.name_of(label)
        taken = [oid for oid, name in self.names().labels.items() if name == label and oid != node.oid]
        if taken:
            raise Refused(f"{label!r} is the label of {taken[0][:12]}", hint="an empty label takes it away there")
        if label in self.branches():
            raise Refused(f"{label!r} is a branch of this session", hint="choose another name")
        return self._session.label(node, label)

    def rename(self, title: str) -> None:
        """Name the session; an empty title takes the name away."""
        self._session.rename(title)

    def names(self) -> Names:
        """Title and labels, from the catalogue."""
        return names.names(self._store.catalogue(), self.id)
