"""Entries into commits: the one place where an entry gets its tree, its chain, its message and its oid.

The order of writing is docs/format.md's: blobs, tree, commit; the caller moves the ref last, in the same transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gitsession.codec import headline as own_headline
from gitsession.codec import holes, lift, message, payload
from gitsession.codec.digest import chain as chain_of
from gitsession.codec.digest import digest as digest_of
from gitsession.codec.holes import Stored
from gitsession.codec.message import SourceRef
from gitsession.formats import Format, Record
from gitsession.model.entries import Entry, Tombstone
from gitsession.model.headline import Headline
from gitsession.session.node import Node
from gitsession.store import layout
from gitsession.store.base import Kind, Oid
from gitsession.store.objects import SECONDS_MAX, encode_commit, encode_tree, oid_of


class Objects(Protocol):
    """Where objects are put: a transaction, or a list that becomes one."""

    def put(self, kind: Kind, data: bytes) -> Oid: ...


@dataclass(frozen=True, slots=True)
class Draft:
    """An entry about to be kept. ``files``: the tree of a checkpoint; ``second_parent``: a leaf it summarises.

    ``of``: the digest of the entry in whose place it stands, which is what its chain is made of.
    """

    form: str
    stored: Stored
    headline: Headline
    source: SourceRef | None = None
    files: Oid | None = None
    second_parent: Oid | None = None
    of: bytes = b""

    @property
    def replaces(self) -> bytes:
        """What the commit says of that: a tombstone says it in its payload."""
        return b"" if self.headline.role == Tombstone.kind else self.of


def own(entry: Entry, nonce: bytes) -> Draft:
    """A draft of an entry of our own. Raises ``Malformed`` for what the format cannot hold."""
    data = payload.encode(entry, nonce)
    return Draft(layout.OWN, holes.cut(data, payload.spans(entry, data)), own_headline.headline(entry))


def imported(format: Format, record: Record) -> Draft:
    """A draft of a record of an agent's file, verbatim."""
    return imported_as(format, record, imported_stored(format, record))


def imported_as(format: Format, record: Record, stored: Stored) -> Draft:
    """The same, where what is stored is at hand."""
    source = SourceRef.of(format.AGENT, record.source_id, record.line)
    return Draft(format.FORM, stored, format.headline(record.payload), source)


def imported_stored(format: Format, record: Record) -> Stored:
    """A record's payload as it is stored: what is lifted depends on its form (docs/format.md, "Holes")."""
    is_json = format.FORM in ("json", "jsonl")
    return holes.cut(record.payload, lift.spans_in_json(record.payload) if is_json else ())


def put(objects: Objects, parent: Node | None, draft: Draft) -> Node:
    """Keep ``draft`` after ``parent`` (``None``: as a root) in ``objects``, a transaction."""
    tree = put_tree(objects, draft.form, draft.stored, draft.files)
    data, node = commit_of(draft, tree, parent)
    objects.put("commit", data)
    return node


def tree_of(form: str, stored: Stored) -> Oid:
    """The oid that an entry's tree would have."""
    return put_tree(_Named(), form, stored)


class _Named:
    """Names objects and keeps none."""

    def put(self, kind: Kind, data: bytes) -> Oid:
        return oid_of(kind, data)


def put_tree(to: Objects, form: str, stored: Stored, files: Oid | None = None) -> Oid:
    """Put an entry's tree, and the blobs in it; its oid."""
    add = to.put
    entries = {layout.payload(form): (layout.FILE_MODE, add("blob", stored.payload))}
    if stored.holes:
        entries[layout.HOLES] = (layout.FILE_MODE, add("blob", stored.holes))
        blobs: dict[str, tuple[str, Oid]] = {}
        for digest, encoding, content in stored.lifted:
            place, name = (entries, layout.SUMMARY) if encoding == "summary" else (blobs, digest.hex())
            place[name] = (layout.FILE_MODE, add("blob", content))
        if blobs:
            entries[layout.BLOBS] = (layout.TREE_MODE, add("tree", encode_tree(blobs)))
    if files is not None:
        entries[layout.FILES] = (layout.TREE_MODE, files)
    return add("tree", encode_tree(entries))


def commit_of(draft: Draft, tree: Oid, parent: Node | None) -> tuple[bytes, Node]:
    """The commit's bytes, and its node."""
    headline = draft.headline
    digest = draft.of or digest_of(draft.stored.payload, draft.stored.holes)
    chain = chain_of(None if parent is None else parent.chain, digest)
    if headline.at_ms is not None:
        author_seconds = min(max(headline.at_ms // 1000, 0), SECONDS_MAX)
    else:
        author_seconds = 0 if parent is None else parent.author_seconds
    committer_seconds = author_seconds if parent is None else max(author_seconds, parent.committer_seconds)
    text = message.render(headline, chain, draft.source, draft.replaces)
    parents = [] if parent is None else [parent.oid]
    if draft.second_parent is not None:
        parents.append(draft.second_parent)
    data = encode_commit(
        tree=tree,
        parents=parents,
        author_name=headline.role,
        author_seconds=author_seconds,
        committer_seconds=committer_seconds,
        message=text,
    )
    return data, Node(
        oid=oid_of("commit", data),
        tree=tree,
        parent=None if parent is None else parent.oid,
        second_parent=draft.second_parent,
        role=headline.role,
        author_seconds=author_seconds,
        committer_seconds=committer_seconds,
        kind=message.kind_of(headline),
        chain=chain,
        source=draft.source,
        subject=message.subject_of(text),
        model=message.model_of(headline),
        replaces=draft.replaces,
    )
