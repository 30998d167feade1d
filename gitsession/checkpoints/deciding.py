"""Which files a rewind writes, and why it leaves the others. Pure: what the session changed and what is there, in.

A rewind takes back what the session wrote, and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from gitsession.checkpoints.attribution import Touch
from gitsession.git.objects import SUBMODULE_MODE
from gitsession.sessions.tombstone_set import WITHHELD_OID
from gitsession.workspace.inspect import Now, Odd
from gitsession.workspace.trees import State

Action: TypeAlias = Literal["write", "remove", "leave"]

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


class Planned(NamedTuple):
    """What becomes of one path. ``now``: what is there, as far as a tree can say; ``to``: what will be."""

    path: str
    action: Action
    now: State
    to: State
    why: str


def decide(
    touches: Mapping[str, Sequence[Touch]],
    now: Mapping[str, Now | str],
    at_entry: Mapping[str, State],
    *,
    claimed: Mapping[str, Collection[State]] = MappingProxyType({}),
    force: bool = False,
) -> list[Planned]:
    """Of each path that the session changed, what to do. ``now``: what is there, or why that cannot be told.

    ``at_entry``: what it was at the entry, which is what ``force`` brings back of what others have changed too.
    ``claimed``: what other sessions made of paths.
    """
    return [
        _decide(path, touches[path], now[path], at_entry.get(path), claimed.get(path, ()), force=force)
        for path in sorted(touches)
    ]


def _decide(
    path: str, touches: Sequence[Touch], now: Now | str, at_entry: State, claimed: Collection[State], *, force: bool
) -> Planned:
    ours = [number for number, touch in enumerate(touches) if touch.ours]
    first, last = ours[0], ours[-1]
    was, became = touches[first].was, touches[last].now
    now = _settled(now)
    if isinstance(now, str):
        return Planned(path, "leave", None, None, now)
    if now == was:
        return Planned(path, "leave", now, now, AS_IT_WAS)
    if any(state is not None and state.mode == SUBMODULE_MODE for state in (was, became)):
        return Planned(path, "leave", now, now, SUBMODULE)
    is_ours = now == became
    # Also what was shared once and then gone on with: what it was before would be without the other's work.
    is_shared = is_ours and any(touches[number].now in claimed for number in ours)
    if is_ours and not is_shared and last - first + 1 == len(ours):
        return _restored(path, now, was, _why(was, now))
    if force and now != at_entry:
        return _restored(path, now, at_entry, FORCED)
    why = SHARED if is_shared else CHANGED_BETWEEN if is_ours else CHANGED_SINCE
    return Planned(path, "leave", now, now, why)


def revert(
    paths: Mapping[str, tuple[State, State]], now: Mapping[str, Now | str], *, why: str
) -> list[Planned]:
    """What taking back, or doing again, does to paths: each with what it is if nobody touched it, and what it becomes.
    """
    found = []
    for path, (expected, to) in sorted(paths.items()):
        is_there = _settled(now[path])
        if isinstance(is_there, str):
            found.append(Planned(path, "leave", None, None, is_there))
        elif is_there == to:
            found.append(Planned(path, "leave", to, to, AS_IT_WAS))
        elif is_there == expected:
            found.append(_restored(path, expected, to, why))
        else:
            found.append(Planned(path, "leave", is_there, is_there, CHANGED_SINCE))
    return found


def writes(changes: Iterable[Planned]) -> list[Planned]:
    """Those that change anything."""
    return [change for change in changes if change.action != "leave"]


def _settled(now: Now | str) -> State | str:
    """A folder is no file: whether one stands in the way is seen when those in it are gone."""
    if isinstance(now, Odd):
        return None if now.kind == "folder" else SPECIAL
    return now


def _restored(path: str, now: State, to: State, why: str) -> Planned:
    if to is not None and to.oid == WITHHELD_OID:
        return Planned(path, "leave", now, now, PURGED)
    return Planned(path, "remove" if to is None else "write", now, to, why)


def _why(was: State, now: State) -> str:
    if was is None:
        return SESSION_MADE
    return SESSION_REMOVED if now is None else SESSION_CHANGED
