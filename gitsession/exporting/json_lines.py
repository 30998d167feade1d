"""Writer of sessions as JSON lines, for programs that do not support any agent's format (docs/reference/json.md).

The lines of type ``entry`` contain the views of the entries, as people and programs read them.
``sync.import_json_lines`` reads the file again, and needs the payloads exactly. So a line of type ``record`` is added
for each entry whose payload does not follow from its view, and for each entry without a view: the root, the properties
of the session on ``meta``, and superseded and purged entries.
"""

from __future__ import annotations

import json
from typing import Any

from gitsession.codec import entry_json, payload
from gitsession.codec.digest import to_base64url
from gitsession.errors import Malformed
from gitsession.formats.base.outgoing import Outgoing, OutgoingEntry, OutgoingLine, WrittenFile
from gitsession.model.entries import kind_of
from gitsession.model.plain import plain
from gitsession.sessions import content, graph, layout
from gitsession.sessions.active_branch import active
from gitsession.sessions.node import Node
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

AGENT = "jsonl"
SCHEMA = "gitsession/jsonl/1"


def write(out: Outgoing) -> WrittenFile:
    """Write one line for the session and one for each entry, parents before children. No entry is omitted."""
    head = {
        "schema": SCHEMA,
        "type": "session",
        "session": out.session.source_id,
        "agent": out.session.agent,
        "cwd": out.session.cwd,
        "at": out.session.at_ms,
        "title": out.name(),
        "leaf": out.leaf,
        "labels": out.all_labels(),
    }
    return WrittenFile(
        (OutgoingLine(_json(head)), *(OutgoingLine(_json(_entry(each)), each.key) for each in out.entries))
    )


def with_records(written: WrittenFile, store: ObjectStore, sid: str, at: Node | None) -> WrittenFile:
    """Return a file that ``write`` returned, with what an import needs to write the same entries.

    ``at``: the last entry of the exported history; ``None`` for all entries.
    """
    head, *lines = [json.loads(line.data) for line in written.lines]
    nodes, tips = _nodes(store, sid, at)
    chains = {node.oid: to_base64url(node.chain) for node in nodes}
    head["root"] = chains[nodes[0].oid]
    head["branches"] = {name: chains[oid] for name, oid in tips.items() if refs.is_branch(name)}
    head["meta"] = {name: chains[oid] for name, oid in tips.items() if not refs.is_branch(name)}
    head["active"] = active(store, sid) if at is None else refs.MAIN
    views = {view["id"]: view for view in lines}
    records = []
    for node in nodes:
        record = _record(store, node, chains)
        nonce = _nonce(views.get(record["id"]), record, head["root"])
        if nonce is None:
            records.append(record)
        else:
            views[record["id"]]["nonce"] = nonce
    keys = [line.key for line in written.lines[1:]]
    found = [OutgoingLine(_json(view), key) for view, key in zip(lines, keys, strict=True)]
    return WrittenFile((OutgoingLine(_json(head)), *found, *(OutgoingLine(_json(record)) for record in records)))


def _nodes(store: ObjectStore, sid: str, at: Node | None) -> tuple[list[Node], dict[str, str]]:
    """Return the entries, parents before children, and the tips of the refs that lead to them."""
    if at is not None:
        return list(graph.history(store, at.oid))[::-1], {refs.MAIN: at.oid}
    tree = graph.tree(store, sid)
    nodes = {node.oid: node for node, _ in tree.walk()}
    named = ((name.removeprefix(refs.session(sid)), oid) for name, oid in store.refs(refs.session(sid)).items())
    tips = {name: oid for name, oid in named if not refs.is_files(name)}
    for oid in (oid for name, oid in tips.items() if refs.is_meta(name)):
        above = []
        for node in graph.history(store, oid):
            if node.oid in nodes:
                break
            above.append(node)
        nodes |= {node.oid: node for node in reversed(above)}
    return list(nodes.values()), tips


def _record(store: ObjectStore, node: Node, chains: dict[str, str]) -> dict[str, Any]:
    """Return the line of a stored entry, from which the same entry can be written."""
    parts = content.entry_tree(store, node)
    source = node.source
    optional = {
        "holes": plain(parts.holes) if parts.holes else None,
        "blobs": [[encoding, plain(data)] for encoding, data in content.hole_contents(store, node, parts)] or None,
        "source": {"agent": source.agent, "id": source.id, "line": source.line} if source is not None else None,
        "merges": chains.get(node.second_parent or ""),
        "replaces": node.replaces.hex() or None,
    }
    return {
        "type": "record",
        "id": chains[node.oid],
        "parent": chains.get(node.parent or ""),
        "form": parts.form,
        "payload": plain(parts.stored),
        **{name: value for name, value in optional.items() if value is not None},
    }


def _nonce(view: dict[str, Any] | None, record: dict[str, Any], root: str) -> dict[str, str] | None:
    """Return the nonce of an entry if the record follows from its view and the nonce; ``None`` otherwise."""
    if view is None or record["form"] != layout.OWN or {"source", "merges", "replaces"} & record.keys():
        return None
    if (view["parent"] or root) != record["parent"]:
        return None
    try:
        data = entry_json.bytes_of(record["payload"], "payload")
        entry = entry_json.from_json(view["kind"], view["at"], view["body"])
        whole = payload.decode(data)[1] if "holes" not in record else b""
        if whole and payload.encode(entry, whole) == data and not payload.spans(entry, data):
            return dict(plain(whole))
    except Malformed:
        pass
    return None


def _entry(each: OutgoingEntry) -> dict[str, Any]:
    fields = {"kind": kind_of(each.entry), "at": each.entry.at_ms, "body": plain(each.entry)}
    return {"type": "entry", "id": each.key, "parent": each.parent, "source_id": each.id, **fields}


def _json(value: dict[str, Any]) -> bytes:
    """Return ``value`` as ASCII JSON, because UTF-8 cannot represent lone surrogates."""
    return json.dumps(value, separators=(",", ":"), default=str).encode()
