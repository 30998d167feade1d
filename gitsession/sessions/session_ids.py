"""Session ids: a date, followed by characters that are random or a hash of the source (docs/reference/format.md)."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime

from gitsession.codec.digest import hash_of, to_base32

LENGTH = 13
LENGTH_LONG = 26

_NAME = re.compile(r"[0-9]{8}-[a-z2-7]{13}(?:[a-z2-7]{13})?")


def random(at_ms: int) -> str:
    """Return a random id for a new session that gitsession writes."""
    return f"{date(at_ms)}-{to_base32(os.urandom(16), LENGTH)}"


def seed(agent: str, source_id: str, started_ms: int) -> bytes:
    """Return the bytes that identify an imported session."""
    return b"\0".join(
        [agent.encode("utf-8", "surrogatepass"), source_id.encode("utf-8", "surrogatepass"), str(started_ms).encode()]
    )


def derived(agent: str, source_id: str, started_ms: int, *, length: int = LENGTH) -> str:
    """Return the id of an imported session. It is the same in every store."""
    return f"{date(started_ms)}-{to_base32(hash_of(seed(agent, source_id, started_ms)), length)}"


def is_valid(text: str) -> bool:
    """Return whether ``text`` has the format of a session id."""
    return _NAME.fullmatch(text) is not None


def date(at_ms: int) -> str:
    """Return the date with which a session id begins."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y%m%d") if at_ms > 0 else "19700101"
    except (OverflowError, ValueError, OSError):
        return "19700101"
