"""Paths and ids of codex: the thread of a session, and the rollout file that holds it."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from gitsession.formats.base.groups import LF
from gitsession.formats.base.jsonl import parse
from gitsession.formats.base.times import to_iso, to_ms
from gitsession.formats.codex.parse import is_header, is_thread_id
from gitsession.model.entries import SessionHeader


def thread_id(source_id: str | None) -> str:
    """Return codex's id of a session's thread: the session's own if it is one of codex's, else one derived from it."""
    if source_id is not None and is_thread_id(source_id):
        return source_id
    digits = sha256((source_id or "").encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"


def base_of(data: bytes) -> str | None:
    """Return the thread that the rollout ``data`` continues, ``None`` if it continues none."""
    stated = _header_in(data).get("history_base")
    thread = stated.get("thread_id") if isinstance(stated, dict) else None
    return thread if isinstance(thread, str) else None


def place_of(data: bytes, segment: str | None) -> str:
    """Return the path below ``.codex`` of the rollout ``data``. ``segment``: the id of a later file of its thread."""
    header = _header_in(data)
    id = header.get("id")
    begun = SessionHeader(
        agent="codex", source_id=id if isinstance(id, str) else None, at_ms=to_ms(header.get("timestamp")) or 0
    )
    found = place(begun)
    return found if segment is None else f"{found.removesuffix('.jsonl')}_{segment}.jsonl"


def _header_in(data: bytes) -> dict[str, Any]:
    """Return the payload of the first header of a rollout."""
    for line in data.split(LF):
        if b"session_meta" in line and is_header(found := parse(line)) and isinstance(found, dict):
            payload: dict[str, Any] = found["payload"]
            return payload
    return {}


def lies(session: SessionHeader) -> Sequence[str]:
    """Return globs, below ``.codex``, with any day: the day in a name is that of a time zone that is not stated."""
    name = f"rollout-*-{glob.escape(thread_id(session.source_id))}.jsonl"
    return (f"sessions/*/*/*/{name}", f"archived_sessions/{name}")


def place(session: SessionHeader) -> str:
    """Return the path below ``.codex`` of a rollout: by the day it began in UTC, whatever folder it is in."""
    time = to_iso(session.at_ms)
    day, clock = time[:10], time[11:19].replace(":", "-")
    return f"sessions/{day.replace('-', '/')}/rollout-{day}T{clock}-{thread_id(session.source_id)}.jsonl"
