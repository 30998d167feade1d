"""Sets that only grow, kept as commits that each say the whole set: two of them joined alike in every store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeAlias, TypeVar

from gitsession.git.objects import SECONDS_MAX, encode_commit, oid_of, parse_commit
from gitsession.git.types import Kind, Oid, Reader
from gitsession.store.interface import ObjectStore


class _Joinable(Protocol):
    def __or__(self, other: Self, /) -> Self: ...


Value = TypeVar("Value", bound=_Joinable)
Objects: TypeAlias = Mapping[Oid, tuple[Kind, bytes]]


@dataclass(frozen=True, slots=True)
class Merged:
    """Where the ref of a set goes, and the objects that are new with it."""

    oid: Oid | None
    objects: Objects = field(default_factory=dict)


class GrowOnlySet(Generic[Value]):
    """The set behind ``ref``, in commits by ``author``.

    ``at``: what a commit of it says; ``before``: the sets that a commit was made of; ``tree_of``: the tree that says a
    value, and the objects it is made of; ``words``: the message of a commit that says a value and goes on from others.
    All of its methods raise what ``at`` and ``before`` do: ``Malformed``, ``MissingObject`` or ``Corrupt``.
    """

    def __init__(
        self,
        ref: str,
        none: Value,
        *,
        author: str,
        at: Callable[[Reader, Oid], Value],
        before: Callable[[Reader, Oid], Sequence[Oid]],
        tree_of: Callable[[Value], tuple[Oid, Objects]],
        words: Callable[[Value, Sequence[Oid]], str],
    ) -> None:
        self._ref, self._none, self._author = ref, none, author
        self._at, self._before, self._tree_of, self._words = at, before, tree_of, words
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

    def encode(
        self, said: Value, before: Sequence[Oid], seconds: int, tips: Sequence[Oid] = (), *, tree: Oid = ""
    ) -> bytes:
        """The bytes of the commit that says ``said`` and goes on from ``before``. ``tips``: what else it leads to;
        ``tree``: of ``tree_of``, if that was asked.
        """
        return encode_commit(
            tree=tree or self._tree_of(said)[0],
            parents=[*before, *tips],
            author_name=self._author,
            author_seconds=seconds,
            committer_seconds=seconds,
            message=self._words(said, before).encode(),
        )

    def commit(self, said: Value, before: Sequence[Oid], seconds: int, tips: Sequence[Oid] = ()) -> Merged:
        """The same with its objects, at the nearest time that git can keep."""
        tree, objects = self._tree_of(said)
        data = self.encode(said, before, min(max(seconds, 0), SECONDS_MAX), tips, tree=tree)
        oid = oid_of("commit", data)
        return Merged(oid, {**objects, oid: ("commit", data)})

    def merge(self, reader: Reader, ours: Oid | None, theirs: Oid | None) -> Merged:
        """One tip for two: the one that has the other behind it, else a commit of their union.

        Its parents are in order, and its time is a second after the later of them: so it is the same wherever it is
        made.
        """
        if ours is None or theirs is None or ours == theirs:
            return Merged(theirs if ours is None else ours)
        if self.is_behind(reader, ours, theirs):
            return Merged(theirs)
        if self.is_behind(reader, theirs, ours):
            return Merged(ours)
        one, other = parents = sorted([ours, theirs])
        seconds = max(seconds_of(reader, one), seconds_of(reader, other)) + 1
        return self.commit(self._at(reader, one) | self._at(reader, other), parents, seconds)

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
