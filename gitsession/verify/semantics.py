"""Checks of whole sessions: each session must have one root, and entries to which other entries refer must exist.

The content of an entry is read only if its kind can refer to other entries. A *problem* is a state that gitsession
cannot have written. A *notice* is an unusual state that an agent or a program may have written, such as a tool call
without a result, or a label for an entry that does not exist.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from gitsession.codec.digest import to_base64url
from gitsession.errors import GitSessionError
from gitsession.git.types import Oid, Reader, RefValue
from gitsession.model import entries as kinds
from gitsession.model.blocks import OtherBlock, ToolCall
from gitsession.model.entries import KINDS, Entry
from gitsession.sessions import content
from gitsession.sessions.node import Node, copy_key, copy_problem, position, short_id
from gitsession.store import refs
from gitsession.verify.entry_check import path_problems
from gitsession.verify.findings import Finding
from gitsession.workspace.trees import CachedTrees

E = TypeVar("E", bound=Entry)


@dataclass
class Sessions:
    """The sessions to check.

    Attributes:
        store: Reader of the store's objects.
        leaves: Refs of sessions, with their values.
        nodes: All entries that are reachable from these refs, by id.
    """

    store: Reader
    leaves: Mapping[str, Oid]
    nodes: Mapping[Oid, Node]
    _roots: dict[Oid, Oid | None] = field(default_factory=dict)

    @cached_property
    def _refs(self) -> Mapping[str, Mapping[str, Oid]]:
        """The refs of each session. The refs of the conversation's branches come first."""
        found: dict[str, dict[str, Oid]] = {}
        for name in sorted(self.leaves, key=lambda name: (not _is_conversation(name), name)):
            found.setdefault(refs.session_of(name), {})[name] = self.leaves[name]
        return found

    def read(self, node: Node) -> Entry:
        """Return the content of an entry; ``Opaque`` if it cannot be read."""
        return content.entry_of(self.store, node)

    def own_entries(self, nodes: Iterable[Node], kind: type[E]) -> Iterator[tuple[Node, E]]:
        """Yield those of ``nodes`` that are entries of ``kind`` written by gitsession, each with its content."""
        for node in nodes:
            if node.kind == kind.kind and node.source is None:
                entry = self.read(node)
                if isinstance(entry, kind):
                    yield node, entry

    def history(self, oid: Oid | None) -> Iterator[Node]:
        """Yield the history of ``oid``, as far as it can be read. In a damaged store, the history can be a cycle."""
        seen: set[Oid] = set()
        while oid is not None and oid in self.nodes and oid not in seen:
            seen.add(oid)
            yield self.nodes[oid]
            oid = self.nodes[oid].parent

    def root(self, leaf: Oid) -> Oid | None:
        """Return the root of the history of ``leaf``; ``None`` if the root cannot be read.

        Results are cached, so that no entry is visited twice.
        """
        visited: list[Oid] = []
        found: Oid | None = None
        for node in self.history(leaf):
            if node.oid in self._roots:
                found = self._roots[node.oid]
                break
            visited.append(node.oid)
            if node.parent is None:
                found = node.oid
        self._roots.update(dict.fromkeys(visited, found))
        return found

    def refs_of(self, sid: str) -> Mapping[str, Oid]:
        """Return the refs of one session. The refs of the conversation's branches come first."""
        return self._refs.get(sid, {})

    def branches_of(self, sid: str) -> dict[str, Oid]:
        """Return the refs of the branches of a session's conversation."""
        return {name: leaf for name, leaf in self.refs_of(sid).items() if _is_conversation(name)}

    def on_branches(self, sid: str, test: Callable[[Node], bool]) -> bool | None:
        """Return whether ``test`` is true for an entry of the conversation; ``None`` if damage prevents the check."""
        leaves = self.branches_of(sid).values()
        if any(test(node) for leaf in leaves for node in self.history(leaf)):
            return True
        return None if any(self.root(leaf) is None for leaf in leaves) else False

    def meta(self, sid: str) -> Iterator[Node]:
        """Yield the entries of ``meta`` and of its diverged branches, newest first, back to the session's start."""
        for name, leaf in self.refs_of(sid).items():
            if refs.is_meta(name.rpartition("/")[2]):
                yield from itertools.takewhile(lambda node: not node.starts_session, self.history(leaf))

    @property
    def sids(self) -> list[str]:
        return sorted(self._refs.keys() - {""})


def problems(sessions: Sessions, active: Mapping[str, RefValue]) -> Iterator[Finding]:
    """Yield a finding for every state that gitsession cannot have written.

    ``active``: the refs that select an active branch.
    """
    yield from _check_starts(sessions)
    yield from _repeated_headers(sessions)
    yield from _duplicates(sessions)
    for node in sessions.nodes.values():
        if node.source is None and node.kind == kinds.Compaction.kind:
            yield from _first_kept(sessions, node)
        elif node.kind == kinds.Checkpoint.kind:
            yield from _checkpoint(sessions, node)
    for sid in sessions.sids:
        yield from _leaf_of_file(sessions, sid)
    for name, value in active.items():
        sid = name.removeprefix(refs.ACTIVE)
        target = refs.target(value)
        if target is not None and target.startswith(refs.TRASH):
            target = refs.untrashed(target)
        if target is None or not _is_conversation(target) or refs.session_of(target) != sid:
            yield Finding(name, f"points to {value[:200]!a}, which is not a branch of session {sid}", refs.leaf(sid))


def _is_conversation(name: str) -> bool:
    parsed = refs.parse(name)
    return parsed is not None and refs.is_branch(parsed[1])


# ---- starts of sessions


def _check_starts(sessions: Sessions) -> Iterator[Finding]:
    """Check that all refs of a session have the same root and that only forks share a root with another session."""
    forks = _forks(sessions)
    session_by_root: dict[Oid, str] = {}
    for sid in sessions.sids:
        first = ""
        for name, leaf in sessions.refs_of(sid).items():
            root = sessions.root(leaf)
            if root is None:
                continue
            node = sessions.nodes[root]
            if node.kind in KINDS and node.kind != kinds.SessionHeader.kind and not node.is_tombstone:
                yield Finding(root, f"a history cannot start with an entry of kind {node.kind[:40]!a}", name)
            first = first or root
            if root != first:
                yield Finding(name, f"its history starts at {root}, but the session starts at {first}", name)
        if not first or sid in forks:
            continue
        other = session_by_root.setdefault(first, sid)
        if other != sid:
            what = f"starts at {first} like session {other}, but is not a fork of it"
            yield Finding(next(iter(sessions.refs_of(sid))), what, refs.leaf(sid))


def _forks(sessions: Sessions) -> set[str]:
    """Return the sessions that begin with a ``fork`` entry, or may have begun with one that was purged."""
    found = {entry.session for _, entry in sessions.own_entries(sessions.nodes.values(), kinds.Fork)}
    if any(node.is_tombstone for node in sessions.nodes.values()):
        for name, leaf in sessions.leaves.items():
            if any(node.is_tombstone for node in sessions.history(leaf)):
                found.add(refs.session_of(name))
    return found


def _repeated_headers(sessions: Sessions) -> Iterator[Finding]:
    """Check that no session header is in the middle of a history. On ``meta``, such an entry is an updated header."""
    found = {
        oid: node
        for oid, node in sessions.nodes.items()
        if node.kind == kinds.SessionHeader.kind and node.source is None and node.parent is not None
    }
    if found:
        for sid in sessions.sids:
            for node in sessions.meta(sid):
                found.pop(node.oid, None)
    for oid in found:
        yield Finding(oid, "a session header in the middle of a history")


# ---- references between entries


def _duplicates(sessions: Sessions) -> Iterator[Finding]:
    """Check that each entry exists only once at each position (docs/reference/format.md, "Invariants")."""
    found: dict[object, Oid] = {}
    for node in sessions.nodes.values():
        key = copy_key(node)
        if key is not None and found.setdefault(key, node.oid) != node.oid:
            yield Finding(node.oid, copy_problem(found[key]))


def _first_kept(sessions: Sessions, node: Node) -> Iterator[Finding]:
    entry = sessions.read(node)
    if not isinstance(entry, kinds.Compaction) or entry.first_kept is None:
        return
    last = node
    for before in sessions.history(node.parent):
        if to_base64url(before.chain) == entry.first_kept:
            return
        last = before
    if last.parent is None:  # if the history has a gap, the entry may be before it
        yield Finding(node.oid, f"the first kept entry, {entry.first_kept[:60]!a}, is not in its history")


def _checkpoint(sessions: Sessions, node: Node) -> Iterator[Finding]:
    entry = sessions.read(node)
    if not isinstance(entry, kinds.Checkpoint):
        return
    for problem in path_problems(entry):
        yield Finding(node.oid, problem)
    before = sessions.nodes.get(node.parent or "")
    if entry.mode != "edited" or before is None or before.is_tombstone:
        return
    base = content.files_of(sessions.store, before.oid) if before.kind == kinds.Checkpoint.kind else None
    try:
        changed = CachedTrees(sessions.store).diff(base, content.files_of(sessions.store, node.oid))
    except GitSessionError:
        return  # each tree is checked on its own
    unlisted = sorted(changed.keys() - set(entry.paths))
    if unlisted:
        more = f" and {len(unlisted) - 1} more" if len(unlisted) > 1 else ""
        problem = f"{unlisted[0][:80]!a}{more} changed, but the checkpoint does not list it"
        yield Finding(node.oid, problem)


def _leaf_of_file(sessions: Sessions, sid: str) -> Iterator[Finding]:
    """Check that a session contains the entry after which its agent's file continues."""
    source_file = next((entry for _, entry in sessions.own_entries(sessions.meta(sid), kinds.SourceFile)), None)
    if source_file is None or source_file.leaf is None:
        return
    if sessions.on_branches(sid, lambda node: position(node) == source_file.leaf) is False:
        problem = f"the agent's file continues from {source_file.leaf[:60]!a}, which is missing"
        yield Finding(refs.meta(sid), problem, refs.meta(sid))


# ---- notices


def notices(sessions: Sessions) -> Iterator[Finding]:
    """Yield a finding for each unusual state that a program may have written. Every entry is read.

    A finding about an entry of several sessions, or about a call on several branches, is reported once.
    """
    reported: set[tuple[str, str]] = set()
    for sid in sessions.sids:
        for finding in _SessionNames(sessions, sid).notices():
            if (finding.where, finding.what) not in reported:
                reported.add((finding.where, finding.what))
                yield finding


class _SessionNames:
    """The entries of one session's conversation, and the names by which other entries refer to them."""

    def __init__(self, sessions: Sessions, sid: str) -> None:
        self._sessions = sessions
        self._sid = sid
        self._conversation: dict[Oid, str] = {}
        """The entries of the conversation, each with a ref from which it is reachable."""
        for name, leaf in sessions.branches_of(sid).items():
            for node in sessions.history(leaf):
                if node.oid in self._conversation:
                    break
                self._conversation[node.oid] = name
        self._names: dict[str, list[Oid]] = {}
        for oid in self._conversation:
            for name in _names_of(sessions.nodes[oid]):
                self._names.setdefault(name, []).append(oid)

    def notices(self) -> Iterator[Finding]:
        calls: dict[str, list[Oid]] = {}
        results: dict[str, list[Oid]] = {}
        for oid, name in self._conversation.items():
            node = self._sessions.nodes[oid]
            entry = self._sessions.read(node)
            for call in _calls(entry):
                calls.setdefault(call, []).append(oid)
            for call in _results(entry):
                results.setdefault(call, []).append(oid)
            if isinstance(entry, kinds.Compaction) and entry.first_kept is not None:
                before = itertools.chain.from_iterable(map(_names_of, self._sessions.history(node.parent)))
                if node.source is not None and entry.first_kept not in before:
                    what = f"the first kept entry, {entry.first_kept[:60]!a}, is not in its history"
                    yield Finding(oid, what, name)
            for target in _targets(entry):
                if target not in self._names:
                    yield Finding(oid, f"{node.kind[:40]} refers to {target[:60]!a}, which is missing", name)
        yield from self._unpaired(calls, results)
        yield from self._dangling_labels()

    def _unpaired(self, calls: Mapping[str, list[Oid]], results: Mapping[str, list[Oid]]) -> Iterator[Finding]:
        span = self._spans({oid for oids in (*calls.values(), *results.values()) for oid in oids})

        def follows(late: Oid, early: Oid) -> bool:
            """Return whether ``late`` is ``early`` or a descendant of it."""
            return span[early][0] <= span[late][0] <= span[early][1]

        for call, oids in calls.items():
            for oid in oids:
                if not any(follows(late, oid) for late in results.get(call, ())):
                    yield Finding(oid, f"the call {call[:60]!a} has no result", self._conversation[oid])
                    break
        for call, oids in results.items():
            for oid in oids:
                if not any(follows(oid, early) for early in calls.get(call, ())):
                    yield Finding(oid, f"a result without an earlier call {call[:60]!a}", self._conversation[oid])
                    break

    def _spans(self, wanted: set[Oid]) -> dict[Oid, tuple[int, int]]:
        """Return the first and the last number in the subtree of each entry in ``wanted``.

        One walk numbers all entries, so that an entry and its descendants have consecutive numbers.
        """
        children: dict[Oid | None, list[Oid]] = {}
        for oid in self._conversation:
            parent = self._sessions.nodes[oid].parent
            children.setdefault(parent if parent in self._conversation else None, []).append(oid)
        found: dict[Oid, tuple[int, int]] = {}
        number = 0
        stack = [(oid, False) for oid in children.get(None, ())]
        first_numbers: dict[Oid, int] = {}
        while stack:
            oid, is_done = stack.pop()
            if is_done:
                found[oid] = (first_numbers[oid], number)
                continue
            number += 1
            first_numbers[oid] = number
            stack.append((oid, True))
            stack += [(child, False) for child in children.get(oid, ())]
        return {oid: found.get(oid, (0, -1)) for oid in wanted}

    def _dangling_labels(self) -> Iterator[Finding]:
        meta = refs.meta(self._sid)
        for node in self._sessions.meta(self._sid):
            entry = self._sessions.read(node) if node.kind == kinds.Label.kind else None
            if isinstance(entry, kinds.Label) and entry.target not in self._names:
                yield Finding(node.oid, f"label refers to {entry.target[:60]!a}, which is missing", meta)


def _names_of(node: Node) -> Iterable[str]:
    """Return the names by which other entries refer to an entry.

    These are its chain digest and, for an agent's entry, the id that the agent gave it. For a gitsession entry, the
    second name is the short id that exports contain.
    """
    names = [to_base64url(node.chain)]
    if node.source is None:
        names.append(short_id(node.chain))
    elif node.source.id is not None:
        names.append(node.source.id)
    return names


def _calls(entry: Entry) -> Iterator[str]:
    if isinstance(entry, kinds.Message):
        yield from (block.id for block in entry.content if isinstance(block, ToolCall) and block.id)


def _results(entry: Entry) -> Iterator[str]:
    """Yield the ids of the tool calls whose results are in ``entry``.

    Results are in a tool message. In opencode's sessions, they are in the message with the calls.
    """
    if isinstance(entry, kinds.Message):
        if entry.role == "tool" and entry.tool_call_id:
            yield entry.tool_call_id
        for block in entry.content:
            value = block.value if isinstance(block, OtherBlock) else None
            if isinstance(value, Mapping) and value.get("type") == "tool_result":
                call = value.get("tool_call_id")
                if isinstance(call, str) and call:
                    yield call


def _targets(entry: Entry) -> tuple[str, ...]:
    match entry:
        case kinds.Label() | kinds.ContextEdit():
            return (entry.target,)
        case kinds.Prune():
            return entry.targets
    return ()
