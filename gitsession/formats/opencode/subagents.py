"""Which call of a session of opencode's began one of its sub-agents."""

from __future__ import annotations

from collections.abc import Mapping

from gitsession.formats.base.jsonl import Failure, Object, parse


def began(payload: bytes, id: str, beside: Mapping[str, bytes]) -> str:
    """``Delegating.began``: the call whose state names the session."""
    record = parse(payload) if id.encode("utf-8", "surrogatepass") in payload else None
    parts = record.get("parts") if isinstance(record, dict) else None
    for part in parts if isinstance(parts, list) else ():
        call = part.get("callID") if isinstance(part, dict) and begins(part, id) else None
        if isinstance(call, str):
            return call
    return ""


def begins(part: Object | Failure, id: str) -> bool:
    """Whether ``part`` is a call that the session ``id`` came of."""
    state = None if isinstance(part, Failure) else part.get("state")
    metadata = state.get("metadata") if isinstance(state, dict) else None
    return isinstance(metadata, dict) and metadata.get("sessionId") == id
