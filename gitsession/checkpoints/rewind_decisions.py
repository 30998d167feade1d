"""Decisions of a rewind: which files it writes, and why it leaves others.

A rewind takes back what the session wrote, and nothing else. Of a file that others changed too, it takes the session's
changes back one after the other, the newest first, each by a three-way merge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from gitsession.checkpoints.attribution import PathAttribution
from gitsession.git.objects import SUBMODULE_MODE
from gitsession.git.types import Oid
from gitsession.sessions.tombstone_set import WITHHELD_OID
from gitsession.workspace.inspect import Now, SpecialFile
from gitsession.workspace.trees import State, TreeEntry

Action: TypeAlias = Literal["write", "remove", "merge", "leave", "conflict"]

AS_IT_WAS = "it is as it was"
CHANGED_SINCE = "it was changed since, and not by the session"
CHANGED_BETWEEN = "others changed it between the session's own changes"
SHARED = "another session, at work at the same time, says that it changed it"
SPECIAL = "a pipe, socket or device stands in its place"
SUBMODULE = "a submodule: which commit it is at is not ours to change"
PURGED = "what it was then was purged"
SESSION_MADE = "the session made it"
SESSION_REMOVED = "the session removed it"
SESSION_CHANGED = "the session changed it"
FORCED = "forced: others' changes go too"
MERGED = "merged: the changes of others stay"
CONFLICT = "conflict: your edits and the session's overlap"
TAKEN_BACK = "the session's changes in it are taken back already"

_REGULAR = ("100644", "100755")


class NotMerged(Exception):
    """Changes of one file that cannot be merged. ``overlap``: because both changed the same lines."""

    def __init__(self, *, overlap: bool = False) -> None:
        super().__init__(CONFLICT if overlap else "no merge")
        self.overlap = overlap


Merge: TypeAlias = Callable[[str, Oid, Oid, Oid], Oid]
"""Merge contents of a path: the ancestor, what is there now, and what is to be. Raises ``NotMerged``."""


def no_merge(path: str, base: Oid, ours: Oid, theirs: Oid) -> Oid:
    """Refuse to merge anything."""
    raise NotMerged


class PathDecision(NamedTuple):
    """The decision about one path. ``now``: what is there, as far as a tree can say; ``to``: what will be."""

    path: str
    action: Action
    now: State
    to: State
    why: str

    @property
    def is_left(self) -> bool:
        """Return whether the path stays as it is."""
        return self.action in ("leave", "conflict")


def decide(
    touches: Mapping[str, Sequence[PathAttribution]],
    now: Mapping[str, Now | str],
    at_entry: Mapping[str, State],
    *,
    claimed: Mapping[str, Collection[State]] = MappingProxyType({}),
    force: bool = False,
    merge: Merge = no_merge,
) -> list[PathDecision]:
    """Of each path that the session changed, what to do. ``now``: what is there, or why that cannot be told.

    ``at_entry``: what it was at the entry, which is what ``force`` brings back of what others have changed too.
    ``claimed``: what other sessions made of paths. ``merge``: of contents, for a file that others changed too.
    """
    return [
        _decide(path, touches[path], now[path], at_entry.get(path), claimed.get(path, ()), force=force, merge=merge)
        for path in sorted(touches)
    ]


def _decide(
    path: str, touches: Sequence[PathAttribution], now: Now | str, at_entry: State, claimed: Collection[State], *,
    force: bool,
    merge: Merge,
) -> PathDecision:  # fmt: skip
    runs = _runs(touches)
    was, became = runs[-1][0], runs[0][1]
    now = _settled(now)
    if isinstance(now, str):
        return PathDecision(path, "leave", None, None, now)
    if now == was:
        return PathDecision(path, "leave", now, now, AS_IT_WAS)
    if any(state is not None and state.mode == SUBMODULE_MODE for state in (was, became)):
        return PathDecision(path, "leave", now, now, SUBMODULE)
    is_ours = now == became
    # Also what was shared once and then gone on with: what it was before would be without the other's work.
    is_shared = any(touch.now in claimed for touch in touches if touch.ours)
    if is_ours and not is_shared and len(runs) == 1:
        return _restored(path, now, was, _why(was, now))
    if force and now != at_entry:
        return _restored(path, now, at_entry, FORCED)
    if is_shared:
        return PathDecision(path, "leave", now, now, SHARED)
    return _merged(path, now, runs, merge, otherwise=CHANGED_BETWEEN if is_ours else CHANGED_SINCE)


def revert(
    paths: Mapping[str, tuple[State, State]], now: Mapping[str, Now | str], *, why: str, merge: Merge = no_merge
) -> list[PathDecision]:
    """Decide what undo or redo does to paths: each with what it is if nobody touched it, and what it becomes.
    """
    found = []
    for path, (expected, to) in sorted(paths.items()):
        is_there = _settled(now[path])
        if isinstance(is_there, str):
            found.append(PathDecision(path, "leave", None, None, is_there))
        elif is_there == to:
            found.append(PathDecision(path, "leave", to, to, AS_IT_WAS))
        elif is_there == expected:
            found.append(_restored(path, expected, to, why))
        else:
            found.append(_merged(path, is_there, [(to, expected)], merge, otherwise=CHANGED_SINCE))
    return found


def writes(changes: Iterable[PathDecision]) -> list[PathDecision]:
    """Those that change anything."""
    return [change for change in changes if not change.is_left]


def _runs(touches: Sequence[PathAttribution]) -> list[tuple[State, State]]:
    """The session's changes, the newest first: what the path was, and what it became. Changes with nobody else's
    between them are one.
    """
    groups = [list(group) for ours, group in groupby(touches, key=lambda touch: touch.ours) if ours]
    return [(group[0].was, group[-1].now) for group in reversed(groups)]


def _merged(
    path: str, now: State, runs: Sequence[tuple[State, State]], merge: Merge, *, otherwise: str
) -> PathDecision:
    """Take ``runs`` back, and keep what others changed; ``otherwise``: why that cannot be done."""
    to = now
    try:
        for was, became in runs:
            to = _three_way(path, became, to, was, merge)
    except NotMerged as error:
        if error.overlap:
            return PathDecision(path, "conflict", now, now, CONFLICT)
        return PathDecision(path, "leave", now, now, otherwise)
    if to == now:
        return PathDecision(path, "leave", now, now, TAKEN_BACK)
    if to is None:
        return _restored(path, now, to, SESSION_MADE)
    found = _restored(path, now, to, MERGED)
    return found if found.is_left else found._replace(action="merge")


def _three_way(path: str, base: State, ours: State, theirs: State, merge: Merge) -> State:
    """Merge two changes of ``base``: mode and content each for itself, and a path that is not a file as a whole."""
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
    if WITHHELD_OID in (base.oid, ours.oid, theirs.oid):
        raise NotMerged
    return TreeEntry(mode, merge(path, base.oid, ours.oid, theirs.oid))


def _settled(now: Now | str) -> State | str:
    """A folder is no file: whether one stands in the way is seen when those in it are gone."""
    if isinstance(now, SpecialFile):
        return None if now.kind == "folder" else SPECIAL
    return now


def _restored(path: str, now: State, to: State, why: str) -> PathDecision:
    if to is not None and to.oid == WITHHELD_OID:
        return PathDecision(path, "leave", now, now, PURGED)
    return PathDecision(path, "remove" if to is None else "write", now, to, why)


def _why(was: State, now: State) -> str:
    if was is None:
        return SESSION_MADE
    return SESSION_REMOVED if now is None else SESSION_CHANGED
