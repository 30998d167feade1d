"""git's notes (`refs/notes/`) in a purge. Notes on removed commits are deleted; notes on rewritten commits are moved.

A note is a blob whose name is the id of the commit that it belongs to. If there are many notes, git splits the names
into folders. A user's note on a purged entry may repeat purged content. So if a purge changes a notes ref, it discards
the ref's history.
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


def moved(reader: Reader, found: Tombstones, rewriter: Rewriter, new: Mapping[str, Oid]) -> dict[str, Oid]:
    """Return the new values of the notes refs in ``new``, the new values of all refs.

    New objects are added to ``rewriter``. Raises the errors of reading objects.
    """
    tips = {name: oid for name, oid in new.items() if name.startswith(REFS)}
    if not tips:
        return {}
    others = [oid for name, oid in new.items() if name not in tips]
    on = {on for oid in tips.values() for on, _ in _notes(reader, parse_commit(reader.read(oid)[1]).tree)}
    out = _out(reader, found, rewriter, on, others)
    return {name: _rewritten(reader, oid, rewriter, out) for name, oid in tips.items()}


def going(
    reader: Reader,
    found: Tombstones,
    rewriter: Rewriter,
    kinds: Mapping[Oid, str],
    refs: Mapping[str, Oid],
    gone: AbstractSet[Oid],
) -> set[Oid]:
    """Select commits with a note on a removed commit, also earlier ones, and the objects that only they contain.

    ``kinds``: kinds of all objects. ``gone``: objects that are deleted anyway. ``refs``: current values of all refs.
    """
    if not any(name.startswith(REFS) for name in refs):
        return set()
    commits = [oid for oid, kind in kinds.items() if kind == "commit" and oid not in gone]
    held = {oid: on for oid in commits if (on := _held(reader, oid))}
    others = [oid for name, oid in refs.items() if not name.startswith(REFS)]
    out = _out(reader, found, rewriter, set().union(*held.values()), others)
    bad = {oid for oid, on in held.items() if on & out}
    kept = select_objects.below(reader, (oid for oid in commits if oid not in bad))
    return bad | select_objects.below(reader, bad, without=kept)


def _out(reader: Reader, found: Tombstones, rewriter: Rewriter, on: AbstractSet[Oid], tips: Iterable[Oid]) -> set[Oid]:
    """Return the commits in ``on`` that are removed or replaced. ``tips``: values of refs that remain."""
    there = {oid for oid in on if _mapped(rewriter, oid) is not None}
    out = {oid for oid in there if rewriter.is_gone(oid)}
    if found.sessions:
        out |= select_objects.of_purged_sessions(reader, found, there, tips)
    return out


def _rewritten(reader: Reader, tip: Oid, rewriter: Rewriter, out: AbstractSet[Oid]) -> Oid:
    data = reader.read(tip)[1]
    tree = parse_commit(data).tree
    notes = dict(_notes(reader, tree))
    left = {_mapped(rewriter, on) or on: note for on, note in notes.items() if on not in out}
    if left == notes:
        return tip
    others = {name: (mode, oid) for mode, name, oid in parse_tree(reader.read(tree)[1]) if _is_other(name)}
    new = encode_tree({**others, **{on: (FILE_MODE, note) for on, note in left.items()}})
    head, _, message = data.partition(b"\n\n")
    people = [line for line in head.split(b"\n") if line.startswith((b"author ", b"committer "))]
    made = b"\n".join([b"tree " + rewriter.put("tree", new).encode(), *people]) + b"\n\n" + message
    return rewriter.put("commit", made)


def _mapped(rewriter: Rewriter, on: Oid) -> Oid | None:
    """Return the new oid of the commit ``on``; ``None`` if it is not a commit or is missing."""
    try:
        return rewriter.commit(on)
    except DAMAGE:
        return None


def _held(reader: Reader, oid: Oid) -> set[Oid]:
    """Return the objects with a note in a commit. A commit of an entry has no notes."""
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
        return {on for on, _ in _notes(reader, commit.tree)}
    except DAMAGE:
        return set()


def _notes(reader: Reader, tree: Oid) -> Iterator[tuple[Oid, Oid]]:
    """Yield each noted object with the oid of its note."""
    stack = [("", tree, 0)]
    while stack:
        base, at, depth = stack.pop()
        for mode, name, oid in parse_tree(reader.read(at)[1]):
            if mode == TREE_MODE and depth < _DEPTH_MAX and len(name) == 2:
                stack.append((base + name, oid, depth + 1))
            elif mode == FILE_MODE and _OID.fullmatch(base + name):
                yield base + name, oid


def _is_other(name: str) -> bool:
    """Return whether a name at the top of a notes tree is not a note. Like git, a purge keeps such files unchanged."""
    return len(name) != 2 and not _OID.fullmatch(name)
