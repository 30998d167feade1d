"""Validation of the refs of the two grow-only sets, the archive and the tombstone set.

The bytes of both sets must be canonical. The archive's ref must lead to all tips in the archive. The ref of the
tombstone set may lead only to the set.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

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
    LimitExceeded,
    Limits,
    Proposed,
)

TIPS_MAX = 2 * archive_set.TIPS
_CACHE_SIZE = 4
"""Number of trees and of files of the archive that are kept in memory."""
_COMMITS_MAX = 10_000
"""Number of new commits that a set may have. The archive may have more, if a push may have more entries."""
FILE_BYTES_MAX = TREE_BYTES_MAX = 64 * MEBIBYTE


def validate_archive(
    reader: GitReader, move: Proposed, limits: Limits, deadline: Deadline
) -> tuple[Fault | None, list[Proposed]]:
    """Return the fault of a new value of the archive's ref, and the new tips in the archive.

    The new tips are returned as proposed refs, to be validated like other refs.
    """
    if move.new is None:
        return Fault("delete", "the archive cannot be deleted"), []
    try:
        known = {oid for name, oid in reader.known.items() if name in ARCHIVES}
        if move.old is not None:
            known.add(move.old)
        tips = _Walk(reader, limits, deadline, known).new_tips(move.new)
        if move.old is not None and not archive_set.is_ancestor(reader, move.old, move.new):
            return Fault("rewind", "it does not continue this repository's archive: run `gitsession sync`"), []
    except LimitExceeded as error:
        return Fault("limit", str(error)), []
    except GitSessionError as error:
        return Fault("archive", str(error)), []
    return None, [tip for tip in tips if reader.known.get(tip.ref) != tip.new]


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
    """A walk over the new commits of the archive. Each commit is read after its parents.

    A file that a parent has too is not compared again.
    """

    def __init__(self, reader: GitReader, limits: Limits, deadline: Deadline, known: Iterable[Oid]) -> None:
        self._reader, self._limits, self._deadline = reader, limits, deadline
        self._known = [oid for oid in sorted(known) if reader.contains(oid)]
        self._trees = {oid: archive_set.tree_at(reader, oid) for oid in self._known}
        """The trees of the known and the validated commits."""
        self._facts_of = functools.cache(self._validate_file)
        self._read_tree = functools.lru_cache(_CACHE_SIZE)(functools.partial(archive_set.read_tree, reader))
        self._read_file = functools.lru_cache(_CACHE_SIZE)(functools.partial(archive_set.read_file, reader))

    def new_tips(self, tip: Oid) -> list[Proposed]:
        """Validate the commits from the known ones to ``tip``; return the tips in ``tip`` that no known commit has.

        Raises ``Malformed`` if a commit is invalid, and ``LimitExceeded``.
        """
        stack, new, new_max = [tip], set[Oid](), max(_COMMITS_MAX, self._limits.entries)
        while stack:
            self._deadline.check()
            oid = stack[-1]
            if oid in self._trees:
                stack.pop()
                continue
            commit = self._link(oid)
            new.add(oid)
            if len(new) > new_max:
                raise LimitExceeded(f"more than {new_max:,} new commits")
            missing = [parent for parent in commit.before if not self._is_validated(parent)]
            if missing:
                stack += missing
            else:
                self._validate(oid, commit)
                self._trees[oid] = commit.tree
        changed = self._changed_files(self._trees[tip], [self._trees[oid] for oid in self._known])
        return [found for part, known in changed for found in new_tips(part, known)]

    def _is_validated(self, oid: Oid) -> bool:
        """Return whether a commit is known, continued by a known one, or was validated now."""
        if oid not in self._trees and oid in self._continued:
            self._trees[oid] = archive_set.tree_at(self._reader, oid)
        return oid in self._trees

    @functools.cached_property
    def _continued(self) -> set[Oid]:
        """The commits of the archive that the known ones continue. They were validated before, and all are read."""
        found: set[Oid] = set()
        for tip in self._known:
            with suppress(GitSessionError):  # the store's own archive is damaged: what it continues is validated again
                found.update(archive_set.SET.commits(self._reader, tip))
        return found

    def _link(self, oid: Oid) -> archive_set.ArchiveCommit:
        _check_size(self._reader, oid, "commit", COMMIT_BYTES_MAX)
        commit = archive_set.link(self._reader.read(oid)[1])
        if commit is None:
            raise Malformed("not the canonical form of an archive commit", where=oid)
        return commit

    def _validate(self, oid: Oid, commit: archive_set.ArchiveCommit) -> None:
        """Raise ``Malformed`` if a commit is invalid."""
        if len(commit.tips) > TIPS_MAX:
            raise Malformed(f"more than {TIPS_MAX:,} tips in one commit", where=oid)
        _check_size(self._reader, commit.tree, "tree", COMMIT_BYTES_MAX)
        files = self._read_tree(commit.tree)
        size = length = 0
        for name, blob in files.items():
            facts = self._facts_of(name, blob)
            size, length = size + facts.size, length + facts.length
            if size > self._limits.whole_bytes:
                raise Malformed(f"more than {self._limits.whole_bytes:,} bytes", where=name)
        encoded = archive_set.encode(commit.tree, length, commit.before, commit.seconds, commit.tips)
        if oid_of("commit", encoded) != oid:
            raise Malformed("not the canonical form of an archive commit", where=oid)
        base_trees = [self._trees[parent] for parent in commit.before]
        new: set[Oid | None] = set()
        listed: set[Oid] = set()
        for part, base in self._changed_files(commit.tree, base_trees):
            if not base <= part:
                raise Malformed("the archive lacks elements of its parents", where=oid)
            new |= {tip.new for tip in new_tips(part, base)}
            listed |= _ends_of(part)
        tips = set(commit.tips)
        if not new <= tips and not new <= tips | self._read_ends(base_trees):
            raise Malformed("the archive lists tips that are not reachable from its commit", where=oid)
        if not tips <= listed and not tips <= self._read_ends([commit.tree]):
            raise Malformed("the archive does not list all tips that are reachable from its commit", where=oid)

    def _changed_files(self, tree: Oid, base_trees: Iterable[Oid]) -> Iterator[tuple[Archive, Archive]]:
        """Yield two sets for each file that differs from ``base_trees``.

        They are the set in the file, and the union of the sets in the files of that name in ``base_trees``.
        """
        files, bases = self._read_tree(tree), [self._read_tree(base) for base in base_trees]
        for name in sorted(files.keys() | {name for base in bases for name in base}):
            blob, others = files.get(name), {base[name] for base in bases if name in base}
            if others != {blob}:
                base = functools.reduce(operator.or_, (self._read_file(name, other) for other in sorted(others)), NONE)
                yield NONE if blob is None else self._read_file(name, blob), base

    def _read_ends(self, trees: Iterable[Oid]) -> set[Oid]:
        files = {file for tree in trees for file in self._read_tree(tree).items()}
        return {end for name, blob in files for end in _ends_of(self._read_file(name, blob))}

    def _validate_file(self, name: str, blob: Oid) -> _FileFacts:
        self._deadline.check()
        size = _check_size(self._reader, blob, "blob", FILE_BYTES_MAX)
        part = self._read_file(name, blob)
        encoded = {name: oid_of("blob", data) for name, data in archive_set.encode_files(part).items()}
        if encoded != {name: blob}:
            raise Malformed("not the canonical form of a file of the archive", where=name)
        return _FileFacts(size, len(part))


class _FileFacts(NamedTuple):
    """The size of a file in bytes, and the number of archived sessions in it."""

    size: int
    length: int


def _ends_of(archive: Archive) -> set[Oid]:
    return {end for ends in archive.ends.values() for _, end in ends}


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
        new = reader.new([move.new], current_tips, _COMMITS_MAX)
        if new is None:
            return Fault("limit", f"more than {_COMMITS_MAX:,} new commits"), known
        new_set = _read_set(reader, move.new, limits)
        for oid in new:
            deadline.check()
            if not _read_set(reader, oid, limits) <= new_set:
                return Fault("tombstones", f"the set lacks elements of its ancestor {oid[:10]}"), known
        if move.old is not None and not tombstone_set.at(reader, move.old) <= new_set:
            return Fault("tombstones", "the set lacks elements of this repository's set"), known
    except LimitExceeded as error:
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
    tree, _ = tombstone_set.tree_of(tombstones)
    expected = tombstone_set.SET.encode(tree, len(tombstones), commit.parents, commit.author_seconds)
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
