"""Undo of published moves: a branch that a remote may have is neither moved back nor removed.

Otherwise the next fetch would restore it. An undo handles such moves as follows:

    removal of a branch      the branch is kept
    moving a branch back     the branch is kept; a new branch at the old value becomes the active branch
    change of a label        refused; the user can set the old label again
    or title                 refused; the user can set the old title again
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
    """A move of a ref from ``old`` to ``new``."""

    ref: str
    old: RefValue | None
    new: RefValue | None


class PublishedRef(NamedTuple):
    """A ref that is kept because ``remote`` may have it. ``instead``: the new branch at the old value, or ""."""

    ref: str
    remote: str
    instead: str = ""


def keep_published(store: ObjectStore, steps: Iterable[PlannedMove]) -> tuple[list[PlannedMove], list[PublishedRef]]:
    """Return the moves to apply, and the refs to keep. Raises ``Refused``."""
    applied: list[PlannedMove] = []
    stays: list[PublishedRef] = []
    for step in steps:
        parsed = refs.parse(step.ref)
        remote = store.published_to(step.ref, step.new) if parsed is not None else None
        if parsed is None or remote is None:
            applied.append(step)
        elif not refs.is_branch(parsed[1]):
            raise Refused(
                f"cannot undo the change to {step.ref}: it was pushed to remote {remote!r}",
                hint="set the label or the title again with `gitsession label` or `gitsession name`",
            )
        elif step.new is None:
            stays.append(PublishedRef(step.ref, remote))
        else:
            name = _free_name(store, parsed[0])
            applied.append(PlannedMove(refs.leaf(parsed[0], name), None, step.new))
            stays.append(PublishedRef(step.ref, remote, name))
    return _active_instead(store, applied, stays), stays


def _active_instead(store: ObjectStore, applied: list[PlannedMove], stays: list[PublishedRef]) -> list[PlannedMove]:
    """Add moves that make the new branches active in place of the kept ones."""
    for stay in stays:
        sid = refs.session_of(stay.ref)
        choice = refs.active(sid)
        if stay.instead:
            applied = [step for step in applied if step.ref != choice]
            applied.append(PlannedMove(choice, store.ref(choice), refs.symbolic(refs.leaf(sid, stay.instead))))
    return applied


def _free_name(store: ObjectStore, sid: str) -> str:
    return next(name for number in count(1) if store.ref(refs.leaf(sid, name := f"undo-{number}")) is None)
