"""The set of what was purged, as it grows: one commit for each step, and one that any two stores make alike of two.

What it says: ``session.purged``, which is read where entries are checked and taken in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gitsession.session import purged
from gitsession.session.purged import NONE, Replacement, Tombstones, at, read
from gitsession.store.base import Kind, Oid, Reader
from gitsession.store.objects import SECONDS_MAX, encode_commit, oid_of, parse_commit

__all__ = ["NONE", "Merged", "Replacement", "Tombstones", "added", "at", "is_behind", "merge", "read"]

AUTHOR = "gitsession"


@dataclass(frozen=True, slots=True)
class Merged:
    """Where the ref of tombstones goes, and the objects that are new with it."""

    oid: Oid | None
    objects: Mapping[Oid, tuple[Kind, bytes]] = field(default_factory=dict)


def added(reader: Reader, tip: Oid | None, more: Tombstones, at_ms: int) -> Merged:
    """``more`` behind ``tip``; nothing new where that says it already. Raises ``Malformed``."""
    before = NONE if tip is None else at(reader, tip)
    after = before | more
    if after == before:
        return Merged(tip)
    earliest = 0 if tip is None else _seconds(reader, tip) + 1
    return _committed(after, [] if tip is None else [tip], max(earliest, at_ms // 1000))


def merge(reader: Reader, ours: Oid | None, theirs: Oid | None) -> Merged:
    """One tip for two: the one that has the other behind it, else the commit of their union.

    That commit is the same wherever it is made: parents in order, a second after the later of them.
    Raises ``Malformed``, ``MissingObject`` or ``Corrupt``.
    """
    if ours is None or theirs is None or ours == theirs:
        return Merged(theirs if ours is None else ours)
    if is_behind(reader, ours, theirs):
        return Merged(theirs)
    if is_behind(reader, theirs, ours):
        return Merged(ours)
    union = at(reader, ours) | at(reader, theirs)
    return _committed(union, sorted([ours, theirs]), max(_seconds(reader, ours), _seconds(reader, theirs)) + 1)


def _committed(tombstones: Tombstones, parents: list[Oid], seconds: int) -> Merged:
    tree, objects = purged.tree_of(tombstones)
    seconds = min(max(seconds, 0), SECONDS_MAX)
    data = encode_commit(
        tree=tree,
        parents=parents,
        author_name=AUTHOR,
        author_seconds=seconds,
        committer_seconds=seconds,
        message=f"{len(tombstones)} purged\n".encode(),
    )
    oid = oid_of("commit", data)
    return Merged(oid, {**objects, oid: ("commit", data)})


def _seconds(reader: Reader, oid: Oid) -> int:
    return parse_commit(reader.read(oid)[1]).committer_seconds


def is_behind(reader: Reader, old: Oid, new: Oid) -> bool:
    """Whether ``old`` is an ancestor of ``new``, by any parent."""
    todo, seen = [new], {new}
    while todo:
        for parent in parse_commit(reader.read(todo.pop())[1]).parents:
            if parent == old:
                return True
            if parent not in seen:
                seen.add(parent)
                todo.append(parent)
    return False
