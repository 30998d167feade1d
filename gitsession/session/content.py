"""Commits into entries: the payload of a node, whole, and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gitsession.codec import holes, payload
from gitsession.codec.digest import digest as digest_of
from gitsession.codec.holes import Encoding
from gitsession.errors import Corrupt, Malformed, MissingObject
from gitsession.formats import FORMATS
from gitsession.model.entries import Entry, Fork, Opaque
from gitsession.session.node import Node
from gitsession.store import layout
from gitsession.store.base import ObjectStore, Oid
from gitsession.store.objects import parse_tree

Rows: TypeAlias = list[tuple[str, str, Oid]]
"""The entries of a tree: mode, name, oid."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What the tree of an entry holds. ``stored`` still has its holes."""

    form: str
    stored: bytes
    holes: bytes
    files: Oid | None


def kept(store: ObjectStore, node: Node) -> Kept:
    """The parts of a node's tree. Raises ``Malformed`` for a tree that is no entry's."""
    return kept_in(store, node.tree)


def kept_in(store: ObjectStore, tree: Oid) -> Kept:
    """The parts of an entry's tree, whichever commit names it."""
    return kept_of(store, tree, tree_of(store, tree))


def tree_of(store: ObjectStore, oid: Oid) -> Rows:
    """What a tree holds. Raises ``Malformed``, ``MissingObject`` or ``Corrupt``."""
    return parse_tree(_read(store, oid, "tree"))


def kept_of(store: ObjectStore, tree: Oid, rows: Rows) -> Kept:
    """The parts of the tree ``tree``, which holds ``rows``."""
    form, stored, table, files = "", b"", b"", None
    for _, name, oid in rows:
        found = layout.form_of(name)
        if found is not None:
            form, stored = found, _read(store, oid, "blob")
        elif name == layout.HOLES:
            table = _read(store, oid, "blob")
        elif name == layout.FILES:
            files = oid
    if not form:
        raise Malformed("a tree without a payload", where=tree)
    return Kept(form, stored, table, files)


def payload_of(store: ObjectStore, node: Node) -> bytes:
    """The payload as its writer wrote it. Raises ``Malformed``, ``MissingObject`` or ``Corrupt``."""
    return whole(store, node, kept(store, node))


def whole(store: ObjectStore, node: Node, parts: Kept) -> bytes:
    """The payload of ``parts``, holes filled."""
    if not parts.holes:
        return parts.stored
    top = {name: oid for _, name, oid in tree_of(store, node.tree)}
    blobs = {}
    if layout.BLOBS in top:
        blobs = {name: oid for _, name, oid in tree_of(store, top[layout.BLOBS])}

    def fetch(digest: bytes, encoding: Encoding) -> bytes:
        oid = top.get(layout.SUMMARY) if encoding == "summary" else blobs.get(digest.hex())
        if oid is None:
            raise Malformed(f"the content of a hole is not in the tree: {digest.hex()}", where=node.oid)
        return _read(store, oid, "blob")

    return holes.fill(parts.stored, parts.holes, fetch)


def entry_of(store: ObjectStore, node: Node) -> Entry:
    """What the node means, as well as this release knows. Damage costs this entry only: it is shown as ``Opaque``."""
    return entry_and_digest(store, node)[0]


def entry_and_digest(store: ObjectStore, node: Node) -> tuple[Entry, bytes]:
    """The same, and the digest; ``b""`` where the tree cannot be read."""
    digest = b""
    try:
        parts = kept(store, node)
        digest = digest_of(parts.stored, parts.holes)
        return view(node, parts.form, whole(store, node, parts)), digest
    except (Malformed, Corrupt, MissingObject) as error:
        return Opaque(at_ms=node.author_seconds * 1000, problem=str(error)), digest


def view(node: Node, form: str, data: bytes) -> Entry:
    """The view of a whole payload. Raises ``Malformed`` for a payload of ours that does not follow the format."""
    if form == layout.OWN:
        return payload.decode(data)[0]
    agent = node.source.agent if node.source else ""
    format = FORMATS.get(agent)
    if format is None:
        return Opaque(at_ms=node.author_seconds * 1000, payload=data, problem=f"of an unknown agent: {agent[:40]!r}")
    return format.read(data)


def _read(store: ObjectStore, oid: Oid, expected: str) -> bytes:
    kind, data = store.read(oid)
    if kind != expected:
        raise Corrupt(f"{oid} is a {kind}, expected a {expected}")
    return data


def begins_fork(store: ObjectStore, node: Node, sid: str) -> bool:
    """Whether ``node`` is the entry at which session ``sid`` was forked off an older one."""
    if node.kind != Fork.kind or node.source is not None:
        return False
    entry = entry_of(store, node)
    return isinstance(entry, Fork) and entry.session == sid
