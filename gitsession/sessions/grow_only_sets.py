"""Grow-only sets. A commit contains the union of the sets of its parents, and every store computes the same union."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Generic, Protocol, Self, TypeAlias, TypeVar

from gitsession.dataclass import dataclass
from gitsession.git.objects import SECONDS_MAX, encode_commit, oid_of, parse_commit
from gitsession.git.types import Kind, Oid, Reader
from gitsession.store.interface import ObjectStore


class _Set(Protocol):
    def __or__(self, other: Self, /) -> Self: ...

    def __len__(self) -> int: ...


Value = TypeVar("Value", bound=_Set)
Objects: TypeAlias = Mapping[Oid, tuple[Kind, bytes]]


class NewObjects(dict[Oid, tuple[Kind, bytes]]):
    """Objects that are not written yet, by oid."""

    def put(self, kind: Kind, data: bytes) -> Oid:
        oid = oid_of(kind, data)
        self[oid] = (kind, data)
        return oid


@dataclass(frozen=True, slots=True)
class Merged:
    """The commit that the ref of a set moves to, and its new objects."""

    oid: Oid | None
    objects: Objects = field(default_factory=dict)


class GrowOnlySet(Generic[Value]):
    """The set in the commits of ``ref``, with the author ``author``.

    Four functions define the format of the set. ``at`` returns the value in a commit. ``before`` returns the parents of
    a commit that are commits of the set. ``tree_of`` returns the tree of a value, and its objects. ``message`` returns
    the message of a commit from the length of its value and its parents. All methods raise ``Malformed``,
    ``MissingObject`` or ``Corrupt`` if ``at`` or ``before`` does.
    """

    def __init__(
        self,
        ref: str,
        empty: Value,
        *,
        author: str,
        at: Callable[[Reader, Oid], Value],
        before: Callable[[Reader, Oid], Sequence[Oid]],
        tree_of: Callable[[Value], tuple[Oid, Objects]],
        message: Callable[[int, Sequence[Oid]], str],
    ) -> None:
        self._ref, self._empty, self._author = ref, empty, author
        self._at, self._before, self._tree_of, self._message = at, before, tree_of, message
        self._newest = "", empty

    def read(self, store: ObjectStore) -> Value:
        """Return the value of the set in a store. The value that was read last is cached by the oid of its commit."""
        oid = store.ref(self._ref)
        if oid is None:
            return self._empty
        newest = self._newest
        if newest[0] != oid:
            newest = self._newest = oid, self._at(store, oid)
        return newest[1]

    def encode(self, tree: Oid, length: int, before: Sequence[Oid], seconds: int, tips: Sequence[Oid] = ()) -> bytes:
        """Return the bytes of a commit with the parents ``before``.

        ``tree``, ``length``: the tree and the length of the value. ``seconds``: the time of the commit, Unix time in
        seconds. ``tips``: further parents.
        """
        return encode_commit(
            tree=tree,
            parents=[*before, *tips],
            author_name=self._author,
            author_seconds=seconds,
            committer_seconds=seconds,
            message=self._message(length, before).encode(),
        )

    def commit(
        self, value: Value, before: Sequence[Oid], seconds: int, tips: Sequence[Oid] = ()
    ) -> tuple[Oid, Objects]:
        """Return the oid of a new commit of the set, and its objects. See ``encode`` for the arguments.

        The time is limited to the range that git supports.
        """
        tree, objects = self._tree_of(value)
        data = self.encode(tree, len(value), before, min(max(seconds, 0), SECONDS_MAX), tips)
        oid = oid_of("commit", data)
        return oid, {**objects, oid: ("commit", data)}

    def merge(self, reader: Reader, ours: Oid | None, theirs: Oid | None) -> Merged:
        """Return the tip that is a descendant of the other tip, or else a commit with the union of both sets.

        The parents of the new commit are sorted, and its time is one second after the later parent, so that every store
        writes the same commit.
        """
        if ours is None or theirs is None or ours == theirs:
            return Merged(theirs if ours is None else ours)
        if self.is_ancestor(reader, ours, theirs):
            return Merged(theirs)
        if self.is_ancestor(reader, theirs, ours):
            return Merged(ours)
        one, other = parents = sorted([ours, theirs])
        seconds = max(seconds_of(reader, one), seconds_of(reader, other)) + 1
        return Merged(*self.commit(self._at(reader, one) | self._at(reader, other), parents, seconds))

    def is_ancestor(self, reader: Reader, old: Oid, new: Oid) -> bool:
        """Return whether ``old`` is an ancestor of ``new`` among the commits of the set."""
        return old != new and old in self.commits(reader, new)

    def commits(self, reader: Reader, tip: Oid) -> Iterator[Oid]:
        """Yield ``tip`` and its ancestors among the commits of the set."""
        todo, seen = [tip], {tip}
        while todo:
            oid = todo.pop()
            yield oid
            new = [parent for parent in self._before(reader, oid) if parent not in seen]
            seen.update(new)
            todo += new


def seconds_of(reader: Reader, oid: Oid) -> int:
    return parse_commit(reader.read(oid)[1]).committer_seconds
