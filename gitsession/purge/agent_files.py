"""The agents' own session files that still hold what a purge removes: they are named, and stay as they are."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from gitsession.purge import finding
from gitsession.purge.finding import AgentFileHit, PurgePlan

CHUNK_BYTES = 1 << 20


def with_agent_files(plan: PurgePlan, imported: Iterable[tuple[Path, str]]) -> PurgePlan:
    """Return ``plan`` with the files of ``imported`` that hold what it removes, but those that this store wrote.

    ``imported``: each file and the session that it was imported as.
    """
    exported = {hit.export.path for hit in plan.exports}
    spellings = [spelling for text in plan.texts for spelling in finding.spellings(text)]
    found = [
        AgentFileHit(path, sid)
        for path, sid in imported
        if os.fspath(path) not in exported
        and (path.is_file() if sid in plan.sessions else bool(spellings) and _holds(path, spellings))
    ]
    return replace(plan, agent_files=tuple(found))


def _holds(path: Path, spellings: Sequence[bytes]) -> bool:
    """Return whether the regular file ``path`` holds one of ``spellings``; ``False`` if it cannot be read."""
    overlap = max(map(len, spellings), default=1) - 1
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return False
        held = b""
        try:
            while chunk := file.read(CHUNK_BYTES):
                held += chunk
                if any(spelling in held for spelling in spellings):
                    return True
                held = held[len(held) - overlap :] if overlap < len(held) else held
        except OSError:
            return False
    return False
