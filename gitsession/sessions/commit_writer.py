"""Conversion of entries to commits: trees, chain digests, messages and oids.

Objects are written in the order of docs/reference/format.md: blobs, tree, commit. The caller moves the ref last, in the
same transaction.
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gitsession.codec import cbor, holes, message, payload
from gitsession.codec.digest import chain as chain_of
from gitsession.codec.digest import digest as digest_of
from gitsession.codec.holes import StoredPayload
from gitsession.codec.message import SourceRef
from gitsession.dataclass import dataclass
from gitsession.errors import Refused
from gitsession.git.objects import SECONDS_MAX, encode_commit, encode_tree, oid_of
from gitsession.git.types import Kind, ObjectSink, Oid
from gitsession.model.entries import BranchSummary, Compaction, Entry, Tombstone
from gitsession.model.headline import Headline
from gitsession.redaction.original import Original
from gitsession.sessions import layout, tombstone_set
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore

if TYPE_CHECKING:
    from gitsession.formats import Format, Record
    from gitsession.redaction.guard import Guard, Row


def now_ms() -> int:
    """Return the current Unix time in ms. Most stores use this function as the clock of new entries."""
    return time.time_ns() // 1_000_000


class Entries(ObjectSink, Protocol):
    """A destination of entries, and of the originals of their redacted payloads."""

    def keep_original(self, original: Original) -> None: ...


@dataclass(frozen=True, slots=True)
class Draft:
    """An entry to be written.

    ``files``: the tree of captured files. ``second_parent``: the tip of a branch that the entry summarizes. ``of``: the
    digest of the entry that this entry replaces. The chain digest is then computed from ``of``. ``original``: the
    payload before redaction, if it was redacted.
    """

    form: str
    stored: StoredPayload
    headline: Headline
    source: SourceRef | None = None
    files: Oid | None = None
    second_parent: Oid | None = None
    of: bytes = b""
    original: bytes | None = None

    @property
    def replaces(self) -> bytes:
        """The digest in the ``Replaces`` trailer; empty for a tombstone, whose payload contains the digest."""
        return b"" if self.headline.role == Tombstone.kind else self.of

    @property
    def summary(self) -> bytes:
        """The result of ``summary_of``."""
        return summary_of(self.form, self.headline)


_SUMMARIES = frozenset({Compaction.kind, BranchSummary.kind})


def has_summary(kind: str) -> bool:
    """Return whether an agent's entry of this kind can have a ``summary.md``."""
    return kind in _SUMMARIES


def summary_of(form: str, headline: Headline) -> bytes:
    """Return the ``summary.md`` of an agent's entry, which repeats text of the payload; empty if there is none.

    The ``summary.md`` of gitsession's own entries fills a hole instead. FROZEN under view 1.
    """
    if headline.kind not in _SUMMARIES or form == layout.OWN:
        return b""
    return cbor.valid_text(headline.body).encode()


def draft_own(entry: Entry, nonce: bytes, guard: Guard | None) -> Draft:
    """Return a redacted draft of an entry in gitsession's format.

    ``nonce``: random bytes of the payload. Raises ``Malformed`` if the format cannot represent the entry.
    """
    value = payload.to_value(entry, nonce)
    data = unredacted = payload.encode_value(value)
    rows: tuple[Row, ...] = ()
    if guard is not None and guard.suspects_value(value):
        data, rows = guard.redact(layout.OWN, unredacted)
        if rows:
            entry = payload.decode(data)[0]
    stored = holes.cut(data, payload.spans(entry, data), rows)
    return Draft(layout.OWN, stored, payload.headline(entry), original=unredacted if rows else None)


def read_back(entry: Entry, guard: Guard | None) -> Entry:
    """Return the entry that a reader would decode after ``entry`` was written, including redactions."""
    data = payload.encode(entry, bytes(payload.NONCE_BYTES))
    return payload.decode(data if guard is None else guard.redact(layout.OWN, data).payload)[0]


class RedactedRecord(NamedTuple):
    """A record's payload after redaction, and the stored payload with its holes."""

    payload: bytes
    stored: StoredPayload
    is_redacted: bool


def redact_record(format: Format, data: bytes, guard: Guard | None) -> RedactedRecord:
    """Redact a record's payload, and cut its holes (docs/reference/format.md, "Holes")."""
    rows: tuple[Row, ...] = ()
    if guard is not None:
        data, rows = guard.redact(format.FORM, data)
    return RedactedRecord(data, cut(format.FORM, data, rows), bool(rows))


def cut(form: str, data: bytes, rows: tuple[Row, ...] = ()) -> StoredPayload:
    """Return the stored payload of an agent's record, with its holes. ``rows``: the placeholders in the payload."""
    return holes.cut(data, holes.spans_in_json(data) if form in ("json", "jsonl") else (), rows)


def draft_record(format: Format, record: Record, guard: Guard | None) -> Draft:
    """Return a draft of a record of an agent's file, unchanged except for redactions."""
    redacted = redact_record(format, record.payload, guard)
    id = record.source_id
    if redacted.is_redacted and guard is not None and id is not None:
        id = guard.words(id)
    source = SourceRef.of(format.AGENT, id, record.line)
    original, parsed = (record.payload, None) if redacted.is_redacted else (None, record.parsed)
    return Draft(format.FORM, redacted.stored, format.headline(redacted.payload, parsed), source, original=original)


def digests(draft: Draft) -> list[str]:
    """Return the digests under which a tombstone set can contain an entry.

    These are the digest of the stored payload and, for an agent's entry, the digest of the payload before redaction.
    """
    stored = [draft.stored]
    if draft.original is not None and draft.form != layout.OWN:
        stored.append(cut(draft.form, draft.original))
    return [digest_of(one.payload, one.holes).hex() for one in stored]


def check_not_purged(store: ObjectStore, sid: str, parent: Node) -> None:
    """Raise ``Refused`` if ``parent`` is the tombstone of the purged session ``sid``."""
    if parent.is_tombstone and sid in tombstone_set.read(store).sessions:
        raise Refused(f"cannot continue session {sid}: it was purged", hint="create or fork another session")


def put(objects: Entries, parent: Node | None, draft: Draft) -> Node:
    """Write ``draft`` to ``objects`` as a child of ``parent``; as a root if ``parent`` is ``None``."""
    tree = put_tree(objects, draft.form, draft.stored, draft.files, draft.summary)
    data, node = commit_of(draft, tree, parent)
    objects.put("commit", data)
    if draft.original is not None:
        objects.keep_original(original_of(node, draft.stored.payload, draft.stored.holes, draft.original))
    return node


def original_of(node: Node, stored: bytes, table: bytes, data: bytes) -> Original:
    """Return the ``Original`` that the vault stores for an entry whose original payload is ``data``.

    ``stored``, ``table``: the stored payload and the table of its holes.
    """
    source = node.source
    source_text = f"{source.agent} {source.id or '-'} {source.line}" if source is not None else ""
    return Original(digest_of(stored, table), node.chain, data, source_text)


def tree_of(form: str, stored: StoredPayload, summary: bytes = b"") -> Oid:
    """Return the oid of an entry's tree without writing the tree."""
    return put_tree(_OidSink(), form, stored, summary=summary)


class _OidSink:
    """A sink that computes oids and stores no objects."""

    def put(self, kind: Kind, data: bytes) -> Oid:
        return oid_of(kind, data)


def put_tree(to: ObjectSink, form: str, stored: StoredPayload, files: Oid | None = None, summary: bytes = b"") -> Oid:
    """Write an entry's tree and its blobs, and return the oid of the tree. ``summary``: see ``summary_of``."""
    add = to.put
    payload_oid = add("blob", stored.payload)
    if not stored.holes and files is None and not summary:
        return add("tree", _payload_row(form) + bytes.fromhex(payload_oid))
    entries = {layout.PAYLOAD + form: (layout.FILE_MODE, payload_oid)}
    if stored.holes:
        entries[layout.HOLES] = (layout.FILE_MODE, add("blob", stored.holes))
        blobs: dict[str, tuple[str, Oid]] = {}
        for digest, encoding, content in stored.lifted:
            target, name = (entries, layout.SUMMARY) if encoding == "summary" else (blobs, digest.hex())
            target[name] = (layout.FILE_MODE, add("blob", content))
        if blobs:
            entries[layout.BLOBS] = (layout.TREE_MODE, add("tree", encode_tree(blobs)))
    if summary:
        entries[layout.SUMMARY] = (layout.FILE_MODE, add("blob", summary))
    if files is not None:
        entries[layout.FILES] = (layout.TREE_MODE, files)
    return add("tree", encode_tree(entries))


@functools.cache
def _payload_row(form: str) -> bytes:
    """Return the beginning of a tree that contains only a payload. The rest is the payload's oid."""
    return encode_tree({layout.PAYLOAD + form: (layout.FILE_MODE, "")})


class EntryCommit(NamedTuple):
    """A commit, and the values that the next entry needs from the commit."""

    data: bytes
    message: bytes
    author_seconds: int
    committer_seconds: int


def build_commit(
    chain: bytes,
    headline: Headline,
    source: SourceRef | None,
    tree: Oid,
    parent: Node | None,
    second_parent: Oid | None = None,
    replaces: bytes = b"",
) -> EntryCommit:
    """Return the commit of an entry with the chain digest ``chain``. ``replaces``: see ``Draft``."""
    if headline.at_ms is not None:
        author_seconds = min(max(headline.at_ms // 1000, 0), SECONDS_MAX)
    else:
        author_seconds = 0 if parent is None else parent.author_seconds
    committer_seconds = author_seconds if parent is None else max(author_seconds, parent.committer_seconds)
    text = message.render(headline, chain, source, replaces)
    parents = [] if parent is None else [parent.oid]
    if second_parent is not None:
        parents.append(second_parent)
    data = encode_commit(
        tree=tree,
        parents=parents,
        author_name=headline.role,
        author_seconds=author_seconds,
        committer_seconds=committer_seconds,
        message=text,
    )
    return EntryCommit(data, text, author_seconds, committer_seconds)


def commit_of(draft: Draft, tree: Oid, parent: Node | None) -> tuple[bytes, Node]:
    """Return the bytes and the node of a draft's commit."""
    headline = draft.headline
    digest = draft.of or digest_of(draft.stored.payload, draft.stored.holes)
    chain = chain_of(None if parent is None else parent.chain, digest)
    data, text, author_seconds, committer_seconds = build_commit(
        chain, headline, draft.source, tree, parent, draft.second_parent, draft.replaces
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
