"""The set of what was purged, as it grows: one commit for each step, and one that any two stores make alike of two.

What it says: ``sessions.tombstone_set``, which is read where entries are checked and taken in.
"""

from __future__ import annotations

from collections.abc import Collection

from gitsession.git.objects import encode_commit, oid_of
from gitsession.git.types import Oid, Reader
from gitsession.sessions import grow_only_sets, tombstone_set
from gitsession.sessions.grow_only_sets import Merged
from gitsession.sessions.tombstone_set import NONE, Replacement, Tombstones, at, is_behind, read
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

__all__ = ["NONE", "Merged", "Replacement", "Tombstones", "added", "at", "is_behind", "is_given", "merge", "read"]

AUTHOR = "gitsession"


def added(
    reader: Reader, tip: Oid | None, more: Tombstones, at_ms: int, seen: Collection[Oid] | None = None
) -> Merged:
    """``more`` behind ``tip``; nothing new where that says it already. Raises ``Malformed``.

    ``seen``: what others have of the set, if that is known. Steps and records that nobody has are left out: the record
    of a redaction says what it left to read, which the next one may hide.
    """
    before = NONE if tip is None else at(reader, tip)
    after = before | more
    if after == before:
        return Merged(tip)
    earliest = 0 if tip is None else grow_only_sets.seconds_of(reader, tip) + 1
    parents = _published(reader, tip, seen)
    given = NONE
    for oid in parents:
        given |= at(reader, oid)
    return _committed(_straight(after, given), parents, max(earliest, at_ms // 1000))


def _straight(tombstones: Tombstones, given: Tombstones) -> Tombstones:
    """The same without what lies between: each entry leads to the last of its replacements, but where it was ``given``
    to others that it leads to another.
    """
    ends = {
        key: by if given.replaced.get(key) == by else tombstones.instead(key)
        for key, by in tombstones.replaced.items()
    }
    removed = tombstones.removed | {key for key, by in ends.items() if by is None}
    return Tombstones(removed, {key: by for key, by in ends.items() if by is not None}, tombstones.sessions)


def _published(reader: Reader, tip: Oid | None, seen: Collection[Oid] | None) -> list[Oid]:
    """The latest steps to ``tip`` that others have; ``tip`` itself where it is in doubt."""
    if tip is None:
        return []
    known = {*(seen if seen is not None else [tip])}
    if tip in known or not all(reader.contains(oid) and is_behind(reader, oid, tip) for oid in known):
        return [tip]
    return sorted(oid for oid in known if not any(is_behind(reader, oid, other) for other in known))


def is_given(store: ObjectStore) -> bool:
    """Whether a remote was seen to have a set of this store's."""
    return any(name.endswith(refs.TOMBSTONES.removeprefix("refs/heads")) for name in store.refs(refs.TRACKING))


def merge(reader: Reader, ours: Oid | None, theirs: Oid | None) -> Merged:
    """One tip for two: see ``GrowOnlySet.merge``."""
    return tombstone_set.SET.merge(reader, ours, theirs, _committed)


def _committed(tombstones: Tombstones, parents: list[Oid], seconds: int) -> Merged:
    tree, objects = tombstone_set.tree_of(tombstones)
    seconds = grow_only_sets.in_range(seconds)
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
