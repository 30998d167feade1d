"""The archive: complete sessions behind one ref, without refs of their own (docs/explanation/archive.md).

The archive is a grow-only set. The set is equal in all stores that have synced with each other. For each session, it
contains the number of times that the session was archived or restored, and every branch tip at the time of archiving.
The number only grows, and no tip is ever removed, so sets can be merged by union in any order.
docs/reference/format.md, "The archive", defines the bytes.

The set in a commit of the archive is the union of the sets in the commits that it continues, and of what it adds. These
commits are its first parents: none, one, or two that were merged. The commit message states their number. The other
parents are tips that no earlier archive commit contains. So git keeps these tips, and a fetch transfers them. A commit
has at most ``TIPS`` of them, because git and its tools are slow with thousands of parents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from gitsession.dataclass import dataclass
from gitsession.errors import GitSessionError, Malformed
from gitsession.git.objects import encode_tree, parse_commit, parse_tree
from gitsession.git.types import Kind, Oid, Reader, RefValue
from gitsession.sessions import grow_only_sets, layout
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.grow_only_sets import GrowOnlySet, Merged, NewObjects
from gitsession.store import histories, refs
from gitsession.store.interface import ObjectStore, StoreProxy

AUTHOR = "archive"
TIPS = 500

End = tuple[str, Oid]
"""A branch name, and a commit that was the tip of the branch."""

_MESSAGE = re.compile(rb"[0-9]{1,9} archived\n\nGoes-on-from: ([012])\n")
_FILE = re.compile(r"[0-9]{6}\.tsv")
_TURN = re.compile(r"[1-9][0-9]{0,8}")
_OID = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive set.

    Attributes:
        turns: Number of times that each session was archived or restored. The number is odd if the session is archived.
        ends: Archived tips of each session.
    """

    turns: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, frozenset[End]] = field(default_factory=dict)

    def __or__(self, other: Archive) -> Archive:
        """Return the union of both sets."""
        turns = {**self.turns}
        for sid, turn in other.turns.items():
            turns[sid] = max(turn, turns.get(sid, 0))
        ends = {**self.ends}
        for sid, found in other.ends.items():
            ends[sid] = found | ends.get(sid, frozenset())
        return Archive(turns, ends)

    def __le__(self, other: Archive) -> bool:
        """Return whether ``other`` contains this set."""
        return all(turn <= other.turns.get(sid, 0) for sid, turn in self.turns.items()) and all(
            ends <= other.of(sid) for sid, ends in self.ends.items()
        )

    def __contains__(self, sid: object) -> bool:
        """Return whether a session is archived and has not been restored since then."""
        return isinstance(sid, str) and self.turns.get(sid, 0) % 2 == 1

    def __iter__(self) -> Iterator[str]:
        """Yield the archived sessions, sorted by id."""
        return (sid for sid in sorted(self.turns) if sid in self)

    def __len__(self) -> int:
        return sum(turn % 2 for turn in self.turns.values())

    def of(self, sid: str) -> frozenset[End]:
        return self.ends.get(sid, frozenset())

    def holds(self, read: histories.Read, name: str, oid: Oid) -> bool:
        """Return whether the history of ``oid`` is archived for the branch of the ref ``name``."""
        sid, branch = refs.parse(name) or ("", "")
        tips = [tip for end_branch, tip in self.of(sid) if end_branch == branch]
        return oid in tips or any(reaches(read, tip, oid) for tip in tips)

    def with_turn(self, sid: str, ends: Iterable[End] = ()) -> Archive:
        """Return a set in which the session is archived, or restored if it was archived. ``ends``: tips to add."""
        turns = {**self.turns, sid: self.turns.get(sid, 0) + 1}
        return Archive(turns, {**self.ends, sid: self.of(sid) | frozenset(ends)})


NONE = Archive()


def at(reader: Reader, oid: Oid) -> Archive:
    """Return the set in a commit of the archive. Raises ``Malformed``, ``MissingObject`` or ``Corrupt``."""
    return at_tree(reader, tree_at(reader, oid))


def at_tree(reader: Reader, tree: Oid) -> Archive:
    """Return the set in the tree of an archive commit. Raises the errors of ``at``."""
    return _read_files(reader, read_tree(reader, tree))


def in_changed_files(reader: Reader, old: Oid | None, new: Oid | None) -> tuple[Archive, Archive]:
    """Return the parts of the sets in two commits that are in files that differ. Raises the errors of ``at``.

    ``None`` is a commit without files.
    """
    before, after = ({} if oid is None else read_tree(reader, tree_at(reader, oid)) for oid in (old, new))
    equal = before.items() & after.items()
    one, other = (_read_files(reader, dict(files.items() - equal)) for files in (before, after))
    return one, other


def of_sessions(reader: Reader, tips: Iterable[Oid], sids: Iterable[str]) -> Archive:
    """Return a part of the union of the sets in the commits ``tips``: at least the elements of the sessions ``sids``.

    Only the months of these sessions are read. Raises the errors of ``at``.
    """
    wanted = {_file_of(sid) for sid in sids}
    found = NONE
    for tip in tips:
        files = read_tree(reader, tree_at(reader, tip))
        found = found | _read_files(reader, {name: files[name] for name in wanted & files.keys()})
    return found


def tree_at(reader: Reader, oid: Oid) -> Oid:
    """Return the tree of a commit of the archive. Raises the errors of ``at``."""
    kind, data = reader.read(oid)
    if kind != "commit":
        raise Malformed(f"expected a commit of the archive set, found a {kind}", where=oid)
    return parse_commit(data).tree


def _read_files(reader: Reader, files: Mapping[str, Oid]) -> Archive:
    turns: dict[str, int] = {}
    ends: dict[str, frozenset[End]] = {}
    for name, blob in files.items():
        part = read_file(reader, name, blob)
        turns |= part.turns
        ends |= part.ends
    return Archive(turns, ends)


def read_tree(reader: Reader, tree: Oid) -> dict[str, Oid]:
    """Return the blobs of the files in the tree of an archive commit, by name. Raises the errors of ``at``."""
    kind, data = reader.read(tree)
    if kind != "tree":
        raise Malformed(f"expected a tree, found a {kind}", where=tree)
    files = {}
    for mode, name, blob in parse_tree(data):
        if mode != layout.FILE_MODE or not _FILE.fullmatch(name):
            raise Malformed(f"unexpected file {name[:80]!r} in the archive set", where=tree, hint="upgrade gitsession")
        files[name] = blob
    return files


def read_file(reader: Reader, name: str, blob: Oid) -> Archive:
    """Return the part of the set that is in the file ``name``. Raises the errors of ``at``."""
    where = f"{blob}: {name}"
    try:
        text = reader.read(blob)[1].decode("ascii")
    except UnicodeDecodeError:
        raise Malformed("not ASCII text", where=where) from None
    turns: dict[str, int] = {}
    ends: dict[str, set[End]] = {}
    for row in text.splitlines():
        key, _, value = row.partition("\t")
        sid, _, branch = key.partition("/")
        if refs.is_sid(key) and _TURN.fullmatch(value):
            turns[sid] = int(value)
        elif refs.is_session_ref(refs.SESSIONS + key) and _OID.fullmatch(value):
            ends.setdefault(sid, set()).add((branch, value))
        else:
            raise Malformed(f"invalid row in the archive set: {row[:80]!r}", where=where)
    for sid in ends:
        if sid not in turns:
            raise Malformed(f"the archive set has branches but no archive count for session {sid}", where=where)
    return Archive(turns, {sid: frozenset(found) for sid, found in ends.items()})


def _file_of(sid: str) -> str:
    """Return the name of the file with the rows of a session: the month in which the session started."""
    return f"{sid[:6]}.tsv"


def encode_files(archive: Archive) -> dict[str, bytes]:
    """Return the files of a set by name. The bytes are the same in every store."""
    months: dict[str, list[str]] = {}
    for sid in sorted(archive.turns):
        rows = months.setdefault(_file_of(sid), [])
        rows.append(f"{sid}\t{archive.turns[sid]}\n")
        rows += [f"{sid}/{branch}\t{oid}\n" for branch, oid in sorted(archive.of(sid))]
    return {name: "".join(rows).encode() for name, rows in months.items()}


def tree_of(archive: Archive) -> tuple[Oid, dict[Oid, tuple[Kind, bytes]]]:
    """Return the tree of a set, and the objects of this tree."""
    objects = NewObjects()
    tree = {name: (layout.FILE_MODE, objects.put("blob", data)) for name, data in encode_files(archive).items()}
    return objects.put("tree", encode_tree(tree)), objects


class ArchiveCommit(NamedTuple):
    """A commit of the archive. ``before``: the archive commits that it continues; ``tips``: the other parents."""

    tree: Oid
    before: tuple[Oid, ...]
    tips: tuple[Oid, ...]
    seconds: int


def link(data: bytes) -> ArchiveCommit | None:
    """Return the fields of an archive commit; ``None`` for any other commit.

    Raises ``Malformed`` if ``data`` is not a commit.
    """
    commit = parse_commit(data)
    match = _MESSAGE.fullmatch(commit.message)
    if match is None or commit.author_name != AUTHOR:
        return None
    count = int(match[1])
    return ArchiveCommit(commit.tree, commit.parents[:count], commit.parents[count:], commit.author_seconds)


class _Part(NamedTuple):
    """New elements of a set, and the tips and the time of their commit."""

    archive: Archive
    tips: Sequence[Oid]
    seconds: int


def added(reader: Reader, tip: Oid | None, after: Archive) -> Merged:
    """Return the commits that extend the set at ``tip`` to its superset ``after``; or no commit if the sets are equal.

    docs/decisions/0096 explains the times of the commits, and why more new tips than one commit can have are merged in
    pairs. Raises ``Malformed``.
    """
    before = NONE if tip is None else at(reader, tip)
    if after == before:
        return Merged(tip)
    earliest = 0 if tip is None else grow_only_sets.seconds_of(reader, tip) + 1
    parts = list(_parts(reader, before, after))
    if len(parts) == 1:
        parents = [] if tip is None else [tip]
        return Merged(*SET.commit(after, parents, max(earliest, parts[0].seconds), parts[0].tips))
    objects: dict[Oid, tuple[Kind, bytes]] = {}
    oid, part = _write_union(parts, objects)
    if tip is not None:
        oid, joined = SET.commit(after, sorted([tip, oid]), max(earliest, part.seconds + 1))
        objects.update(joined)
    return Merged(oid, objects)


def _write_union(parts: Sequence[_Part], objects: dict[Oid, tuple[Kind, bytes]]) -> tuple[Oid, _Part]:
    """Add the commits of all parts and of their unions, in pairs, to ``objects``; return the last one and its part."""
    if len(parts) == 1:
        part, parents = parts[0], list[Oid]()
    else:
        middle = len(parts) // 2
        (one, ours), (other, theirs) = (_write_union(half, objects) for half in (parts[:middle], parts[middle:]))
        part = _Part(ours.archive | theirs.archive, (), max(ours.seconds, theirs.seconds) + 1)
        parents = sorted([one, other])
    oid, written = SET.commit(part.archive, parents, part.seconds, part.tips)
    objects.update(written)
    return oid, part


def _parts(reader: Reader, before: Archive, after: Archive) -> Iterator[_Part]:
    """Yield what ``before`` lacks of ``after``, ordered by time, in parts of at most ``TIPS`` tips."""
    pieces: list[tuple[int, str, list[End]]] = []
    for sid, turn in after.turns.items():
        new = sorted(after.of(sid) - before.of(sid))
        if new or turn != before.turns.get(sid):
            for at in range(0, max(1, len(new)), TIPS):
                piece = new[at : at + TIPS]
                pieces.append((max((_seconds_or_zero(reader, oid) for _, oid in piece), default=0), sid, piece))
    turns: dict[str, int] = {}
    ends: dict[str, frozenset[End]] = {}
    tips: dict[Oid, None] = {}
    newest = 0
    for seconds, sid, piece in sorted(pieces):
        if tips and len(tips) + len(piece) > TIPS:
            yield _Part(Archive(turns, ends), list(tips), newest)
            turns, ends, tips = {}, {}, {}
        turns[sid], ends[sid] = after.turns[sid], ends.get(sid, frozenset()) | frozenset(piece)
        tips |= dict.fromkeys(oid for _, oid in piece)
        newest = seconds
    yield _Part(Archive(turns, ends), list(tips), newest)


def _seconds_or_zero(reader: Reader, oid: Oid) -> int:
    """Return the time of a commit; 0 if it cannot be read."""
    try:
        return grow_only_sets.seconds_of(reader, oid)
    except DAMAGE:
        return 0


def _before(reader: Reader, oid: Oid) -> tuple[Oid, ...]:
    found = link(reader.read(oid)[1])
    if found is None:
        raise Malformed("not a commit of the archive set", where=oid)
    return found.before


SET = GrowOnlySet(
    refs.ARCHIVE,
    NONE,
    author=AUTHOR,
    at=at,
    before=_before,
    tree_of=tree_of,
    message=lambda length, before: f"{length} archived\n\nGoes-on-from: {len(before)}\n",
)

read, is_ancestor, merge, encode = SET.read, SET.is_ancestor, SET.merge, SET.encode
"""Functions that read the set of a store, test whether a commit is an ancestor, merge two tips, and encode a commit."""


def named(archive: Archive) -> dict[str, Oid]:
    """Return every archived tip by a unique name that includes its session.

    The tips are used to walk all archived histories.
    """
    return {refs.leaf(sid, f"{branch}@{oid}"): oid for sid, found in archive.ends.items() for branch, oid in found}


class UnarchivedStore(StoreProxy):
    """A read-only view of a store in which archived sessions have refs, like other sessions."""

    @classmethod
    def of(cls, store: ObjectStore) -> ObjectStore:
        """Return the view of ``store``; ``store`` itself if nothing is archived or the archive cannot be read."""
        try:
            return cls(store, read(store)) if store.ref(refs.ARCHIVE) is not None else store
        except GitSessionError:
            return store

    def __init__(self, store: ObjectStore, archive: Archive) -> None:
        super().__init__(store)
        self._archive = archive
        self._known: dict[str, dict[str, Oid]] = {}

    def ref(self, name: str) -> RefValue | None:
        return self._store.ref(name) or self._refs_of(refs.session_of(name)).get(name)

    def refs(self, prefix: str) -> Mapping[str, RefValue]:
        found = self._store.refs(prefix)
        if prefix.startswith(refs.SESSIONS) and prefix != refs.SESSIONS:
            sids = [prefix.removeprefix(refs.SESSIONS).partition("/")[0]]
        else:
            sids = list(self._archive) if refs.SESSIONS.startswith(prefix) else []
        for sid in sids:
            archived = {name: oid for name, oid in self._refs_of(sid).items() if name.startswith(prefix)}
            found = {**archived, **found}
        return dict(sorted(found.items()))

    def _refs_of(self, sid: str) -> dict[str, Oid]:
        if sid not in self._archive:
            return {}
        if sid not in self._known:
            self._known[sid] = ends(self._store.read, sid, self._archive)
        return self._known[sid]


class ArchiveView(UnarchivedStore):
    """A read-only view of a store with only the archived sessions."""

    def ref(self, name: str) -> RefValue | None:
        sid = refs.session_of(name)
        return self._refs_of(sid).get(name) if sid else self._store.ref(name)

    def refs(self, prefix: str) -> Mapping[str, RefValue]:
        if not prefix.startswith(refs.SESSIONS):
            return self._store.refs(prefix)
        return {name: value for name, value in super().refs(prefix).items() if refs.session_of(name) in self._archive}


def ends(read: histories.Read, sid: str, archive: Archive, current: Mapping[str, Oid] | None = None) -> dict[str, Oid]:
    """Return the refs of a session after a restore. ``current``: its refs before the restore.

    The refs include all archived tips, and no branch is overwritten. If one of two tips of a branch continues the
    other, the longer history is used. If the tips have diverged, one branch is renamed (see ``store.histories``).
    """
    found = dict(current or {})
    for branch, oid in sorted(archive.of(sid)):
        name = refs.leaf(sid, branch)
        existing = found.get(name)
        if existing is not None and not reaches(read, existing, oid) and not reaches(read, oid, existing):
            name = histories.unused_name(read, found.get, name, oid, existing)
            existing = found.get(name)
        if existing is None or not reaches(read, existing, oid):
            found[name] = oid
    return found


def reaches(read: histories.Read, end: Oid, oid: Oid) -> bool:
    """Return whether ``oid`` is in the history of ``end``, as far as the history can be read.

    Raises ``Unavailable``.
    """
    try:
        return end == oid or histories.holds(read, end, oid)
    except DAMAGE:
        return False
