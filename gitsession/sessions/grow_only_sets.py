"""Sets that only grow, kept as commits that each say the whole set: two of them joined alike in every store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

from gitsession.git.objects import SECONDS_MAX, parse_commit
from gitsession.git.types import Kind, Oid, Reader
from gitsession.store.interface import ObjectStore


class _Joinable(Protocol):
    def __or__(self, other: Self, /) -> Self: ...


Value = TypeVar("Value", bound=_Joinable)


@dataclass(frozen=True, slots=True)
class Merged:
    """Where the ref of a set goes, and the objects that are new with it."""

    oid: Oid | None
    objects: Mapping[Oid, tuple[Kind, bytes]] = field(default_factory=dict)


class GrowOnlySet(Generic[Value]):
    """The set behind ``ref``. ``at``: what a commit of it says; ``before``: the sets that a commit was made of.

    All of its methods raise what these two do: ``Malformed``, ``MissingObject`` or ``Corrupt``.
    """

    def __init__(
        self, ref: str, none: Value, at: Callable[[Reader, Oid], Value], before: Callable[[Reader, Oid], Sequence[Oid]]
    ) -> None:
        self._ref, self._none, self._at, self._before = ref, none, at, before
        self._newest = "", none

    def read(self, store: ObjectStore) -> Value:
        """The set as this store knows it. The one that was read last is kept: its name says all of it."""
        oid = store.ref(self._ref)
        if oid is None:
            return self._none
        newest = self._newest
        if newest[0] != oid:
            newest = self._newest = oid, self._at(store, oid)
        return newest[1]

    def merge(
        self, reader: Reader, ours: Oid | None, theirs: Oid | None, commit: Callable[[Value, list[Oid], int], Merged]
    ) -> Merged:
        """One tip for two: the one that has the other behind it, else the ``commit`` of their union.

        ``commit`` is given the union, its parents, in order, and its time in seconds: a second after the later of
        them. So that commit is the same wherever it is made.
        """
        if ours is None or theirs is None or ours == theirs:
            return Merged(theirs if ours is None else ours)
        if self.is_behind(reader, ours, theirs):
            return Merged(theirs)
        if self.is_behind(reader, theirs, ours):
            return Merged(ours)
        one, other = parents = sorted([ours, theirs])
        seconds = max(seconds_of(reader, one), seconds_of(reader, other)) + 1
        return commit(self._at(reader, one) | self._at(reader, other), parents, seconds)

    def is_behind(self, reader: Reader, old: Oid, new: Oid) -> bool:
        """Whether ``new`` was made of ``old``, and of what else came."""
        todo, seen = [new], {new}
        while todo:
            for parent in self._before(reader, todo.pop()):
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
