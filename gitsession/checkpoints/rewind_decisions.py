"""Decisions of a rewind: the files to write, and the reasons to keep other files.

Without ``force``, a rewind reverts only the changes of the session. If a file also has changes that the session did not
make, the session's changes are reverted one by one, newest first. Each of these steps is a three-way merge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

from gitsession.checkpoints.attribution import PathAttribution
from gitsession.git.objects import SUBMODULE_MODE
from gitsession.git.types import Oid
from gitsession.sessions.tombstone_set import PURGED_CONTENT_OID
from gitsession.workspace.inspect import Now, SpecialFile
from gitsession.workspace.trees import State, TreeEntry

Action: TypeAlias = Literal["write", "remove", "merge", "leave", "conflict"]

UNCHANGED = "it is already in that state"
CHANGED_SINCE = "it was changed since, but not by the session"
CHANGED_BETWEEN = "it was changed by others between the session's changes"
SHARED = "another session changed it at the same time"
SPECIAL = "a pipe, a socket or a device is in its place"
SUBMODULE = "a submodule, whose commit is never changed"
PURGED = "its earlier content was purged"
SESSION_MADE = "the session created it"
SESSION_REMOVED = "the session removed it"
SESSION_CHANGED = "the session changed it"
FORCED = "forced: changes by others are reverted too"
MERGED = "merged: changes by others are kept"
CONFLICT = "conflict: your edits overlap with the session's"
ALREADY_REVERTED = "the session's changes in it are already reverted"

_REGULAR = ("100644", "100755")


class NotMerged(Exception):
    """An error: changes to one file cannot be merged. ``overlap``: True if both sides changed the same lines."""

    def __init__(self, *, overlap: bool = False) -> None:
        super().__init__(CONFLICT if overlap else "these changes cannot be merged")
        self.overlap = overlap


Merge: TypeAlias = Callable[[str, Oid, Oid, Oid], Oid]
"""A function that merges contents of a path; its arguments are the path and the oids of base, ours and theirs.

It returns the oid of the merged content, and raises ``NotMerged``.
"""


class PathDecision(NamedTuple):
    """The decision about one path.

    Attributes:
        path: The path, relative to the workspace.
        action: The planned action.
        now: The current state of the path, if a tree can represent it.
        to: The state of the path after the rewind.
        reason: The reason for the action.
    """

    path: str
    action: Action
    now: State
    to: State
    reason: str

    @property
    def is_left(self) -> bool:
        """Return whether the path is not changed."""
        return self.action in ("leave", "conflict")


def decide(
    touches: Mapping[str, Sequence[PathAttribution]],
    now: Mapping[str, Now | str],
    at_entry: Mapping[str, State],
    *,
    claimed: Mapping[str, Collection[State]],
    force: bool,
    merge: Merge,
) -> list[PathDecision]:
    """Decide about each path that the session changed.

    Args:
        touches: The changes to each path.
        now: The current state of each path, or the reason why it cannot be read.
        at_entry: The state of each path at the requested entry.
        claimed: The states of paths that other sessions claim (``planning``).
        force: True to restore the state at the requested entry even if the path has changes that the session did not
            make.
        merge: The function that merges the contents of a file with changes that the session did not make.
    """

    def decision(path: str) -> PathDecision:
        runs = _runs(touches[path])
        was, session_state = runs[-1][0], runs[0][1]
        current = _file_state(now[path])
        if isinstance(current, str):
            return PathDecision(path, "leave", None, None, current)
        if current == was:
            return PathDecision(path, "leave", current, current, UNCHANGED)
        if any(state is not None and state.mode == SUBMODULE_MODE for state in (was, session_state)):
            return PathDecision(path, "leave", current, current, SUBMODULE)
        is_session_state = current == session_state
        # A claimed state counts even if the session changed the path again. A revert to the state before it would lose
        # the work of the other session.
        states = claimed.get(path, ())
        is_shared = any(touch.now in states for touch in touches[path] if touch.is_by_session)
        if is_session_state and not is_shared and len(runs) == 1:
            reason = SESSION_MADE if was is None else SESSION_REMOVED if current is None else SESSION_CHANGED
            return _restored(path, current, was, reason)
        if force and current != at_entry.get(path):
            return _restored(path, current, at_entry.get(path), FORCED)
        if is_shared:
            return PathDecision(path, "leave", current, current, SHARED)
        otherwise = CHANGED_BETWEEN if is_session_state else CHANGED_SINCE
        return _merged(path, current, runs, merge, otherwise=otherwise)

    return [decision(path) for path in sorted(touches)]


def revert(
    paths: Mapping[str, tuple[State, State]], now: Mapping[str, Now | str], *, reason: str, merge: Merge
) -> list[PathDecision]:
    """Decide about the paths of an undo or redo.

    ``paths``: the expected state of each path, and the state to restore.
    """
    found = []
    for path, (expected, to) in sorted(paths.items()):
        current = _file_state(now[path])
        if isinstance(current, str):
            found.append(PathDecision(path, "leave", None, None, current))
        elif current == to:
            found.append(PathDecision(path, "leave", to, to, UNCHANGED))
        elif current == expected:
            found.append(_restored(path, expected, to, reason))
        else:
            found.append(_merged(path, current, [(to, expected)], merge, otherwise=CHANGED_SINCE))
    return found


def writes(changes: Iterable[PathDecision]) -> list[PathDecision]:
    """Return the decisions that change a file."""
    return [change for change in changes if not change.is_left]


def _runs(touches: Sequence[PathAttribution]) -> list[tuple[State, State]]:
    """Return the session's changes to a path, newest first, each with the old and the new state.

    Consecutive changes of the session are combined if there is no other change between them.
    """
    groups = [list(group) for ours, group in groupby(touches, key=lambda touch: touch.is_by_session) if ours]
    return [(group[0].was, group[-1].now) for group in reversed(groups)]


def _merged(
    path: str, now: State, runs: Sequence[tuple[State, State]], merge: Merge, *, otherwise: str
) -> PathDecision:
    """Decide to revert ``runs`` and keep all other changes. ``otherwise``: the reason to report if a merge fails."""
    to = now
    try:
        for was, session_state in runs:
            to = _three_way(path, session_state, to, was, merge)
    except NotMerged as error:
        if error.overlap:
            return PathDecision(path, "conflict", now, now, CONFLICT)
        return PathDecision(path, "leave", now, now, otherwise)
    if to == now:
        return PathDecision(path, "leave", now, now, ALREADY_REVERTED)
    if to is None:
        return _restored(path, now, to, SESSION_MADE)
    found = _restored(path, now, to, MERGED)
    return found if found.is_left else found._replace(action="merge")


def _three_way(path: str, base: State, ours: State, theirs: State, merge: Merge) -> State:
    """Merge mode and content separately.

    Raises ``NotMerged`` if both sides changed the path, and one of the three states is not a regular file.
    """
    if ours == base:
        return theirs
    if theirs in (base, ours):
        return ours
    if base is None or ours is None or theirs is None:
        raise NotMerged
    if any(side.mode not in _REGULAR for side in (base, ours, theirs)):
        raise NotMerged
    mode = theirs.mode if ours.mode == base.mode else ours.mode
    if ours.oid == base.oid:
        return TreeEntry(mode, theirs.oid)
    if theirs.oid in (base.oid, ours.oid):
        return TreeEntry(mode, ours.oid)
    if PURGED_CONTENT_OID in (base.oid, ours.oid, theirs.oid):
        raise NotMerged
    return TreeEntry(mode, merge(path, base.oid, ours.oid, theirs.oid))


def _file_state(now: Now | str) -> State | str:
    """Return the state of a path, or the reason why a tree cannot represent it.

    A folder counts as missing, because the folder may be removed after its files.
    """
    if isinstance(now, SpecialFile):
        return None if now.kind == "folder" else SPECIAL
    return now


def _restored(path: str, now: State, to: State, reason: str) -> PathDecision:
    if to is not None and to.oid == PURGED_CONTENT_OID:
        return PathDecision(path, "leave", now, now, PURGED)
    return PathDecision(path, "remove" if to is None else "write", now, to, reason)
