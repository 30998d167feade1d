"""The session API: append entries, read them, branch, fork and label a session."""

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
    from gitsession.verify.findings import SignatureCheck


class Session:
    """A session of a store, on one of its branches. ``Store.new_session`` and ``Store.session`` return one.

    Entries are returned as ``Node``; ``read`` returns the content of an entry. The parts ``files`` and ``compaction``
    have the operations on the workspace and on the context.

    Where an entry is an argument, pass a ``Node`` or an address such as ``"leaf"``, ``"root"``, ``"leaf~2"``, a branch,
    a label, an id that the agent gave, or the beginning of a chain digest or object id.
    """

    def __init__(self, opened: OpenStore, session: sessions.StoredSession) -> None:
        """Wrap a stored session. Programs call ``Store.new_session`` or ``Store.session`` instead."""
        self._opened = opened
        self._session = session
        self._handle = Handle(opened, session)

    @functools.cached_property
    def files(self) -> SessionFiles:
        """The workspace of the session: checkpoints and rewinds."""
        from gitsession.api.files import SessionFiles

        return SessionFiles(self._handle)

    @functools.cached_property
    def compaction(self) -> SessionCompaction:
        """The compaction of the session's context."""
        from gitsession.api.compaction import SessionCompaction

        return SessionCompaction(self._handle)

    @property
    def id(self) -> str:
        """The full session id, as in its ref names."""
        return self._session.id

    @property
    def leaf(self) -> Node | None:
        """The tip of the branch now, whoever appended it; ``None`` before the first user message."""
        return self._session.leaf

    @property
    def branch_name(self) -> str:
        """The branch of this handle."""
        return self._session.branch_name

    def history(self) -> list[Node]:
        """Return the history of the branch, from the root to the tip. Raises ``Corrupt`` if an entry is lost."""
        return self._session.history()

    def history_with_gaps(self) -> list[Node | Gap]:
        """Return the history like ``line``, with a ``Gap`` (``oid``, ``problem``) for each unreadable entry."""
        return self._session.history_with_gaps()

    def tree(self) -> Tree:
        """Return the entries of all branches as a tree."""
        return self._session.tree()

    def branches(self) -> dict[str, Oid]:
        """Return the object id of the tip of each branch."""
        return self._session.branches()

    def names(self) -> Names:
        """Return the title and the labels of the session, from the catalog."""
        return names.names(self._opened.catalogues.get(), self.id)

    def read(self, at: str | Node) -> Entry:
        """Return the content of an entry. If it cannot be read, return an ``Opaque`` entry."""
        return self._session.read(self._session.resolve(at))

    def resolve(self, at: str | Node) -> Node:
        """Return the entry that an address names.

        Raises:
            NotFound: No entry matches.
            Ambiguous: Several entries match.
        """
        return self._session.resolve(at)

    def follow(self, *, every: float = following.EVERY_SECONDS, idle: bool = False) -> Iterator[NewEntry | None]:
        """Yield each entry that any process appends to this session from now on, on any branch.

        See ``Store.follow`` for the arguments and errors.
        """
        return following.follow(self._opened.objects, sid=self.id, every=every, idle=idle)

    def context(
        self,
        at: str | Node = "leaf",
        *,
        profile: str | None = None,
        policies: Sequence[Policy] = (),
        window: int | None = None,
    ) -> Context:
        """Return what the model receives at an entry (docs/reference/context.md).

        Args:
            at: The entry.
            profile: The rules, one of ``PROFILES``. By default those of the session's agent.
            policies: Rules that leave something out, applied in this order. The stored entries do not change.
            window: The context window of the model, in tokens.

        Returns:
            The context.

        Raises:
            NotFound: No entry matches ``at``.
            Corrupt: An entry that belongs to the context is damaged.
            MissingObject: An entry that belongs to the context is lost.
            Malformed: An entry that belongs to the context does not follow the format.
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
        """Replace older entries in the context with a summary: append one ``compaction`` entry.

        Args:
            plan: A plan of ``compaction.plan``, instead of ``strategy``, ``profile`` and ``keep_tokens``.
            writing: Options of the summary, instead of ``focus`` and ``summarizer``.
            strategy: The rule that selects what is summarized, one of ``STRATEGIES``. By default ``"pi"``.
            profile: The rules of the context, one of ``PROFILES``. By default those of the session's agent.
            keep_tokens: Number of tokens at the end of the context to keep as they are. By default as the agent does.
            focus: What the summary should pay attention to.
            summarizer: ``"extractive"`` (by rule, the default), ``"command"``, ``"http"`` or the name of a plugin, with
                settings from the user's git configuration; or an object with ``summarise``.
            undoable: Whether to log an operation, so that ``Store.undo`` removes the entry as long as it is the tip.

        Returns:
            The new entry; ``None`` if there is nothing to summarize.

        Raises:
            SummaryFailed: The summarizer failed. Nothing was written.
            Refused: Another process compacted or moved the branch meanwhile. Nothing was written.
            NotFound: The branch was removed. Nothing was written.
            TypeError: A plan or options were passed together with the arguments that they replace.
        """
        from gitsession.api import compaction
        from gitsession.compaction import strategies
        from gitsession.compaction.perform import perform
        from gitsession.compaction.plan import CompactionRequest, Plan
        from gitsession.compaction.write_summary import SummaryOptions

        if plan is not None and (strategy, profile, keep_tokens) != (None, None, None):
            raise TypeError("pass either plan, or strategy, profile and keep_tokens")
        if writing is not None and (focus, summarizer) != ("", None):
            raise TypeError("pass either writing, or focus and summarizer")
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

    # ---- writing

    def append(self, entry: Entry, *, expected: Node | None = None, on_moved: OnMoved = "refuse") -> Node:
        """Append one entry to the branch. It is durable when this returns (see ``durability`` of ``Store.open``).

        Before the first user message, entries are kept in memory. They are written together with that message.

        Args:
            entry: The entry.
            expected: The entry that it must follow. By default it follows the tip, whoever appended that.
            on_moved: If the tip is not ``expected``: ``"refuse"`` raises ``LeafMoved``; ``"fork"`` appends to a new
                branch that starts at ``expected``, and this handle moves to that branch.

        Returns:
            The appended entry.

        Raises:
            LeafMoved: Another writer appended first.
            NotFound: The branch was removed.
            Malformed: The format cannot hold the entry.
            Refused: The session was created by a later release.
        """
        return self._session.append(entry, expected=expected, on_moved=on_moved)

    def branch(self, name: str, at: str | Node = "leaf") -> Session:
        """Create a branch at an entry and return a handle on it.

        Args:
            name: The name of the branch.
            at: The entry.

        Returns:
            The session on the new branch. This handle stays on its branch.

        Raises:
            Refused: The name is a branch or a label of this session.
            InvalidName: The name is not valid for a branch, or it contains a secret.
            NotFound: No entry matches ``at``.
        """
        require(name, str, "a name for the branch")
        if names.labelled(self._opened.catalogues.get(), self.id, name) is not None:
            raise Refused(f"cannot create branch {name!r}: it is a label of this session", hint="choose another name")
        self._session.branch(name, at)
        return self.on(name)

    def on(self, branch: str) -> Session:
        """Return a handle of this session on another branch. Nothing is written. Raises ``NotFound``."""
        return Session(self._opened, self._session.on(branch))

    def switch(self, branch: str) -> Node:
        """Make ``branch`` the active branch on this machine, move this handle to it, and return its tip.

        Raises ``NotFound`` if there is no such branch.
        """
        return self._session.switch(branch)

    def fork(self, at: str | Node = "leaf") -> Session:
        """Create a session that continues this one at an entry.

        A fork costs one ref and one entry, however long the history is. It shares the history and the checkpoints.

        Args:
            at: The entry.

        Returns:
            The new session.

        Raises:
            NotFound: No entry matches ``at``, or this session has no entries.
        """
        catalogue = self._opened.catalogues.get()
        row = catalogue.session(self.id)
        if row is None:
            raise NotFound(f"session {self.id} has no entries yet")
        called = names.names(catalogue, self.id)
        forked = self._session.fork(at, agent=row.agent, cwd=row.project, title=called.title, labels=called.chains)
        return Session(self._opened, forked)

    def label(self, at: str | Node, label: str) -> Node:
        """Set the label of an entry, or remove it.

        Args:
            at: The entry.
            label: The new label. An empty string removes the label.

        Returns:
            The labeled entry.

        Raises:
            Refused: The name is a branch of this session, or the label of another entry.
            InvalidName: The label is too long, or it is an address such as ``leaf``.
            NotFound: No entry matches ``at``.
        """
        node, label = self._session.resolve(at), sessions.name_of(label)
        taken = names.labelled(self._opened.catalogues.get(), self.id, label) if label else None
        if taken not in (None, node.oid):
            raise Refused(f"cannot set label {label!r}: entry {taken[:12]} has it", hint="remove that label first")
        if self._session.has_branch(label):
            raise Refused(f"cannot set label {label!r}: it is a branch of this session", hint="choose another name")
        return self._session.label(node, label)

    def origin(self) -> Origin | None:
        """Return the origin of an imported session.

        Returns:
            For a session that its agent started from another one: that session, and the call that started a sub-agent.
            For a session that was resumed as a new one (``Store.agents.resume``): the session and the entry that it
            continues. ``None`` if there is no origin, or if it is not in the store.
        """
        catalogue = self._opened.catalogues.get()
        row = catalogue.session(self.id)

        def find(agent: str, source_id: str) -> str | None:
            return next((row.sid for row in catalogue.by_source(agent, source_id)), None)

        return origin(self._opened.objects, self.id, row.source_id if row else None, find)

    def started(self, at: str | Node = "leaf") -> list[str]:
        """Return the ids of the sessions that the calls of an entry started as sub-agents; see ``origin``."""
        catalogue = self._opened.catalogues.get()
        row = catalogue.session(self.id)
        if row is None or row.source_id is None:
            return []
        begun = {each.sid: each.source_id for each in catalogue.children_of(row.agent, row.source_id)}
        if not begun:
            return []
        return started(self._opened.objects, self._session.resolve(at), self.tree(), row.agent, begun)

    def rename(self, title: str) -> None:
        """Set the title of the session; an empty title removes it. Raises ``InvalidName`` if it is too long."""
        self._session.rename(title)

    def sign(self, branch: str | None = None, *, key: str = "") -> Seal:
        """Sign a branch as it is now, and store the signature.

        Args:
            branch: The branch. By default the branch of this handle.
            key: The key. By default git's ``user.signingKey``.

        Returns:
            The signature.

        Raises:
            NotFound: There is no such branch.
            Unavailable: The signing program failed, or git's ``gpg.format`` is not supported.
            Corrupt: An entry of the branch is damaged.
            MissingObject: An entry of the branch is lost.
        """
        from gitsession.git.signing import Signing
        from gitsession.verify import signatures

        made = signatures.make(
            self._opened.objects, self.id, branch or self.branch_name, self._session.clock(), Signing.of_user(), key
        )
        self._session.seal(made)
        return made

    def signatures(self) -> list[SignatureCheck]:
        """Return the signatures of this session and their state, the newest first."""
        from gitsession.git.signing import Signing
        from gitsession.verify import signatures

        return signatures.of_session(self._opened.objects, self.id, Signing.of_user())
