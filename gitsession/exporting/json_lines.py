"""Writer of sessions as JSON lines, for programs that do not support any agent's format.

Each line contains the view of an entry (docs/reference/json.md, "Export as JSON lines"). The file cannot be imported.
"""

from __future__ import annotations

import json
from typing import Any

from gitsession.formats.base.outgoing import Outgoing, OutgoingEntry, OutgoingLine, WrittenFile
from gitsession.model.entries import kind_of
from gitsession.model.plain import plain

AGENT = "jsonl"


def write(out: Outgoing) -> WrittenFile:
    """Write one line for the session and one for each entry, parents before children. No entry is omitted."""
    head = {
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


def _entry(each: OutgoingEntry) -> dict[str, Any]:
    fields = {"kind": kind_of(each.entry), "at": each.entry.at_ms, "body": plain(each.entry)}
    return {"type": "entry", "id": each.key, "parent": each.parent, "source_id": each.id, **fields}


def _json(value: dict[str, Any]) -> bytes:
    """Return ``value`` as ASCII JSON, because UTF-8 cannot represent lone surrogates."""
    return json.dumps(value, separators=(",", ":"), default=str).encode()
