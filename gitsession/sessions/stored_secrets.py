"""Search for secrets in entries that were stored before a rule existed, or while redaction was disabled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from gitsession.codec import holes, payload
from gitsession.codec.digest import digest as digest_of
from gitsession.codec.holes import StoredPayload
from gitsession.dataclass import dataclass
from gitsession.git.objects import parse_tree
from gitsession.git.types import Oid
from gitsession.redaction.guard import Guard, Redacted, find
from gitsession.sessions import checkpoint_refs, commit_writer, graph, layout
from gitsession.sessions.content import entry_tree, full_payload
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.node import Node, load
from gitsession.store import refs
from gitsession.store.interface import ObjectStore


@dataclass(frozen=True, slots=True)
class FoundSecret:
    """An entry with ``count`` secrets that match ``rule``. ``path``: for a checkpoint, the file with the secrets."""

    session: str
    node: Node
    rule: str
    count: int
    path: str = ""


class SecretSearch:
    """A search that reads each entry and each captured file once. Iterate over it to get the findings.

    ``unread``: the entries that could not be read. ``known``: the findings that the user marked as false positives, as
    ``<digest>:<rule>`` and ``file:<oid>:<rule>``.
    """

    def __init__(self, store: ObjectStore, guard: Guard, sids: Iterable[str], known: Collection[str] = ()) -> None:
        self._store = store
        self._guard = guard
        self._sids = sids
        self._known = known
        self._seen: set[Oid] = set()
        self.unread: list[Oid] = []

    def __iter__(self) -> Iterator[FoundSecret]:
        """Yield the secrets in entries, on ``meta``, and in checkpoints.

        Raises ``NotFound`` if a session does not exist.
        """
        for sid in self._sids:
            yield from self._session(sid)

    def _session(self, sid: str) -> Iterator[FoundSecret]:
        tree = graph.tree(self._store, sid)
        nodes = list(tree.nodes.values())
        tips = [self._store.ref(refs.meta(sid)), *(end for _, end in checkpoint_refs.line_refs(self._store, sid))]
        for end in tips:
            nodes += self._line(end) if end else []
        for node in nodes:
            if node.oid not in self._seen:
                self._seen.add(node.oid)
                try:
                    yield from self._entry(sid, node)
                except DAMAGE:
                    self.unread.append(node.oid)

    def _line(self, oid: Oid | None) -> Iterator[Node]:
        while oid is not None and oid not in self._seen:
            try:
                node = load(self._store, oid)
            except DAMAGE:
                self.unread.append(oid)
                return
            yield node
            oid = node.parent

    def _entry(self, sid: str, node: Node) -> Iterator[FoundSecret]:
        parts = entry_tree(self._store, node)
        redacted = self._guard.redact(parts.form, full_payload(self._store, node, parts))
        digest = parts.digest.hex() if self._known and redacted.rows else ""
        for rule, count in sorted(Counter(rule for _, _, rule in redacted.rows).items()):
            if f"{digest}:{rule}" not in self._known:
                yield FoundSecret(sid, node, rule, count)
        if parts.files is not None:
            yield from self._files(sid, node, parts.files, "")

    def _files(self, sid: str, node: Node, tree: Oid, above: str) -> Iterator[FoundSecret]:
        if tree in self._seen:
            return
        self._seen.add(tree)
        for mode, name, oid in parse_tree(self._store.read(tree)[1]):
            path = above + name
            if mode == layout.TREE_MODE:
                yield from self._files(sid, node, oid, path + "/")
            elif oid not in self._seen and self._store.contains(oid):
                self._seen.add(oid)
                data = self._store.read(oid)[1]
                if self._guard.in_file(data) is not None:
                    hits = find(data, self._guard.scanner)
                    for rule, count in sorted(Counter(hit.rule for hit in hits).items()):
                        if f"file:{oid}:{rule}" not in self._known:
                            yield FoundSecret(sid, node, rule, count, path)


@dataclass(frozen=True, slots=True)
class RedactedEntry:
    """The redacted replacement of the entry with the digest ``digest``.

    ``new_digest``: the digest of the replacement. ``original``: the payload before all redactions; if the vault lacks
    that payload, the payload before this redaction.
    """

    digest: bytes
    form: str
    stored: StoredPayload
    new_digest: bytes
    original: bytes


def replacement(store: ObjectStore, node: Node, guard: Guard) -> RedactedEntry | None:
    """Return the replacement of an entry; ``None`` if there is nothing to redact. Existing placeholders stay."""
    parts = entry_tree(store, node)
    data = full_payload(store, node, parts)
    redacted = guard.redact(parts.form, data)
    if not redacted.rows:
        return None
    digest = parts.digest
    stored = _stored(parts.form, redacted, _shift_rows(holes.hidden(parts.holes), data, redacted))
    original = store.vault.original(digest, node.chain) if holes.hidden(parts.holes) else data
    return RedactedEntry(digest, parts.form, stored, digest_of(stored.payload, stored.holes), original or data)


def _stored(form: str, redacted: Redacted, existing: list[tuple[int, int, str]]) -> StoredPayload:
    data = redacted.payload
    rows = sorted([*redacted.rows, *existing])
    if form == layout.OWN:
        return holes.cut(data, payload.spans(payload.decode(data)[0], data), rows)
    return commit_writer.cut(form, data, tuple(rows))


def _shift_rows(existing: list[holes.PlaceholderSpan], before: bytes, redacted: Redacted) -> list[tuple[int, int, str]]:
    """Return the existing placeholders with their offsets after the redaction.

    The search for each placeholder starts after the previous one.
    """
    moved = []
    at = 0
    for row in existing:
        text = before[row.offset : row.offset + row.length]
        used = {offset for offset, _, _ in redacted.rows}
        at = redacted.payload.find(text, at)
        while at in used:
            at = redacted.payload.find(text, at + 1)
        if at < 0:
            break
        moved.append((at, row.length, row.rule))
        at += row.length
    return moved
