"""The archive as commits: each says the whole set, and leads to the lines that are new in it.

A commit's first parents are the commits of the archive that it goes on from (none, one, or two that were joined), which
its message counts; the others are the ends of lines that it is the first to hold, so that git keeps them and a fetch
brings them. At most ``TIPS`` of them: git and its tools take thousands badly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gitsession.archive import archive_set
from gitsession.archive.archive_set import NONE, Archive, at, read
from gitsession.errors import Malformed
from gitsession.git.objects import encode_commit, oid_of, parse_commit
from gitsession.git.types import Kind, Oid, Reader
from gitsession.sessions import grow_only_sets
from gitsession.sessions.grow_only_sets import Merged

__all__ = ["NONE", "Archive", "Link", "added", "at", "encode", "is_behind", "link", "merge", "read"]

AUTHOR = "archive"
TIPS = 500

_MESSAGE = re.compile(rb"[0-9]{1,9} archived\n\nGoes-on-from: ([012])\n")


class Link(NamedTuple):
    """What a commit of the archive names. ``before``: those it goes on from; ``tips``: ends of lines."""

    tree: Oid
    before: tuple[Oid, ...]
    tips: tuple[Oid, ...]
    seconds: int


def link(data: bytes) -> Link | None:
    """``None`` for a commit that is none of the archive's. Raises ``Malformed`` for what is no commit."""
    commit = parse_commit(data)
    said = _MESSAGE.fullmatch(commit.message)
    if said is None or commit.author_name != AUTHOR:
        return None
    count = int(said[1])
    return Link(commit.tree, commit.parents[:count], commit.parents[count:], commit.author_seconds)


def encode(tree: Oid, archive: Archive, before: Sequence[Oid], tips: Sequence[Oid], seconds: int) -> bytes:
    """The bytes of a commit of the archive."""
    return encode_commit(
        tree=tree,
        parents=[*before, *tips],
        author_name=AUTHOR,
        author_seconds=seconds,
        committer_seconds=seconds,
        message=f"{len(archive)} archived\n\nGoes-on-from: {len(before)}\n".encode(),
    )


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
        made = _committed(said, [] if tip is None else [tip], tips, seconds)
        objects |= made.objects
        tip, seconds = made.oid, seconds + 1
    return Merged(tip, objects)


def _steps(before: Archive, after: Archive) -> Iterable[tuple[Archive, list[Oid]]]:
    """What one commit after another says, and the ends that are new with it."""
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


def merge(reader: Reader, ours: Oid | None, theirs: Oid | None) -> Merged:
    """One tip for two, as ``unions.merge`` has it."""

    def union(parents: list[Oid], seconds: int) -> Merged:
        return _committed(at(reader, parents[0]) | at(reader, parents[1]), parents, [], seconds)

    return grow_only_sets.merge(reader, ours, theirs, lambda oid: _before(reader, oid), union)


def is_behind(reader: Reader, old: Oid, new: Oid) -> bool:
    """Whether ``new`` goes on from ``old``."""
    return grow_only_sets.is_behind(lambda oid: _before(reader, oid), old, new)


def _before(reader: Reader, oid: Oid) -> tuple[Oid, ...]:
    found = link(reader.read(oid)[1])
    if found is None:
        raise Malformed("no commit of the archive", where=oid)
    return found.before


def _committed(archive: Archive, before: list[Oid], tips: list[Oid], seconds: int) -> Merged:
    tree, objects = archive_set.tree_of(archive)
    data = encode(tree, archive, before, tips, grow_only_sets.in_range(seconds))
    oid = oid_of("commit", data)
    return Merged(oid, {**objects, oid: ("commit", data)})
