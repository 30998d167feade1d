"""A session, as a program uses it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gitsession.api.opened import Handle, OpenStore
from gitsession.context import build
from gitsession.context.policies import Policy
from gitsession.context.value import Context
from gitsession.errors import NotFound, Refused, require
from gitsession.git.types import Oid
from gitsession.index import names
from gitsession.index.names import Names
from gitsession.live import follow as following
from gitsession.live.follow import NewEntry
from gitsession.model.entries import Entry, Seal
from gitsession.sessions import session as sessions
from gitsession.sessions.gaps import Gap
from gitsession.sessions.graph import Tree
from gitsession.sessions.node import Node
from gitsession.sessions.origin import Origin, origin, started
from gitsession.sessions.session import OnMoved

if TYPE_CHECKING:
    from gitsession.api.compaction import SessionCompaction
    from gitsession.api.files import SessionFiles
    from gitsession.compaction.plan import Plan
    from gitsession.compaction.summary import Summarizer
    from gitsession.compaction.write_summary import SummaryOptions
    from gitsession.verify.findings import SealCheck


class Session:
    """One session: append to it, walk it, branch it. Entries come back as ``Node``; ``read`` gives what they mean.

    ``Store.new_session`` and ``Store.session`` return one. Its parts are ``files`` and ``compaction``.
    """

    def __init__(self, opened: OpenStore, session: sessions.StoredSession) -> None:
        """Use ``Store.new_session`` or ``Store.session``."""
        self._opened = opened
        self._session = session
        self._handle = Handle(opened, session)

    @functools.cached_property
    def files(self) -> SessionFiles:
        """The files of the workspace: checkpoints and rewinds."""
        from gitsession.api.files import SessionFiles

        return SessionFiles(self._handle)

    @functools.cached_property
    def compaction(self) -> SessionCompaction:
        """Summaries in place of older entries: plans, and compactions in the background."""
        from gitsession.api.compaction import SessionCompaction

        return SessionCompaction(self._handle)

    @property
    def id(self) -> str:
        """The whole id, as in the names of its refs."""
        return self._session.id

    @property
    def leaf(self) -> Node | None:
        """The newest entry of the branch now, whoever appended it; ``None`` before the first user message."""
        return self._session.leaf

    @property
    def branch_name(self) -> str:
        """The branch this handle is on."""
        return self._session.branch_name

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
        return names.names(self._opened.catalogues.get(), self.id)

    def read(self, at: str | Node) -> Entry:
        """What an entry means."""
        return self._session.read(self._session.resolve(at))

    def resolve(self, at: str | Node) -> Node:
        """The entry that an address names. Raises ``NotFound`` or ``Ambiguous``."""
        return self._session.resolve(at)

    def follow(self, *, every: float = following.EVERY_SECONDS, idle: bool = False) -> Iterator[NewEntry | None]:
        """Every entry of this session that comes from now on, on any branch: as ``Store.follow``."""
        return following.follow(self._opened.objects, sid=self.id, every=every, idle=idle)

    def context(
        self,
        at: str | Node = "leaf",
        *,
        profile: str | None = None,
        policies: Sequence[Policy] = (),
        window: int | None = None,
    ) -> Context:
        """Return what the model receives at an entry, by one of ``PROFILES`` (docs/reference/context.md).

        ``policies``: what to leave out, as a view. ``window``: how many tokens the model takes.
        Raises ``NotFound``, and ``Corrupt``, ``MissingObject`` or ``Malformed`` where damage would leave something out.
        """
        line = self._handle.context_line(at)
        return build.revealed(line, profile or self._handle.profile, policies, window=window)

    def compact(
        self,
        plan: Plan | None = None,
        writing: SummaryOptions | None = None,
        *,
        strategy: str | None = None,
        profile: str | None = None,
        keep_tokens: int | None = None,
        focus: str = "",
        summarizer: str | Summarizer | None = None,
        undoable: bool = False,
    ) -> Node | None:
        """Replace older entries with a summary from here on: one ``compaction`` entry; ``None`` where none is due.

        ``strategy`` and ``profile``: who decides what is summarised, pi if nobody else. ``keep_tokens``: of the end, as
        it is. ``focus``: what to take care of. ``summarizer``: ``"extractive"`` (by rule, the default), ``"command"``,
        ``"http"`` or a plugin's name, set up in the user's git configuration; or an object with ``summarise``.
        A ready ``plan`` of ``compaction.plan`` stands for the first three, a ``writing`` for the others.
        ``undoable``: as an operation of the log, which ``Store.undo`` takes back while nothing was appended behind it.
        Raises ``SummaryFailed`` or ``Refused``; then nothing was written.
        """
        from gitsession.api import compaction
        from gitsession.compaction import strategies
        from gitsession.compaction.perform import perform
        from gitsession.compaction.plan import CompactionRequest, Plan
        from gitsession.compaction.write_summary import SummaryOptions

        if plan is not None and (strategy, profile, keep_tokens) != (None, None, None):
            raise TypeError("a plan says already what is summarised: no strategy, profile or keep_tokens beside it")
        if writing is not None and (focus, summarizer) != ("", None):
            raise TypeError("a writing says already who summarises and how: no focus or summarizer beside it")
        if plan is None:
            ask = CompactionRequest(keep_tokens=keep_tokens)
            plan = self.compaction.plan(strategy or strategies.DEFAULT, profile=profile, ask=ask)
        require(plan, Plan, "a plan, as session.compaction.plan() returns")
        if plan.nothing:
            return None
        if writing is None:
            by = compaction.PLAINLY.summarizer if summarizer is None else compaction.summarizer(summarizer)
            writing = SummaryOptions(summarizer=by, focus=focus)
        command = f"compact {self.id} {plan.strategy}" if undoable else ""
        return perform(self._opened.objects, self._session, plan, writing, command=command)

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
        require(name, str, "a name for the branch")
        if names.labelled(self._opened.catalogues.get(), self.id, name) is not None:
            raise Refused(f"{name!r} is a label in this session", hint="choose another name")
        self._session.branch(name, at)
        return self.on(name)

    def on(self, branch: str) -> Session:
        """The same session, on another branch. Nothing is moved. Raises ``NotFound``."""
        return Session(self._opened, self._session.on(branch))

    def switch(self, branch: str) -> Node:
        """Make ``branch`` the active one on this machine, and go on there."""
        return self._session.switch(branch)

    def fork(self, at: str | Node = "leaf") -> Session:
        """A session of its own that begins at an entry of this one: one ref and one entry, however long the line."""
        catalogue = self._opened.catalogues.get()
        row = catalogue.session(self.id)
        if row is None:
            raise NotFound(f"session {self.id} has no entries yet")
        called = names.names(catalogue, self.id)
        forked = self._session.fork(at, agent=row.agent, cwd=row.project, title=called.title, labels=called.chains)
        return Session(self._opened, forked)

    def label(self, at: str | Node, label: str) -> Node:
        """Name an entry, in place of the name it had; an empty label takes the name away.

        Raises ``Refused`` where the name already leads to another entry of this session.
        """
        node, label = self._session.resolve(at), sessions.name_of(label)
        taken = names.labelled(self._opened.catalogues.get(), self.id, label) if label else None
        if taken not in (None, node.oid):
            raise Refused(f"{label!r} is the label of {taken[:12]}", hint="an empty label takes it away there")
        if self._session.has_branch(label):
            raise Refused(f"{label!r} is a branch of this session", hint="choose another name")
        return self._session.label(node, label)

    def origin(self) -> Origin | None:
        """Where an imported session came from: the session, and the call there that started it as a sub-agent.

        Of one that was resumed as another one (``Store.agents.resume``): that one, and the entry it was resumed from.
        """
        catalogue = self._opened.catalogues.get()
        row = catalogue.session(self.id)

        def find(agent: str, source_id: str) -> str | None:
            return next((row.sid for row in catalogue.by_source(agent, source_id)), None)

        return origin(self._opened.objects, self.id, row.source_id if row else None, find)

    def started(self, at: str | Node = "leaf") -> list[str]:
        """The sessions that the calls of an entry started, as sub-agents: ``origin`` the other way round."""
        catalogue = self._opened.catalogues.get()
        row = catalogue.session(self.id)
        if row is None or row.source_id is None:
            return []
        begun = {each.sid: each.source_id for each in catalogue.begun_by(row.agent, row.source_id)}
        if not begun:
            return []
        return started(self._opened.objects, self._session.resolve(at), self.tree(), row.agent, begun)

    def rename(self, title: str) -> None:
        """Name the session; an empty title takes the name away."""
        self._session.rename(title)

    def seal(self, branch: str | None = None, *, key: str = "") -> Seal:
        """Sign a branch as it is, by default the one this handle is on, and keep that.

        ``key``: another than git's ``user.signingKey``. Raises ``NotFound``, ``Unavailable`` where nobody signs, and
        what reading raises where an entry is lost.
        """
        from gitsession.git.signing import Signing
        from gitsession.verify import signatures as seals

        made = seals.make(
            self._opened.objects, self.id, branch or self.branch_name, self._session.clock(), Signing.of_user(), key
        )
        self._session.seal(made)
        return made

    def seals(self) -> list[SealCheck]:
        """The seals of this session, the newest first, and what they are worth."""
        from gitsession.git.signing import Signing
        from gitsession.verify import signatures as seals

        return seals.of_session(self._opened.objects, self.id, Signing.of_user())
