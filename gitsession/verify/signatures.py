"""Signatures: signed statements about the tip of a branch, stored as ``Seal`` entries on ``meta`` (decision 0026).

The signed text contains the chain digest of the tip, which is a hash of all payloads up to the tip. So the signature
covers these payloads. Unlike an oid, the chain digest is the same in every store, with every object format of git, and
after a purge. A signed branch can be continued. The entries after the signed tip are then not signed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gitsession.codec.digest import to_base64url
from gitsession.errors import Malformed, NotFound
from gitsession.git.signing import Signature, Signing
from gitsession.git.types import Oid
from gitsession.model.entries import Seal, Tombstone
from gitsession.sessions import graph, tombstone_set
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
    "misplaced": "it belongs to another session, or has a different number of entries",
    "altered": "signed entries were replaced, and not by a purge or a redaction",
}
_CHAIN = re.compile(r"[A-Za-z0-9_-]{43}")


def problem(check: SignatureCheck) -> Finding | None:
    """Return a finding if a signature is invalid, else ``None``.

    A signature that cannot be checked is not a problem.
    """
    if not check.is_wrong:
        return None
    reason = WRONG[check.state].format(by=check.by or "an unknown signer")
    text = f"the signature of branch {check.entry.branch[:40]!a}: {reason}"
    return Finding(check.node.oid, text, refs.meta(check.sid))


def statement(entry: Seal) -> bytes:
    """Return the text to sign.

    FROZEN: if the text changes, its first line must change. Raises ``Malformed`` for invalid names.
    """
    leaf = refs.leaf(entry.session, entry.branch)
    if not refs.is_session_ref(leaf) or not refs.is_sid(entry.session) or not _CHAIN.fullmatch(entry.leaf):
        raise Malformed("cannot encode the signature: invalid session, branch or chain digest")
    lines = (
        "gitsession seal 1",
        f"session {entry.session}",
        f"branch {entry.branch}",
        f"chain {entry.leaf}",
        f"entries {entry.entries}",
        f"at {entry.at_ms}",
    )
    return "".join(f"{line}\n" for line in lines).encode()


def make(store: ObjectStore, sid: str, branch: str, at_ms: int, key: str = "") -> Seal:
    """Sign the current tip of ``branch`` with ``key``, by default the user's key. The signature is not stored.

    Raises ``NotFound``, and ``Unavailable`` if signing fails. If an entry of the branch cannot be read, raises the
    errors of ``graph.history``, because such an entry must not be signed.
    """
    leaf = store.ref(refs.leaf(sid, branch)) if refs.is_branch(branch) else None
    if leaf is None:
        raise NotFound(f"cannot sign branch {branch[:80]!r}: session {sid} has no such branch")
    history = list(graph.history(store, leaf))
    fields = {"session": sid, "branch": branch, "leaf": to_base64url(history[0].chain), "entries": len(history)}
    text = statement(Seal(at_ms=at_ms, format="", signature=b"", **fields))  # type: ignore[arg-type]
    signature = Signing.of_user().sign(text, key)
    return Seal(at_ms=at_ms, format=signature.format, signature=signature.armoured, **fields)  # type: ignore[arg-type]


def of_session(store: ObjectStore, sid: str) -> list[SignatureCheck]:
    """Check the signatures of one session, newest first."""
    leaves = store.refs(refs.session(sid))
    histories = (graph.history_with_gaps(store, sid, leaf) for leaf in leaves.values())
    nodes = {node.oid: node for history in histories for node in history if isinstance(node, Node)}
    return list(check_signatures(Sessions(store, leaves, nodes), tombstone_set.read(store)))


def check_signatures(sessions: Sessions, tombstones: Tombstones | None) -> Iterator[SignatureCheck]:
    """Check every signature of ``sessions`` against the user's trusted signers.

    ``tombstones``: the tombstone set; without it, replaced entries are not checked.
    """
    signing: Signing | None = None
    for sid in sessions.sids:
        seals = list(sessions.own_entries(sessions.meta(sid), Seal))
        if seals:
            signing = signing or Signing.of_user()
            branches = _Branches(sessions, sid, tombstones)
            for node, entry in seals:
                yield branches.check_seal(node, entry, signing)


class _Branches:
    """The branches of one session: the chain digests on each branch, each with the number of entries up to it."""

    def __init__(self, sessions: Sessions, sid: str, tombstones: Tombstones | None) -> None:
        self._sessions = sessions
        self._sid = sid
        self._tombstones = tombstones
        self._positions: dict[str, dict[str, int]] = {}
        self._leaves: dict[str, Oid] = {}
        """Ids of entries, by chain digest."""
        self._is_complete = True
        for name, leaf in sessions.branches_of(sid).items():
            history = list(sessions.history(leaf))
            self._is_complete = self._is_complete and sessions.root(leaf) is not None
            chains = {to_base64url(node.chain): node.oid for node in history}
            self._positions[name.rpartition("/")[2]] = {chain: len(history) - at for at, chain in enumerate(chains)}
            self._leaves |= chains

    def check_seal(self, node: Node, entry: Seal, signing: Signing) -> SignatureCheck:
        own = self._positions.get(entry.branch, {})
        after = max(own.values()) - own[entry.leaf] if entry.leaf in own else None
        state, name, replaced = self._state(entry, signing)
        return SignatureCheck(self._sid, node, entry, state, name, after, replaced)

    def _state(self, entry: Seal, signing: Signing) -> tuple[State, str, int]:
        """Return the state of a signature, the name of the signer, and the number of replaced entries."""
        counts = {positions[entry.leaf] for positions in self._positions.values() if entry.leaf in positions}
        try:
            text = statement(entry)
        except Malformed:
            return "misplaced", "", 0
        state, name = signing.check(text, Signature(entry.format, entry.signature), entry.at_ms // 1000)
        if state in ("bad", "revoked") or not self._is_complete:
            return state, name, 0
        if entry.session != self._sid or (counts and counts != {entry.entries}):
            return "misplaced", name, 0
        if not counts:
            return "gone", name, 0
        history = self._sessions.history(self._leaves[entry.leaf])
        replaced = [member for member in history if member.is_tombstone or member.replaces]
        return state if all(map(self._is_explained, replaced)) else "altered", name, len(replaced)

    def _is_explained(self, node: Node) -> bool:
        """Return whether the replacement of ``node`` was caused by a purge or a redaction."""
        if self._tombstones is None:
            return True
        if not node.is_tombstone:
            return self._tombstones.replacement_of(node.replaces.hex()) is not None
        entry = self._sessions.read(node)
        return isinstance(entry, Tombstone) and self._tombstones.is_valid(entry.of)
