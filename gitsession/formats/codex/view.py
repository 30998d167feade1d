"""What a record of codex means. A view: free to get better, but for the kind, which the headline has told.

It is what the record's last line says; the lines that ride with it stay in the payload. A type we do not know is
``UnknownEntry`` under its own name.
"""

from __future__ import annotations

from collections.abc import Callable

from gitsession.formats.base.fields import Fields
from gitsession.formats.base.jsonl import LineFailure, Object
from gitsession.formats.base.times import to_ms
from gitsession.formats.codex.items import read_blocks, read_item
from gitsession.model import entries
from gitsession.model.blocks import Text
from gitsession.model.entries import Entry, Opaque, UnknownEntry

REPLACEMENT = "replacement_history"
"""Where a ``Compaction`` of codex keeps, in ``preserve``, the response items that stand for all before it."""


def entry_of(line: Object | LineFailure, payload: bytes) -> Entry:
    """The entry in the record ``payload``, of whose last line ``line`` is what ``jsonl.parse`` made. Never raises."""
    if isinstance(line, LineFailure):
        return Opaque(payload=payload, problem=line.reason)
    name, stated = line.get("type"), line.get("payload")
    at_ms = to_ms(line.get("timestamp")) or 0
    found: Entry | None = None
    if isinstance(stated, dict):
        if name == "response_item":
            beside = {key: value for key, value in line.items() if key not in ("timestamp", "type", "payload")}
            found = read_item(at_ms, stated, beside)
        elif isinstance(name, str):
            read = (_BY_EVENT.get(str(stated.get("type"))) if name == "event_msg" else None) or _BY_TYPE.get(name)
            found = read(at_ms, Fields(stated)) if read else None
    if found is not None:
        return found
    return UnknownEntry(at_ms=at_ms, name=name if isinstance(name, str) and name else "unknown", body=line)


def _session(at_ms: int, fields: Fields) -> Entry:
    started_ms = to_ms(fields.left.get("timestamp"))
    return entries.SessionHeader(
        at_ms=at_ms if started_ms is None else started_ms,
        agent="codex",
        source_id=fields.text("id"),
        cwd=fields.text("cwd"),
        parent=_parent(fields),
        extra=fields.left,
    )


def _parent(fields: Fields) -> str | None:
    """The thread that started this one as its sub-agent, else the one it was forked from."""
    spawned = fields.left.get("source")
    for step in ("subagent", "thread_spawn", "parent_thread_id"):
        spawned = spawned.get(step) if isinstance(spawned, dict) else None
    stated = (fields.left.get("parent_thread_id"), spawned, fields.left.get("forked_from_id"))
    return next((thread for thread in stated if isinstance(thread, str) and thread), None)


def _turn_context(at_ms: int, fields: Fields) -> Entry | None:
    model = fields.text("model")
    return entries.ModelChange(at_ms=at_ms, provider="", model=model, extra=fields.left) if model else None


def _compacted(at_ms: int, fields: Fields) -> Entry:
    summary = fields.text("message") or ""
    items = fields.left.get(REPLACEMENT)
    kept = {REPLACEMENT: fields.take(REPLACEMENT)} if isinstance(items, list) else None
    return entries.Compaction(at_ms=at_ms, summary=summary, preserve=kept, extra=fields.left)


def _mail(at_ms: int, fields: Fields) -> Entry:
    content = fields.take("content")
    blocks = (Text(content),) if isinstance(content, str) else read_blocks(content)
    return entries.CustomMessage(at_ms=at_ms, custom_type="agent_message", content=blocks, details=fields.left)


def _rolled_back(at_ms: int, fields: Fields) -> Entry:
    fields.drop("type")
    return entries.Custom(at_ms=at_ms, custom_type="thread_rolled_back", data=fields.left)


def _named(at_ms: int, fields: Fields) -> Entry:
    fields.drop("type")
    return entries.Title(at_ms=at_ms, title=fields.text("thread_name"), extra=fields.left)


_BY_TYPE: dict[str, Callable[[int, Fields], Entry | None]] = {
    "session_meta": _session,
    "turn_context": _turn_context,
    "compacted": _compacted,
    "inter_agent_communication": _mail,
}

_BY_EVENT: dict[str, Callable[[int, Fields], Entry | None]] = {
    "thread_rolled_back": _rolled_back,
    "thread_name_updated": _named,
}
