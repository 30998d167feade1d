"""A session out of the store, home: the bytes its agent wrote, as they are (docs/format.md, "Rewritten files")."""

from __future__ import annotations

from dataclasses import dataclass

from gitsession.errors import Refused
from gitsession.model.entries import Session
from gitsession.session import facts, graph
from gitsession.session.active import position
from gitsession.session.content import entry_of, payload_of
from gitsession.session.node import Node
from gitsession.store.base import ObjectStore


@dataclass(frozen=True, slots=True)
class SentOut:
    """``data``: the file. ``left_out``: entries that are not the agent's own (ours), which its file cannot hold."""

    agent: str
    data: bytes
    left_out: int


def home(store: ObjectStore, sid: str, at: Node | None = None) -> SentOut:
    """The agent's own file. ``at``: only the line that ends in this entry, still as the agent wrote it.

    Raises ``Refused`` for a session that no agent's file made, or where a gap would be passed over in silence.
    """
    tree = graph.tree(store, sid)
    if tree.gaps:
        raise Refused(
            f"{len(tree.gaps)} entries cannot be read, the first is {tree.gaps[0].oid}: the file would not be whole",
            hint="`gitsession verify` names what is damaged",
        )
    agent = origin(store, tree)
    meta = facts.meta(store, sid)
    superseded = set(meta.source_file.superseded)
    wanted = None if at is None else {node.oid for node in graph.line(store, at.oid)}
    lines: dict[int, Node] = {}
    left_out = 0
    stack = list(tree.children.get(None, []))
    while stack:
        node = tree.nodes[stack.pop()]
        if node.source is not None and position(node) in superseded:
            continue
        if wanted is None or node.oid in wanted:
            if node.source is not None:
                lines[node.source.line] = node
            elif node.parent is not None:
                left_out += 1
        stack += tree.children.get(node.oid, [])
    for node in meta.nodes:
        if node.source is not None:
            lines.setdefault(node.source.line, node)
    if not lines:
        raise Refused(f"session {sid} was made here, not by {agent}: there is no file to give back")
    data = b"\n".join(payload_of(store, lines[number]) for number in sorted(lines))
    return SentOut(agent, data + (b"\n" if meta.source_file.ends_with_newline or at is not None else b""), left_out)


def origin(store: ObjectStore, tree: graph.Tree) -> str:
    """The agent that the session's root names."""
    for oid in tree.children.get(None, []):
        entry = entry_of(store, tree.nodes[oid])
        if isinstance(entry, Session):
            return entry.agent
    return "unknown"

