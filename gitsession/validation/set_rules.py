"""Validation of the refs of the two grow-only sets, the archive and the tombstone set.

The bytes of both sets must be canonical. The archive's ref must lead to all tips in the archive. The ref of the
tombstone set may lead only to the set.
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
    ARCHIVES,
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


def validate_archive(reader: GitReader, move: Proposed, limits: Limits) -> tuple[Fault | None, list[Proposed]]:
    """Return the fault of a new value of the archive's ref, and the new tips in the archive.

    The new tips are returned as proposed refs, to be validated like other refs.
    """
    if move.new is None:
        return Fault("delete", "the archive cannot be deleted"), []
    try:
        known = {oid for name, oid in reader.known.items() if name in ARCHIVES}
        if move.old is not None:
            known.add(move.old)
        archive = _Walk(reader, limits, known).archive_at(move.new)
        if move.old is not None and not archive_set.is_ancestor(reader, move.old, move.new):
            return Fault("rewind", "it does not continue this repository's archive: run `gitsession sync`"), []
        known_archive = NONE
        for oid in sorted(known):
            known_archive = known_archive | archive_set.at(reader, oid)
    except GitSessionError as error:
        return Fault("archive", str(error)), []
    return None, [move for move in new_tips(archive, known_archive) if reader.known.get(move.ref) != move.new]


def archived_fault(reader: GitReader, move: Proposed, archive: Oid) -> Fault | None:
    """Return a fault if ``move`` is a new ref of an archived session and the archive already contains its value."""
    if move.old is not None or move.new is None:
        return None
    try:
        archive_of_tip = reader.archive(archive)
        is_archived = refs.session_of(move.ref) in archive_of_tip and archive_of_tip.holds(
            reader.read, move.ref, move.new
        )
    except GitSessionError as error:
        return Fault("archive", str(error))
    return (
        Fault("archived", "its session is archived: run `gitsession sync` to delete the ref") if is_archived else None
    )


class _Walk:
    """A walk over the new commits of the archive. Each commit is read after its parents."""

    def __init__(self, reader: GitReader, limits: Limits, known: Iterable[Oid]) -> None:
        self._reader, self._limits = reader, limits
        self._archives: dict[Oid, Archive] = {oid: archive_set.at(reader, oid) for oid in known if reader.contains(oid)}
        self._steps = 0

    def archive_at(self, tip: Oid) -> Archive:
        stack = [tip]
        while stack:
            oid = stack[-1]
            if oid in self._archives:
                stack.pop()
                continue
            commit = self._link(oid)
            missing = [parent for parent in commit.before if parent not in self._archives]
            if missing:
                stack += missing
                if len(stack) > COMMITS_MAX:
                    raise Malformed(f"more than {COMMITS_MAX:,} new commits")
                continue
            self._archives[oid] = self._validate(oid, commit)
        return self._archives[tip]

    def _link(self, oid: Oid) -> archive_set.ArchiveCommit:
        _check_size(self._reader, oid, "commit", COMMIT_BYTES_MAX)
        commit = archive_set.link(self._reader.read(oid)[1])
        if commit is None:
            raise Malformed("not the canonical form of an archive commit", where=oid)
        return commit

    def _validate(self, oid: Oid, commit: archive_set.ArchiveCommit) -> Archive:
        """Return the archive of a commit. Raises ``Malformed`` if it is invalid."""
        reader = self._reader
        self._steps += 1
        if self._steps > COMMITS_MAX:
            raise Malformed(f"more than {COMMITS_MAX:,} new commits")
        if len(commit.tips) > TIPS_MAX:
            raise Malformed(f"more than {TIPS_MAX:,} tips in one commit", where=oid)
        _check_size(reader, commit.tree, "tree", COMMIT_BYTES_MAX)
        room = self._limits.whole_bytes
        for _, name, blob in parse_tree(reader.read(commit.tree)[1]):
            room -= _check_size(reader, blob, "blob", FILE_BYTES_MAX)
            if room < 0:
                raise Malformed(f"more than {self._limits.whole_bytes:,} bytes", where=name[:80])
        archive = archive_set.at_tree(reader, commit.tree)
        encoded = archive_set.encode(archive, commit.before, commit.seconds, commit.tips)
        if oid_of("commit", encoded) != oid:
            raise Malformed("not the canonical form of an archive commit", where=oid)
        base = NONE
        for parent in commit.before:
            if not self._archives[parent] <= archive:
                raise Malformed("the archive lacks elements of its parents", where=oid)
            base = base | self._archives[parent]
        listed_tips = {end for ends in archive.ends.values() for _, end in ends}
        new = {move.new for move in new_tips(archive, base)}
        if not new <= set(commit.tips) | {end for ends in base.ends.values() for _, end in ends}:
            raise Malformed("the archive lists tips that are not reachable from its commit", where=oid)
        if not set(commit.tips) <= listed_tips:
            raise Malformed("the archive does not list all tips that are reachable from its commit", where=oid)
        return archive


def new_tips(archive: Archive, before: Archive = NONE) -> list[Proposed]:
    """Return the tips in ``archive`` that are not in ``before``, as proposed refs."""
    return [
        Proposed(refs.leaf(sid, branch), None, oid)
        for sid, ends in sorted(archive.ends.items())
        for branch, oid in sorted(ends - before.of(sid))
    ]


def _check_size(reader: GitReader, oid: Oid, kind: str, bytes_max: int) -> int:
    head = reader.head(oid)
    if head is None or head.kind != kind:
        raise Malformed(NOT_SENT if head is None else f"expected a {kind}, found a {head.kind}", where=oid)
    if head.size > bytes_max:
        raise Malformed(f"{head.size:,} bytes (limit: {bytes_max:,})", where=oid)
    return head.size


def validate_tombstones(
    reader: GitReader, move: Proposed, known: Tombstones, limits: Limits, deadline: Deadline
) -> tuple[Fault | None, Tombstones]:
    """Return the fault of a new value of the tombstone set's ref, and the tombstone set after the move."""
    if move.new is None:
        return Fault("delete", "the tombstone set cannot be deleted"), known
    try:
        if move.old is not None and not reader.is_ancestor(move.new, move.old):
            return Fault("rewind", "it does not continue this repository's tombstone set: run `gitsession sync`"), known
        current_tips = [oid for name, oid in reader.known.items() if name == refs.TOMBSTONES]
        new = reader.new([move.new], current_tips, COMMITS_MAX)
        if new is None:
            return Fault("limit", f"more than {COMMITS_MAX:,} new commits"), known
        new_set = _read_set(reader, move.new, limits)
        for oid in new:
            deadline.check()
            if not _read_set(reader, oid, limits) <= new_set:
                return Fault("tombstones", f"the set lacks elements of its ancestor {oid[:10]}"), known
        if move.old is not None and not tombstone_set.at(reader, move.old) <= new_set:
            return Fault("tombstones", "the set lacks elements of this repository's set"), known
    except ValidationTimeout as error:
        return Fault("limit", str(error)), known
    except GitSessionError as error:
        return Fault("tombstones", str(error)), known
    return None, known | new_set


def _read_set(reader: GitReader, oid: Oid, limits: Limits) -> Tombstones:
    """Return the tombstone set of a commit. Raises ``Malformed`` if it is too large or its bytes are not canonical."""
    _check_size(reader, oid, "commit", COMMIT_BYTES_MAX)
    data = reader.read(oid)[1]
    commit = parse_commit(data)
    _check_sizes(reader, commit.tree, limits)
    tombstones = tombstone_set.at(reader, oid)
    expected = tombstone_set.SET.encode(tombstones, commit.parents, commit.author_seconds)
    if oid_of("commit", expected) != oid:
        raise Malformed("not the canonical form of a tombstone set", where=oid)
    return tombstones


def _check_sizes(reader: GitReader, tree: Oid, limits: Limits) -> None:
    _check_size(reader, tree, "tree", COMMIT_BYTES_MAX)
    room = limits.whole_bytes
    for _, name, folder in parse_tree(reader.read(tree)[1]):
        _check_size(reader, folder, "tree", TREE_BYTES_MAX)
        rows = parse_tree(reader.read(folder)[1])
        for head in reader.heads(list({oid for *_, oid in rows})):
            room -= 0 if head is None else head.size
            if room < 0:
                raise Malformed(f"more than {limits.whole_bytes:,} bytes of records", where=name[:80])
