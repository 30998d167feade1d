"""Search for entries that precede a lost commit. The search runs only if a session is damaged.

A lost commit contained the id of its parent, so no ref reaches the entries before it. These entries still exist, and
their chain digests prove their position, because the chain digest of an entry is the hash of its parent's chain digest
and of its payload's digest. The tree of the lost commit usually exists too, although no commit refers to it. For an
existing entry T, such a tree L and the entry C after the gap:

    chain(chain(T, digest of L), digest of C) == C's chain    proves the order T, the lost entry, C

Two successive lost entries are found in the same way. Without the tree there is no proof. A history that can belong
only to the damaged session is then added to the session, but is not connected to the entries after the gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gitsession.codec.digest import chain as chain_of
from gitsession.dataclass import dataclass
from gitsession.errors import Unavailable
from gitsession.git.objects import parse_tree
from gitsession.git.types import Oid
from gitsession.model.entries import Checkpoint, Fork
from gitsession.sessions import content, layout
from gitsession.sessions.gaps import DAMAGE, Gap
from gitsession.sessions.node import Node, parse
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

_IN_A_ROW_MAX = 2
"""Maximum number of successive lost entries in a proof. Each entry multiplies the cost by the number of lost trees."""

_TRIES_MAX = 1 << 18


def _scan(store: ObjectStore) -> tuple[dict[Oid, Node], list[bytes]]:
    """Return all entries of a store, reachable or not, and the digests of the payloads without a commit."""
    entries: dict[Oid, Node] = {}
    trees: list[Oid] = []
    for oid in set(store.oids()):
        try:
            kind, data = store.read(oid)
            if kind == "commit":
                entries[oid] = parse(oid, data)
            elif kind == "tree" and any(layout.form_of(name) for _, name, _ in parse_tree(data)):
                trees.append(oid)
        except (*DAMAGE, Unavailable):
            continue
    named = {node.tree for node in entries.values()}
    digests = (_digest(store, tree) for tree in trees if tree not in named)
    return entries, [digest for digest in digests if digest]


def fill(
    store: ObjectStore, sid: str, nodes: Mapping[Oid, Node], gaps: Mapping[Oid, Gap]
) -> tuple[dict[Oid, Node], dict[Oid, Gap]]:
    """Return all entries of a session, including those that ``gaps`` make unreachable, and the gaps with their parents.

    ``nodes``: the entries that the refs of the session reach. The returned gaps can include further gaps between the
    entries that were found.
    """
    search = _Search(store, sid, dict(nodes), dict(gaps))
    search.prove()
    search.add_own_histories()
    search.prove()
    return search.nodes, search.gaps


@dataclass(frozen=True, slots=True)
class Unassigned:
    """A history that begins after a lost entry and may belong to any of ``sessions``. ``entries``: the newest first."""

    entries: tuple[Node, ...]
    sessions: tuple[str, ...]


def unassigned(store: ObjectStore, listed: Callable[[str], Iterable[Oid]]) -> list[Unassigned]:
    """Return the histories that ``fill`` adds to no session, because they may belong to several damaged sessions.

    ``listed``: a function that returns the entries of a session.
    """
    search = _Search(store, "", {}, {})
    for sid in search.damaged:
        search.exclude(listed(sid))
    return search.unassigned()


class _Search:
    def __init__(self, store: ObjectStore, sid: str, nodes: dict[Oid, Node], gaps: dict[Oid, Gap]) -> None:
        self.nodes, self.gaps = nodes, gaps
        self._store, self._sid = store, sid
        self._entries, self._payloads = _scan(store)
        reached, self.damaged = self._follow_refs()
        self._digests: dict[Oid, bytes] = {}
        self._starts = self._find_starts()
        reached -= self._starts  # a candidate: if all later entries are lost, only ``meta`` reaches it
        self._free = {
            oid: node
            for oid, node in self._entries.items()
            if oid not in nodes and oid not in reached and node.kind != Checkpoint.kind  # not part of the conversation
        }

    def prove(self) -> None:
        """Connect each gap to the entry before it, if a chain digest proves their order."""
        while True:
            open_gaps = {oid for oid, gap in self.gaps.items() if gap.is_open}
            after = [node for node in self.nodes.values() if node.parent in open_gaps]
            joined = [
                (node.parent, oid) for node in after if node.parent for found, oid in [self._predecessor(node)] if found
            ]
            if not joined:
                return
            for gap, oid in joined:
                self.gaps[gap] = replace(self.gaps[gap], before=oid, is_first=oid is None)
                if oid is not None:
                    self._add_history(oid)

    def add_own_histories(self) -> None:
        """Add unreachable histories that start at an entry of the session, or that can belong only to this session."""
        for tip in self._tips():
            line = self._line(tip)
            bottom = line[-1]
            is_own = bottom.oid in self._starts or bottom.parent in self._starts or bottom.parent in self.nodes
            if is_own or (bottom.parent not in self._entries and self._possible_sessions(line) == {self._sid}):
                self._add_history(tip)
        named = set(self._store.refs(refs.session(self._sid)).values())
        open_tips = [gap for gap in self.gaps.values() if gap.oid in named and gap.is_open]
        ends = [oid for oid in self._without_successor() if oid not in named]
        if len(open_tips) == 1 and len(ends) == 1:
            # The tip of one branch is lost, and exactly one history has no successor. So it belongs to that branch.
            self.gaps[open_tips[0].oid] = replace(open_tips[0], before=ends[0])

    def exclude(self, oids: Iterable[Oid]) -> None:
        for oid in oids:
            self._free.pop(oid, None)

    def unassigned(self) -> list[Unassigned]:
        found = []
        for tip in self._tips():
            line = self._line(tip)
            sids = self._possible_sessions(line)
            before = line[-1].parent
            if sids and before is not None and before not in self._entries:
                found.append(Unassigned(tuple(line), tuple(sorted(sids))))
        return sorted(found, key=lambda one: (one.sessions, one.entries[0].committer_seconds, one.entries[0].oid))

    # -- proofs

    def _predecessor(self, after: Node) -> tuple[bool, Oid | None]:
        """Return whether the entry before the lost parent of ``after`` is proven, and its oid.

        The oid is ``None`` if the lost entries are the first of the history.
        """
        digest = self._digest(after)
        if not digest:
            return False, None
        all_chains: dict[bytes, Oid | None] = {node.chain: oid for oid, node in self._entries.items()}
        ends: dict[bytes, Oid | None] = {self._free[oid].chain: oid for oid in self._tips()}
        for level, steps in (({**all_chains, b"": None}, 1), ({**ends, b"": None}, _IN_A_ROW_MAX)):
            for _ in range(steps):
                if len(level) * len(self._payloads) > _TRIES_MAX:
                    break
                later: dict[bytes, Oid | None] = {}
                for chain, oid in level.items():
                    for payload in self._payloads:
                        candidate = chain_of(chain or None, payload)
                        if chain_of(candidate, digest) == after.chain:
                            return True, oid
                        later[candidate] = oid
                level = later
        return False, None

    def _digest(self, node: Node) -> bytes:
        if node.oid not in self._digests:
            self._digests[node.oid] = _digest(self._store, node.tree)
        return self._digests[node.oid]

    # -- histories

    def _add_history(self, tip: Oid) -> None:
        """Add the history with the newest entry ``tip`` to the session. A missing entry before it becomes a gap."""
        oid: Oid | None = tip
        while oid is not None and oid not in self.nodes:
            node = self._entries.get(oid)
            if node is None:
                if oid not in self.gaps:
                    self.gaps[oid] = Gap(oid, _problem(self._store, oid), foreign=False)
                return
            self.nodes[oid] = node
            self._free.pop(oid, None)
            oid = node.parent

    def _tips(self) -> list[Oid]:
        parents = {node.parent for node in self._free.values()}
        return [oid for oid in self._free if oid not in parents]

    def _line(self, tip: Oid) -> list[Node]:
        line = [self._free[tip]]
        while line[-1].parent in self._free:
            line.append(self._free[line[-1].parent])
        return line

    def _without_successor(self) -> list[Oid]:
        before = {gap.before for gap in self.gaps.values()} | {node.parent for node in self.nodes.values()}
        return [oid for oid in self.nodes if oid not in before]

    def _find_starts(self) -> set[Oid]:
        """Return the oid of the entry at which this session begins, even if that entry is lost.

        The oid is read from ``meta``.
        """
        oid = self._store.ref(refs.meta(self._sid))
        while oid is not None and (node := self._entries.get(oid)) is not None:
            if node.parent is None or node.kind == Fork.kind:
                return {oid}
            oid = node.parent
        return {oid} if oid is not None else set()

    def _possible_sessions(self, line: Iterable[Node]) -> set[str]:
        """Return the damaged sessions with entries of the same agents. The history may belong to any of them."""
        agents = {_agent(node) for node in line}
        return {sid for sid, known in self.damaged.items() if not known or known & agents}

    def _follow_refs(self) -> tuple[set[Oid], dict[str, set[str]]]:
        """Return the entries that refs reach, and the agents in each session with an incomplete history."""
        reached: set[tuple[str, Oid]] = set()
        agents: dict[str, set[str]] = {}
        damaged: set[str] = set()
        for name, value in self._store.refs(refs.SESSIONS).items():
            parsed = refs.parse(name)
            if parsed is None:
                continue
            sid, oid = parsed[0], value
            while (sid, oid) not in reached:
                node = self._entries.get(oid)
                if node is None:
                    damaged.add(sid)
                    break
                reached.add((sid, oid))
                if refs.is_branch(parsed[1]) and node.parent is not None:
                    agents.setdefault(sid, set()).add(_agent(node))
                if node.parent is None:
                    break
                oid = node.parent
        return {oid for _, oid in reached}, {sid: agents.get(sid, set()) for sid in damaged}


def _agent(node: Node) -> str:
    """Return the agent from whose file an entry was imported; "" for an entry that gitsession wrote."""
    return node.source.agent if node.source else ""


def _digest(store: ObjectStore, tree: Oid) -> bytes:
    """Return the digest of the payload in an entry's tree; ``b""`` if it cannot be read."""
    try:
        parts = content.entry_tree_at(store, tree)
    except (*DAMAGE, Unavailable):
        return b""
    return parts.digest


def _problem(store: ObjectStore, oid: Oid) -> str:
    try:
        store.read(oid)
    except (*DAMAGE, Unavailable) as error:
        return str(error)
    return "not an entry"
