"""Undo beside remotes: what was published neither goes back nor goes away, for the next fetch would bring it again.

Of the moves that would take a command back, those that a remote may know are left out:

    a branch would go          it stays
    a branch would move back   it stays; where it was is a branch of its own, which is the active one then
    a label or title           refused: saying it anew is what takes it back
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

from gitsession.errors import Refused
from gitsession.git.types import RefValue
from gitsession.store import refs
from gitsession.store.interface import ObjectStore


class PlannedMove(NamedTuple):
    """One move: a ref, what it holds, and what it is to hold."""

    ref: str
    old: RefValue | None
    new: RefValue | None


class PublishedRef(NamedTuple):
    """A ref that stays, because ``remote`` may have it. ``instead``: the branch that stands where it was, or ""."""

    ref: str
    remote: str
    instead: str = ""


def keep_published(store: ObjectStore, steps: Iterable[PlannedMove]) -> tuple[list[PlannedMove], list[PublishedRef]]:
    """The moves that may be made, and what stays. Raises ``Refused``."""
    made: list[PlannedMove] = []
    stays: list[PublishedRef] = []
    for step in steps:
        parsed = refs.parse(step.ref)
        remote = store.published_to(step.ref, step.new) if parsed is not None else None
        if parsed is None or remote is None:
            made.append(step)
        elif not refs.is_branch(parsed[1]):
            raise Refused(
                f"{remote} has it already: what was published is not taken back",
                hint="say it anew: `gitsession label`, `gitsession name`",
            )
        elif step.new is None:
            stays.append(PublishedRef(step.ref, remote))
        else:
            name = _free(store, parsed[0])
            made.append(PlannedMove(refs.leaf(parsed[0], name), None, step.new))
            stays.append(PublishedRef(step.ref, remote, name))
    return _active_instead(store, made, stays), stays


def _active_instead(store: ObjectStore, made: list[PlannedMove], stays: list[PublishedRef]) -> list[PlannedMove]:
    """The talk goes on with what stands in the place of a branch that stays."""
    for stay in stays:
        sid = refs.session_of(stay.ref)
        choice = refs.active(sid)
        if stay.instead:
            made = [step for step in made if step.ref != choice]
            made.append(PlannedMove(choice, store.ref(choice), refs.symbolic(refs.leaf(sid, stay.instead))))
    return made


def _free(store: ObjectStore, sid: str) -> str:
    return next(name for number in count(1) if store.ref(refs.leaf(sid, name := f"undo-{number}")) is None)
