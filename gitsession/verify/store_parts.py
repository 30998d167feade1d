"""Parts of a large store that can be checked one after the other, so that memory does not grow with the store.

Sessions whose histories have the same root are in one part, because their entries are compared with each other. git
lists the histories. Its output only determines the parts: the check itself reads each commit.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gitsession.errors import Unavailable
from gitsession.git import process
from gitsession.git.types import Oid, RefValue
from gitsession.store import refs

ENTRIES_MIN = 4_000
"""Minimum number of entries in a part, except in the last one."""

_INDEX_BYTES_MIN = 1 << 20
"""Size of the pack indexes from which a store is checked in parts: about 11,000 entries."""

_OID_BYTES = 20


class StorePart(NamedTuple):
    """A part of a store.

    Attributes:
        tips: Refs of sessions, with their values.
        active: Refs that select an active branch.
        entries: Ids of the entries of these sessions, 20 bytes each; ``None`` if they are not listed.
    """

    tips: Mapping[str, Oid]
    active: Mapping[str, RefValue]
    entries: bytes | None = None

    def oids(self) -> list[Oid]:
        """Return the ids of the listed entries."""
        listed = (self.entries or b"").hex()
        return [listed[at : at + 40] for at in range(0, len(listed), 40)]


def divide(git_dir: Path, tips: Mapping[str, Oid], active: Mapping[str, RefValue]) -> Sequence[StorePart]:
    """Divide a store into parts. A small store, and a store whose histories git cannot list, are one part."""
    indexes = (git_dir / "objects" / "pack").glob("*.idx")
    if sum(index.stat().st_size for index in indexes) < _INDEX_BYTES_MIN:
        return [StorePart(tips, active)]
    try:
        groups = _groups(git_dir, tips)
    except Unavailable:  # for example, a commit is missing
        return [StorePart(tips, active)]
    names: dict[str, list[str]] = {}
    for name in tips:
        names.setdefault(refs.session_of(name), []).append(name)
    unlisted = dict(active)
    parts = []
    for sids, entries in _in_batches(groups):
        selected = [name for name in map(refs.active, sids) if name in unlisted]
        part_tips = {name: tips[name] for sid in sids for name in names[sid]}
        parts.append(StorePart(part_tips, {name: unlisted.pop(name) for name in selected}, bytes(entries)))
    return [*parts, StorePart({}, unlisted, b"")] if unlisted or not parts else parts


def _in_batches(groups: Iterable[tuple[list[str], bytearray]]) -> Iterator[tuple[list[str], bytearray]]:
    sids, entries = list[str](), bytearray()
    for group_sids, group_entries in groups:
        sids += group_sids
        entries += group_entries
        if len(entries) >= ENTRIES_MIN * _OID_BYTES:
            yield sids, entries
            sids, entries = [], bytearray()
    if sids:
        yield sids, entries


class _Group:
    """Sessions whose histories have a common root. ``into``: the group with which this group was united."""

    __slots__ = ("entries", "into", "sids")

    def __init__(self) -> None:
        self.sids: list[str] = []
        self.entries = bytearray()
        self.into: _Group | None = None

    def last(self) -> _Group:
        """Return the group that contains this group."""
        group = self
        while group.into is not None:
            group = group.into
        return group


def _unite(one: _Group, other: _Group) -> _Group:
    one, other = one.last(), other.last()
    if one is not other:
        if len(one.entries) < len(other.entries):
            one, other = other, one
        one.sids += other.sids
        one.entries += other.entries
        other.into, other.entries, other.sids = one, bytearray(), []
    return one


def _groups(git_dir: Path, tips: Mapping[str, Oid]) -> list[tuple[list[str], bytearray]]:
    """Return groups of sessions, each with its entries, sorted by session. Raises ``Unavailable``."""
    groups: dict[str, _Group] = {}
    expected: dict[Oid, _Group] = {}
    """Commits that were not listed yet, each with the group of its refs and children."""
    for name, oid in tips.items():
        group = groups.setdefault(refs.session_of(name), _Group())
        expected[oid] = _unite(expected.get(oid, group), group)
    for sid, group in groups.items():
        group.last().sids.append(sid)
    for oid, parent in _listed(git_dir, tips.values()):
        if oid not in expected:
            raise Unavailable(f"`git rev-list` listed the commit {oid}, to which no ref leads")
        group = expected.pop(oid).last()
        group.entries += bytes.fromhex(oid)
        if parent:
            expected[parent] = _unite(expected.get(parent, group), group)
    united = {id(group): group for group in (found.last() for found in groups.values())}
    return sorted((sorted(group.sids), group.entries) for group in united.values())


def _listed(git_dir: Path, tips: Iterable[Oid]) -> Iterator[tuple[str, str]]:
    """Yield all commits with their first parents (or ""), children first. Raises ``Unavailable``."""
    arguments = ("rev-list", "--topo-order", "--first-parent", "--parents", "--stdin")
    output = process.run(git_dir, *arguments, stdin="".join(f"{oid}\n" for oid in tips).encode()).out
    for line in io.BytesIO(output):
        oid, *parents = line.decode().split()
        yield oid, next(iter(parents), "")
