"""The tombstone set: the keys of purged data (docs/reference/format.md, "Tombstones").

A key is the digest of an entry (64 hexadecimal digits), ``file:<oid>`` for a captured file, or ``session:<sid>``. The
record of a redacted entry contains its replacement. Each commit contains the whole set.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Final

from gitsession.codec import cbor, holes, payload
from gitsession.codec.digest import digest as digest_of
from gitsession.codec.digest import hash_of
from gitsession.codec.holes import ENCODINGS, Encoding, StoredPayload
from gitsession.dataclass import dataclass
from gitsession.errors import Malformed
from gitsession.git.objects import encode_tree, oid_of, parse_commit, parse_tree
from gitsession.git.types import Kind, Oid, Reader
from gitsession.model.entries import Fork, SessionHeader
from gitsession.pattern import pattern
from gitsession.redaction.original import OPENS
from gitsession.sessions import grow_only_sets, layout
from gitsession.sessions.grow_only_sets import GrowOnlySet, Merged, NewObjects
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

VERSION = 1

FILE, SESSION = "file:", "session:"

PURGED_CONTENT = b"[purged]\n"
"""The content that replaces the content of a purged captured file. A rewind restores no file from this content."""

RULE = "purged"
"""The reason why a file that still has purged content is left out of a checkpoint."""

PURGED_CONTENT_OID = oid_of("blob", PURGED_CONTENT)

REDACTED_TWICE = "redacted-twice"
"""The rule in the placeholder of a string that two redactions replaced differently."""

_HIDDEN = f"{OPENS}{REDACTED_TWICE}]"
_PLACEHOLDER = pattern(rb"\[redacted:([a-z0-9-]{1,40})\]")
_FOLDERS: Final = {
    "": layout.PURGED_ENTRIES,
    FILE: layout.PURGED_FILES,
    SESSION: layout.PURGED_SESSIONS,
}
_DIGEST, _OID = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Replacement:
    """A redacted entry that replaces the original entry."""

    form: str
    stored: StoredPayload

    @property
    def digest(self) -> str:
        return digest_of(self.stored.payload, self.stored.holes).hex()

    def __or__(self, other: Replacement) -> Replacement | None:
        """Return a replacement that omits all text that one of the two omits; ``None`` if the entry must be removed."""
        if self == other:
            return self
        try:
            payloads = self.full_payload(), other.full_payload()
        except Malformed:
            return None
        stored = _joined_payload(self.form, *payloads) if self.form == other.form else None
        return Replacement(self.form, stored) if stored else None

    def full_payload(self) -> bytes:
        """Return the payload with its holes filled. Raises ``Malformed``."""
        lifted = {(digest, encoding): data for digest, encoding, data in self.stored.lifted}

        def fetch(digest: bytes, encoding: Encoding) -> bytes:
            if (digest, encoding) not in lifted:
                raise Malformed(f"the content of a hole is missing: {digest.hex()}")
            return lifted[digest, encoding]

        return holes.fill(self.stored.payload, self.stored.holes, fetch)


@dataclass(frozen=True, slots=True)
class Tombstones:
    """A tombstone set.

    ``removed``: the digests of removed entries, and the keys of files. ``replaced``: the replacements of entries, by
    digest. ``sessions``: the digests of the first entries of purged sessions, by session id. A purged session leaves
    a tombstone only at these entries.
    """

    removed: frozenset[str] = frozenset()
    replaced: Mapping[str, Replacement] = field(default_factory=dict)
    sessions: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __contains__(self, key: object) -> bool:
        if key in self.removed or key in self.replaced:
            return True
        return isinstance(key, str) and key.startswith(SESSION) and key.removeprefix(SESSION) in self.sessions

    def __iter__(self) -> Iterator[str]:
        yield from sorted({*self.removed, *self.replaced, *(SESSION + sid for sid in self.sessions)})

    def __len__(self) -> int:
        return len(self.removed) + len(self.replaced) + len(self.sessions)

    def __le__(self, other: Tombstones) -> bool:
        """Return whether ``other`` includes this set. ``other`` may omit more text of an entry, or remove it."""
        return (self | other) == other

    def __or__(self, other: Tombstones) -> Tombstones:
        """Return the union. A removal takes precedence over a replacement.

        Two different replacements are merged by ``Replacement.__or__``.
        """
        removed = set(self.removed | other.removed)
        replaced: dict[str, Replacement] = {}
        for key in sorted({*self.replaced, *other.replaced} - removed):
            both = [one for one in (self.replaced.get(key), other.replaced.get(key)) if one is not None]
            merged = both[0] | both[-1]
            if merged is None:
                removed.add(key)
            else:
                replaced[key] = merged
        sessions = {sid: self.roots_of(sid) | other.roots_of(sid) for sid in sorted({*self.sessions, *other.sessions})}
        return Tombstones(frozenset(removed), replaced, sessions)

    def roots_of(self, sid: str) -> frozenset[str]:
        """Return the digests of the first entries of a purged session; an empty set for other sessions."""
        return self.sessions.get(sid, frozenset())

    def has_entry(self, digest: str) -> bool:
        """Return whether the entry with this digest was purged or redacted."""
        return digest in self.removed or digest in self.replaced

    def replacement_of(self, digest: str) -> Replacement | None:
        """Return the replacement of an entry in this set; ``None`` if a tombstone replaces the entry."""
        seen: set[str] = set()
        found: Replacement | None = None
        while digest not in self.removed:
            if digest not in self.replaced:
                return found
            if digest in seen:  # a cycle: gitsession writes none, and no replacement in a cycle is valid
                return None
            seen.add(digest)
            found = self.replaced[digest]
            digest = found.digest
        return None

    def is_valid(self, of: str) -> bool:
        """Return whether a tombstone for the entry with the digest ``of`` is valid."""
        return (self.has_entry(of) and self.replacement_of(of) is None) or any(
            of in roots for roots in self.sessions.values()
        )

    def has_file(self, oid: Oid) -> bool:
        """Return whether the captured file ``oid`` was purged.

        The content that replaces a purged file never counts as purged, even if the set contains its oid.
        """
        return FILE + oid in self.removed and oid != PURGED_CONTENT_OID

    @property
    def has_files(self) -> bool:
        return any(key.startswith(FILE) for key in self.removed)


NONE = Tombstones()


def at(reader: Reader, oid: Oid) -> Tombstones:
    """Return the tombstone set in a commit. Raises ``Malformed``, ``MissingObject`` or ``Corrupt``."""
    kind, data = reader.read(oid)
    if kind != "commit":
        raise Malformed(f"expected a commit, found a {kind}", where=oid)
    removed: set[str] = set()
    replaced: dict[str, Replacement] = {}
    sessions: dict[str, frozenset[str]] = {}
    prefixes = {folder: prefix for prefix, folder in _FOLDERS.items()}
    known: dict[Oid, dict[str, cbor.Plain]] = {}
    for mode, folder, tree in _rows(reader, parse_commit(data).tree):
        if folder not in prefixes or mode != layout.TREE_MODE:
            raise Malformed(f"{folder[:80]!r} is not allowed in a tombstone set", where=oid, hint="upgrade gitsession")
        for mode, name, blob in _rows(reader, tree):
            key = prefixes[folder] + name
            if mode != layout.FILE_MODE or not is_key(key):
                raise Malformed(f"{name[:80]!r} is not allowed in {folder}", where=oid)
            record = known[blob] if blob in known else known.setdefault(blob, _record(reader, blob))
            if folder == layout.PURGED_SESSIONS:
                sessions[name] = _parse_roots(record, blob)
            elif folder == layout.PURGED_ENTRIES and "payload" in record:
                replaced[name] = _replacement(record, blob)
            else:
                removed.add(key)
    return Tombstones(frozenset(removed), replaced, sessions)


def _parents(reader: Reader, oid: Oid) -> tuple[Oid, ...]:
    return parse_commit(reader.read(oid)[1]).parents


def is_key(key: str) -> bool:
    """Return whether ``key`` is a valid key of the set."""
    for prefix, matches in ((FILE, _OID.fullmatch), (SESSION, refs.is_sid)):
        if key.startswith(prefix):
            return bool(matches(key.removeprefix(prefix)))
    return bool(_DIGEST.fullmatch(key))


def tree_of(tombstones: Tombstones) -> tuple[Oid, dict[Oid, tuple[Kind, bytes]]]:
    """Return the tree of a set, and its objects. Every store writes the same bytes for the same set."""
    objects = NewObjects()
    folders: dict[str, dict[str, tuple[str, Oid]]] = {folder: {} for folder in _FOLDERS.values()}
    plain = cbor.encode({"v": VERSION})
    for key in tombstones.removed:
        prefix = FILE if key.startswith(FILE) else ""
        folders[_FOLDERS[prefix]][key.removeprefix(prefix)] = (layout.FILE_MODE, objects.put("blob", plain))
    for digest, replacement in tombstones.replaced.items():
        blob = objects.put("blob", _encoded_replacement(replacement))
        folders[layout.PURGED_ENTRIES][digest] = (layout.FILE_MODE, blob)
    for sid, began in tombstones.sessions.items():
        begins: list[cbor.Plain] = [*sorted(began)]
        blob = objects.put("blob", cbor.encode({"v": VERSION, "begins": begins}))
        folders[layout.PURGED_SESSIONS][sid] = (layout.FILE_MODE, blob)
    rows = {name: (layout.TREE_MODE, objects.put("tree", encode_tree(rows))) for name, rows in folders.items() if rows}
    return objects.put("tree", encode_tree(rows)), objects


SET = GrowOnlySet(
    refs.TOMBSTONES,
    NONE,
    author="gitsession",
    at=at,
    before=_parents,
    tree_of=tree_of,
    message=lambda length, _: f"{length} purged\n",
)

read, is_ancestor, merge = SET.read, SET.is_ancestor, SET.merge
"""Methods of ``SET``, which read the set of a store, test whether a commit is an ancestor, and merge two tips."""


def _rows(reader: Reader, oid: Oid) -> list[tuple[str, str, Oid]]:
    kind, data = reader.read(oid)
    if kind != "tree":
        raise Malformed(f"expected a tree, found a {kind}", where=oid)
    return parse_tree(data)


def _record(reader: Reader, blob: Oid) -> dict[str, cbor.Plain]:
    kind, data = reader.read(blob)
    record = cbor.decode(data) if kind == "blob" else None
    if type(record) is not dict or record.get("v") != VERSION:
        raise Malformed(
            "not a tombstone, or a tombstone with an unsupported version", where=blob, hint="upgrade gitsession"
        )
    return record


def _parse_roots(record: dict[str, cbor.Plain], where: Oid) -> frozenset[str]:
    began = record.get("begins")
    if type(began) is not list or not all(type(one) is str and _DIGEST.fullmatch(one) for one in began):
        raise Malformed("expected a list of digests", where=f"{where}: begins")
    return frozenset(str(one) for one in began)


def _encoded_replacement(replacement: Replacement) -> bytes:
    stored = replacement.stored
    lifted: list[cbor.Plain] = [[encoding, content] for _, encoding, content in stored.lifted]
    return cbor.encode(
        {
            "v": VERSION,
            "form": replacement.form,
            "payload": stored.payload,
            "holes": stored.holes,
            "lifted": lifted,
        }
    )


def _replacement(record: dict[str, cbor.Plain], where: Oid) -> Replacement:
    form, payload, table, lifted = (record.get(name) for name in ("form", "payload", "holes", "lifted"))
    if type(form) is not str or type(payload) is not bytes or type(table) is not bytes or type(lifted) is not list:
        raise Malformed("expected the fields 'form', 'payload', 'holes' and 'lifted'", where=where)
    if layout.form_of(layout.PAYLOAD + form) is None:
        raise Malformed(f"unknown form {form[:40]!r}", where=f"{where}: form")
    found = []
    for row in lifted:
        if type(row) is not list or len(row) != 2 or row[0] not in ENCODINGS or type(row[1]) is not bytes:
            raise Malformed("expected pairs of encoding and bytes", where=f"{where}: lifted")
        found.append((hash_of(row[1]), row[0], row[1]))
    return Replacement(form, StoredPayload(payload, table, tuple(found)))


def add(reader: Reader, tip: Oid | None, more: Tombstones, at_ms: int, seen: Collection[Oid] | None = None) -> Merged:
    """Return a commit of the set at ``tip`` with ``more``, or ``tip`` itself if it includes ``more``.

    ``seen``: the commits of the set that remotes have; ``None`` if unknown. Commits and records that no remote has are
    left out of the new history, because the record of a redaction contains the remaining text of the entry, and a later
    redaction may remove a part of that text. Raises ``Malformed``.
    """
    before = NONE if tip is None else at(reader, tip)
    after = before | more
    if after == before:
        return Merged(tip)
    earliest = 0 if tip is None else grow_only_sets.seconds_of(reader, tip) + 1
    parents = _published(reader, tip, seen)
    published = NONE
    for oid in parents:
        published |= at(reader, oid)
    return Merged(*SET.commit(_without_intermediates(after, published), parents, max(earliest, at_ms // 1000)))


def _without_intermediates(tombstones: Tombstones, published: Tombstones) -> Tombstones:
    """Return the set without intermediate replacements, so that each entry has only its last replacement.

    Replacements in ``published``, the published set, are not removed.
    """
    final = {
        key: by if published.replaced.get(key) == by else tombstones.replacement_of(key)
        for key, by in tombstones.replaced.items()
    }
    removed = tombstones.removed | {key for key, by in final.items() if by is None}
    return Tombstones(removed, {key: by for key, by in final.items() if by is not None}, tombstones.sessions)


def _published(reader: Reader, tip: Oid | None, seen: Collection[Oid] | None) -> list[Oid]:
    """Return the newest ancestors of ``tip`` that remotes have; ``tip`` itself if the ancestors are unknown."""
    if tip is None:
        return []
    known = {*(seen if seen is not None else [tip])}
    if tip in known or not all(reader.contains(oid) and is_ancestor(reader, oid, tip) for oid in known):
        return [tip]
    return sorted(oid for oid in known if not any(is_ancestor(reader, oid, other) for other in known))


def is_published(store: ObjectStore) -> bool:
    """Return whether the last known state of a remote includes a tombstone set of this store."""
    return any(name.endswith(refs.TOMBSTONES.removeprefix("refs/heads")) for name in store.refs(refs.TRACKING))


def _joined_payload(form: str, one: bytes, other: bytes) -> StoredPayload | None:
    """Merge two redacted versions of one entry: return a payload that omits everything that either version omits.

    In general, such a payload cannot be computed without the original. ``None`` is then returned, and the entry is
    removed. An entry at which a session begins (``session`` or ``fork``) cannot be removed on its own, so the result
    contains the values that are equal in both versions, and a placeholder for each string that differs. ``None`` is
    returned if other values differ. The result does not depend on the number or order of the versions. FROZEN: every
    store must compute the same payload.
    """
    if form != layout.OWN:
        return None
    try:
        data = cbor.encode(_joined_value(cbor.decode(one), cbor.decode(other)))
        entry = payload.decode(data)[0]
    except Malformed:
        return None
    if not isinstance(entry, SessionHeader | Fork):
        return None
    rows = [(found.start(), len(found[0]), found[1].decode()) for found in _PLACEHOLDER.finditer(data)]
    return holes.cut(data, payload.spans(entry, data), rows)


def _joined_value(one: cbor.Plain, other: cbor.Plain) -> cbor.Plain:
    """Return a value in which each string that differs is replaced. Raises ``Malformed`` if other values differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return {key: _joined_value(value, other[key]) for key, value in one.items()}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [_joined_value(*pair) for pair in zip(one, other, strict=True)]
    if type(one) is not type(other) or (one != other and not isinstance(one, str)):
        raise Malformed("two redactions of one entry differ in more than their text")
    return one if one == other else _HIDDEN
