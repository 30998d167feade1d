"""Checks of a received tombstone set. The set must not change the local history in ways that a purge cannot.

A store that may push to this store, or from which this store fetches, may also purge entries here. So a set may remove
entries and redact parts of them. It must not replace an entry with other text, contain data that this store cannot
represent, or remove only the entry at which a session begins. Each store checks the set against its own entries.
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


def problem(reader: Reader, session_refs: Mapping[str, Oid], current: Tombstones, received: Tombstones) -> str:
    """Return the reason not to apply the set ``received`` to the entries of ``session_refs``; "" if there is none.

    ``current``: the current tombstone set.
    """
    try:
        for digest, replacement in received.replaced.items():
            if current.replaced.get(digest) != replacement:
                _check_form(digest, replacement)
        rewriter = Rewriter(reader, received)
        after = {name: rewriter.ref(name, oid) for name, oid in session_refs.items() if session_of(name)}
        for oid in rewriter.replaced_commits():
            reason = _entry_problem(reader, node.load(reader, oid), current, received)
            if reason:
                return reason
        return _session_problem(rewriter, after, current, received)
    except GitSessionError as error:
        return str(error)


def _check_form(digest: str, replacement: Replacement) -> None:
    """Raise ``Malformed`` if ``replacement`` cannot be the payload of a valid entry."""
    data = replacement.full_payload()
    for row in holes.hidden(replacement.stored.holes):
        if data[row.offset : row.offset + row.length] != f"[redacted:{row.rule}]".encode():
            raise Malformed("a placeholder does not match its hole", where=digest)
    if replacement.form == layout.OWN:
        payload.decode(data)


def _entry_problem(reader: Reader, entry: Node, current: Tombstones, received: Tombstones) -> str:
    try:
        parts = content.entry_tree(reader, entry)
        before = content.full_payload(reader, entry, parts)
    except DAMAGE:
        return ""  # a missing entry cannot be compared
    digest = parts.digest.hex()
    original_digest = entry.replaces.hex() or digest
    key = original_digest if received.has_entry(original_digest) else digest
    replacement = received.replacement_of(key)
    if current.has_entry(key) and current.replacement_of(key) == replacement:
        return ""
    if replacement is None:
        reason = f"a session begins with the entry {key}, which can be purged only with the whole session"
        return reason if entry.starts_session else ""
    headline = tombstone.replacement_headline(entry, replacement)
    if (message.kind_of(headline), headline.role) != (entry.kind, entry.role):
        return f"the replacement of the {entry.role} {entry.kind} {key} has another role or kind"
    if entry.replaces and digest not in _successive_digests(original_digest, received):
        return ""  # no known tombstone set contains this replacement, so it cannot be compared
    if not _is_redaction(replacement.form, replacement.full_payload(), before):
        return f"the replacement of the entry {key} does more than hide a part of it"
    return ""


def _successive_digests(digest: str, received: Tombstones) -> set[str]:
    """Return the digests of an entry's successive replacements. A second redaction replaces the first replacement."""
    found: set[str] = set()
    while digest in received.replaced and digest not in found:
        found.add(digest)
        digest = received.replaced[digest].digest
    return {*found, digest}


def _session_problem(rewriter: Rewriter, after: Mapping[str, Oid], current: Tombstones, received: Tombstones) -> str:
    """Return the reason to reject the purge of a session; "" if there is none.

    The purge must name the first entry of the session. Only a store that has the session can name it.
    """
    ends: dict[str, list[str]] = {}
    for name, oid in after.items():
        sid = session_of(name)
        if sid in received.sessions and received.roots_of(sid) != current.sessions.get(sid):
            ends.setdefault(sid, []).append(_replaced_digest(rewriter, oid))
    for sid, digests in ends.items():
        if not received.roots_of(sid) & set(digests):
            return f"session {sid} begins with another entry than the tombstone names"
    return ""


def _replaced_digest(rewriter: Rewriter, oid: Oid) -> str:
    """Return the digest of the entry that the tombstone ``oid`` replaces; "" if ``oid`` is not a tombstone."""
    entry = node.load(rewriter, oid)
    return tombstone.of_node(rewriter, entry).of if entry.is_tombstone else ""


def _is_redaction(form: str, redacted: bytes, original: bytes) -> bool:
    """Return whether ``redacted`` differs from ``original`` only by placeholders."""
    if form != layout.OWN:
        return _is_redacted_text(redacted, original)
    return _is_redacted_value(cbor.decode(redacted), cbor.decode(original))


def _is_redacted_value(redacted: cbor.Plain, original: cbor.Plain) -> bool:
    if isinstance(redacted, str) and isinstance(original, str):
        return _is_redacted_text(redacted.encode("utf-8", "surrogatepass"), original.encode("utf-8", "surrogatepass"))
    if isinstance(redacted, bytes) and isinstance(original, bytes):
        return _is_redacted_text(redacted, original)
    if isinstance(redacted, list) and isinstance(original, list):
        return len(redacted) == len(original) and all(map(_is_redacted_value, redacted, original))
    if isinstance(redacted, dict) and isinstance(original, dict):
        remaining = dict(original)
        for key, value in sorted(redacted.items(), key=lambda row: row[0] not in original):
            same = [
                candidate
                for candidate in ([key] if key in remaining else remaining)
                if _is_redacted_value(key, candidate)
            ]
            name = next((candidate for candidate in same if _is_redacted_value(value, remaining[candidate])), None)
            if name is None:
                return False
            del remaining[name]
        return not remaining
    return type(redacted) is type(original) and redacted == original


def _is_redacted_text(redacted: bytes, original: bytes) -> bool:
    rows = [(found.start(), len(found[0]), "") for found in _PLACEHOLDER.finditer(redacted)]
    return matches(redacted, rows, original)
