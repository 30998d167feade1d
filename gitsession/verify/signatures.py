"""Signatures: signed statements about the tip of a branch, stored as ``Seal`` entries on ``meta`` (decision 0026).

The signed text contains the chain digest of the tip. The chain digest is a hash of all payloads up to the tip, so the
signature covers all of them. Unlike an oid, it is the same in every store, with every object format of git, and after a
purge. A signature does not lock a branch: entries can be appended after the signed tip, and these are not signed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from gitsession.codec.digest import to_base64url
from gitsession.errors import Malformed, NotFound
from gitsession.git.signing import Signature, Signing
from gitsession.git.types import Oid
from gitsession.model.entries import Seal, Tombstone
from gitsession.sessions import graph, session_ids, tombstone_set
from gitsession.sessions.content import entry_of
from gitsession.sessions.node import Node
from gitsession.sessions.tombstone_set import Tombstones
from gitsession.store import refs
from gitsession.store.interface import ObjectStore
from gitsession.verify.findings import Finding, SignatureCheck, State
from gitsession.verify.semantics import Sessions

WRONG: dict[State, str] = {
    "bad": "it does not match its statement",
    "revoked": "the key of {by} was revoked",
    "gone": "the signed entries no longer exist",
    "misplaced": "it belongs to another session, or has another number of entries",
    "altered": "signed entries were replaced, and not by a purge or a redaction",
}
_CHAIN = re.compile(r"[A-Za-z0-9_-]{43}")


def problem(sealed: SignatureCheck) -> Finding | None:
    """Return the problem of a signature, or ``None``. A signature that cannot be checked is not a problem."""
    if not sealed.is_wrong:
        return None
    what = WRONG[sealed.state].format(by=sealed.by or "an unknown signer")
    words = f"the signature of branch {sealed.entry.branch[:40]!a}: {what}"
    return Finding(sealed.node.oid, words, refs.meta(sealed.sid))


def statement(entry: Seal) -> bytes:
    """Return the text to sign. FROZEN: a changed text needs another first line. Raises ``Malformed`` for bad names."""
    leaf = refs.leaf(entry.session, entry.branch)
    if not refs.is_session_ref(leaf) or not session_ids.is_one(entry.session) or not _CHAIN.fullmatch(entry.leaf):
        raise Malformed("invalid session, branch or chain digest in a signature")
    lines = (
        "gitsession seal 1",
        f"session {entry.session}",
        f"branch {entry.branch}",
        f"chain {entry.leaf}",
        f"entries {entry.entries}",
        f"at {entry.at_ms}",
    )
    return "".join(f"{line}\n" for line in lines).encode()


def make(store: ObjectStore, sid: str, branch: str, at_ms: int, by: Signing, key: str = "") -> Seal:
    """Return a signature of the current tip of ``branch``. It is not stored yet.

    Raises ``NotFound``, and ``Unavailable`` if signing fails. If an entry is lost, raises the errors of
    ``graph.history``, because entries that cannot be read must not be signed.
    """
    leaf = store.ref(refs.leaf(sid, branch)) if refs.is_branch(branch) else None
    if leaf is None:
        raise NotFound(f"session {sid} has no branch {branch[:80]!r}")
    line = list(graph.history(store, leaf))
    fields = {"session": sid, "branch": branch, "leaf": to_base64url(line[0].chain), "entries": len(line)}
    text = statement(Seal(at_ms=at_ms, format="", signature=b"", **fields))  # type: ignore[arg-type]
    made = by.sign(text, key)
    return Seal(at_ms=at_ms, format=made.format, signature=made.armoured, **fields)  # type: ignore[arg-type]


def of_session(store: ObjectStore, sid: str, by: Signing) -> list[SignatureCheck]:
    """Check the signatures of one session, newest first."""
    leaves = store.refs(refs.session(sid))
    nodes = {node.oid: node for leaf in leaves.values() for node in _readable(store, sid, leaf)}
    return list(look(Sessions(leaves, nodes, partial(entry_of, store)), by, tombstone_set.read(store)))


def _readable(store: ObjectStore, sid: str, leaf: str) -> Iterator[Node]:
    return (node for node in graph.history_with_gaps(store, sid, leaf) if isinstance(node, Node))


def look(
    sessions: Sessions, by: Signing | None = None, tombstones: Tombstones | None = None
) -> Iterator[SignatureCheck]:
    """Check every signature of ``sessions``.

    ``by``: settings with the trusted signers; by default, those of the user. ``tombstones``: the tombstone set; without
    it, replaced entries are not checked.
    """
    for sid in sessions.sids:
        found = list(_seals(sessions, sid))
        if found:
            by = by or Signing.of_user()
            lines = _Lines(sessions, sid, tombstones)
            for node, entry in found:
                yield lines.judge(node, entry, by)


def _seals(sessions: Sessions, sid: str) -> Iterator[tuple[Node, Seal]]:
    for node in sessions.meta(sid):
        if node.kind == Seal.kind and node.source is None:
            entry = sessions.read(node)
            if isinstance(entry, Seal):
                yield node, entry


class _Lines:
    """The branches of one session: the chain digests of each branch, with the number of entries up to each digest."""

    def __init__(self, sessions: Sessions, sid: str, tombstones: Tombstones | None) -> None:
        self._sessions = sessions
        self._sid = sid
        self._tombstones = tombstones
        self._places: dict[str, dict[str, int]] = {}
        self._leaves: dict[str, Oid] = {}
        """The entry with each chain digest."""
        self._is_whole = True
        for name, leaf in sessions.of(sid).items():
            _, branch = refs.parse(name) or ("", "")
            if not refs.is_branch(branch):
                continue
            line = list(sessions.history(leaf))
            self._is_whole = self._is_whole and sessions.root(leaf) is not None
            chains = {to_base64url(node.chain): node.oid for node in line}
            self._places[branch] = {chain: len(line) - at for at, chain in enumerate(chains)}
            self._leaves |= chains

    def judge(self, node: Node, entry: Seal, by: Signing) -> SignatureCheck:
        own = self._places.get(entry.branch, {})
        after = max(own.values()) - own[entry.leaf] if entry.leaf in own else None
        counts = {places[entry.leaf] for places in self._places.values() if entry.leaf in places}
        try:
            text = statement(entry)
        except Malformed:
            return SignatureCheck(self._sid, node, entry, "misplaced", "", after)
        signature = Signature(entry.format, entry.signature)
        state, name = by.check(text, signature, entry.at_ms // 1000)
        if state in ("bad", "revoked") or not self._is_whole:
            return SignatureCheck(self._sid, node, entry, state, name, after)
        if entry.session != self._sid or (counts and counts != {entry.entries}):
            return SignatureCheck(self._sid, node, entry, "misplaced", name, after)
        if not counts:
            return SignatureCheck(self._sid, node, entry, "gone", name, after)
        instead = [one for one in self._sessions.history(self._leaves[entry.leaf]) if one.is_tombstone or one.replaces]
        told: State = state if all(self._is_explained(one) for one in instead) else "altered"
        return SignatureCheck(self._sid, node, entry, told, name, after, len(instead))

    def _is_explained(self, node: Node) -> bool:
        """Return whether the replacement of an entry was caused by a purge or a redaction."""
        if self._tombstones is None:
            return True
        if not node.is_tombstone:
            return self._tombstones.instead(node.replaces.hex()) is not None
        entry = self._sessions.read(node)
        return isinstance(entry, Tombstone) and self._tombstones.stands(entry.of)
