"""Validation of the refs of the two grow-only sets, the archive and the tombstone set. Their bytes must be canonical.

All sessions in the archive must be reachable from its ref. No other objects are reachable from the tombstone set.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitsession.archive import archive_set
from gitsession.archive.archive_set import NONE, Archive
from gitsession.errors import GitSessionError, Malformed
from gitsession.git.objects import oid_of, parse_commit, parse_tree
from gitsession.git.types import Oid
from gitsession.sessions import tombstone_set
from gitsession.sessions.tombstone_set import Tombstones
from gitsession.store import refs
from gitsession.validation.quarantine_reader import (
    COMMIT_BYTES_MAX,
    MEBIBYTE,
    NOT_SENT,
    Deadline,
    Fault,
    GitReader,
    Limits,
    Proposed,
    ValidationTimeout,
)

COMMITS_MAX = 10_000
TIPS_MAX = 2 * archive_set.TIPS
FILE_BYTES_MAX = TREE_BYTES_MAX = 64 * MEBIBYTE


def validate_archive(read: GitReader, move: Proposed, limits: Limits) -> tuple[Fault | None, list[Proposed]]:
    """Return the fault of a new value of the ref, and the new tips in the archive.

    The tips are validated like refs with their names and values.
    """
    if move.new is None:
        return Fault("delete", "the archive cannot be deleted"), []
    try:
        known = {oid for name, oid in read.known.items() if name.endswith(refs.ARCHIVE.rpartition("/heads")[2])}
        if move.old is not None:
            known.add(move.old)
        said = _Walk(read, limits, known).to(move.new)
        if move.old is not None and not archive_set.is_behind(read, move.old, move.new):
            return Fault("rewind", "it does not continue this repository's archive: run `gitsession sync`"), []
        before = NONE
        for oid in sorted(known):
            before = before | archive_set.at(read, oid)
    except GitSessionError as error:
        return Fault("archive", str(error)), []
    return None, [move for move in _new(said, before) if read.known.get(move.ref) != move.new]


def is_held(read: GitReader, move: Proposed, archive: Oid) -> Fault | None:
    """Return a fault if the session of a new ref is archived and the archive already contains the value of the ref."""
    if move.old is not None or move.new is None:
        return None
    try:
        said = read.archive(archive)
        held = refs.session_of(move.ref) in said and said.holds(read.read, move.ref, move.new)
    except GitSessionError as error:
        return Fault("archive", str(error))
    return Fault("archived", "its session is archived: run `gitsession sync` to delete the ref") if held else None


class _Walk:
    """A walk over the new commits of the archive. Each commit is read after its parents."""

    def __init__(self, read: GitReader, limits: Limits, known: Iterable[Oid]) -> None:
        self._read, self._limits = read, limits
        self._said: dict[Oid, Archive] = {oid: archive_set.at(read, oid) for oid in known if read.contains(oid)}
        self._steps = 0

    def to(self, tip: Oid) -> Archive:
        stack = [tip]
        while stack:
            oid = stack[-1]
            if oid in self._said:
                stack.pop()
                continue
            found = self._link(oid)
            missing = [before for before in found.before if before not in self._said]
            if missing:
                stack += missing
                if len(stack) > COMMITS_MAX:
                    raise Malformed(f"more than {COMMITS_MAX:,} new commits")
                continue
            self._said[oid] = self._judged(oid, found)
        return self._said[tip]

    def _link(self, oid: Oid) -> archive_set.ArchiveCommit:
        _check_size(self._read, oid, "commit", COMMIT_BYTES_MAX)
        found = archive_set.link(self._read.read(oid)[1])
        if found is None:
            raise Malformed("not the canonical form of an archive commit", where=oid)
        return found

    def _judged(self, oid: Oid, found: archive_set.ArchiveCommit) -> Archive:
        """Return the archive of a commit. Raises ``Malformed`` if it is invalid."""
        read = self._read
        self._steps += 1
        if self._steps > COMMITS_MAX:
            raise Malformed(f"more than {COMMITS_MAX:,} new commits")
        if len(found.tips) > TIPS_MAX:
            raise Malformed(f"more than {TIPS_MAX:,} tips in one commit", where=oid)
        _check_size(read, found.tree, "tree", COMMIT_BYTES_MAX)
        room = self._limits.whole_bytes
        for _, name, blob in parse_tree(read.read(found.tree)[1]):
            room -= _check_size(read, blob, "blob", FILE_BYTES_MAX)
            if room < 0:
                raise Malformed(f"more than {self._limits.whole_bytes:,} bytes", where=name[:80])
        said = archive_set.at_tree(read, found.tree)
        written = archive_set.encode(said, found.before, found.seconds, found.tips)
        if oid_of("commit", written) != oid:
            raise Malformed("not the canonical form of an archive commit", where=oid)
        before = NONE
        for one in found.before:
            if not self._said[one] <= said:
                raise Malformed("the archive lacks elements of its parents", where=oid)
            before = before | self._said[one]
        listed = {end for ends in said.ends.values() for _, end in ends}
        new = {move.new for move in _new(said, before)}
        if not new <= set(found.tips) | {end for ends in before.ends.values() for _, end in ends}:
            raise Malformed("it lists tips that it does not reach", where=oid)
        if not set(found.tips) <= listed:
            raise Malformed("it reaches tips that it does not list", where=oid)
        return said


def _new(said: Archive, before: Archive) -> list[Proposed]:
    return [
        Proposed(refs.leaf(sid, branch), None, oid)
        for sid, ends in sorted(said.ends.items())
        for branch, oid in sorted(ends - before.of(sid))
    ]


def _check_size(read: GitReader, oid: Oid, kind: str, most: int) -> int:
    head = read.head(oid)
    if head is None or head.kind != kind:
        raise Malformed(NOT_SENT if head is None else f"a {head.kind}, expected a {kind}", where=oid)
    if head.size > most:
        raise Malformed(f"{head.size:,} bytes (limit: {most:,})", where=oid)
    return head.size


def validate_tombstones(
    read: GitReader, move: Proposed, known: Tombstones, limits: Limits, until: Deadline
) -> tuple[Fault | None, Tombstones]:
    """Return the fault of a new value of the ref, and the tombstone set after the move."""
    if move.new is None:
        return Fault("delete", "the tombstone set cannot be deleted"), known
    try:
        if move.old is not None and not read.leads_to(move.new, move.old):
            return Fault("rewind", "it does not continue this repository's tombstone set: run `gitsession sync`"), known
        here = [oid for name, oid in read.known.items() if name == refs.TOMBSTONES]
        new = read.new([move.new], here, COMMITS_MAX)
        if new is None:
            return Fault("limit", f"more than {COMMITS_MAX:,} new commits"), known
        after = _purged(read, move.new, limits)
        for oid in new:
            until.check()
            if not _purged(read, oid, limits) <= after:
                return Fault("tombstones", f"the set lacks elements of its ancestor {oid[:10]}"), known
        if move.old is not None and not tombstone_set.at(read, move.old) <= after:
            return Fault("tombstones", "the set lacks elements of this repository's set"), known
    except ValidationTimeout as error:
        return Fault("limit", str(error)), known
    except GitSessionError as error:
        return Fault("tombstones", str(error)), known
    return None, known | after


def _purged(read: GitReader, oid: Oid, limits: Limits) -> Tombstones:
    """Return the tombstone set of a commit. Raises ``Malformed`` if it is too large or its bytes are not canonical."""
    _check_size(read, oid, "commit", COMMIT_BYTES_MAX)
    data = read.read(oid)[1]
    commit = parse_commit(data)
    _check_sizes(read, commit.tree, limits)
    said = tombstone_set.at(read, oid)
    expected = tombstone_set.SET.encode(said, commit.parents, commit.author_seconds)
    if oid_of("commit", expected) != oid:
        raise Malformed("not the canonical form of a tombstone set", where=oid)
    return said


def _check_sizes(read: GitReader, tree: Oid, limits: Limits) -> None:
    _check_size(read, tree, "tree", COMMIT_BYTES_MAX)
    room = limits.whole_bytes
    for _, name, folder in parse_tree(read.read(tree)[1]):
        _check_size(read, folder, "tree", TREE_BYTES_MAX)
        rows = parse_tree(read.read(folder)[1])
        for head in read.heads(list({oid for *_, oid in rows})):
            room -= 0 if head is None else head.size
            if room < 0:
                raise Malformed(f"more than {limits.whole_bytes:,} bytes of records", where=name[:80])
