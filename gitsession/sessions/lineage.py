"""Which session another one was begun from."""

from __future__ import annotations

from gitsession.formats import DELEGATING
from gitsession.model.entries import Session

_FILE = ".jsonl"


def parent_of(header: Session | None) -> str | None:
    """What the agent calls the session that began this one; pi and omp name its file, which ends in that."""
    stated = header.parent if header is not None else None
    if not stated or not stated.endswith(_FILE):
        return stated or None
    return stated.replace("\\", "/").rpartition("/")[2].removesuffix(_FILE).rpartition("_")[2] or None


def is_delegated(agent: str, source_id: str | None, header: Session | None) -> bool:
    """Return whether the session is a sub-agent's, as far as its agent states it."""
    format = DELEGATING.get(agent)
    return format is not None and header is not None and format.is_delegated(source_id or "", header)
