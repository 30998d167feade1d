"""What stands before an entry whose commit is lost. Nobody comes here unless there is damage.

A lost commit takes with it the name of its parent, so nothing leads to the entries before it. They are still there, and
their *chains* tell where they belong: an entry's chain is the hash of its parent's chain and of its payload's digest.
The tree of the lost commit is mostly still there too, named by no commit. So for a surviving entry T, such a tree L and
the entry C after the gap:

    chain(chain(T, digest of L), digest of C) == C's chain    proves that T, the lost one, and C stand in this order

Two lost entries in a row are found in the same way. Where no tree is left there is no proof, and none is claimed: the
lines that fit are still given to the session if they can only be its own, unjoined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from gitsession.codec.digest import chain as chain_of
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
"""How many lost entries in a row a proof reaches over: each more costs the number of lost trees, times."""

_TRIES_MAX = 1 << 18


@dataclass
class _Scan:
    """All entries of a store, reachable or not, and the payloads that no commit names."""

    entries: dict[Oid, Node]
    payloads: list[bytes]

    @classmethod
    def of(cls, store: ObjectStore) -> _Scan:
        entries: dict[Oid, Node] = {}
        trees: list[Oid] = []
        named: set[Oid] = set()
        for oid in set(store.oids()):
            try:
                kind, data = store.read(oid)
                if kind == "commit":
                    entries[oid] = node = parse(oid, data)
                    named.add(node.tree)
                elif kind == "tree" and any(layout.form_of(name) for _, name, _ in parse_tree(data)):
                    trees.append(oid)
            except (*DAMAGE, Unavailable):
                continue
        found = cls(entries, [])
        for tree in trees:
            digest = b"" if tree in named else _digest(store, tree)
            if digest:
                found.payloads.append(digest)
        return found


def fill(
    store: ObjectStore, sid: str, nodes: Mapping[Oid, Node], gaps: Mapping[Oid, Gap]
) -> tuple[dict[Oid, Node], dict[Oid, Gap]]:
    """The entries of a session that its refs do not lead to because of ``gaps``, and the gaps with what is before them.

    ``nodes``: those the refs do lead to. Entries that were found may have gaps of their own before them.
    """
    search = _Search(store, sid, dict(nodes), dict(gaps))
    search.prove()
    search.take_what_can_only_be_ours()
    search.prove()
    return search.nodes, search.gaps


@dataclass(frozen=True, slots=True)
class Unassigned:
    """A line with a lost entry before it, that may belong to any of ``sessions``. ``entries``: the newest first."""

    entries: tuple[Node, ...]
    sessions: tuple[str, ...]


def unassigned(store: ObjectStore, listed: Callable[[str], Iterable[Oid]]) -> list[Unassigned]:
    """Return the lines that ``fill`` gives to no session, because several damaged sessions could have lost them.

    ``listed``: the entries that a session lists.
    """
    search = _Search(store, "", {}, {})
    for sid in search.damaged:
        search.leave_out(listed(sid))
    return search.unassigned()


class _Search:
    def __init__(self, store: ObjectStore, sid: str, nodes: dict[Oid, Node], gaps: dict[Oid, Gap]) -> None:
        self.nodes, self.gaps = nodes, gaps
        self._store, self._sid = store, sid
        self._all = _Scan.of(store)
        led_to, self.damaged = self._follow_refs()
        self._digests: dict[Oid, bytes] = {}
        self._starts = self._find_starts()
        led_to -= self._starts  # only ``meta`` leads there, when all entries that follow are lost
        self._free = {
            oid: node
            for oid, node in self._all.entries.items()
            if oid not in nodes and oid not in led_to and node.kind != Checkpoint.kind  # no part of what was said
        }

    def prove(self) -> None:
        """Join each gap to the entry before it, where the chain proves which one that is."""
        while True:
            open_gaps = {oid for oid, gap in self.gaps.items() if gap.is_open}
            after = [node for node in self.nodes.values() if node.parent in open_gaps]
            joined = [
                (node.parent, oid) for node in after if node.parent for found, oid in [self._place(node)] if found
            ]
            if not joined:
                return
            for gap, oid in joined:
                self.gaps[gap] = replace(self.gaps[gap], before=oid, is_first=oid is None)
                if oid is not None:
                    self._take(oid)

    def take_what_can_only_be_ours(self) -> None:
        """Lines that nothing leads to: those from our root, and those that no other damaged session could have lost."""
        for tip in self._tips():
            line = self._line(tip)
            bottom = line[-1]
            ours = bottom.oid in self._starts or bottom.parent in self._starts or bottom.parent in self.nodes
            if ours or (bottom.parent not in self._all.entries and self._could_be(line) == {self._sid}):
                self._take(tip)
        named = set(self._leaves())
        lone = [gap for gap in self.gaps.values() if gap.oid in named and gap.is_open]
        ends = [oid for oid in self._unjoined() if oid not in named]
        if len(lone) == 1 and len(ends) == 1:
            # A branch's own leaf is lost, and of all lines just one has no end: it is that branch's.
            self.gaps[lone[0].oid] = replace(lone[0], before=ends[0])

    def leave_out(self, oids: Iterable[Oid]) -> None:
        for oid in oids:
            self._free.pop(oid, None)

    def unassigned(self) -> list[Unassigned]:
        found = []
        for tip in self._tips():
            line = self._line(tip)
            could_be = self._could_be(line)
            before = line[-1].parent
            if could_be and before is not None and before not in self._all.entries:
                found.append(Unassigned(tuple(line), tuple(sorted(could_be))))
        return sorted(found, key=lambda one: (one.sessions, one.entries[0].committer_seconds, one.entries[0].oid))

    # -- proofs

    def _place(self, after: Node) -> tuple[bool, Oid | None]:
        """Whether it is proven what stood before the entry that was before ``after``, and what; ``None``: nothing."""
        digest = self._digest(after)
        if not digest:
            return False, None
        everywhere: dict[bytes, Oid | None] = {node.chain: oid for oid, node in self._all.entries.items()}
        ends: dict[bytes, Oid | None] = {self._free[oid].chain: oid for oid in self._tips()}
        for level, steps in (({**everywhere, b"": None}, 1), ({**ends, b"": None}, _IN_A_ROW_MAX)):
            for _ in range(steps):
                if len(level) * len(self._all.payloads) > _TRIES_MAX:
                    break
                later: dict[bytes, Oid | None] = {}
                for chain, oid in level.items():
                    for payload in self._all.payloads:
                        made = chain_of(chain or None, payload)
                        if chain_of(made, digest) == after.chain:
                            return True, oid
                        later[made] = oid
                level = later
        return False, None

    def _digest(self, node: Node) -> bytes:
        if node.oid not in self._digests:
            self._digests[node.oid] = _digest(self._store, node.tree)
        return self._digests[node.oid]

    # -- lines

    def _take(self, tip: Oid) -> None:
        """The line that ends in ``tip`` is the session's; what is missing before it is a gap."""
        oid: Oid | None = tip
        while oid is not None and oid not in self.nodes:
            node = self._all.entries.get(oid)
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

    def _unjoined(self) -> list[Oid]:
        before = {gap.before for gap in self.gaps.values()} | {node.parent for node in self.nodes.values()}
        return [oid for oid in self.nodes if oid not in before]

    def _leaves(self) -> Iterable[Oid]:
        return list(self._store.refs(refs.session(self._sid)).values())

    def _find_starts(self) -> set[Oid]:
        """Where this session is known to begin: the entry on which ``meta`` stands, or its name where it is lost."""
        oid = self._store.ref(refs.meta(self._sid))
        while oid is not None and (node := self._all.entries.get(oid)) is not None:
            if node.parent is None or node.kind == Fork.kind:
                return {oid}
            oid = node.parent
        return {oid} if oid is not None else set()

    def _could_be(self, line: Iterable[Node]) -> set[str]:
        """The damaged sessions of which a line could be a part: what they hold is of the same agents."""
        agents = {_agent(node) for node in line}
        return {sid for sid, known in self.damaged.items() if not known or known & agents}

    def _follow_refs(self) -> tuple[set[Oid], dict[str, set[str]]]:
        """What sessions lead to; and of those with a line that does not come to its root, whose entries it has."""
        reached: set[tuple[str, Oid]] = set()
        agents: dict[str, set[str]] = {}
        damaged: set[str] = set()
        for name, value in self._store.refs(refs.SESSIONS).items():
            parsed = refs.parse(name)
            if parsed is None:
                continue
            sid, oid = parsed[0], value
            while (sid, oid) not in reached:
                node = self._all.entries.get(oid)
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
    """The agent whose file an entry is from; "" for one made here."""
    return node.source.agent if node.source else ""


def _digest(store: ObjectStore, tree: Oid) -> bytes:
    """The digest of the payload in an entry's tree; ``b""`` where that cannot be read."""
    try:
        parts = content.kept_in(store, tree)
    except (*DAMAGE, Unavailable):
        return b""
    return parts.digest


def _problem(store: ObjectStore, oid: Oid) -> str:
    try:
        store.read(oid)
    except (*DAMAGE, Unavailable) as error:
        return str(error)
    return "no entry"
