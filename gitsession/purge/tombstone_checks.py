"""Checks of a received tombstone set. It must not change the local history more than a purge can.

A store that may push to this store, or that this store fetches from, may also purge entries here. So a set may remove
entries and redact parts of them. It must not replace an entry with other text, contain data that this store cannot
represent, or remove only the entry at which a session begins. Each store checks the entries that it has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gitsession.codec import cbor, holes, message, payload
from gitsession.errors import GitSessionError, Malformed
from gitsession.git.types import Oid, Reader
from gitsession.purge.rewriting import Rewriter, session_of
from gitsession.redaction.original import matches
from gitsession.sessions import content, layout, node, tombstone
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.node import Node
from gitsession.sessions.tombstone_set import Replacement, Tombstones

_PLACEHOLDER = re.compile(rb"\[redacted:[^\[\]\n]{1,100}\]")


def problem(reader: Reader, named: Mapping[str, Oid], known: Tombstones, said: Tombstones) -> str:
    """Return the reason not to apply the set ``said`` to ``named``, the refs to entries; "" if there is none.

    ``known``: the current tombstone set.
    """
    try:
        for digest, by in said.replaced.items():
            if known.replaced.get(digest) != by:
                _check_form(digest, by)
        rewriter = Rewriter(reader, said)
        after = {name: rewriter.ref(name, oid) for name, oid in named.items() if session_of(name)}
        for oid in rewriter.gone():
            what = _of_entry(reader, node.load(reader, oid), known, said)
            if what:
                return what
        return _of_sessions(rewriter, after, known, said)
    except GitSessionError as error:
        return str(error)


def _check_form(digest: str, by: Replacement) -> None:
    """Raise ``Malformed`` if no valid entry can have this replacement as its payload."""
    data = by.whole()
    for row in holes.hidden(by.stored.holes):
        if data[row.offset : row.offset + row.length] != f"[redacted:{row.rule}]".encode():
            raise Malformed("a placeholder does not match its hole", where=digest)
    if by.form == layout.OWN:
        payload.decode(data)


def _of_entry(reader: Reader, found: Node, known: Tombstones, said: Tombstones) -> str:
    try:
        parts = content.kept(reader, found)
        before = content.whole(reader, found, parts)
    except DAMAGE:
        return ""  # a missing entry cannot be compared
    digest = parts.digest.hex()
    first = found.replaces.hex() or digest
    key = first if said.has_entry(first) else digest
    by = said.instead(key)
    if known.has_entry(key) and known.instead(key) == by:
        return ""
    if by is None:
        what = f"a session begins with the entry {key}, which can be purged only with the whole session"
        return what if found.starts_session else ""
    words = tombstone.words_of(found, by)
    if (message.kind_of(words), words.role) != (found.kind, found.role):
        return f"the replacement of the {found.role} {found.kind} {key} has another role or kind"
    if found.replaces and digest not in _ways(first, said):
        return ""  # no known set made this replacement, so it cannot be compared
    if not _hides(by.form, by.whole(), before):
        return f"the replacement of the entry {key} does more than hide a part of it"
    return ""


def _ways(digest: str, said: Tombstones) -> set[str]:
    """Return an entry's successive replacements. A second redaction replaces a part of the first replacement."""
    found: set[str] = set()
    while digest in said.replaced and digest not in found:
        found.add(digest)
        digest = said.replaced[digest].digest
    return {*found, digest}


def _of_sessions(rewriter: Rewriter, after: Mapping[str, Oid], known: Tombstones, said: Tombstones) -> str:
    """Return the reason to reject the purge of a session; "" if there is none.

    The purge must name the entry at which the session begins. Only a store with the session can do this.
    """
    ends: dict[str, list[str]] = {}
    for name, oid in after.items():
        sid = session_of(name)
        if sid in said.sessions and said.began(sid) != known.sessions.get(sid):
            ends.setdefault(sid, []).append(_stands_for(rewriter, oid))
    for sid, digests in ends.items():
        if not said.began(sid) & set(digests):
            return f"session {sid} begins with another entry than the tombstone names"
    return ""


def _stands_for(rewriter: Rewriter, oid: Oid) -> str:
    """Return the digest of the entry that the tombstone ``oid`` replaces; "" if ``oid`` is not a tombstone."""
    found = node.load(rewriter, oid)
    return tombstone.of_node(rewriter, found).of if found.is_tombstone else ""


def _hides(form: str, redacted: bytes, original: bytes) -> bool:
    """Return whether ``redacted`` differs from ``original`` only by placeholders."""
    if form != layout.OWN:
        return _is_part(redacted, original)
    return _is_alike(cbor.decode(redacted), cbor.decode(original))


def _is_alike(redacted: cbor.Plain, original: cbor.Plain) -> bool:
    if isinstance(redacted, str) and isinstance(original, str):
        return _is_part(redacted.encode("utf-8", "surrogatepass"), original.encode("utf-8", "surrogatepass"))
    if isinstance(redacted, bytes) and isinstance(original, bytes):
        return _is_part(redacted, original)
    if isinstance(redacted, list) and isinstance(original, list):
        return len(redacted) == len(original) and all(map(_is_alike, redacted, original))
    if isinstance(redacted, dict) and isinstance(original, dict):
        left = dict(original)
        for key, value in sorted(redacted.items(), key=lambda row: row[0] not in original):
            same = [one for one in ([key] if key in left else left) if _is_alike(key, one)]
            name = next((one for one in same if _is_alike(value, left[one])), None)
            if name is None:
                return False
            del left[name]
        return not left
    return type(redacted) is type(original) and redacted == original


def _is_part(redacted: bytes, original: bytes) -> bool:
    rows = [(found.start(), len(found[0]), "") for found in _PLACEHOLDER.finditer(redacted)]
    return matches(redacted, rows, original)
