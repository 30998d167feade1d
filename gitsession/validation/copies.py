"""Validation that no new entry is a forged copy of another one (docs/reference/format.md, "Invariants").

A forged copy has the chain digest of the original. Its bytes differ in a part that the digest does not include, such as
the source. An entry can be a copy only of another child of its parent. So only entries with such siblings are compared,
among the new entries and in the sessions that can have the same parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from gitsession.errors import GitSessionError
from gitsession.git.types import Oid, Reader
from gitsession.model.entries import Fork
from gitsession.sessions import content
from gitsession.sessions.node import Node, copy_key, copy_problem
from gitsession.store import refs
from gitsession.validation import entry_rules
from gitsession.validation.history_rules import possible_ids
from gitsession.validation.quarantine_reader import Deadline, Fault, GitReader, Proposed


def faults(
    reader: GitReader, moves: Iterable[Proposed], parents: Mapping[Oid, tuple[Oid, ...]], deadline: Deadline
) -> Iterator[tuple[Oid, Fault]]:
    """Yield each new entry that is a forged copy, with its fault. Raises ``LimitExceeded``.

    ``parents``: the new entries with their parents; parents come before their children.
    """
    children: dict[Oid, list[Oid]] = {}
    joints: dict[Oid, Oid] = {}  # for each new entry, the newest entry of its history that existed before
    for oid, (parent, *_) in ((oid, found) for oid, found in parents.items() if found):
        children.setdefault(parent, []).append(oid)
        joint = joints.get(parent) if parent in parents else parent
        if joint is not None:
            joints[oid] = joint
    for parent, existing in _existing_children(reader, moves, joints, deadline):
        children[parent] = [*existing, *children.get(parent, ())]
    for siblings in children.values():
        deadline.check()
        if len(siblings) > 1:
            yield from _copies(reader, siblings, parents.keys())


def _copies(reader: GitReader, siblings: Iterable[Oid], new: AbstractSet[Oid]) -> Iterator[tuple[Oid, Fault]]:
    first: dict[object, Oid] = {}
    for oid in dict.fromkeys(siblings):
        node = entry_rules.read(reader, oid)
        key = copy_key(node) if isinstance(node, Node) else None
        if key is not None and first.setdefault(key, oid) != oid and oid in new:
            yield oid, Fault("copy", copy_problem(first[key]))


def _existing_children(
    reader: GitReader, moves: Iterable[Proposed], joints: Mapping[Oid, Oid], deadline: Deadline
) -> Iterator[tuple[Oid, Sequence[Oid]]]:
    """Yield the entries that new entries continue, with those of their children that existed before."""
    seen: set[tuple[str, Oid]] = set()
    for move in moves:
        sid, joint = refs.session_of(move.ref), joints.get(move.new or "")
        if joint is None or (sid, joint) in seen:
            continue
        deadline.check()
        seen.add((sid, joint))
        branches = set(reader.known_branches_of(sid))
        if branches != {joint}:
            starts = (entry_rules.read(reader, oid) for oid in reader.starts(move.new or ""))
            others = sessions_that_share(reader, (node for node in starts if isinstance(node, Node))) - {sid}
            known = branches.union(*(reader.known_branches_of(other) for other in others), reader.archived_of(sid))
            yield joint, reader.children(joint, known - {joint})


def sessions_that_share(reader: Reader, starts: Iterable[Node]) -> set[str]:
    """Return the possible ids of the sessions that share entries with a history.

    ``starts``: the entries in the history at which a session begins.
    """
    found: set[str] = set()
    for node in starts:
        try:
            entry = content.entry_of(reader, node)
        except GitSessionError:
            continue
        if isinstance(entry, Fork):
            found |= {entry.session, entry.parent or entry.session}
        elif node.parent is None:
            found |= possible_ids(reader, node) or set()
    return found
