"""From which entry of which session another one was started, as sub-agents are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gitsession.formats import DELEGATING, Delegating
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Attachment, Message
from gitsession.session import content, graph
from gitsession.session.gaps import DAMAGE
from gitsession.session.graph import Tree
from gitsession.session.lineage import parent_of
from gitsession.session.meta import meta_of
from gitsession.session.node import Node
from gitsession.store.base import ObjectStore


@dataclass(frozen=True, slots=True)
class Origin:
    """``session``: the one that started it, or that it was forked from. ``entry``: the call that started it."""

    session: str
    entry: Node | None


def origin(
    store: ObjectStore, sid: str, source_id: str | None, find: Callable[[str, str], str | None]
) -> Origin | None:
    """Where the session ``sid`` came from, ``None`` if from nowhere else, or if that session is not here.

    ``source_id``: what its agent calls it; ``find``: the session that an agent calls so. Reads that session up to the
    call.
    """
    meta = meta_of(store, sid)
    header = meta.header
    format = DELEGATING.get(header.agent) if header is not None else None
    named = parent_of(header)
    above = find(header.agent, named) if header is not None and named is not None else None
    if above is None:
        return None
    if format is None or source_id is None:
        return Origin(above, None)
    kept = [content.entry_of(store, node) for node in meta.nodes if node.kind == Attachment.kind]
    beside = {entry.name: entry.data for entry in kept if isinstance(entry, Attachment)}
    return Origin(above, _call(store, graph.tree(store, above), format, source_id, beside))


def _call(store: ObjectStore, tree: Tree, format: Delegating, id: str, beside: Mapping[str, bytes]) -> Node | None:
    for node, _ in tree.walk():
        if node.source is None:
            continue
        try:
            call = format.began(content.payload_of(store, node), id, beside)
        except DAMAGE:
            continue
        if call:
            return _made_by(store, tree, node, call)
    return None


def _made_by(store: ObjectStore, tree: Tree, node: Node | None, call: str) -> Node | None:
    """The entry that makes the call: this one, or the nearest before it."""
    while node is not None:
        said = content.entry_of(store, node)
        if isinstance(said, Message) and any(isinstance(each, ToolCall) and each.id == call for each in said.content):
            return node
        node = tree.nodes.get(node.parent or "")
    return None
