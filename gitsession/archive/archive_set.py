"""Sessions that are archived: kept whole behind one ref, and listed by none of their own (docs/explanation/archive.md).

What is archived is a set, the same in every store that has heard of it: of each session how often it was archived and
taken out again, and every end that a branch of it had when it was archived. Both only grow, so two sets are joined by
taking all of both, and the order does not matter. docs/reference/format.md, "The archive", has the bytes.

A commit of it says the whole set, and leads to the lines that are new in it. Its first parents are the commits of the
archive that it goes on from (none, one, or two that were joined), which its message counts; the others are the ends of
lines that it is the first to hold, so that git keeps them and a fetch brings them. At most ``TIPS`` of them: git and
its tools take thousands badly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from gitsession.errors import GitSessionError, Malformed
from gitsession.git.objects import encode_tree, oid_of, parse_commit, parse_tree
from gitsession.git.types import Kind, Oid, Reader, RefValue
from gitsession.sessions import grow_only_sets, layout, session_ids
from gitsession.sessions.grow_only_sets import GrowOnlySet, Merged
from gitsession.store import histories, refs
from gitsession.store.interface import ObjectStore, StoreProxy

AUTHOR = "archive"
TIPS = 500

End = tuple[str, Oid]
"""A branch, and a commit at which it ended."""

_MESSAGE = re.compile(rb"[0-9]{1,9} archived\n\nGoes-on-from: ([012])\n")
_FILE = re.compile(r"[0-9]{6}\.tsv")
_TURN = re.compile(r"[1-9][0-9]{0,8}")
_OID = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Archive:
    """``turns``: by session, 1 once it was archived, 2 once it was taken out again, and so on. ``ends``: by session."""

    turns: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, frozenset[End]] = field(default_factory=dict)

    def __or__(self, other: Archive) -> Archive:
        """Both."""
        turns = {**self.turns}
        for sid, turn in other.turns.items():
            turns[sid] = max(turn, turns.get(sid, 0))
        ends = {**self.ends}
        for sid, found in other.ends.items():
            ends[sid] = found | ends.get(sid, frozenset())
        return Archive(turns, ends)

    def __le__(self, other: Archive) -> bool:
        """Whether ``other`` says all that this one says."""
        return all(turn <= other.turns.get(sid, 0) for sid, turn in self.turns.items()) and all(
            ends <= other.of(sid) for sid, ends in self.ends.items()
        )

    def __contains__(self, sid: object) -> bool:
        """Whether a session is archived, and was not taken out since."""
        return isinstance(sid, str) and self.turns.get(sid, 0) % 2 == 1

    def __iter__(self) -> Iterator[str]:
        """The sessions that are archived, by name."""
        return (sid for sid in sorted(self.turns) if sid in self)

    def __len__(self) -> int:
        return sum(turn % 2 for turn in self.turns.values())

    def of(self, sid: str) -> frozenset[End]:
        return self.ends.get(sid, frozenset())

    def holds(self, read: histories.Read, name: str, oid: Oid) -> bool:
        """Whether a ref that holds ``oid`` says nothing that is not archived under its name."""
        sid, branch = refs.parse(name) or ("", "")
        ends = [end for called, end in self.of(sid) if called == branch]
        return oid in ends or any(_leads_to(read, end, oid) for end in ends)

    def with_turn(self, sid: str, ends: Iterable[End] = ()) -> Archive:
        """The session archived, or taken out: whichever it was not."""
        turns = {**self.turns, sid: self.turns.get(sid, 0) + 1}
        return Archive(turns, {**self.ends, sid: self.of(sid) | frozenset(ends)})


NONE = Archive()


def at(reader: Reader, oid: Oid) -> Archive:
    """What a commit of the archive says. Raises ``Malformed``, ``MissingObject`` or ``Corrupt``."""
    kind, data = reader.read(oid)
    if kind != "commit":
        raise Malformed(f"a {kind}, expected a commit of the archive", where=oid)
    return at_tree(reader, parse_commit(data).tree)


def at_tree(reader: Reader, tree: Oid) -> Archive:
    """The same of its tree."""
    kind, data = reader.read(tree)
    if kind != "tree":
        raise Malformed(f"a {kind}, expected a tree", where=tree)
    turns: dict[str, int] = {}
    ends: dict[str, set[End]] = {}
    for mode, name, blob in parse_tree(data):
        if mode != layout.FILE_MODE or not _FILE.fullmatch(name):
            raise Malformed(f"{name[:80]!r} has no place in the archive", where=tree, hint="upgrade gitsession")
        _read_rows(reader.read(blob)[1], f"{blob}: {name}", turns, ends)
    for sid in ends:
        if sid not in turns:
            raise Malformed(f"{sid} is not said to be archived", where=tree)
    return Archive(turns, {sid: frozenset(found) for sid, found in ends.items()})


def _read_rows(data: bytes, where: str, turns: dict[str, int], ends: dict[str, set[End]]) -> None:
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        raise Malformed("no text", where=where) from None
    for row in text.splitlines():
        name, _, value = row.partition("\t")
        sid, _, branch = name.partition("/")
        if session_ids.is_one(name) and _TURN.fullmatch(value):
            turns[sid] = int(value)
        elif refs.is_session_ref(refs.SESSIONS + name) and _OID.fullmatch(value):
            ends.setdefault(sid, set()).add((branch, value))
        else:
            raise Malformed(f"no row of the archive: {row[:80]!r}", where=where)


def tree_of(archive: Archive) -> tuple[Oid, dict[Oid, tuple[Kind, bytes]]]:
    """The tree that says it, and the objects it is made of: the same bytes in every store."""
    months: dict[str, list[str]] = {}
    for sid in sorted(archive.turns):
        rows = months.setdefault(f"{sid[:6]}.tsv", [])
        rows.append(f"{sid}\t{archive.turns[sid]}\n")
        rows += [f"{sid}/{branch}\t{oid}\n" for branch, oid in sorted(archive.of(sid))]
    objects: dict[Oid, tuple[Kind, bytes]] = {}

    def put(kind: Kind, data: bytes) -> Oid:
        oid = oid_of(kind, data)
        objects[oid] = (kind, data)
        return oid

    tree = {name: (layout.FILE_MODE, put("blob", "".join(rows).encode())) for name, rows in months.items()}
    return put("tree", encode_tree(tree)), objects


class ArchiveCommit(NamedTuple):
    """A commit of the archive. ``before``: the archive commits it goes on from; ``tips``: ends of histories."""

    tree: Oid
    before: tuple[Oid, ...]
    tips: tuple[Oid, ...]
    seconds: int


def link(data: bytes) -> ArchiveCommit | None:
    """``None`` for a commit that is none of the archive's. Raises ``Malformed`` for what is no commit."""
    commit = parse_commit(data)
    said = _MESSAGE.fullmatch(commit.message)
    if said is None or commit.author_name != AUTHOR:
        return None
    count = int(said[1])
    return ArchiveCommit(commit.tree, commit.parents[:count], commit.parents[count:], commit.author_seconds)


def added(reader: Reader, tip: Oid | None, after: Archive, at_ms: int) -> Merged:
    """``after``, which says all that ``tip`` says, behind it; nothing new where that says it already.

    More ends than one commit takes come in several, each of which says what it leads to. Raises ``Malformed``.
    """
    before = NONE if tip is None else at(reader, tip)
    if after == before:
        return Merged(tip)
    seconds = max(0 if tip is None else grow_only_sets.seconds_of(reader, tip) + 1, at_ms // 1000)
    objects: dict[Oid, tuple[Kind, bytes]] = {}
    for said, tips in _steps(before, after):
        made = _SET.commit(said, [] if tip is None else [tip], seconds, tips)
        objects |= made.objects
        tip, seconds = made.oid, seconds + 1
    return Merged(tip, objects)


def _steps(before: Archive, after: Archive) -> Iterable[tuple[Archive, list[Oid]]]:
    """Yield the set that each commit from ``before`` to ``after`` states, with the tips that are new in it."""
    turns, ends = {**before.turns}, {**before.ends}
    tips: dict[Oid, None] = {}
    for sid in sorted(after.turns):
        new = after.of(sid) - before.of(sid)
        if tips and len(tips) + len(new) > TIPS:
            yield Archive({**turns}, {**ends}), list(tips)
            tips = {}
        turns[sid], ends[sid] = after.turns[sid], after.of(sid)
        tips |= dict.fromkeys(oid for _, oid in sorted(new))
    yield Archive(turns, ends), list(tips)


def _before(reader: Reader, oid: Oid) -> tuple[Oid, ...]:
    found = link(reader.read(oid)[1])
    if found is None:
        raise Malformed("no commit of the archive", where=oid)
    return found.before


_SET = GrowOnlySet(
    refs.ARCHIVE,
    NONE,
    author=AUTHOR,
    at=at,
    before=_before,
    tree_of=tree_of,
    words=lambda said, before: f"{len(said)} archived\n\nGoes-on-from: {len(before)}\n",
)

read, is_behind, merge, encode = _SET.read, _SET.is_behind, _SET.merge, _SET.encode
"""The archive set of a store, whether one of its commits descends from another, one tip for two, and its commits."""


def named(archive: Archive) -> dict[str, Oid]:
    """Every end that there is, each by a name of its own that tells its session: for who looks at all that is kept."""
    return {refs.leaf(sid, f"{branch}@{oid}"): oid for sid, found in archive.ends.items() for branch, oid in found}


class UnarchivedStore(StoreProxy):
    """A store as it would be if nothing were archived. For reading."""

    @classmethod
    def of(cls, store: ObjectStore) -> ObjectStore:
        """``store`` itself where nothing is archived, or the archive cannot be read."""
        try:
            return cls(store, read(store)) if store.ref(refs.ARCHIVE) is not None else store
        except GitSessionError:
            return store

    def __init__(self, store: ObjectStore, archive: Archive) -> None:
        super().__init__(store)
        self._archive = archive

    def ref(self, name: str) -> RefValue | None:
        return self._store.ref(name) or self._ends(refs.session_of(name)).get(name)

    def refs(self, prefix: str) -> Mapping[str, RefValue]:
        found = self._store.refs(prefix)
        if prefix.startswith(refs.SESSIONS) and prefix != refs.SESSIONS:
            sids = [prefix.removeprefix(refs.SESSIONS).partition("/")[0]]
        else:
            sids = list(self._archive) if refs.SESSIONS.startswith(prefix) else []
        for sid in sids:
            missing = {name: oid for name, oid in self._ends(sid).items() if name.startswith(prefix)}
            found = {**missing, **found}
        return dict(sorted(found.items()))

    def _ends(self, sid: str) -> dict[str, Oid]:
        if sid not in self._archive:
            return {}
        if sid not in self._known:
            self._known[sid] = ends(self._store.read, sid, self._archive)
        return self._known[sid]

    @cached_property
    def _known(self) -> dict[str, dict[str, Oid]]:
        return {}


class ArchiveView(UnarchivedStore):
    """A store as it would be if what is archived were all there is of sessions. For reading."""

    def ref(self, name: str) -> RefValue | None:
        sid = refs.session_of(name)
        return self._ends(sid).get(name) if sid else self._store.ref(name)

    def refs(self, prefix: str) -> Mapping[str, RefValue]:
        if not prefix.startswith(refs.SESSIONS):
            return self._store.refs(prefix)
        return {name: value for name, value in super().refs(prefix).items() if refs.session_of(name) in self._archive}


def ends(
    read: histories.Read, sid: str, archive: Archive, held: Mapping[str, Oid] | None = None
) -> dict[str, Oid]:
    """What the refs of a session hold once it is taken out, where they hold ``held`` before.

    Nothing is left out and no line overwritten: of two ends of a branch one that goes on from the other has its name,
    and where both went on, the other one the name that follows from it (``store.histories``).
    """
    found = dict(held or {})
    for branch, oid in sorted(archive.of(sid)):
        name = refs.leaf(sid, branch)
        there = found.get(name)
        if there is not None and not _leads_to(read, there, oid) and not _leads_to(read, oid, there):
            name = histories.aside(read, found.get, name, oid, there)
            there = found.get(name)
        if there is None or not _leads_to(read, there, oid):
            found[name] = oid
    return found


def _leads_to(read: histories.Read, end: Oid, oid: Oid) -> bool:
    try:
        return end == oid or histories.holds(read, end, oid)
    except GitSessionError:
        return False
