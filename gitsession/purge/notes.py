"""The purge of git's notes (`refs/notes/`). Notes on removed commits are deleted; notes on rewritten commits are moved.

A note is a blob in a tree. The name of the blob is the id of the annotated commit. If there are many notes, git
distributes them over folders, and a name is split between the folders and the file. A user's note on a purged entry may
repeat purged content. So if a purge changes a notes ref, the purge also discards the earlier commits of the ref.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from gitsession.codec.message import trailers_of
from gitsession.errors import Malformed
from gitsession.git.objects import encode_tree, parse_commit, parse_tree
from gitsession.git.types import Oid, Reader
from gitsession.purge import select_objects
from gitsession.purge.rewriting import Rewriter
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.layout import FILE_MODE, TREE_MODE
from gitsession.sessions.tombstone_set import Tombstones

REFS = "refs/notes/"

_OID = re.compile(r"[0-9a-f]{40}")
_DEPTH_MAX = 20


def rewrite_notes(reader: Reader, tombstones: Tombstones, rewriter: Rewriter, new: Mapping[str, Oid]) -> dict[str, Oid]:
    """Return the new values of the notes refs. ``new``: the new values of all refs.

    New objects are added to ``rewriter``. Raises the errors of reading objects.
    """
    tips = {name: oid for name, oid in new.items() if name.startswith(REFS)}
    if not tips:
        return {}
    others = [oid for name, oid in new.items() if name not in tips]
    noted = {noted for oid in tips.values() for noted, _ in _notes(reader, parse_commit(reader.read(oid)[1]).tree)}
    removed = _removed_commits(reader, tombstones, rewriter, noted, others)
    return {name: _rewrite_ref(reader, oid, rewriter, removed) for name, oid in tips.items()}


def select_note_objects(
    reader: Reader,
    tombstones: Tombstones,
    rewriter: Rewriter,
    kinds: Mapping[Oid, str],
    refs: Mapping[str, Oid],
    deleted: AbstractSet[Oid],
) -> set[Oid]:
    """Select the current and earlier commits of notes refs that contain a note on a removed commit.

    The objects that only these commits contain are selected, too. ``kinds``: kinds of all objects. ``refs``: current
    values of all refs.
    ``deleted``: objects that are deleted in any case.
    """
    if not any(name.startswith(REFS) for name in refs):
        return set()
    commits = [oid for oid, kind in kinds.items() if kind == "commit" and oid not in deleted]
    noted_by_commit = {oid: noted for oid in commits if (noted := _noted_objects(reader, oid))}
    others = [oid for name, oid in refs.items() if not name.startswith(REFS)]
    removed = _removed_commits(reader, tombstones, rewriter, set().union(*noted_by_commit.values()), others)
    affected = {oid for oid, noted in noted_by_commit.items() if noted & removed}
    kept = select_objects.objects_below(reader, (oid for oid in commits if oid not in affected))
    return affected | select_objects.objects_below(reader, affected, without=kept)


def _removed_commits(
    reader: Reader, tombstones: Tombstones, rewriter: Rewriter, noted: AbstractSet[Oid], tips: Iterable[Oid]
) -> set[Oid]:
    """Return the commits in ``noted`` that are removed or replaced. ``tips``: values of the remaining refs."""
    present = {oid for oid in noted if _new_oid(rewriter, oid) is not None}
    removed = {oid for oid in present if rewriter.is_replaced(oid)}
    if tombstones.sessions:
        removed |= select_objects.commits_of_purged_sessions(reader, tombstones, present, tips)
    return removed


def _rewrite_ref(reader: Reader, tip: Oid, rewriter: Rewriter, removed: AbstractSet[Oid]) -> Oid:
    data = reader.read(tip)[1]
    tree = parse_commit(data).tree
    notes = dict(_notes(reader, tree))
    kept = {_new_oid(rewriter, noted) or noted: note for noted, note in notes.items() if noted not in removed}
    if kept == notes:
        return tip
    others = {name: (mode, oid) for mode, name, oid in parse_tree(reader.read(tree)[1]) if _is_other(name)}
    new = encode_tree({**others, **{noted: (FILE_MODE, note) for noted, note in kept.items()}})
    head, _, message = data.partition(b"\n\n")
    authors = [line for line in head.split(b"\n") if line.startswith((b"author ", b"committer "))]
    commit = b"\n".join([b"tree " + rewriter.put("tree", new).encode(), *authors]) + b"\n\n" + message
    return rewriter.put("commit", commit)


def _new_oid(rewriter: Rewriter, noted: Oid) -> Oid | None:
    """Return the new oid of the commit ``noted``; ``None`` if the object is missing or not a commit."""
    try:
        return rewriter.commit(noted)
    except DAMAGE:
        return None


def _noted_objects(reader: Reader, oid: Oid) -> set[Oid]:
    """Return the objects that have a note in the commit ``oid``. The commit of an entry contains no notes."""
    try:
        commit = parse_commit(reader.read(oid)[1])
    except DAMAGE:
        return set()
    try:
        trailers_of(commit.message)
        return set()
    except Malformed:
        pass
    try:
        return {noted for noted, _ in _notes(reader, commit.tree)}
    except DAMAGE:
        return set()


def _notes(reader: Reader, tree: Oid) -> Iterator[tuple[Oid, Oid]]:
    """Yield each noted object with the oid of its note."""
    stack = [("", tree, 0)]
    while stack:
        base, folder, depth = stack.pop()
        for mode, name, oid in parse_tree(reader.read(folder)[1]):
            if mode == TREE_MODE and depth < _DEPTH_MAX and len(name) == 2:
                stack.append((base + name, oid, depth + 1))
            elif mode == FILE_MODE and _OID.fullmatch(base + name):
                yield base + name, oid


def _is_other(name: str) -> bool:
    """Return whether the file ``name`` at the top of a notes tree is not a note.

    Like git, a purge keeps such files unchanged.
    """
    return len(name) != 2 and not _OID.fullmatch(name)
