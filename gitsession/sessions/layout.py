"""The names in an entry's tree (docs/reference/format.md, "An entry is a commit")."""

from __future__ import annotations

import re

from gitsession.errors import Malformed
from gitsession.pattern import pattern

HOLES = "holes.cbor"
BLOBS = "blobs"
SUMMARY = "summary.md"
FILES = "files"
OPERATION = "op.cbor"
PURGED_ENTRIES, PURGED_FILES, PURGED_SESSIONS = "entries", "files", "sessions"
"""The folders in the tree of a tombstone set (docs/reference/format.md, "Tombstones")."""

FILE_MODE = "100644"
TREE_MODE = "40000"

OWN = "cbor"
"""The form of gitsession's own payloads."""

PAYLOAD = "entry."
"""The name of a payload, without the form at its end."""

_PAYLOAD = pattern(re.escape(PAYLOAD) + r"([a-z0-9]{1,16})")


def form_of(name: str) -> str | None:
    """Return the form of the payload ``name``; ``None`` if ``name`` is not a payload.

    Unknown forms are returned, too.
    """
    found = _PAYLOAD.fullmatch(name)
    return found[1] if found else None


def check(name: str, where: str) -> None:
    """Raise ``Malformed`` for a name that is not allowed in an entry's tree."""
    if form_of(name) is None and name not in (HOLES, BLOBS, SUMMARY, FILES):
        raise Malformed(f"{name[:80]!r} is not allowed in the tree of an entry", where=where)
