"""A session as a program sees it. Every method is a line or two that calls down."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.api import summarizing
from gitsession.api.catalogues import Catalogues
from gitsession.checkpoint.running import Running
from gitsession.codec.digest import to_base64url
from gitsession.compaction import branches, strategies, trigger
from gitsession.compaction.background import Background
from gitsession.compaction.perform import perform
from gitsession.compaction.summary import Summarizer
from gitsession.compaction.value import Ask, Plan
from gitsession.compaction.writing import Writing
from gitsession.context import fold, profiles, revealing
from gitsession.context.line import Line, Memory
from gitsession.context.policies import Policy, newly_cleared
from gitsession.context.value import Context
from gitsession.errors import NotFound, Refused
from gitsession.index import names
from gitsession.index.names import Names
from gitsession.index.states import Known
from gitsession.live import follow as following
from gitsession.live.follow import News
from gitsession.model.entries import Entry, Prune, Seal
from gitsession.session import session as sessions
from gitsession.session.gaps import Gap
from gitsession.session.graph import Tree
from gitsession.session.node import Node, load
from gitsession.session.origin import Origin, origin, started
from gitsession.session.session import OnMoved
from gitsession.store.base import Oid
from gitsession.store.gitstore import GitStore

if TYPE_CHECKING:
    # What only files and their rewinds need is loaded with the first of them: a list or an append starts without it.
    from gitsession.api.workspaces import WorkspaceDoor
    from gitsession.checkpoint.at import FileChange, Files
    from gitsession.checkpoint.taking import Phase
    from gitsession.rewind.perform import Rewound
    from gitsession.rewind.plan import RewindPlan, What
    from gitsession.session.findings import Sealed

PLAINLY = Writing()


class Session:
    """One session: append to it, walk it, branch it. Entries come back as ``Node``; ``read`` gives what they mean."""

    def __init__(
        self, objects: GitStore, catalogues: Catalogues, memory: Memory, session: sessions.Session
    ) -> None:
        """Use ``Store.new_session`` or ``Store.session``."""
        self._objects = objects
        self._catalogues = catalogues
        self._memory = memory
        self._session = session
        self._running = Running()

    @property
    def id(self) -> str:
        """Its whole id, as in the names of its refs."""
        return self._session.id

    @property
    def branch_name(self) -> str:
        """The branch this handle is on."""
        return self._session.branch_name

    @property
    def leaf(self) -> Node | None:
        """Where the branch ends now, whoever appended last; ``None`` before the first user message."""
        return self._session.leaf

    def line(self) -> list[Node]:
        """The entries from the root to the leaf. Raises ``Corrupt`` where one of them is lost."""
        return self._session.line()

    def line_with_gaps(self) -> list[Node | Gap]:
        """The same, with a ``Gap`` (``oid``, ``problem``) in the place of each entry that cannot be read."""
        return self._session.line_with_gaps()

    def tree(self) -> Tree:
        """Every entry of every branch."""
        return self._session.tree()

    def branches(self) -> dict[str, Oid]:
        """The leaf of each branch."""
        return self._session.branches()

    def names(self) -> Names:
        """Title and labels, from the catalogue."""
        return names.names(self._catalogues.get(), self.id)

    def read(self, at: str | Node) -> Entry:
        """What an entry means."""
        return self._session.read(self._session.resolve(at))

    def resolve(self, at: str | Node) -> Node:
        """The entry that an address names. Raises ``NotFound`` or ``Ambiguous``."""
        return self._session.resolve(at)

    def follow(self, *, every: float = following.EVERY_SECONDS, idle: bool = False) -> Iterator[News | None]:
        """Every entry of this session that comes from now on, on any branch: as ``Store.follow``."""
        return following.follow(self._objects, sid=self.id, every=every, idle=idle)

    # ---- what happens

    def append(self, entry: Entry, *, expected: Node | None = None, on_moved: OnMoved = "refuse") -> Node:
        """Write one entry after the leaf; it is durable when this returns.

        Without ``expected`` the entry goes after whatever is the leaf by then. With it, it goes after that entry only:
        where another writer was first, ``on_moved="refuse"`` raises ``LeafMoved``, and ``"fork"`` opens a branch beside
        theirs, on which this handle then stays. Raises ``Malformed`` for what the format cannot hold.
        """
        return self._session.append(entry, expected=expected, on_moved=on_moved)

    def branch(self, name: str, at: str | Node = "leaf") -> Session:
        """Start a branch at an entry; the session comes back on it. Raises ``Refused`` where the name is taken."""
        _check_no_label(name, self.names())
        self._session.branch(name, at)
        return self.on(name)

    def on(self, branch: str) -> Session:
        """The same session, on another branch. Nothing is moved. Raises ``NotFound``."""
        return self._beside(self._session.on(branch))

    def switch(self, branch: str) -> Node:
        """Make ``branch`` the active one on this machine, and go on there."""
        return self._session.switch(branch)

    def fork(self, at: str | Node = "leaf") -> Session:
        """A session of its own that begins at an entry of this one: one ref and one entry, however long the line."""
        catalogue = self._catalogues.get()
        row = catalogue.session(self.id)
        if row is None:
            raise NotFound(f"session {self.id} has no entries yet")
        called = names.names(catalogue, self.id)
        forked = self._session.fork(at, agent=row.agent, cwd=row.project, title=called.title, labels=called.chains)
        return self._beside(forked)

    def _beside(self, session: sessions.Session) -> Session:
        return Session(self._objects, self._catalogues, self._memory, session)

    def label(self, at: str | Node, label: str) -> Node:
        """Name an entry, in place of the name it had; an empty label takes the name away.

        Raises ``Refused`` where the name already leads to another entry of this session.
        """
        node, label = self._session.resolve(at), sessions.name_of(label)
        _check_free(label, node, self.names(), self.branches())
        return self._session.label(node, label)

    def origin(self) -> Origin | None:
        """Where an imported session came from: the session, and the call there that started it as a sub-agent.

        Of one that was handed over to its agent from here (``Store.resume``): the session that it was, if known.
        """
        catalogue = self._catalogues.get()
        row = catalogue.session(self.id)

        def find(agent: str, source_id: str) -> str | None:
            return next((row.sid for row in catalogue.by_source(agent, source_id)), None)

        found = origin(self._objects, self.id, row.source_id if row else None, find)
        if found is not None or row is None or row.source_id is None:
            return found
        handed = catalogue.handed(row.agent, row.source_id)
        return Origin(handed[0], None) if handed is not None and handed[0] != self.id else None

    def started(self, at: str | Node = "leaf") -> list[str]:
        """The sessions that the calls of an entry started, as sub-agents: ``origin`` the other way round."""
        catalogue = self._catalogues.get()
        row = catalogue.session(self.id)
        if row is None or row.source_id is None:
            return []
        begun = {each.sid: each.source_id for each in catalogue.begun_by(row.agent, row.source_id)}
        if not begun:
            return []
        return started(self._objects, self._session.resolve(at), self.tree(), row.agent, begun)

    def rename(self, title: str) -> None:
        """Name the session; an empty title takes the name away."""
        self._session.rename(title)

    def seal(self, branch: str | None = None, *, key: str = "") -> Seal:
        """Sign a branch as it is, by default the one this handle is on, and keep that (docs/verify.md, "Seals").

        ``key``: another than git's ``user.signingKey``. Raises ``NotFound``, ``Unavailable`` where nobody signs, and
        what reading raises where an entry is lost.
        """
        from gitsession.session import seals
        from gitsession.store.signing import Signing

        made = seals.make(
            self._objects, self.id, branch or self.branch_name, self._session.clock(), Signing.of_user(), key
        )
        self._session.seal(made)
        return made

    def seals(self) -> list[Sealed]:
        """The seals of this session, the newest first, and what they are worth."""
        from gitsession.session import seals
        from gitsession.store.signing import Signing

        return seals.of_session(self._objects, self.id, Signing.of_user())

    # ---- what a model sees

    def context(
        self,
        at: str | Node = "leaf",
        *,
        profile: str | None = None,
        policies: Sequence[Policy] = (),
        window: int | None = None,
    ) -> Context:
        """What the model sees at an entry, by the rules of an agent (docs/context.md): one of ``PROFILES``.

        ``policies``: what to leave out, as a view. ``window``: how many tokens the model takes.
        Raises ``NotFound``, and ``Corrupt``, ``MissingObject`` or ``Malformed`` where damage would leave something out.
        """
        return revealing.context(self._context_line(at), profile or self._profile, policies, window=window)

    @functools.cached_property
    def _profile(self) -> str:
        """By whose rules, where nobody says. The agent of a session never changes."""
        row = self._catalogues.get(fresh=False).session(self.id) or self._catalogues.get().session(self.id)
        return profiles.of_agent(row.agent if row else "")

    def _context_line(self, at: str | Node) -> Line:
        leaf = None if at == "leaf" and self.leaf is None else self._session.resolve(at).oid
        known = Known(self._catalogues.get(fresh=False), self.id, self._catalogues.get)
        return Line(self._objects, leaf, known, self._memory)

    def prune(self, *policies: Policy, profile: str | None = None) -> Node | None:
        """Make what policies leave out of tool results last: one ``prune`` entry; ``None`` where there is nothing."""
        before, after = self.context(profile=profile), self.context(profile=profile, policies=policies)
        nodes = [load(self._objects, oid) for oid in newly_cleared(before.items, after.items)]
        return self.append(Prune(targets=tuple(to_base64url(node.chain) for node in nodes))) if nodes else None

    # ---- files

    def checkpoint(
        self,
        workspace: str | Path | None = None,
        *,
        paths: Sequence[str | Path] | None = None,
        call: str | None = None,
        target: str | Node = "leaf",
        reason: str | None = None,
    ) -> AbstractContextManager[Node]:
        """Round a tool: ``with session.checkpoint("."): run()`` keeps what the tool changed in a folder, and what not.

        ``paths``: the only ones that it can change; else all of the folder is looked at, by the rules of its
        ``.gitignore``. ``call``: the tool call's id; ``target``: the entry that called it. docs/checkpoints.md.
        Raises ``NotFound`` where nobody has spoken in the session yet, ``Refused`` for a folder that is no workspace.
        """
        self._session.check_view()
        why = self._files.why(self._session.resolve(target), call, reason)
        return self._files.around(workspace, why, paths, self._running)

    def take_checkpoint(
        self,
        phase: Phase = "before",
        workspace: str | Path | None = None,
        *,
        paths: Sequence[str | Path] | None = None,
        call: str | None = None,
        target: str | Node = "leaf",
        reason: str | None = None,
    ) -> Node:
        """One look, for whoever cannot stand round a tool: ``before`` it, and ``after`` it.

        What differs ``before`` is not the session's, and what differs ``after`` is, so who could not look before a
        tool must not say ``after``. Where nothing differs the newest checkpoint comes back.
        """
        self._session.check_view()
        why = self._files.why(self._session.resolve(target), call, reason)
        return self._files.take(workspace, phase, why, paths)

    def files(self, at: str | Node | None = None) -> Files:
        """The files as they were at an entry, as far as checkpoints tell; by default, as they were seen last."""
        return self._files.newest() if at is None else self._files.at(self._session.resolve(at))

    def diff(self, at: str | Node, to: str | Node | None = None) -> list[FileChange]:
        """What became of the files from one entry to another, by default to the newest checkpoint."""
        return self.files(at).diff(self.files(to))

    def plan_rewind(
        self, at: str | Node, what: What = "both", *, workspace: str | Path | None = None, force: bool = False
    ) -> RewindPlan:
        """What ``rewind`` would do, without doing it: which files, and why it leaves others (docs/checkpoints.md).

        ``at``: an entry; of one in which the user spoke, the talk goes on before it. ``force``: what others than the
        session changed goes too. Raises ``NotFound`` where the workspace is not here, or has no checkpoints.
        """
        return self._files.plan(self._session, self._session.resolve(at), what, workspace, force=force)

    def rewind(self, plan: RewindPlan) -> Rewound:
        """Files and talk as they were at an entry, as planned; ``Store.undo`` takes it back.

        This handle then is on the branch where the talk goes on. Raises ``Refused`` where another rewind has not
        ended, and ``Unavailable``: then ``finish_rewind`` or ``abort_rewind`` follow.
        """
        return self._files.rewind(self._session, plan)

    def finish_rewind(self, workspace: str | Path | None = None) -> Rewound:
        """Do the rest of a rewind, or of an undo, that was killed. Raises ``NotFound`` where none was."""
        return self._files.finish(self._session, workspace)

    def abort_rewind(self, workspace: str | Path | None = None) -> Rewound:
        """Put the files back as they were before a rewind, or an undo, that was killed."""
        return self._files.abort(self._session, workspace)

    # ---- compaction

    def plan_compaction(
        self, strategy: str = strategies.DEFAULT, *, profile: str | None = None, ask: Ask = strategies.NO_WISHES
    ) -> Plan:
        """What ``compact`` would do, without doing it: one of ``STRATEGIES`` (docs/compaction.md)."""
        return strategies.plan(self._context_line("leaf"), strategy, profile=profile or self._profile, ask=ask)

    def plan_leaving(self, to: str | Node, *, profile: str | None = None, window: int | None = None) -> Plan:
        """What ``compact`` would say, at the entry ``to``, of the branch this handle is on: since the two parted.

        ``window``: of the model that summarises, in tokens; the newest that fits is taken.
        """
        onto = self._session.resolve(to)
        ways = self._context_line("leaf"), self._context_line(onto)
        return branches.leaving(*ways, onto, profiles.profile(profile or self._profile), window=window)

    def is_compaction_due(self, window: int, *, reserve: int | None = None, profile: str | None = None) -> bool:
        """Whether less than the agent's reserve (or ``reserve``) is left of ``window``, both in tokens."""
        line = self._context_line("leaf")
        return trigger.is_due(fold.context(line, profile or self._profile), line, window, reserve=reserve)

    def compact(
        self,
        plan: Plan | None = None,
        writing: Writing | None = None,
        *,
        strategy: str | None = None,
        profile: str | None = None,
        keep_tokens: int | None = None,
        focus: str = "",
        summarizer: str | Summarizer | None = None,
        undoable: bool = False,
    ) -> Node | None:
        """Let a summary stand for older entries from here on: one ``compaction`` entry; ``None`` where none is due.

        ``strategy`` and ``profile``: who decides what is summarised, pi if nobody else. ``keep_tokens``: of the end, as
        it is. ``focus``: what to take care of. ``summarizer``: ``"extractive"`` (by rule, the default), ``"command"``,
        ``"http"`` or a plugin's name, set up in the user's git configuration; or an object with ``summarise``.
        A ready ``plan`` of ``plan_compaction`` stands for the first three, a ``writing`` for the others.
        ``undoable``: as an operation of the log, which ``Store.undo`` takes back while nothing was appended behind it.
        Raises ``SummaryFailed`` or ``Refused``; then nothing was written.
        """
        if plan is not None and (strategy, profile, keep_tokens) != (None, None, None):
            raise TypeError("a plan says already what is summarised: no strategy, profile or keep_tokens beside it")
        if writing is not None and (focus, summarizer) != ("", None):
            raise TypeError("a writing says already who summarises and how: no focus or summarizer beside it")
        if plan is None:
            ask = Ask(keep_tokens=keep_tokens)
            plan = self.plan_compaction(strategy or strategies.DEFAULT, profile=profile, ask=ask)
        if plan.nothing:
            return None
        if writing is None:
            by = PLAINLY.summarizer if summarizer is None else summarizing.summarizer(summarizer)
            writing = Writing(summarizer=by, focus=focus)
        command = f"compact {self.id} {plan.strategy}" if undoable else ""
        return self._perform(plan, writing, command)

    def compact_in_background(self, plan: Plan, writing: Writing = PLAINLY) -> Background:
        """The same on a thread of its own, while the session goes on: what is appended meanwhile is kept."""
        return Background(lambda cancelled: self._perform(plan, dataclasses.replace(writing, cancelled=cancelled)))

    @property
    def _files(self) -> WorkspaceDoor:
        from gitsession.api.workspaces import WorkspaceDoor

        return WorkspaceDoor(self._objects, self._catalogues, self.id, self._session.clock)

    def _perform(self, plan: Plan, writing: Writing, command: str = "") -> Node:
        return perform(self._objects, self._session, plan, writing, command=command)


def _check_no_label(name: str, names: Names) -> None:
    if name in names.labels.values():
        raise Refused(f"{name!r} is a label in this session", hint="choose another name")


def _check_free(label: str, node: Node, names: Names, branches: Collection[str]) -> None:
    taken = [oid for oid, name in names.labels.items() if name == label and oid != node.oid]
    if taken:
        raise Refused(f"{label!r} is the label of {taken[0][:12]}", hint="an empty label takes it away there")
    if label in branches:
        raise Refused(f"{label!r} is a branch of this session", hint="choose another name")
