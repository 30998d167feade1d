"""Histories along first parents: the point where two branches diverge, and the new name of a diverged branch.

The name depends only on content: ``<base>.<8 base32 characters of a chain digest>``. *Our* branch is the one that is
renamed; *their* branch keeps the name. The chain digest is that of our first entry that their branch lacks. If a third
branch already has this name and contains that entry, the chain digest of our first entry that the third branch lacks is
used instead. If an unrelated branch has the name, the name gets 13, 26 or 52 characters. Published branches only grow.
So that entry, and therefore the name, is the same in every store and after any crash, retry or later fetch. Second
parents are ignored: the second parent of a summary can be any entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from gitsession.codec.digest import hash_of, to_base32
from gitsession.codec.message import trailers_of
from gitsession.errors import Corrupt, Malformed, MissingObject, Unavailable
from gitsession.git.objects import Commit, parse_commit
from gitsession.git.types import Kind, Oid

Read: TypeAlias = Callable[[Oid], tuple[Kind, bytes]]

LENGTHS = (8, 13, 26, 52)


class Divergence(NamedTuple):
    """The point where two branches diverge.

    ``base``: the newest common commit, ``None`` if there is none. ``first``: the oldest commit of the local branch
    that the other one lacks, ``None`` if it lacks none.
    """

    base: Oid | None
    first: Oid | None


def read_or_raise(find: Callable[[Oid], tuple[Kind, bytes] | None]) -> Read:
    """Return a function that reads objects with ``find`` and raises ``MissingObject`` if ``find`` returns ``None``."""

    def read(oid: Oid) -> tuple[Kind, bytes]:
        found = find(oid)
        if found is None:
            raise MissingObject(f"missing object {oid}")
        return found

    return read


def commit_of(read: Read, oid: Oid) -> Commit:
    """Read a commit. Raises ``MissingObject``, ``Corrupt`` and ``Malformed``."""
    kind, data = read(oid)
    if kind != "commit":
        raise Malformed(f"expected a commit, found a {kind}", where=oid)
    return parse_commit(data)


def walk(read: Read, tip: Oid) -> Iterator[Oid]:
    """Yield ``tip`` and its history along first parents. Raises the errors of ``commit_of``."""
    oid: Oid | None = tip
    while oid is not None:
        yield oid
        oid = next(iter(commit_of(read, oid).parents), None)


def find_divergence(read: Read, ours: Oid, theirs: Oid) -> Divergence:
    """Return the point where two branches diverge; read only the commits after it.

    Raises the errors of ``commit_of``.
    """
    walks = walk(read, ours), walk(read, theirs)
    children: dict[Oid, Oid | None] = {}  # our commits, each mapped to its child
    foreign_commits: set[Oid] = set()
    child: Oid | None = None
    while True:
        own, foreign = next(walks[0], None), next(walks[1], None)
        if own is None and foreign is None:
            return Divergence(None, child)
        if own is not None:
            children[own] = child
            if own in foreign_commits:
                return Divergence(own, child)
            child = own
        if foreign is not None:
            if foreign in children:
                return Divergence(foreign, children[foreign])
            foreign_commits.add(foreign)


def holds(read: Read, tip: Oid, wanted: Oid, *, until: Oid | None = None) -> bool:
    """Return whether ``wanted`` is in the history of ``tip``.

    The search ends at ``until``. Raises the errors of ``commit_of``.
    """
    for oid in walk(read, tip):
        if oid == wanted:
            return True
        if oid == until:
            return False
    return False


def candidate_names(read: Read, name: str, ours: Oid, theirs: Oid | None) -> Iterator[str]:
    """Yield the possible new names of our branch if the ref ``name`` has the value ``theirs``, shortest name first.

    If the histories cannot be read, the names are derived from the object id of our tip.
    """
    key = _key(read, ours, theirs)
    folder, _, branch = name.rpartition("/")
    for length in LENGTHS:
        yield f"{folder}/{branch.partition('.')[0]}.{to_base32(key, length)}"


def unused_name(read: Read, read_ref: Callable[[str], Oid | None], name: str, ours: Oid, theirs: Oid | None) -> str:
    """Return the ref that our branch is renamed to if the ref ``name`` has the value ``theirs``.

    The returned ref does not exist, or its branch is a part or a continuation of our branch. So no other branch is
    overwritten. ``read_ref``: returns the value of a ref. Raises ``Unavailable`` if all these names are in use.
    """
    tried: set[str] = set()
    other = theirs
    while True:
        for candidate in candidate_names(read, name, ours, other):
            if candidate in tried:
                continue
            tried.add(candidate)
            existing = read_ref(candidate)
            if existing is None or holds(read, existing, ours) or holds(read, ours, existing):
                return candidate
            if _shares_later_base(read, ours, existing, other):
                other = existing  # a third branch with the same beginning: use our first entry that it lacks
                break
        else:
            raise Unavailable(f"cannot rename the diverged branch {name}: all its possible new names are in use")


def _shares_later_base(read: Read, ours: Oid, existing: Oid, other: Oid | None) -> bool:
    first = find_divergence(read, ours, other).first if other is not None else ours
    base = find_divergence(read, ours, existing).base
    return base is not None and first is not None and holds(read, base, first)


def _key(read: Read, ours: Oid, theirs: Oid | None) -> bytes:
    first = ours
    try:
        if theirs is not None:
            first = find_divergence(read, ours, theirs).first or ours
        return trailers_of(commit_of(read, first).message).chain
    except (MissingObject, Corrupt, Malformed):
        return hash_of(bytes.fromhex(first))
