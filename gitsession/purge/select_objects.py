"""Selection of the objects that a purge deletes. They are selected by the tombstone set, not by reachability."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from gitsession import progress
from gitsession.codec import cbor
from gitsession.codec.digest import digest as digest_of
from gitsession.errors import Malformed
from gitsession.git.objects import SUBMODULE_MODE, TREE_MODE, parse_commit, parse_tree
from gitsession.git.types import Oid, Reader
from gitsession.model.entries import Fork
from gitsession.purge.rewriting import Rewriter
from gitsession.sessions import content, layout, node, tombstone_set
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.node import Node
from gitsession.sessions.tombstone_set import Tombstones


def find(
    reader: Reader, tombstones: Tombstones, kinds: Mapping[Oid, str], tips: Iterable[Oid], rewriter: Rewriter
) -> set[Oid]:
    """Select the objects that a purge deletes.

    These are the commits that the rewrite changes, the unreachable commits of purged sessions, and the objects that
    only these commits contain. Objects with purged bytes that no commit contains are also selected.

    Args:
        reader: Reader of the store's objects.
        tombstones: The tombstone set.
        kinds: Kinds of all objects.
        tips: Current values of the refs. Objects that are reachable from these values are not deleted.
        rewriter: Rewriter that has rewritten the refs.
    """
    commits = [oid for oid, kind in kinds.items() if kind == "commit"]
    affected = {oid for oid in progress.each("Selecting objects", commits) if rewriter.commit(oid) != oid}
    if tombstones.sessions:
        affected |= commits_of_purged_sessions(reader, tombstones, commits, tips)
    kept = objects_below(reader, (oid for oid in commits if oid not in affected))
    victims = affected | objects_below(reader, affected, without=kept)
    for oid, kind in kinds.items():
        if oid in kept or oid in victims:
            continue
        if kind == "blob" and (tombstones.has_file(oid) or tombstones.has_entry(digest_of(reader.read(oid)[1]).hex())):
            victims.add(oid)
    loose_trees = [oid for oid, kind in kinds.items() if kind == "tree" and oid not in kept and oid not in victims]
    while more := {oid for oid in loose_trees if oid not in victims and _contains_any(reader, oid, victims)}:
        victims |= more
    return victims


def old_sets(reader: Reader, kinds: Mapping[Oid, str], tips: Iterable[Oid]) -> set[Oid]:
    """Select the tombstone sets that were never sent and are no longer reachable (see ``tombstone_set.add``)."""
    sets = {oid for oid, kind in kinds.items() if kind == "commit" and _is_set(reader, oid)}
    kept = reachable_commits(reader, (oid for oid in tips if oid in sets))
    old = sets - kept
    return old | objects_below(reader, old, without=objects_below(reader, kept)) if old else old


def _is_set(reader: Reader, oid: Oid) -> bool:
    if not reader.read(oid)[1].endswith(b" purged\n"):
        return False
    try:
        tombstone_set.at(reader, oid)
    except DAMAGE:
        return False
    return True


def digests(reader: Reader, victims: AbstractSet[Oid], kinds: Mapping[Oid, str]) -> Iterator[bytes]:
    """Yield the digests of the entries whose trees are deleted with ``victims``.

    No remaining commit has these trees.
    """
    for oid in victims:
        if kinds.get(oid) == "commit":
            try:
                tree = parse_commit(reader.read(oid)[1]).tree
                if tree in victims:
                    parts = content.entry_tree_at(reader, tree)
                    yield parts.digest
            except DAMAGE:
                continue


def objects_below(reader: Reader, commits: Iterable[Oid], *, without: AbstractSet[Oid] = frozenset()) -> set[Oid]:
    """Return the trees and blobs in ``commits``, except ``without`` and the objects below ``without``."""
    found: set[Oid] = set()
    for commit in commits:
        try:
            pending = [parse_commit(reader.read(commit)[1]).tree]
        except DAMAGE:
            continue
        while pending:
            tree = pending.pop()
            if tree in found or tree in without:
                continue
            found.add(tree)
            for mode, _, oid in _rows(reader, tree):
                if mode == TREE_MODE:
                    pending.append(oid)
                elif mode != SUBMODULE_MODE and oid not in without:
                    found.add(oid)
    return found


def reachable_commits(reader: Reader, tips: Iterable[Oid]) -> set[Oid]:
    """Return the commits that are reachable from ``tips``."""
    found = set(tips)
    pending = list(found)
    while pending:
        parents = _parents(reader, pending.pop())
        pending += [oid for oid in parents if oid not in found]
        found.update(parents)
    return found


def commits_of_purged_sessions(
    reader: Reader, tombstones: Tombstones, commits: Iterable[Oid], tips: Iterable[Oid]
) -> set[Oid]:
    """Select the commits of purged sessions that are not reachable from a ref.

    A commit belongs to the session whose first entry is nearest in the history of the commit.

    Unreachable commits that have such a commit as a parent are also selected. An example is a commit of an earlier
    version of the operation log. Without its parent, such a commit would be incomplete, and its command may contain a
    title or a label.
    """
    commits = list(commits)
    reachable = reachable_commits(reader, tips)
    first_digests = frozenset[str]().union(*tombstones.sessions.values())
    is_purged_by_oid: dict[Oid, bool] = {}
    for commit in commits:
        history: list[Oid] = []
        at: Oid | None = commit
        while at is not None and at not in is_purged_by_oid:
            history.append(at)
            at, is_purged = _step_back(reader, at, first_digests)
            if is_purged is not None:
                is_purged_by_oid[history[-1]] = is_purged
                break
        is_purged = is_purged_by_oid.get(at or "", is_purged_by_oid.get(history[-1], False) if history else False)
        is_purged_by_oid |= dict.fromkeys(history, is_purged)
    found = {oid for oid in commits if is_purged_by_oid[oid] and oid not in reachable}
    children: dict[Oid, list[Oid]] = {}
    for oid in commits:
        if oid not in reachable and oid not in found:
            for parent in _parents(reader, oid):
                children.setdefault(parent, []).append(oid)
    pending = list(found)
    while pending:
        more = [oid for oid in children.get(pending.pop(), ()) if oid not in found]
        found.update(more)
        pending += more
    return found


def _step_back(reader: Reader, oid: Oid, first_digests: AbstractSet[str]) -> tuple[Oid | None, bool | None]:
    """Return the parent of ``oid``.

    If ``oid`` is the first entry of a session, return ``None``, and whether its digest is in ``first_digests``.
    """
    try:
        data = reader.read(oid)[1]
        parents = parse_commit(data).parents
    except DAMAGE:
        return None, False
    try:
        entry: Node | None = node.parse(oid, data)
    except Malformed:
        entry = None
    if entry is not None and entry.source is None and (not parents or entry.kind == Fork.kind):
        return None, _digest(reader, entry) in first_digests
    return (parents[0], None) if parents else (None, False)


def _digest(reader: Reader, entry: Node) -> str:
    try:
        parts = content.entry_tree(reader, entry)
    except DAMAGE:
        return ""
    return entry.replaces.hex() or parts.digest.hex()


def _parents(reader: Reader, commit: Oid) -> tuple[Oid, ...]:
    try:
        return parse_commit(reader.read(commit)[1]).parents
    except DAMAGE:
        return ()


def _rows(reader: Reader, tree: Oid) -> list[tuple[str, str, Oid]]:
    try:
        kind, data = reader.read(tree)
        return parse_tree(data) if kind == "tree" else []
    except DAMAGE:
        return []


def _contains_any(reader: Reader, tree: Oid, victims: AbstractSet[Oid]) -> bool:
    return any(oid in victims for _, _, oid in _rows(reader, tree))


def texts(reader: Reader, gone: Iterable[Oid]) -> Iterator[bytes]:
    """Yield the texts of the readable entries in ``gone``.

    The text of an agent's entry is its stored bytes. The texts of a gitsession entry are its strings.
    """
    for oid in gone:
        try:
            entry = node.load(reader, oid)
            parts = content.entry_tree(reader, entry)
            if parts.form != layout.OWN:
                yield parts.stored
                continue
            data = content.payload_of(reader, entry)
            yield from (data[start:end] for _, is_text, start, end in cbor.strings(data) if is_text)
        except DAMAGE:
            continue
