"""Two replacements of one entry, of which each hides something else: what hides all that either hides.

Nobody has the text of which both were made, so the entry goes. One at which a session begins cannot go alone: of that,
what both say stays, and a text of which they say different things is hidden as a whole. Any number of them come to the
same, in whatever order they are joined. FROZEN: every store must come to it.
"""

from __future__ import annotations

import re

from gitsession.codec import cbor, holes, payload
from gitsession.codec.holes import StoredPayload
from gitsession.errors import Malformed
from gitsession.model.entries import Fork, SessionHeader
from gitsession.redaction.original import OPENS
from gitsession.sessions import layout

RULE = "redacted-twice"
_HIDDEN = f"{OPENS}{RULE}]"
_PLACEHOLDER = re.compile(rb"\[redacted:([a-z0-9-]{1,40})\]")


def joined(form: str, one: bytes, other: bytes) -> StoredPayload | None:
    """Of two whole payloads of this form; ``None``: the entry goes."""
    if form != layout.OWN:
        return None
    try:
        data = cbor.encode(_joined(cbor.decode(one), cbor.decode(other)))
        entry = payload.decode(data)[0]
    except Malformed:
        return None
    if not isinstance(entry, SessionHeader | Fork):
        return None
    rows = [(found.start(), len(found[0]), found[1].decode()) for found in _PLACEHOLDER.finditer(data)]
    return holes.cut(data, payload.spans(entry, data), rows)


def _joined(one: cbor.Plain, other: cbor.Plain) -> cbor.Plain:
    """Raises ``Malformed`` where they differ in more than texts."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return {key: _joined(value, other[key]) for key, value in one.items()}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [_joined(*pair) for pair in zip(one, other, strict=True)]
    if type(one) is not type(other) or (one != other and not isinstance(one, str)):
        raise Malformed("two redactions of something else")
    return one if one == other else _HIDDEN
