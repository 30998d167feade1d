"""Origins of sessions: the session and the entry from which a session was started, forked or resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gitsession.codec.digest import to_base64url
from gitsession.dataclass import dataclass
from gitsession.formats import Delegating, with_capability
from gitsession.git.types import Oid
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Attachment, Fork, Message, SessionHeader
from gitsession.sessions import content, graph
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.graph import Tree
from gitsession.sessions.meta import Meta, meta_of
from gitsession.sessions.node import Node, load
from gitsession.store import refs
from gitsession.store.interface import ObjectStore


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a session.

    Attributes:
        session: The id of the session that started this one, from which it was forked, or that it continues.
        entry: The entry with the call that started this session, the entry that was forked, or the last entry that was
            copied from the continued session.
    """

    session: str
    entry: Node | None


def origin(
    store: ObjectStore, sid: str, source_id: str | None, start: Oid, find: Callable[[str, str], str | None]
) -> Origin | None:
    """Return the origin of session ``sid``; ``None`` if it has no origin, or if the origin is not in the store.

    ``source_id``: the agent's id of ``sid``. ``start``: the entry at which ``sid`` begins. ``find``: a function that
    returns the id of a session, given the name of an agent and the agent's id of the session. The entries of the
    original session are read only up to the call.
    """
    meta = meta_of(store, sid)
    header = meta.header
    parent_id = parent_of(header)
    if header is not None and parent_id is not None and refs.is_sid(parent_id):
        return _at_chain(store, parent_id, header.parent_entry)
    parent = find(header.agent, parent_id) if header is not None and parent_id is not None else None
    if parent is None:
        continued = meta.continuation
        if continued is not None and continued.session != sid:
            return _at_chain(store, continued.session, continued.entry)
        return _fork_origin(store, start)
    format = with_capability(header.agent, Delegating) if header is not None else None
    if format is None or source_id is None:
        return Origin(parent, None)
    wanted = {sid: _Child(source_id, _attachments(meta, store))}
    return Origin(parent, dict(_calls(store, graph.tree(store, parent), format, wanted)).get(sid))


def _at_chain(store: ObjectStore, session: str, chain: str | None) -> Origin | None:
    """Return the entry of ``session`` with the encoded chain digest ``chain``; ``None`` if there is no such session."""
    if not graph.branches(store, session):
        return None
    nodes = graph.tree(store, session).nodes.values() if chain is not None else ()
    return Origin(session, next((node for node in nodes if to_base64url(node.chain) == chain), None))


def _fork_origin(store: ObjectStore, start: Oid) -> Origin | None:
    """Return the session and the entry from which a fork was created; ``None`` if the session is not a fork."""
    node = load(store, start)
    fork = content.entry_of(store, node) if node.kind == Fork.kind else None
    if not isinstance(fork, Fork) or fork.parent is None or not graph.branches(store, fork.parent):
        return None
    return Origin(fork.parent, load(store, node.parent) if node.parent is not None else None)


@dataclass(frozen=True, slots=True)
class _Child:
    """A session that another one started: the agent's id of the session, and its attachments by name."""

    id: str
    beside: Mapping[str, bytes]


def _attachments(meta: Meta, store: ObjectStore) -> dict[str, bytes]:
    entries = [content.entry_of(store, node) for node in meta.nodes if node.kind == Attachment.kind]
    return {entry.name: entry.data for entry in entries if isinstance(entry, Attachment)}


def _calls(
    store: ObjectStore, tree: Tree, format: Delegating, wanted: Mapping[str, _Child]
) -> Iterator[tuple[str, Node | None]]:
    """Yield each session in ``wanted`` that a call in ``tree`` started, with the entry of that call.

    The entry is ``None`` if only the result of the call is in ``tree``.
    """
    remaining = dict(wanted)
    for node, _ in tree.walk():
        if not remaining:
            return
        if node.source is None:
            continue
        try:
            payload = content.payload_of(store, node)
        except DAMAGE:
            continue
        for sid, each in list(remaining.items()):
            call = format.starting_call(payload, each.id, each.beside)
            if call:
                del remaining[sid]
                yield sid, _calling_entry(store, tree, node, call)


def _calls_in(store: ObjectStore, node: Node) -> list[ToolCall]:
    """Return the tool calls in an entry; an empty list if the entry cannot be read."""
    entry = content.entry_of(store, node)
    return [each for each in entry.content if isinstance(each, ToolCall)] if isinstance(entry, Message) else []


def _calling_entry(store: ObjectStore, tree: Tree, node: Node | None, call: str) -> Node | None:
    """Return the entry with the call: ``node``, or the nearest entry before it that contains the call."""
    while node is not None:
        if any(each.id == call for each in _calls_in(store, node)):
            return node
        node = tree.nodes.get(node.parent or "")
    return None


_FILE = ".jsonl"


def parent_of(header: SessionHeader | None) -> str | None:
    """Return the agent's id of the session that started this one.

    pi and omp headers contain the path of that session's file. The name of the file ends with the agent's id.
    """
    parent = header.parent if header is not None else None
    if not parent or not parent.endswith(_FILE):
        return parent or None
    return parent.replace("\\", "/").rpartition("/")[2].removesuffix(_FILE).rpartition("_")[2] or None


def is_delegated(agent: str, source_id: str | None, header: SessionHeader | None) -> bool:
    """Return whether a session is that of a sub-agent: another session started it."""
    if header is not None and refs.is_sid(header.parent or ""):
        return True
    if header is None or source_id is None:
        return False
    format = with_capability(agent, Delegating)
    return format is not None and format.is_delegated(source_id, header)
