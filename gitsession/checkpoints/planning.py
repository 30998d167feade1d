"""The plan of a rewind. Planning writes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias, get_args

from gitsession.checkpoints import history, lookup
from gitsession.checkpoints.attribution import REWIND, WORKSPACE, PathAttribution, attributed, touches
from gitsession.checkpoints.capturing import workspace_path
from gitsession.checkpoints.history import Point
from gitsession.checkpoints.rewind_decisions import PathDecision, decide, writes
from gitsession.checkpoints.rewind_merges import Merges
from gitsession.dataclass import dataclass
from gitsession.errors import GitSessionError, InvalidName, NotFound
from gitsession.git.objects import LINK_MODE
from gitsession.git.types import Oid
from gitsession.model.entries import Message
from gitsession.sessions.content import entry_of
from gitsession.sessions.node import Node, load
from gitsession.sessions.session import StoredSession
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore
from gitsession.workspace.inspect import Now
from gitsession.workspace.path_rules import folders_of, target_refusal
from gitsession.workspace.root import WorkspaceRoot
from gitsession.workspace.trees import CachedTrees, State

RewindParts: TypeAlias = Literal["both", "conversation", "files"]
"""The parts of a session that a rewind restores."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RewindPlan:
    """The plan of a rewind.

    Attributes:
        session: The id of the session.
        parts: The restored parts: ``both``, ``conversation`` or ``files``.
        at: The requested entry.
        new_tip: The entry after which the conversation continues; if ``at`` is a prompt, the entry before it.
        prompt: The text of that prompt; ``None`` if ``at`` is not a prompt, or if only files are restored.
        leaf: The tip of the conversation when the plan was made.
        branch: The existing branch with the tip ``new_tip``, on which the conversation continues; "" for a new branch.
        workspace: The path of the workspace; ``None`` if no files are planned.
        changes: The decision about every path that the session has changed since ``at``, including paths that are kept.
        created_folders: Folders that the session created. The rewind removes them if they are empty.
    """

    session: str
    parts: RewindParts
    at: Node
    new_tip: Node
    prompt: str | None
    leaf: Oid | None
    branch: str
    workspace: str | None = None
    changes: tuple[PathDecision, ...] = ()
    created_folders: tuple[str, ...] = ()
    file_trees: CachedTrees | None = field(default=None, repr=False, compare=False)
    """The trees that were read for the plan, with cached folders. The execution reads many of these folders again."""
    tree: Oid | None = field(default=None, repr=False, compare=False)
    """The tree of the files at ``at``, which the execution restores, except for files with other changes."""
    merged: Mapping[Oid, bytes] = field(default_factory=dict, repr=False, compare=False)
    """The contents of merged files, by oid. They are not in the store yet."""

    @property
    def moves(self) -> bool:
        """Return whether the conversation continues at another entry or on another branch."""
        return self.parts != "files" and self.leaf != self.new_tip.oid

    @property
    def is_empty(self) -> bool:
        """Return whether the rewind changes neither the conversation nor a file."""
        return not self.moves and not writes(self.changes)


def plan(
    store: GitStore, session: StoredSession, at: Node, parts: RewindParts = "both", *,
    root: WorkspaceRoot | None = None, force: bool = False, file_trees: CachedTrees | None = None,
) -> RewindPlan:  # fmt: skip
    """Plan a rewind to an entry.

    Args:
        store: The store of the session.
        session: The session.
        at: The entry to restore.
        parts: The parts of the session to restore.
        root: The workspace, if files are to be restored.
        force: True to restore files even if they have changes since ``at`` that the session did not make.
        file_trees: The trees that were read for earlier plans.

    Raises:
        NotFound: Only files are requested, and the session has no checkpoints.
        InvalidName: ``parts`` has an unknown value.
    """
    if parts not in get_args(RewindParts):
        raise InvalidName(f"cannot restore {parts!r}: expected one of {', '.join(get_args(RewindParts))}")
    new_tip, prompt = _new_tip(store, at)
    leaf = session.leaf
    ends = [name for name, oid in session.branches().items() if oid == new_tip.oid]
    rewind = RewindPlan(
        session=session.id,
        parts=parts,
        at=at,
        new_tip=new_tip,
        prompt=prompt if parts != "files" else None,
        leaf=leaf.oid if leaf else None,
        branch=session.branch_name if session.branch_name in ends else (ends[0] if ends else ""),
    )
    if parts == "conversation" or root is None:
        return rewind
    return _with_files(store, rewind, root, file_trees or CachedTrees(store), force=force)


def _new_tip(store: ObjectStore, at: Node) -> tuple[Node, str | None]:
    """Return the entry after which the conversation continues, and the text of ``at`` if ``at`` is a prompt."""
    entry = entry_of(store, at)
    if isinstance(entry, Message) and entry.role == "user" and at.parent is not None:
        return load(store, at.parent), entry.text
    return at, None


def current_state(root: WorkspaceRoot, path: str) -> Now | str:
    """Return the current state of ``path``, or the reason why the path cannot be read."""
    try:
        return root.now(path)
    except GitSessionError as error:
        return str(error)
    except OSError as error:
        return error.strerror or "it cannot be read"


def _with_files(
    store: GitStore, rewind: RewindPlan, root: WorkspaceRoot, file_trees: CachedTrees, *, force: bool
) -> RewindPlan:
    points, number = lookup.find_history(store, rewind.session, rewind.at, workspace_path(root))
    if not points and rewind.parts == "files":
        raise NotFound(
            f"cannot restore files: session {rewind.session} has no checkpoints",
            hint="run `gitsession checkpoint` to take one",
        )
    number = max(number, 0)  # the state before the first checkpoint is unknown
    start = _last_full_index(points, number)
    found = touches(lookup.steps(file_trees, points[start:]), number - start)
    base = points[number].files if points else None
    at_entry = file_trees.look_up(base, found)
    for path in found.keys() - _covered_paths(points[start : number + 1], found):
        # No checkpoint covers the path, so the file may have existed.
        at_entry[path] = next(touch.was for touch in found[path] if touch.is_by_session)
    root.forget()
    now = {path: current_state(root, path) for path in found}
    since_ms = points[number].entry.at_ms if points else 0
    claimed = _claims(store, rewind.session, workspace_path(root), since_ms, found, file_trees) if found else {}
    merges = Merges(store, root)
    decided = decide(found, now, at_entry, claimed=claimed, force=force, merge=merges)
    changes = [_check_links(store, root, change, force=force) for change in decided]
    removed = [change.path for change in changes if change.action == "remove"]
    return dataclasses.replace(
        rewind,
        workspace=str(root.path),
        file_trees=file_trees,
        tree=base,
        changes=tuple(changes),
        merged=merges.made,
        created_folders=created_folders(file_trees, base, removed),
    )


def _check_links(store: ObjectStore, root: WorkspaceRoot, change: PathDecision, *, force: bool) -> PathDecision:
    """Return ``change``, or a decision to keep the path if ``change`` would write a link that is refused.

    Without ``force``, a link that undo could not restore is kept, too.
    """
    if change.is_left:
        return change
    reason, now, to = None, change.now, change.to
    if to is not None and to.mode == LINK_MODE:
        reason = _link_refusal(change.path, lambda: store.read(to.oid)[1])
    if reason is None and not force and now is not None and now.mode == LINK_MODE:
        reason = _link_refusal(change.path, lambda: root.read(change.path))
        reason = f"{reason}, which undo could not restore" if reason else None
    return change if reason is None else change._replace(action="leave", to=now, reason=reason)


def _link_refusal(path: str, target: Callable[[], bytes]) -> str | None:
    """Return the reason to refuse a link; ``None`` if there is none or the link cannot be read.

    If the link cannot be read, writing the link reports the error.
    """
    try:
        return target_refusal(path, target())
    except (GitSessionError, OSError):
        return None


def _last_full_index(points: Sequence[Point], number: int) -> int:
    """Return the highest index up to ``number`` of a checkpoint that covers the whole workspace; 0 if there is none."""
    full = (at for at in range(number, -1, -1) if at < len(points) and points[at].entry.mode == WORKSPACE)
    return next(full, 0)


def _covered_paths(points: Sequence[Point], paths: Iterable[str]) -> set[str]:
    """Return the paths in ``paths`` that one of ``points`` covers. A checkpoint can also cover missing paths."""
    if any(point.entry.mode == WORKSPACE for point in points):
        return set(paths)
    return {path for point in points for path in point.entry.paths}


def created_folders(file_trees: CachedTrees, tree: Oid | None, removed: Iterable[str]) -> tuple[str, ...]:
    """Return the folders above the paths in ``removed`` that are not in ``tree``, the tree to restore."""
    folders = {folder for path in removed for folder in folders_of(path)}
    return tuple(sorted(folders - file_trees.folders(tree, folders)))


# ---- changes of other sessions in the same workspace, from their own checkpoints


def _claims(
    store: ObjectStore,
    sid: str,
    workspace: str,
    since_ms: int,
    touches: Mapping[str, Sequence[PathAttribution]],
    file_trees: CachedTrees,
) -> dict[str, set[State]]:
    """Return the paths that other sessions changed in ``workspace`` since ``since_ms``, each with its claimed states.

    In general, a session *claims* a state of a path if the change to that state is attributed to the session. If calls
    of two sessions overlap, the checkpoints of each session show the changes of both sessions.

    If a rewind of another session restored a state, that state had existed before, perhaps as the work of this session.
    The other session claims such a state only if the same change is also attributed to this session. In that case, a
    call of this session overlapped the rewind.

    If another session changed a path during a call of this session and did not change the path back, the state after
    the call may contain work of the other session. The other session claims this state, too.

    A fork and the session from which it was forked share the checkpoints before the fork. These checkpoints are not
    those of another session.

    ``touches``: the changes to each path that this session changed.
    """
    own: set[Oid] | None = None
    found: dict[str, set[State]] = {}
    for other in _others(store, sid):
        try:
            points = list(_recent(store, other, workspace, since_ms))[::-1]
            steps = lookup.steps(file_trees, points)
            if own is None and points:
                own = {point.oid for point in history.walk(store, sid)}
        except GitSessionError:
            continue  # `verify` reports checkpoints that cannot be read
        other_changes: dict[str, list[tuple[int, State]]] = {}
        for point, step, paths in zip(points, steps, attributed(steps), strict=True):
            if own is not None and point.oid not in own:
                for path in paths:
                    was, now = step.changes[path]
                    other_changes.setdefault(path, []).append((step.entry.at_ms, now))
                    is_own_change = any(
                        touch.is_by_session and (touch.was, touch.now) == (was, now) for touch in touches.get(path, ())
                    )
                    if step.entry.phase != REWIND or is_own_change:
                        found.setdefault(path, set()).add(now)
        for path in touches.keys() & other_changes.keys():
            found.setdefault(path, set()).update(_contested_states(touches[path], other_changes[path]))
    return found


def _contested_states(
    touches: Sequence[PathAttribution], other_changes: Sequence[tuple[int, State]]
) -> Iterator[State]:
    """Yield the states of a path after calls of this session during which another session changed the path."""
    for touch in touches:
        within = [now for at_ms, now in other_changes if touch.since_ms < at_ms <= touch.at_ms]
        if touch.is_by_session and within and within[-1] != touch.was:
            yield touch.now


def _others(store: ObjectStore, sid: str) -> Iterator[str]:
    for name in store.refs(refs.SESSIONS):
        parsed = refs.parse(name)
        if parsed is not None and parsed[1] == refs.FILES and parsed[0] != sid:
            yield parsed[0]


def _recent(store: ObjectStore, sid: str, workspace: str, since_ms: int) -> Iterator[Point]:
    """Yield the checkpoints of ``workspace`` since ``since_ms``, newest first, and then the one before them.

    If the newest checkpoint of the session is older than ``since_ms``, yield nothing.
    """
    for number, point in enumerate(history.walk(store, sid)):
        is_recent = point.entry.at_ms >= since_ms
        if number == 0 and not is_recent:
            return
        if point.entry.workspace == workspace:
            yield point
        if not is_recent:
            return
