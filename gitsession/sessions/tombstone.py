"""Tombstones and replacements: the commits that replace purged and redacted entries.

Such a commit is computed from the commit of the entry and from the tombstone set, so that every store writes the same
commit. FROZEN, because this code determines oids.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from gitsession.codec import holes, message, payload
from gitsession.codec.digest import chain as chain_of
from gitsession.codec.holes import StoredPayload
from gitsession.codec.payload import NONCE_BYTES
from gitsession.dataclass import dataclass
from gitsession.errors import Malformed, Refused
from gitsession.formats import FORMATS
from gitsession.git.objects import encode_commit, oid_of
from gitsession.git.types import Kind, Oid, Reader
from gitsession.model.entries import ROLES, Tombstone
from gitsession.model.headline import Headline
from gitsession.sessions import commit_writer, content, layout
from gitsession.sessions.content import EntryTree
from gitsession.sessions.grow_only_sets import NewObjects
from gitsession.sessions.node import Node, parse
from gitsession.sessions.tombstone_set import Replacement, Tombstones

OTHER = "other"
EMPTY_TREE = oid_of("tree", b"")
_ROLES = frozenset({*ROLES, OTHER, "session"})
_KIND = re.compile(r"[a-z0-9_.:/-]{1,40}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class SubstituteCommit:
    """A commit that replaces another one, with its tree and blobs."""

    commit: bytes
    objects: dict[Oid, tuple[Kind, bytes]]

    @property
    def oid(self) -> Oid:
        return oid_of("commit", self.commit)


def of_entry(node: Node, digest: str, parents: Sequence[Oid]) -> SubstituteCommit:
    """Return the tombstone of ``node``, whose entry has the digest ``digest``, with the given parents."""
    return _substitute(node, draft_tombstone(_entry(node, digest)), parents)


def of_session(reader: Reader, node: Node, digest: str) -> SubstituteCommit:
    """Return the tombstone of a purged session whose first entry is ``node``, with the digest ``digest``.

    The tombstone has no parents: a fork begins on the history of another session, and a parent would keep that history
    reachable.
    """
    entry = of_node(reader, node) if node.is_tombstone else _entry(node, digest)
    chain = chain_of(None, bytes.fromhex(entry.of))
    return _substitute(node._replace(chain=chain, committer_seconds=node.author_seconds), draft_tombstone(entry), [])


def _entry(node: Node, digest: str) -> Tombstone:
    return Tombstone(
        of=digest,
        was=node.kind if _KIND.fullmatch(node.kind) else OTHER,
        role=node.role if node.role in _ROLES else OTHER,
        at_ms=node.author_seconds * 1000,
    )


def draft_tombstone(entry: Tombstone) -> commit_writer.Draft:
    """Return the draft of a tombstone, without a source and parents."""
    of = bytes.fromhex(entry.of)
    data = payload.encode(entry, of[:NONCE_BYTES])
    return commit_writer.Draft(layout.OWN, StoredPayload(data, b"", ()), payload.headline(entry), of=of)


def build_replacement(
    node: Node, digest: str, by: Replacement, files: Oid | None, parents: Sequence[Oid]
) -> SubstituteCommit:
    """Return the commit of ``by``, which replaces ``node``. ``digest``: the digest of the original entry.

    Raises ``Refused`` if this release does not support the agent of the entry, and ``Malformed`` if the payload is
    invalid.
    """
    headline = replacement_headline(node, by)
    return _substitute(
        node, commit_writer.Draft(by.form, by.stored, headline, files=files, of=bytes.fromhex(digest)), parents
    )


def put_unless_purged(
    to: commit_writer.Entries, parent: Node | None, draft: commit_writer.Draft, purged: Tombstones
) -> Node:
    """Write ``draft`` as a child of ``parent``. If the entry was purged, write its tombstone or replacement instead.

    ``purged`` is searched for the digests of the stored and the original payload, because the entry may have been
    purged before its secret was redacted. Raises the same errors as ``build_replacement``.
    """
    digest = next((one for one in commit_writer.digests(draft) if purged.has_entry(one)), None)
    if digest is None:
        return commit_writer.put(to, parent, draft)
    _, node = commit_writer.commit_of(dataclasses.replace(draft, of=bytes.fromhex(digest)), EMPTY_TREE, parent)
    by = purged.replacement_of(digest)
    parents = [oid for oid in (node.parent, node.second_parent) if oid is not None]
    made = build_replacement(node, digest, by, draft.files, parents) if by else of_entry(node, digest, parents)
    for kind, data in (*made.objects.values(), ("commit", made.commit)):
        to.put(kind, data)
    substitute = parse(made.oid, made.commit)
    table = b"" if by is None else by.stored.holes
    if by is not None and draft.original is not None and holes.hidden(table) and not holes.holds_purged(table):
        to.keep_original(commit_writer.original_of(substitute, by.stored.payload, by.stored.holes, draft.original))
    return substitute


def replacement_headline(node: Node, by: Replacement) -> Headline:
    """Return the headline of ``by``, which replaces ``node``. Raises the same errors as ``build_replacement``."""
    data = by.full_payload()
    if node.source is None:
        return payload.headline(payload.decode(data)[0])
    format = FORMATS.get(node.source.agent)
    if format is None:
        what = f"cannot redact entry {node.oid[:12]}: unknown agent {node.source.agent[:40]!r}"
        raise Refused(what, hint="upgrade gitsession")
    return format.headline(data)


def replaced_digest(node: Node, parts: EntryTree) -> bytes:
    """Return the digest of the entry that ``node`` replaces; ``b""`` if ``node`` replaces no entry.

    Raises ``Malformed`` for an invalid tombstone.
    """
    return bytes.fromhex(read(node, parts.form, parts.stored).of) if node.is_tombstone else node.replaces


def read(node: Node, form: str, data: bytes) -> Tombstone:
    """Return the content of a tombstone. Raises ``Malformed``."""
    entry = payload.decode(data)[0] if form == layout.OWN else None
    if not isinstance(entry, Tombstone) or not _DIGEST.fullmatch(entry.of):
        raise Malformed("a tombstone without the digest of its entry", where=node.oid)
    return entry


def of_node(store: Reader, node: Node) -> Tombstone:
    """Return the content of a tombstone from its node. Raises ``Malformed``."""
    parts = content.entry_tree(store, node)
    return read(node, parts.form, parts.stored)


def _substitute(node: Node, draft: commit_writer.Draft, parents: Sequence[Oid]) -> SubstituteCommit:
    """Return a commit of ``draft`` with the times, the source and the chain digest of ``node``."""
    objects = NewObjects()
    commit = encode_commit(
        tree=commit_writer.put_tree(objects, draft.form, draft.stored, draft.files, draft.summary),
        parents=parents,
        author_name=draft.headline.role,
        author_seconds=node.author_seconds,
        committer_seconds=node.committer_seconds,
        message=message.render(draft.headline, node.chain, node.source, draft.replaces),
    )
    return SubstituteCommit(commit, objects)
