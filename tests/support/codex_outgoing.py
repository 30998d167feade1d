"""Sessions to be exported to codex: entries alone, and entries added to an imported file of codex."""

from __future__ import annotations

from typing import Any

from gitsession.formats.base.outgoing import Outgoing, OutgoingEntry
from gitsession.formats.codex.agent import codex
from gitsession.model.entries import Entry, SessionHeader

HEADER = SessionHeader(agent="codex", source_id="20261121-abcdefghijklm", cwd="/work", at_ms=1_795_293_262_452)


def line_of(*said: Entry, **fields: Any) -> Outgoing:
    """Return an outgoing session with these entries in sequence."""
    leaving = [
        OutgoingEntry(key=f"k{at}", parent=f"k{at - 1}" if at else None, entry=entry) for at, entry in enumerate(said)
    ]
    leaf = leaving[-1].key if leaving else None
    return Outgoing(**{"session": HEADER, "entries": tuple(leaving), "leaf": leaf, **fields})


def own(data: bytes, *made_here: Entry, leaf_at: str | None = None) -> Outgoing:
    """Return an imported file of codex with entries added in gitsession, after its last line or after ``leaf_at``."""
    source = codex.split(data)
    entries_ = [
        OutgoingEntry(
            key=str(record.line), parent=None if record.parent is None else str(record.parent),
            entry=codex.read(record.payload), line=record.payload, id=record.source_id,
        )
        for record in source.records
    ]  # fmt: skip
    below = leaf_at or entries_[-1].key
    for number, entry in enumerate(made_here):
        entries_.append(OutgoingEntry(key=f"k{number}", parent=below, entry=entry))
        below = f"k{number}"
    head = tuple(record.payload for record in source.meta)
    return Outgoing(session=HEADER, entries=tuple(entries_), leaf=below, head=head)
