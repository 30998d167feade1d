"""The session API: append and read entries, and branch, fork and label a session."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gitsession.api.opened import Handle, OpenStore, restoring
from gitsession.errors import NotFound, Refused, require
from gitsession.git.types import Oid
from gitsession.index import names
from gitsession.index.names import Names
from gitsession.live import follow as following
from gitsession.live.follow import NewEntry
from gitsession.model.entries import Entry, Seal
from gitsession.sessions import graph
from gitsession.sessions import session as sessions
from gitsession.sessions.gaps import Gap
from gitsession.sessions.graph import Tree
from gitsession.sessions.node import Node
from gitsession.sessions.session import OnMoved

if TYPE_CHECKING:
    from gitsession.api.compaction import SessionCompaction
    from gitsession.api.files import SessionFiles
    from gitsession.api.opened import AutomaticStart
    from gitsession.compaction.plan import Plan
    from gitsession.compaction.summary import Summarizer
    from gitsession.compaction.write_summary import SummaryOptions
    from gitsession.context.policies import Policy
    from gitsession.context.value import Context
    from gitsession.model.instructions import InstructionSet
    from gitsession.model.session_state import SessionState
    from gitsession.sessions.origin import Origin
    from gitsession.verify.findings import SignatureCheck


class Session:
    """A handle for a session in a store, on one of the branches of the session.

    ``Store.new_session`` and ``Store.session`` return a handle. Methods return entries as ``Node``. ``read`` returns
    the content of an entry. ``session.files`` provides the operations on the workspace, and ``session.compaction``
    provides the operations on the context.

    To pass an entry as an argument, use a ``Node`` or an address. An address is ``"leaf"``, ``"root"``, ``"leaf~2"``,
    ``"user~1"`` (the user message before the newest one), ``"turn"`` (the start of the newest turn), the name of a
    branch, a label, the agent's id of the entry, or the beginning of a chain digest or object id.

    Threads can share a handle after its first user message is appended. If a method moves the handle to another branch,
    as ``switch`` and ``files.rewind`` do, the handle moves for all threads.
    """

    def __init__(self, opened: OpenStore, session: sessions.StoredSession) -> None:
        """Wrap a stored session. Programs call ``Store.new_session`` or ``Store.session`` instead."""
        self._opened = opened
        self._session = session
        self._handle = Handle(opened, session)

    @functools.cached_property
    def files(self) -> SessionFiles:
        """The files of the session: checkpoints and rewinds."""
        from gitsession.api.files import SessionFiles

        return SessionFiles(self._handle)

    @functools.cached_property
    def compaction(self) -> SessionCompaction:
        """The compaction of the session's context."""
        from gitsession.api.compaction import SessionCompaction

        return SessionCompaction(self._handle)

    @property
    def id(self) -> str:
        """The full session id, as it is used in ref names."""
        return self._session.id

    @property
    def is_stored(self) -> bool:
        """True if the session is stored. A new session is stored when its first user message is appended."""
        return not self._session.pending_agent

    @property
    @restoring
    def leaf(self) -> Node | None:
        """The tip of the branch, which any process may have appended; ``None`` before the first user message."""
        return self._session.leaf

    @property
    def branch_name(self) -> str:
        """The name of this handle's branch."""
        return self._session.branch_name

    @restoring
    def history(self) -> list[Node]:
        """Return the history of the branch, from the root to the tip. Raises ``Corrupt`` if an entry is lost."""
        return self._session.history()

    @restoring
    def history_with_gaps(self) -> list[Node | Gap]:
        """Return the same entries as ``history``, but with a ``Gap`` in place of each unreadable entry."""
        return self._session.history_with_gaps()

    @restoring
    def walk(self, at: str | Node = "leaf") -> Iterator[Node | Gap]:
        """Yield the entries of ``history_with_gaps``, from ``at`` back to the root. Each is read when it is requested.

        Raises ``NotFound`` if no entry matches, and ``Ambiguous`` if several entries match.
        """
        return graph.history_with_gaps(self._opened.objects, self.id, self._session.resolve(at).oid)

    @restoring
    def tree(self) -> Tree:
        """Return the entries of all branches as a tree."""
        return self._session.tree()

    def branches(self) -> dict[str, Oid]:
        """Return the object id of each branch's tip, by branch name."""
        return self._session.branches()

    def names(self) -> Names:
        """Return the title and the labels of the session, from the catalog."""
        return names.names(self._opened.catalogues.get(), self.id)

    @restoring
    def read(self, at: str | Node) -> Entry:
        """Return the content of an entry. If it cannot be read, return an ``Opaque`` entry."""
        return self._session.read(self._session.resolve(at))

    @restoring
    def resolve(self, at: str | Node) -> Node:
        """Return the entry that an address names.

        Raises:
            NotFound: No entry matches.
            Ambiguous: Several entries match.
        """
        return self._session.resolve(at)

    def follow(self, *, every: float = following.EVERY_SECONDS, idle: bool = False) -> Iterator[NewEntry | None]:
        """Yield each entry that any process appends to any branch of this session after this call.

        See ``Store.follow`` for the arguments and errors, and for the entries that are not yielded.
        """
        return following.follow(self._opened.objects, sid=self.id, every=every, idle=idle)

    @restoring
    def context(
        self,
        at: str | Node = "leaf",
        *,
        profile: str | None = None,
        policies: Sequence[Policy] = (),
        window: int | None = None,
    ) -> Context:
        """Return the context that the model would receive after the entry ``at`` (docs/reference/context.md).

        To count tokens, read ``context().tokens.used``. To convert the context to a request, call its ``request``
        method. Until the first user message is appended, the context is empty: entries that were appended before that
        message are not included.

        Args:
            at: The entry.
            profile: A context profile: ``"pi"``, ``"pi-0.73"``, ``"omp"``, ``"claude"``, ``"codex"``, ``"librecode"``,
                ``"opencode"`` or ``"aider"``. Defaults to the profile with the name of the session's agent, or to
                ``"pi"`` if there is no such profile.
            policies: Rules that leave content out of the context, in the order in which they are applied. The stored
                entries do not change.
            window: The context window of the model, in tokens.

        Returns:
            The context.

        Raises:
            NotFound: No entry matches ``at``, or the profile is unknown.
            Corrupt: An entry that belongs to the context is damaged.
            MissingObject: An entry that belongs to the context is lost.
            Malformed: An entry that belongs to the context does not follow the format.
        """
        from gitsession.context import build  # with the rules of all agents, which other methods do not use

        line = self._handle.context_line(at)
        found = build.revealed(line, profile or self._handle.profile, policies, window=window)
        return self._handle.managed(found)

    @restoring
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

        The summary ends with the paths of the files that the agent read and changed in the summarized entries. If only
        the end of a turn stays in the context, the summary includes the beginning of the turn. A beginning of at most
        1,000 characters is quoted, and a longer one is summarized separately.

        Args:
            plan: A plan that ``compaction.plan`` returned. A plan replaces ``strategy``, ``profile`` and
                ``keep_tokens``.
            writing: Options of the summary. These options replace ``focus`` and ``summarizer``.
            strategy: The compaction strategy: ``"pi"`` (the default), ``"opencode"``, ``"codex"`` or ``"aider"``. For
                ``"from"`` and ``"up-to"``, which require an entry, pass a ``plan``. See ``compaction.plan``.
            profile: A context profile; see ``context``. Defaults to the profile of the session's agent.
            keep_tokens: The number of tokens at the end of the context that stay unchanged. Defaults to the number that
                the agent keeps.
            focus: The topics that the summary should focus on.
            summarizer: The name of a summarizer, or an object with a method ``summarise``. The names are
                ``"extractive"`` (the default, which uses no model), ``"command"``, ``"http"``, ``"http:MODEL"`` and the
                names of plugins' summarizers. Named summarizers are configured in the user's git configuration.
            undoable: Whether to log an operation. ``Store.undo`` can then remove the entry as long as it is the tip.

        Returns:
            The new entry, or ``None`` if there is nothing to summarize.

        Raises:
            SummaryFailed: The summarizer failed, or the summary is not smaller than the entries that it replaces.
                Nothing was written.
            Refused: Another process compacted or moved the branch in the meantime. Nothing was written.
            NotFound: The branch was removed. Nothing was written.
            TypeError: ``plan`` or ``writing`` was passed together with an argument that it replaces.
        """
        from gitsession.compaction import strategies, summarizers
        from gitsession.compaction.perform import perform
        from gitsession.compaction.plan import CompactionRequest, Plan
        from gitsession.compaction.write_summary import SummaryOptions

        if plan is not None and (strategy, profile, keep_tokens) != (None, None, None):
            raise TypeError("pass either plan, or strategy, profile and keep_tokens")
        if writing is not None and (focus, summarizer) != ("", None):
            raise TypeError("pass either writing, or focus and summarizer")
        if plan is None:
            request = CompactionRequest(keep_tokens=keep_tokens)
            plan = self.compaction.plan(strategy or strategies.DEFAULT, profile=profile, request=request)
        require(plan, Plan, "a plan, as session.compaction.plan() returns")
        if plan.nothing:
            return None
        if writing is None:
            writing = SummaryOptions(summarizer=summarizers.summarizer(summarizer), focus=focus)
        command = f"compact {self.id} {plan.strategy}" if undoable else ""
        return perform(self._opened.objects, self._session, plan, writing, command=command)

    # ---- writing

    @restoring
    def append(self, entry: Entry, *, expected: Node | None = None, on_moved: OnMoved = "refuse") -> Node:
        """Append one entry to the branch. The entry is durable on return; see ``durability`` of ``Store.open``.

        Entries that are appended before the first user message are kept in memory. These entries are written together
        with that message. If the policy of automatic compaction has the mode ``"client"``, a compaction that has become
        due is started in the background (``session.compaction.policy``). It never fails the append.

        Args:
            entry: The entry.
            expected: The entry that must be the tip. By default, any tip is accepted.
            on_moved: The action if the tip is not ``expected``. ``"refuse"`` raises ``LeafMoved``. ``"fork"`` appends
                to a new branch that starts at ``expected``, and moves this handle to that branch.

        Returns:
            The appended entry.

        Raises:
            LeafMoved: Another writer appended an entry first.
            NotFound: The branch was removed.
            Malformed: The format cannot represent the entry.
            Refused: The session was created by a later release.
        """
        policy = self._handle.policy_in_force
        automatic = None if policy is None or policy.mode != "client" else self._automatic()
        node = self._session.append(entry, expected=expected, on_moved=on_moved)
        if automatic is not None:
            automatic.appended(entry)
        return node

    @restoring
    def append_all(self, entries: Sequence[Entry], *, to_active: bool = False) -> list[Node]:
        """Append several entries to the branch. Either all of them are durable on return, or none is stored.

        Args:
            entries: The entries.
            to_active: Whether to move this handle to the active branch of the session first. Programs that share a
                session by its key pass True, so that they continue on the branch to which any of them has switched.

        Returns:
            The appended entries.

        Raises:
            NotFound: The branch was removed.
            Malformed: The format cannot represent an entry.
            Refused: The session was created by a later release.
        """
        policy = self._handle.policy_in_force
        automatic = None if policy is None or policy.mode != "client" else self._automatic()
        nodes = self._session.append_all(entries, to_active=to_active)
        if automatic is not None:
            for entry in entries:
                automatic.appended(entry)
        return nodes

    def _automatic(self) -> AutomaticStart | None:
        from gitsession.api.automatic_compaction import automatic_of

        return automatic_of(self._handle)

    @restoring
    def instructions(self, at: str | Node = "leaf") -> InstructionSet | None:
        """Return the files of instructions and the skills that are recorded at an entry.

        The set contains all files, also those that are in force only for some paths. ``context`` has the texts that the
        model receives.

        Args:
            at: The entry.

        Returns:
            The set; ``None`` if none is recorded. Secrets in the files are replaced by placeholders.

        Raises:
            NotFound: No entry matches.
        """
        from gitsession.model.recorded_instructions import recorded_set

        return recorded_set(self._handle.context_line(at).instructions)

    @restoring
    def record_instructions(self, found: InstructionSet, *, at_ms: int = 0) -> Node | None:
        """Record the files of instructions and the skills of the agent, if they have changed.

        An ``instructions`` entry is appended to the branch. It keeps the other recorded instructions, such as the
        system prompt. For an imported session, the entry is added to ``meta`` instead, and is in force from its time
        on, so that the agent's file still extends its branch.

        Args:
            found: The files and the skills.
            at_ms: The time from which on they are in force, Unix time in ms. Defaults to the current time.

        Returns:
            The new entry; ``None`` if the same set is already recorded.
        """
        from gitsession.api import session_instructions

        return session_instructions.record(self._handle, found, at_ms)

    @restoring
    def activate_skill(self, name: str) -> Node:
        """Activate a recorded skill: append an ``injection`` entry, after which the model receives the skill's text.

        Args:
            name: The name of the skill.

        Returns:
            The new entry.

        Raises:
            NotFound: The recorded instructions have no skill with this name.
        """
        from gitsession.api import session_instructions

        return session_instructions.activate(self._handle, name)

    @restoring
    def branch(self, name: str, at: str | Node = "leaf") -> Session:
        """Create a branch at an entry, and return a handle on the new branch.

        Args:
            name: The name of the branch.
            at: The entry.

        Returns:
            A handle to this session, on the new branch. The current handle stays on its branch.

        Raises:
            Refused: The session already has a branch or a label with this name.
            InvalidName: The name is not a valid branch name, or it contains a secret.
            NotFound: No entry matches ``at``.
        """
        require(name, str, "a name for the branch")
        if names.labelled(self._opened.catalogues.get(), self.id, name) is not None:
            raise Refused(
                f"cannot create branch {name!r}: an entry of this session has a label with this name",
                hint="choose another name",
            )
        self._session.branch(name, at)
        return self.on(name)

    @restoring
    def on(self, branch: str) -> Session:
        """Return a handle of this session on another branch. Nothing is written.

        Raises ``NotFound`` if there is no such branch.
        """
        return Session(self._opened, self._session.on(branch))

    @restoring
    def switch(self, branch: str) -> Node:
        """Make ``branch`` the active branch on this machine, move this handle to it, and return its tip.

        Raises ``NotFound`` if there is no such branch.
        """
        return self._session.switch(branch)

    @restoring
    def continue_at(self, at: str | Node, *, expected: Node | None = None) -> Node:
        """Continue the conversation after an earlier entry. ``Store.undo`` can undo this.

        This handle moves to a branch that ends at the entry, or to a new branch, and makes it the active branch. The
        later entries stay on their branch. The files of the workspace do not change; see ``files.rewind``.

        Args:
            at: The entry.
            expected: The entry that must be the tip of the active branch. By default, any tip is accepted.

        Returns:
            The entry ``at``.

        Raises:
            LeafMoved: Another writer appended an entry or switched the branch first.
            NotFound: No entry matches ``at``.
        """
        return self._session.continue_at(at, expected=expected)

    @restoring
    def entries(self, at: str | Node = "leaf") -> Iterator[tuple[Node, Entry]]:
        """Yield each entry of a history with its content, from ``at`` back to the root. It is read when requested.

        Redacted parts have their originals, if these are on this machine.

        Args:
            at: The newest entry.

        Yields:
            The entry, and its content.

        Raises:
            NotFound: No entry matches ``at``.
            Corrupt: An entry is damaged.
            MissingObject: An entry is lost.
            Malformed: An entry does not follow the format.
        """
        return self._handle.context_line(at).revealed_entries()

    @restoring
    def contents(self, at: str | Node = "leaf") -> Iterator[Entry]:
        """Yield the content of each message of a history, and of each reset, compaction, or other entry of the context.

        The content is the same as in ``entries``. This method is faster, because it reads no commit of an entry that
        the catalog lists.

        Args:
            at: The newest entry.

        Yields:
            The content of an entry, the newest entry first.

        Raises:
            NotFound: No entry matches ``at``.
            Corrupt: An entry is damaged.
            MissingObject: An entry is lost.
            Malformed: An entry does not follow the format.
        """
        return self._handle.context_line(at).revealed_contents()

    @restoring
    def fork(self, at: str | Node = "leaf", *, key: str | None = None) -> Session:
        """Create a session that continues this one at an entry.

        A fork shares the history and the checkpoints of this session. The fork adds only one ref and one entry to the
        store. Its title is that of this session with a number, such as ``Login (fork #2)``. If instructions that are
        recorded beside an imported session are in force at the entry, the fork records them in a second entry. If they
        cannot be read because the store is damaged, the fork is created without them.

        Args:
            at: The entry.
            key: The program's own id of the new session, by which ``Store.find_keyed`` finds it.

        Returns:
            The new session.

        Raises:
            NotFound: No entry matches ``at``, or this session has no entries.
            Refused: A session of the same agent has this key.
        """
        with contextlib.nullcontext() if key is None else self._opened.lock_keys():
            return self._fork(at, key)

    def _fork(self, at: str | Node, key: str | None) -> Session:
        from gitsession.api import session_instructions

        catalogue = self._opened.catalogues.get()
        row = catalogue.session(self.id)
        if row is None:
            raise NotFound(f"cannot fork session {self.id}: it has no entries yet")
        called = names.names(catalogue, self.id)
        title = names.fork_title(catalogue, called.title) if called.title else None
        if key is not None and catalogue.by_key(row.agent, key) is not None:
            raise Refused(
                f"cannot fork session {self.id}: another session has the key {key!r}", hint="pass another key"
            )
        node = self._session.resolve(at)
        beside = session_instructions.in_force_beside(self._handle, node)
        forked = self._session.fork(
            node, agent=row.agent, cwd=row.project, title=title, labels=called.chains, instructions=beside, key=key
        )
        return Session(self._opened, forked)

    @restoring
    def label(self, at: str | Node, label: str) -> Node:
        """Set or remove the label of an entry.

        Args:
            at: The entry.
            label: The new label. An empty string removes the label.

        Returns:
            The entry ``at``.

        Raises:
            Refused: The session has a branch with this name, or another entry has this label.
            InvalidName: The label is too long, or it is a reserved address such as ``leaf``.
            NotFound: No entry matches ``at``, or no user message has been appended yet.
        """
        node, label = self._session.resolve(at), sessions.clean_name(label)
        existing = names.labelled(self._opened.catalogues.get(), self.id, label) if label else None
        if existing not in (None, node.oid):
            raise Refused(
                f"cannot set label {label!r}: entry {existing[:12]} already has this label",
                hint="choose another label, or remove the label from that entry first",
            )
        if self._session.has_branch(label):
            raise Refused(
                f"cannot set label {label!r}: a branch of this session has this name", hint="choose another label"
            )
        return self._session.label(node, label)

    def state(self, at: str | Node = "leaf") -> SessionState:
        """Return the state at an entry: modes, permissions, the todo list, the plan, marks, and changed lines.

        The settings of the next answer are in ``Session.context(at).state``. The marks and permissions that an agent
        stores with the session, not with an entry, are the current ones at every entry.
        """
        from gitsession.index.session_states import state_of

        node = self._session.resolve(at)
        return state_of(self._opened.catalogues.get(), self._opened.objects, self.id, node)

    def origin(self) -> Origin | None:
        """Return the session and the entry from which this session was started, forked or resumed.

        Returns:
            The session and the entry. If an agent started this session as a sub-agent, the entry has the tool call. If
            a program started it (``Store.new_session(parent=)``), the entry was the tip at that time. If this session
            was resumed as a new one (``Store.agents.resume``), the entry is the last one that was copied from the
            original session. ``None`` if there is no origin, or if it is not in the store.
        """
        from gitsession.index.origins import origin_of

        catalogue = self._opened.catalogues.get()
        row = catalogue.session(self.id)
        return origin_of(self._opened.objects, catalogue, self.id, row.source_id) if row is not None else None

    def started(self, at: str | Node = "leaf") -> list[str]:
        """Return the ids of the sub-agents' sessions that began at an entry. See also ``origin``."""
        from gitsession.index.origins import begun_in

        catalogue = self._opened.catalogues.get()
        row = catalogue.session(self.id)
        begun = begun_in(self._opened.objects, catalogue, row) if row is not None else {}
        return [each.sid for each in begun.get(self._session.resolve(at).oid, ()) if each.delegated]

    @restoring
    def rename(self, title: str) -> None:
        """Set the title of the session. An empty string removes the title.

        Raises ``InvalidName`` if the title is too long, and ``NotFound`` if no user message has been appended yet.
        """
        self._session.rename(title)

    def generate_title(self, summarizer: str | Summarizer | None = None, *, force: bool = False) -> str:
        """Set a title that describes the first prompt, and return it.

        Args:
            summarizer: The name of a summarizer, or an object with a method ``summarise``; see ``compact``. Defaults to
                the extractive one, whose title is the first sentence of the prompt. A short prompt is used as it is.

        Returns:
            The title.

        Raises:
            NotFound: The session has no prompt with text.
            SummaryFailed: The summarizer failed.
        """
        from gitsession.compaction import summarizers, titles

        existing = "" if force else self.names().title
        if existing:
            problem = f"session {self.id} has the title {existing!r}"
            raise Refused(f"cannot generate a title: {problem}", hint="pass --force to replace it")
        by = summarizers.summarizer(summarizer)
        title = sessions.clean_name(titles.generate(map(self._session.read, self.history()), by))
        self.rename(title)
        return title

    @restoring
    def sign(self, branch: str | None = None, *, key: str = "") -> Seal:
        """Sign the current history of a branch, and store the signature.

        Args:
            branch: The name of the branch. Defaults to the branch of this handle.
            key: The signing key. Defaults to git's ``user.signingKey``.

        Returns:
            The signature.

        Raises:
            NotFound: There is no such branch.
            Unavailable: The signing program failed, or git's ``gpg.format`` is not supported.
            Corrupt: An entry of the branch is damaged.
            MissingObject: An entry of the branch is lost.
        """
        from gitsession.verify import signatures

        made = signatures.make(self._opened.objects, self.id, branch or self.branch_name, self._session.clock(), key)
        self._session.seal(made)
        return made

    def signatures(self) -> list[SignatureCheck]:
        """Verify the signatures of this session, and return the results, the newest signature first."""
        from gitsession.verify import signatures

        return signatures.of_session(self._opened.objects, self.id)
