"""A session out of the store, home: the bytes its agent wrote, as they are (docs/format.md, "Rewritten files")."""

from __future__ import annotations

from dataclasses import dataclass

from gitsession.errors import Corrupt, Refused
from gitsession.formats import FORMATS
from gitsession.formats.record import TAIL
from gitsession.model.entries import Session
from gitsession.session import facts, graph, names
from gitsession.session.content import entry_of, payload_of
from gitsession.session.meta import meta_of
from gitsession.session.node import Node, position
from gitsession.store import refs
from gitsession.store.base import ObjectStore


@dataclass(frozen=True, slots=True)
class SentOut:
    """``data``: the file. ``left_out``: entries that are not the agent's own (ours), which its file cannot hold."""

    agent: str
    data: bytes
    left_out: int


def home(store: ObjectStore, sid: str, at: Node | None = None) -> SentOut:
    """The agent's own file. ``at``: the line that ends in this entry, also where it is no longer in the file.

    Raises ``Refused`` for a session that no agent's file made, ``Corrupt`` where the file would not be whole.
    """
    tree = graph.tree(store, sid)
    nodes = list(tree.nodes.values()) if at is None else list(graph.line(store, at.oid))
    if tree.damage and at is None:
        raise Corrupt(
            f"not all entries can be read, the first is {tree.damage[0].oid}: the file would not be whole",
            hint="`gitsession verify` names what is damaged; SESSION@ENTRY gives a line that is whole",
        )
    root = _root(store, tree)
    meta = meta_of(store, _home_of(store, sid, root))
    superseded = set(meta.source_file.superseded)
    if at is None:
        found = facts.imported_now(tree, superseded)
        headers = {number: node for number, node in meta.newest_lines().items() if position(node) not in superseded}
    else:
        found, headers = nodes, meta.lines_before(nodes)
        headers.pop(TAIL, None)  # it stood behind another line
    lines = {**headers, **{node.source.line: node for node in found if node.source}}
    if not lines:
        raise Refused(
            f"session {sid} was made here, not by {root.agent}: there is no file to give back",
            hint=f"`gitsession log {sid} --json` has what it says",
        )
    left_out = sum(node.source is None and node.parent is not None for node in nodes)
    payloads = [payload_of(store, lines[number]) for number in sorted(lines)]
    if TAIL in lines and not payloads[-1]:
        payloads.pop()  # it has found its line
    between = FORMATS[root.agent].BETWEEN
    data = between.join(payloads)
    ends_with_newline = meta.source_file.ends_with_newline or at is not None
    return SentOut(root.agent, data + (between if ends_with_newline else b""), left_out)


def _root(store: ObjectStore, tree: graph.Tree) -> Session:
    for oid in tree.children.get(None, []):
        entry = entry_of(store, tree.nodes[oid])
        if isinstance(entry, Session):
            return entry
    return Session(agent="unknown")


def _home_of(store: ObjectStore, sid: str, root: Session) -> str:
    """The session that has the header: this one; for a fork of ours, the one that was imported."""
    is_home = store.ref(refs.meta(sid)) is not None and meta_of(store, sid).newest_lines()
    if root.source_id is None or is_home:
        return sid
    return names.derived(root.agent, root.source_id, root.at_ms)

