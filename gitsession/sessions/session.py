"""Sessions of a store: append entries, read histories, create branches and labels.

A handle stays on its branch, even if another process switches the active branch.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from gitsession.codec.digest import to_base64url
from gitsession.codec.payload import NONCE_BYTES
from gitsession.errors import Corrupt, InvalidName, LeafMoved, NotFound, Refused, require
from gitsession.git.objects import oid_of
from gitsession.git.types import Kind, Oid
from gitsession.model import entries as kinds
from gitsession.model.entries import Entry
from gitsession.model.headline import VIEW, clean
from gitsession.redaction.original import Original
from gitsession.sessions import (
    checkpoint_refs,
    commit_writer,
    graph,
    operation_log,
)
from gitsession.sessions.active_branch import active
from gitsession.sessions.content import entry_of, files_of
from gitsession.sessions.entry_addresses import STEPS, resolve
from gitsession.sessions.gaps import DAMAGE, Gap
from gitsession.sessions.marks import NAME_MAX
from gitsession.sessions.node import Node, load
from gitsession.sessions.session_facts import beginning
from gitsession.store import refs
from gitsession.store.interface import ObjectStore, Transaction

if TYPE_CHECKING:
    from gitsession.redaction.guard import Guard
    from gitsession.sessions.attached_files import SessionAttachments

Clock: TypeAlias = Callable[[], int]
OnMoved: TypeAlias = Literal["refuse", "fork"]

_DAY_MS = 86_400_000


class StoredSession:
    """A session of a store, on one of its branches. Create one with ``new`` or ``open``.

    ``clock``: a function that returns the current Unix time in ms.
    """

    def __init__(
        self,
        store: ObjectStore,
        sid: str,
        branch: str,
        clock: Clock,
        *,
        view: int = VIEW,
        pending: _PendingSession | None = None,
    ) -> None:
        self._store = store
        self._view = view
        self._clock = self.clock = clock
        self._pending = pending
        self._tip: Node | None = None
        self._captured: tuple[Oid | None, Oid | None] = (None, None)
        self.id = sid
        self.branch_name = branch

    @classmethod
    def new(
        cls,
        store: ObjectStore,
        agent: str,
        cwd: str | None,
        clock: Clock,
        project: str | None = None,
        parent: StoredSession | None = None,
        key: str | None = None,
    ) -> StoredSession:
        """Return a new session. The first user message stores the session, so that there are no empty sessions.

        ``project``: the project of the working directory ``cwd``, if it is known. ``parent``: the session that starts
        the new one at its tip. ``key``: the writer's own id of the session. A session with a key is stored at once.
        """
        at_ms = clock()
        root = kinds.SessionHeader(agent=agent, view=VIEW, at_ms=at_ms)
        tip = None if parent is None else parent.leaf
        header = kinds.SessionHeader(
            agent=agent,
            source_id=key,
            cwd=cwd,
            parent=None if parent is None else parent.id,
            parent_entry=None if tip is None else to_base64url(tip.chain),
            at_ms=at_ms,
        )
        sid = refs.new_sid(at_ms)
        pending = _PendingSession(root, header, project, store.guard)
        session = cls(store, sid, refs.MAIN, clock, pending=pending)
        if key is not None:
            session._store_pending(pending)
        return session

    @classmethod
    def open(
        cls, store: ObjectStore, sid: str, clock: Clock, branch: str | None = None, *, view: int = VIEW
    ) -> StoredSession:
        """Return an existing session. ``view``: the view number in its root. Raises ``NotFound``."""
        return cls(store, sid, branch or active(store, sid), clock, view=view)

    def on(self, branch: str) -> StoredSession:
        """Return a handle of this session on another branch. Nothing is written. Raises ``NotFound``."""
        if not self.has_branch(branch):
            raise NotFound(f"session {self.id} has no branch {branch[:80]!r}", hint=_branch_list(self.branches()))
        return StoredSession(self._store, self.id, branch, self._clock, view=self._view)

    # ---- reading

    @property
    def pending_agent(self) -> str:
        """The agent of a session that is not stored yet; "" if the session is stored."""
        return self._pending.agent if self._pending else ""

    @property
    def leaf(self) -> Node | None:
        """The tip of the branch; ``None`` before the first entry is written. Raises ``NotFound``."""
        oid = self._tip_oid()
        return self._node(oid) if oid else None

    def history(self) -> list[Node]:
        """Return the history of the branch, from the root to the tip.

        Raises ``Corrupt`` if an entry of the branch is lost, and ``NotFound`` if the branch was removed.
        """
        oid = self._tip_oid()
        try:
            return list(graph.history(self._store, oid))[::-1] if oid else []
        except DAMAGE as error:
            raise Corrupt(
                f"the history of branch {self.branch_name!r} in session {self.id} has a gap: {error}",
                hint="run `gitsession repair`, or read the other entries with history_with_gaps() or tree()",
            ) from error

    def history_with_gaps(self) -> list[Node | Gap]:
        """Return the same entries as ``history``, but with a ``Gap`` in place of each unreadable entry."""
        oid = self._tip_oid()
        return list(graph.history_with_gaps(self._store, self.id, oid))[::-1] if oid else []

    def tree(self) -> graph.Tree:
        return graph.tree(self._store, self.id)

    def branches(self) -> dict[str, Oid]:
        return graph.branches(self._store, self.id)

    def has_branch(self, name: str) -> bool:
        """Return whether the session has a branch with this name."""
        return graph.tip(self._store, self.id, name) is not None

    def read(self, node: Node) -> Entry:
        """Return the content of an entry, with the images that its agent stores in other files.

        If it cannot be read, return an ``Opaque`` entry.
        """
        entry = entry_of(self._store, node)
        return entry if node.source is None else self._attachments.view(node, entry)

    @functools.cached_property
    def _attachments(self) -> SessionAttachments:
        from gitsession.sessions.attached_files import SessionAttachments  # only imported entries have attachments

        return SessionAttachments(self._store, self.id)

    def resolve(self, address: str | Node) -> Node:
        """Return the entry that an address in this session names. Raises ``NotFound`` or ``Ambiguous``."""
        if isinstance(address, Node):
            return address
        require(address, str, "an address such as 'leaf', or an entry of the session")
        return resolve(self._store, self.id, address, branch=self.branch_name)

    # ---- writing

    def append(
        self,
        entry: Entry,
        *,
        expected: Node | None = None,
        on_moved: OnMoved = "refuse",
        summarises: Node | None = None,
        activate: bool = False,
        command: str = "",
    ) -> Node:
        """Append one entry to the branch. The entry is durable when this method returns.

        Args:
            entry: The entry.
            expected: The entry that must be the tip. By default, any tip is accepted.
            on_moved: The action if the tip is not ``expected``. ``"refuse"`` raises ``LeafMoved``. ``"fork"`` appends
                to a new branch that starts at ``expected``, and moves this handle to that branch.
            summarises: The tip of a branch that the entry summarizes. This tip becomes the second parent of the commit,
                so that git's graph shows the merge of the two histories.
            activate: Whether the branch becomes the active branch.
            command: The name of an operation to log, so that ``undo`` can remove the entry.

        Raises:
            LeafMoved: Another writer appended an entry first.
            NotFound: The branch was removed.
            Malformed: The format cannot represent the entry.
            Refused: The session was created by a later release.
        """
        self.check_view()
        if on_moved not in get_args(OnMoved):
            raise ValueError(f"on_moved must be one of {', '.join(get_args(OnMoved))}, not {on_moved!r}")
        draft = self._draft(entry)
        if summarises is not None:
            draft = dataclasses.replace(draft, second_parent=summarises.oid)
        if self._pending is not None:
            return self._add_pending(self._pending, entry, draft)
        branch = self.branch_name
        ref = refs.leaf(self.id, branch)
        store = self._store
        with operation_log.recording(store, command, self._clock()) if command else store.transaction() as tx:
            seen = self._store.ref(ref)
            if seen is None:
                raise self._removed_error()
            files = self._files()
            if files is not None:
                draft = dataclasses.replace(draft, files=files)
            if expected is None or expected.oid == seen:
                leaf = self._node(seen)
                if leaf is not self._tip:  # an entry that this handle appended is no tombstone
                    commit_writer.check_not_purged(store, self.id, leaf)
                node = commit_writer.put(tx, leaf, draft)
                tx.move(ref, node.oid, expected=seen)
            elif on_moved == "refuse":
                raise LeafMoved(
                    f"cannot append to branch {branch!r}: another writer appended to it first",
                    hint="read the new entries and append again, or append with on_moved='fork'",
                )
            else:
                node = commit_writer.put(tx, expected, draft)
                branch = graph.BranchNamer(self.has_branch).free(node.chain)
                tx.move(refs.leaf(self.id, branch), node.oid, expected=None)
            if activate:
                self._activate(tx, branch)
        self.branch_name = branch  # only now, so that the caller can retry a rejected append
        self._tip = node
        return node

    def append_all(self, entries: Sequence[Entry], *, to_active: bool = False) -> list[Node]:
        """Append several entries to the branch in one transaction: all of them, or none.

        ``to_active``: whether to move this handle to the active branch first, in the same transaction.

        Raises the same errors as ``append``.
        """
        self.check_view()
        if self._pending is not None:
            return [self.append(entry) for entry in entries]
        drafts = [self._draft(entry) for entry in entries]
        nodes: list[Node] = []
        with self._store.transaction() as tx:
            branch = active(self._store, self.id) if to_active else self.branch_name
            ref = refs.leaf(self.id, branch)
            seen = self._store.ref(ref)
            if seen is None:
                raise self._removed_error()
            node = self._node(seen)
            commit_writer.check_not_purged(self._store, self.id, node)
            files = self._files()
            for draft in drafts:
                node = commit_writer.put(tx, node, draft if files is None else dataclasses.replace(draft, files=files))
                nodes.append(node)
            if nodes:
                tx.move(ref, node.oid, expected=seen)
        self.branch_name, self._tip = branch, node
        return nodes

    def _draft(self, entry: Entry) -> commit_writer.Draft:
        if not isinstance(entry, Entry):
            raise TypeError(f"expected an entry such as Message.user('...'), not {type(entry).__name__}")
        timed = entry if entry.at_ms else dataclasses.replace(entry, at_ms=self._clock())
        return commit_writer.draft_own(timed, _nonce(), self._store.guard)

    def continue_at(self, at: str | Node, *, expected: Node | None = None) -> Node:
        """Continue the conversation after an entry: move to a branch that ends there, or to a new one.

        The branch becomes the active branch. ``expected``: the entry that must be the tip of this handle's branch,
        which must be the active one; by default, neither is checked.

        Raises ``LeafMoved`` if another writer moved the tip or switched the branch, and ``NotFound``.
        """
        node = self.resolve(at)
        commit_writer.check_not_purged(self._store, self.id, node)
        with operation_log.recording(
            self._store, f"continue {self.id} {to_base64url(node.chain)[:12]}", self._clock()
        ) as tx:
            is_current = active(self._store, self.id) == self.branch_name
            if expected is not None and not (is_current and self._tip_oid() == expected.oid):
                raise LeafMoved(
                    f"cannot continue at an earlier entry of {self.branch_name!r}: another writer moved it first",
                    hint="read the new entries and try again",
                )
            onto = next((name for name, oid in self.branches().items() if oid == node.oid), "")
            name = self.continue_after(tx, node, onto)
        self.branch_name = name
        return node

    def append_after(self, entries: Sequence[Entry], *, after: Node, branch: str, activate: bool = False) -> list[Node]:
        """Append entries after one entry, all of them or none. The entries are durable when this method returns.

        Args:
            entries: The entries.
            after: The entry that must be the tip of the branch, or at which a new branch begins.
            branch: The name of the branch. If there is none, it is created.
            activate: Whether the branch becomes the active branch.

        Returns:
            The appended entries.

        Raises:
            LeafMoved: Another writer appended an entry to the branch first. Nothing was written.
            Malformed: The format cannot represent an entry. Nothing was written.
            Refused: The session was purged, or created by a later release.
        """
        self.check_view()
        refs.check_branch(branch)
        store, ref = self._store, refs.leaf(self.id, branch)
        now = self._clock()
        timed = [entry if entry.at_ms else dataclasses.replace(entry, at_ms=now) for entry in entries]
        drafts = [commit_writer.draft_own(entry, _nonce(), store.guard) for entry in timed]
        nodes = [after]
        with store.transaction() as tx:
            seen, files = store.ref(ref), self._files()
            if seen not in (None, after.oid):
                raise LeafMoved(
                    f"cannot append to branch {branch!r}: another writer appended to it first",
                    hint="read the new entries and append again",
                )
            commit_writer.check_not_purged(store, self.id, after)
            for draft in drafts:
                nodes.append(commit_writer.put(tx, nodes[-1], dataclasses.replace(draft, files=files or draft.files)))
            tx.move(ref, nodes[-1].oid, expected=seen)
            if activate:
                self._activate(tx, branch)
        return nodes[1:]

    def branch(self, name: str, at: str | Node = "leaf") -> Node:
        """Create a branch at an entry.

        Raises ``InvalidName``, or ``Refused`` if there is already a branch with this name.
        """
        refs.check_branch(name)
        guard = self._store.guard
        rule = guard.in_file(name.encode()) if guard is not None else None
        if rule is not None:
            raise InvalidName(
                f"cannot create the branch: its name contains a secret ({rule})", hint="choose another name"
            )
        node = self.resolve(at)
        commit_writer.check_not_purged(self._store, self.id, node)
        with operation_log.recording(self._store, f"branch {self.id} {name}", self._clock()) as tx:
            ref = refs.leaf(self.id, name)
            if self._store.ref(ref) is not None:
                raise Refused(
                    f"cannot create branch {name!r}: session {self.id} already has a branch with this name",
                    hint="choose another name, or switch to that branch",
                )
            tx.move(ref, node.oid, expected=None)
        return node

    def switch(self, name: str) -> Node:
        """Make ``name`` the active branch on this machine, and move this handle to it. Raises ``NotFound``."""
        require(name, str, "the name of a branch")
        with operation_log.recording(self._store, f"switch {self.id} {name}", self._clock()) as tx:
            target = refs.leaf(self.id, name)
            oid = self._store.ref(target) if refs.is_branch(name) else None
            if oid is None:
                raise NotFound(f"session {self.id} has no branch {name[:80]!r}", hint=_branch_list(self.branches()))
            self._activate(tx, name)
        self.branch_name = name
        return self._node(oid)

    def continue_after(self, tx: Transaction | operation_log.RecordingTransaction, node: Node, onto: str = "") -> str:
        """Continue the conversation after ``node`` in a transaction, and return the name of the branch.

        If ``node`` is the tip of the branch ``onto``, that branch is used, otherwise a new one is created. The branch
        becomes the active branch.
        """
        name = onto
        if not onto or self._store.ref(refs.leaf(self.id, onto)) != node.oid:
            name = graph.numbered_name("rewind", self.branches())
            tx.move(refs.leaf(self.id, name), node.oid, expected=None)
        self._activate(tx, name)
        return name

    def fork(
        self,
        at: str | Node,
        *,
        agent: str,
        cwd: str | None,
        title: str | None,
        labels: Mapping[str, str],
        instructions: kinds.Instructions | None = None,
        key: str | None = None,
    ) -> StoredSession:
        """Create a session that continues this one at an entry.

        The fork adds one ref and one entry to the store, and shares the checkpoints. ``title``, ``labels``: the current
        title and labels (by chain digest), which the fork entry records. ``instructions``: instructions in force at the
        entry that are not in its history. They are a second entry of the fork. ``key``: the writer's own id of it.
        """
        self.check_view()
        at_ms = self._clock()
        node = self.resolve(at)
        commit_writer.check_not_purged(self._store, self.id, node)
        sid = refs.new_sid(at_ms)
        entry = kinds.Fork(
            session=sid, agent=agent, view=VIEW, cwd=cwd, title=title, labels=labels, parent=self.id, at_ms=at_ms
        )
        with operation_log.recording(self._store, f"fork {self.id} {sid}", at_ms) as tx:
            fork = leaf = commit_writer.put(tx, node, commit_writer.draft_own(entry, _nonce(), self._store.guard))
            if instructions is not None:
                inherited = dataclasses.replace(instructions, at_ms=at_ms)
                leaf = commit_writer.put(tx, leaf, commit_writer.draft_own(inherited, _nonce(), self._store.guard))
            tx.move(refs.leaf(sid), leaf.oid, expected=None)
            if key is not None:
                header = kinds.SessionHeader(agent=agent, source_id=key, cwd=cwd, at_ms=at_ms)
                meta = commit_writer.put(tx, fork, commit_writer.draft_own(header, _nonce(), self._store.guard))
                tx.move(refs.meta(sid), meta.oid, expected=None)
            checkpoint = checkpoint_refs.newest(self._store, self.id)
            if checkpoint is not None:
                tx.move(refs.files(sid), checkpoint, expected=None)
        return StoredSession(self._store, sid, refs.MAIN, self._clock)

    def label(self, at: str | Node, label: str) -> Node:
        """Set the label of an entry. An empty label removes the label."""
        node = self.resolve(at)
        name = clean_name(label)
        if name in refs.ADDRESSES or STEPS.fullmatch(name):
            reserved = f"{', '.join(refs.ADDRESSES)} and NAME~N are reserved"
            raise InvalidName(f"cannot set label {name!r}: {reserved}", hint="choose another label")
        entry = kinds.Label(target=to_base64url(node.chain), label=name or None, at_ms=self._clock())
        self._append_meta(entry, f"label {self.id} {to_base64url(node.chain)[:12]} {entry.label or '(none)'}")
        return node

    def rename(self, title: str) -> None:
        """Set the title of the session. An empty string removes the title."""
        entry = kinds.Title(title=clean_name(title) or None, at_ms=self._clock())
        self._append_meta(entry, f"name {self.id} {entry.title or '(none)'}")

    def seal(self, seal: kinds.Seal) -> Node:
        """Store a signature (``verify/signatures.py``)."""
        return self._append_meta(seal, f"seal {self.id} {seal.branch}")

    # ---- implementation

    def _tip_oid(self) -> Oid | None:
        """Return the tip of the branch; ``None`` before the first entry is written. Raises ``NotFound``."""
        oid = self._store.ref(refs.leaf(self.id, self.branch_name))
        if oid is None and self._pending is None:
            raise self._removed_error()
        return oid

    def _removed_error(self) -> NotFound:
        """Return the error for a branch that an undo or another writer removed."""
        branches = self.branches()
        if not branches:
            return NotFound(f"session {self.id} is no longer in the store")
        return NotFound(
            f"session {self.id} has no branch {self.branch_name!r}: an undo or another writer removed it",
            hint=f"call on(BRANCH) to continue on another branch: {_branch_list(branches)}",
        )

    def _activate(self, tx: Transaction | operation_log.RecordingTransaction, name: str) -> None:
        ref, value = refs.active(self.id), refs.symbolic(refs.leaf(self.id, name))
        seen = self._store.ref(ref)
        if seen != value:
            tx.move(ref, value, expected=seen)

    def _add_pending(self, pending: _PendingSession, entry: Entry, draft: commit_writer.Draft) -> Node:
        """Add an entry to a session that is not stored yet. The first user message stores all entries together."""
        savepoint = pending.savepoint()
        node = pending.add(draft)
        if isinstance(entry, kinds.Message) and entry.role == "user":
            try:
                self._store_pending(pending)
            except BaseException:
                pending.roll_back(savepoint)  # so that the caller can append the entry again
                raise
        self._tip = node
        return node

    def _store_pending(self, pending: _PendingSession) -> None:
        """Store the session with all entries that were added to it."""
        with self._store.transaction() as tx:
            for kind, data in pending.objects:
                tx.put(kind, data)
            for original in pending.originals:
                tx.keep_original(original)
            tx.move(refs.leaf(self.id), pending.last.oid, expected=None)
            tx.move(refs.meta(self.id), pending.meta.oid, expected=None)
        self._pending = None

    def check_view(self) -> None:
        """Raise ``Refused`` if a later release created the session.

        A session keeps its view number, and this release cannot write entries with a later view number.
        """
        if self._view > VIEW:
            raise Refused(
                f"cannot write to session {self.id}: a later release of gitsession created it "
                f"(view {self._view}, supported: {VIEW})",
                hint="upgrade gitsession to write to the session (this release can only read it)",
            )

    def record_instructions(self, entry: kinds.Instructions) -> Node:
        """Append instructions to ``meta``, so that the agent's file can still extend its branch."""
        return self._append_meta(entry, "")

    def _append_meta(self, entry: Entry, command: str) -> Node:
        """Append an entry to ``meta``. ``command``: the operation to log; "" to log none."""
        self.check_view()
        ref, store = refs.meta(self.id), self._store
        with operation_log.recording(store, command, entry.at_ms) if command else store.transaction() as tx:
            seen = self._store.ref(ref)
            parent = self._node(seen) if seen else beginning(self._store, self.id)
            commit_writer.check_not_purged(self._store, self.id, parent)
            timed = self._after(parent, entry) if isinstance(entry, kinds.Label | kinds.Title) else entry
            node = commit_writer.put(tx, parent, commit_writer.draft_own(timed, _nonce(), self._store.guard))
            tx.move(ref, node.oid, expected=seen)
        return node

    def _after(self, parent: Node, entry: Entry) -> Entry:
        """Return the entry with a time later than that of ``parent``: of two marks, the later one applies.

        A time of ``parent`` that is more than a day in the future is not followed.
        """
        try:
            before_ms = entry_of(self._store, parent).at_ms if parent.source is None else 0
        except DAMAGE:
            return entry
        return dataclasses.replace(entry, at_ms=before_ms + 1) if 0 <= before_ms - entry.at_ms < _DAY_MS else entry

    def _files(self) -> Oid | None:
        """Return the tree of the files that were captured last.

        Each entry that gitsession writes contains this tree, so that `git diff` works between any two entries.
        """
        first = self._store.ref(refs.chosen_files(self.id, self._store.ref))
        if first != self._captured[0] or (first is not None and self._captured[1] is None):
            newest = checkpoint_refs.newest(self._store, self.id) if first else None
            found = files_of(self._store, newest) if newest else None
            # If the checkpoints continue at another ref, the first ref does not change when the other ref moves.
            self._captured = (first if newest == first else None, found)
        return self._captured[1]

    def _node(self, oid: Oid) -> Node:
        """Return the node of ``oid``. The node of the entry that this handle appended last is cached."""
        return self._tip if self._tip is not None and self._tip.oid == oid else load(self._store, oid)


class _PendingSession:
    """The objects of a session that has no user message yet."""

    def __init__(
        self, root: kinds.SessionHeader, header: kinds.SessionHeader, project: str | None, guard: Guard | None
    ) -> None:
        self.agent = root.agent
        self.objects: list[tuple[Kind, bytes]] = []
        self.originals: list[Original] = []
        self.last = commit_writer.put(self, None, commit_writer.draft_own(root, _nonce(), guard))
        self.meta = commit_writer.put(self, self.last, commit_writer.draft_own(header, _nonce(), guard))
        if project is not None:
            entry = kinds.Project(identity=project, at_ms=header.at_ms)
            self.meta = commit_writer.put(self, self.meta, commit_writer.draft_own(entry, _nonce(), guard))

    def add(self, draft: commit_writer.Draft) -> Node:
        self.last = commit_writer.put(self, self.last, draft)
        return self.last

    def savepoint(self) -> tuple[int, Node]:
        return len(self.objects), self.last

    def roll_back(self, savepoint: tuple[int, Node]) -> None:
        """Discard the objects and entries that were added since ``savepoint``."""
        count, self.last = savepoint
        del self.objects[count:]

    def keep_original(self, original: Original) -> None:
        self.originals.append(original)

    def put(self, kind: Kind, data: bytes) -> Oid:
        self.objects.append((kind, data))
        return oid_of(kind, data)


def _nonce() -> bytes:
    return os.urandom(NONCE_BYTES)


def clean_name(text: str) -> str:
    """Return a label or title as one line without control characters. Raises ``InvalidName`` if it is too long."""
    require(text, str, "a text: a label or a title")
    name = " ".join(clean(text).split())
    length = len(name)
    if length > NAME_MAX:
        raise InvalidName(f"the label or title is too long: {length:,} characters (limit: {NAME_MAX})")
    return name


def _branch_list(branches: Mapping[str, Oid]) -> str:
    return "choose one of " + ", ".join(list(branches)[:20])
