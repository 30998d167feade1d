"""The content of entries: read and decode the payload of a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from gitsession.codec import holes, payload
from gitsession.codec.digest import digest as digest_of
from gitsession.codec.holes import Encoding
from gitsession.dataclass import dataclass
from gitsession.errors import Corrupt, Malformed, MissingObject
from gitsession.formats import FORMATS
from gitsession.git.objects import parse_tree
from gitsession.git.types import Oid, Reader
from gitsession.model.entries import Entry, Fork, Opaque
from gitsession.sessions import layout
from gitsession.sessions.node import Node, load
from gitsession.sessions.revealed_store import RevealedStore

Rows: TypeAlias = list[tuple[str, str, Oid]]
"""The rows of a tree: mode, name, oid."""


@dataclass(frozen=True, slots=True)
class EntryTree:
    """The parts of an entry's tree. ``stored``: the payload with holes. ``blob``: the oid of ``stored``."""

    form: str
    stored: bytes
    holes: bytes
    files: Oid | None
    blob: Oid = ""

    @property
    def digest(self) -> bytes:
        """The digest of the payload as it is stored."""
        return digest_of(self.stored, self.holes)


def entry_tree(store: Reader, node: Node) -> EntryTree:
    """Return the parts of a node's tree. Raises ``Malformed`` if the tree is not the tree of an entry."""
    return entry_tree_at(store, node.tree)


def entry_tree_at(store: Reader, tree: Oid) -> EntryTree:
    """Return the parts of an entry's tree."""
    return entry_tree_from_rows(store, tree, tree_of(store, tree))


def tree_of(store: Reader, oid: Oid) -> Rows:
    """Return the rows of a tree. Raises ``Malformed``, ``MissingObject`` or ``Corrupt``."""
    return parse_tree(_read(store, oid, "tree"))


def entry_tree_from_rows(store: Reader, tree: Oid, rows: Rows) -> EntryTree:
    """Return the parts of the tree ``tree`` with the rows ``rows``."""
    form, stored, table, files, blob = "", b"", b"", None, ""
    for _, name, oid in rows:
        found = layout.form_of(name)
        if found is not None:
            form, stored, blob = found, _read(store, oid, "blob"), oid
        elif name == layout.HOLES:
            table = _read(store, oid, "blob")
        elif name == layout.FILES:
            files = oid
    if not form:
        raise Malformed("the tree has no payload", where=tree)
    return EntryTree(form, stored, table, files, blob)


def files_of(store: Reader, oid: Oid) -> Oid | None:
    """Return the tree of captured files in the entry ``oid``; ``None`` if there is none or it cannot be read."""
    try:
        return next((child for _, name, child in tree_of(store, load(store, oid).tree) if name == layout.FILES), None)
    except (Malformed, Corrupt, MissingObject):
        return None


def payload_of(store: Reader, node: Node) -> bytes:
    """Return the payload of an entry. Raises ``Malformed``, ``MissingObject`` or ``Corrupt``."""
    return full_payload(store, node, entry_tree(store, node))


def full_payload(store: Reader, node: Node, parts: EntryTree) -> bytes:
    """Return the payload with its holes filled. If ``store`` is a ``RevealedStore``, return the original payload."""
    if not parts.holes:
        return parts.stored
    data = _filled(store, node, parts)
    if isinstance(store, RevealedStore):
        placeholders = sum(row.rule != holes.PURGED for row in holes.hidden(parts.holes))
        if placeholders:
            return store.payload(node, parts.digest, data, placeholders)
    return data


def hole_contents(store: Reader, node: Node, parts: EntryTree) -> list[tuple[Encoding, bytes]]:
    """Return the encoding and the content of each hole. Raises ``Malformed``, ``MissingObject`` or ``Corrupt``."""
    fetch = _fetcher(store, node)
    rows = holes.parse(parts.holes) if parts.holes else []
    return [(encoding, fetch(digest, encoding)) for _, _, digest, encoding in rows]


def _filled(store: Reader, node: Node, parts: EntryTree) -> bytes:
    if not holes.parse(parts.holes):
        return parts.stored
    return holes.fill(parts.stored, parts.holes, _fetcher(store, node))


def _fetcher(store: Reader, node: Node) -> Callable[[bytes, Encoding], bytes]:
    """Return a function that reads the content of a hole by its digest and encoding."""
    top = {name: oid for _, name, oid in tree_of(store, node.tree)}
    blobs = {}
    if layout.BLOBS in top:
        blobs = {name: oid for _, name, oid in tree_of(store, top[layout.BLOBS])}

    def fetch(digest: bytes, encoding: Encoding) -> bytes:
        oid = top.get(layout.SUMMARY) if encoding == "summary" else blobs.get(digest.hex())
        if oid is None:
            raise Malformed(f"the tree does not contain the content of a hole: {digest.hex()}", where=node.oid)
        return _read(store, oid, "blob")

    return fetch


def entry_of(store: Reader, node: Node) -> Entry:
    """Return the content of an entry. A damaged entry, or an entry of an unknown agent, becomes ``Opaque``."""
    return decode_entry(store, node).entry


class DecodedEntry(NamedTuple):
    """The content of an entry, and the values that the catalog stores.

    ``digest``: the digest of the payload. ``alone``: the blob with the whole payload; "" if more than one object must
    be read. ``data``: the payload. ``digest`` and ``data`` are ``b""`` if the tree cannot be read.
    """

    entry: Entry
    digest: bytes = b""
    alone: Oid = ""
    data: bytes = b""


def decode_entry(store: Reader, node: Node) -> DecodedEntry:
    """Return the content of an entry, and the values for the catalog. A damaged entry becomes ``Opaque``."""
    digest = b""
    try:
        parts = entry_tree(store, node)
        digest = parts.digest
        data = full_payload(store, node, parts)
        entry = decode_payload(node, parts.form, data)
    except (Malformed, Corrupt, MissingObject) as error:
        return DecodedEntry(Opaque(at_ms=node.author_seconds * 1000, problem=str(error)), digest)
    is_own = parts.form == layout.OWN
    alone = not parts.holes and (node.source is None if is_own else node.source and node.source.agent in FORMATS)
    return DecodedEntry(entry, digest, parts.blob if alone else "", data)


def read_alone(store: Reader, blob: Oid, agent: str | None) -> tuple[Entry, bytes]:
    """Return the content and the payload from a blob that ``decode_entry`` returned as ``alone``.

    ``agent``: the agent that wrote the payload; ``None`` for gitsession. Raises ``Malformed``, ``MissingObject`` or
    ``Corrupt``.
    """
    data = _read(store, blob, "blob")
    return payload.decode(data)[0] if agent is None else _read_foreign(agent, data), data


def decode_payload(node: Node, form: str, data: bytes) -> Entry:
    """Decode a whole payload. Raises ``Malformed`` if a gitsession payload does not follow the format."""
    if form == layout.OWN:
        return payload.decode(data)[0]
    return _read_foreign(node.source.agent if node.source else "", data, node.author_seconds * 1000)


def _read_foreign(agent: str, data: bytes, at_ms: int = 0) -> Entry:
    """Decode the payload of an agent. If the agent's format is not installed, the entry is opaque."""
    format = FORMATS.get(agent)
    if format is None:
        return Opaque(at_ms=at_ms, payload=data, problem=f"unknown agent {agent[:40]!r}")
    return format.read(data)


def _read(store: Reader, oid: Oid, expected: str) -> bytes:
    kind, data = store.read(oid)
    if kind != expected:
        raise Corrupt(f"object {oid} is a {kind}, not a {expected}")
    return data


def is_fork_start(store: Reader, node: Node, sid: str) -> bool:
    """Return whether ``node`` is the entry with which the fork ``sid`` begins."""
    if node.kind != Fork.kind or node.source is not None:
        return False
    entry = entry_of(store, node)
    return isinstance(entry, Fork) and entry.session == sid
