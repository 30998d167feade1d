"""Sets that only grow, kept as commits that each say the whole set: two of them joined alike in every store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gitsession.git.objects import SECONDS_MAX, parse_commit
from gitsession.git.types import Kind, Oid, Reader

Before = Callable[[Oid], Sequence[Oid]]
"""The sets that a commit was made of."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Where the ref of a set goes, and the objects that are new with it."""

    oid: Oid | None
    objects: Mapping[Oid, tuple[Kind, bytes]] = field(default_factory=dict)


def merge(
    reader: Reader,
    ours: Oid | None,
    theirs: Oid | None,
    before: Before,
    union: Callable[[list[Oid], int], Merged],
) -> Merged:
    """One tip for two: the one that has the other behind it, else the commit of their ``union``.

    ``union`` is given its parents, in order, and its time in seconds: a second after the later of them. So that commit
    is the same wherever it is made. Raises ``Malformed``, ``MissingObject`` or ``Corrupt``.
    """
    if ours is None or theirs is None or ours == theirs:
        return Merged(theirs if ours is None else ours)
    if is_behind(before, ours, theirs):
        return Merged(theirs)
    if is_behind(before, theirs, ours):
        return Merged(ours)
    return union(sorted([ours, theirs]), max(seconds_of(reader, ours), seconds_of(reader, theirs)) + 1)


def is_behind(before: Before, old: Oid, new: Oid) -> bool:
    """Whether ``new`` was made of ``old``, and of what else came."""
    todo, seen = [new], {new}
    while todo:
        for parent in before(todo.pop()):
            if parent == old:
                return True
            if parent not in seen:
                seen.add(parent)
                todo.append(parent)
    return False


def seconds_of(reader: Reader, oid: Oid) -> int:
    return parse_commit(reader.read(oid)[1]).committer_seconds


def in_range(seconds: int) -> int:
    """The nearest time that git can keep."""
    return min(max(seconds, 0), SECONDS_MAX)
