"""Reading of entries for a page: secrets that are still stored are withheld, and suspicious text is reported."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from gitsession.codec import holes
from gitsession.exporting.gather import NO_IMAGE
from gitsession.formats import Referring, with_capability
from gitsession.git.types import Oid
from gitsession.model.blocks import File, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Entry, Instructions, Message, Opaque
from gitsession.redaction.guard import Guard
from gitsession.redaction.heuristics import is_random
from gitsession.sessions import content
from gitsession.sessions.attached_files import SessionAttachments
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.node import Node, load
from gitsession.sessions.read_ahead import ReadAheadReader
from gitsession.store.interface import ObjectStore

_AT_ONCE = 256
"""Number of entries that are read and scanned together."""

_WORD = re.compile(r"(?<![\w+/=.-])[A-Za-z0-9_+/=.~-]{20,2000}(?![\w+/=.-])")
_HARMLESS = re.compile(
    r"[0-9a-fA-F-]+"  # digests and UUIDs
    r"|[.~]{0,2}/.*"  # paths
    r"|[A-Za-z_.:/=~-]+\d{0,2}"  # names in programs
    r"|sha\d{3}[-=].*|.*/node_modules/.*"  # integrity of packages, and their folders
    r"|(?:call|toolu|msg|req|resp|fc|rs|item|chatcmpl)[_-].*"  # ids of agents' calls and messages
    r"|.*[./](?:\w{1,5})(?::\d+)?"  # names of files
    r"|\d{4}-\d\d-\d\dT.*",
    re.DOTALL,
)
_SHOWN_CHARS = 6


class ReadEntry(NamedTuple):
    """An entry as a page may show it.

    Attributes:
        node: The metadata of the entry.
        entry: The content, with placeholders in place of secrets.
        withheld: The rules that found a secret which the store has not redacted.
        hidden: The number of placeholders that the store has in place of secrets.
    """

    node: Node
    entry: Entry
    withheld: tuple[str, ...] = ()
    hidden: int = 0


class SuspiciousText(NamedTuple):
    """Text that looks like a secret, although no rule found it. ``beginning``: its first characters."""

    oid: str
    beginning: str
    length: int

    def __str__(self) -> str:
        return f"{self.oid[:12]}: {self.beginning}… ({self.length} characters)"


class EntryReader:
    """A reader of the entries of one session.

    ``guard``: the rules for secrets. ``allowed``: the exceptions of ``gitsession gate allow``.
    """

    def __init__(self, store: ObjectStore, sid: str, guard: Guard, allowed: Collection[str] = ()) -> None:
        self._store, self._guard, self._allowed = store, guard, allowed
        self._attached = SessionAttachments(store, sid, NO_IMAGE)

    def read(self, nodes: Sequence[Node]) -> Iterator[ReadEntry]:
        """Yield the entries of ``nodes``, with placeholders in place of secrets. A damaged entry becomes ``Opaque``."""
        for at in range(0, len(nodes), _AT_ONCE):
            yield from self._read_together(nodes[at : at + _AT_ONCE])

    def _read_together(self, nodes: Sequence[Node]) -> Iterator[ReadEntry]:
        reader = ReadAheadReader(self._store)
        reader.load(nodes)
        trees: list[content.EntryTree | None] = []
        payloads: list[tuple[str, bytes]] = []
        for node in nodes:
            try:
                parts = content.entry_tree(reader, node)
                payloads.append((parts.form, content.full_payload(reader, node, parts)))
                trees.append(parts)
            except DAMAGE:
                payloads.append(("", b""))
                trees.append(None)
        suspects = self._guard.suspects(payloads)
        for number, (node, tree, (form, payload)) in enumerate(zip(nodes, trees, payloads, strict=True)):
            if tree is None:
                yield ReadEntry(node, content.entry_of(reader, node))
                continue
            redacted, rules = self._redact(tree, payload) if number in suspects else (payload, ())
            hidden = sum(row.rule != holes.PURGED for row in holes.hidden(tree.holes)) if tree.holes else 0
            yield ReadEntry(node, self._decode(node, form, redacted), rules, hidden)

    def _redact(self, tree: content.EntryTree, payload: bytes) -> tuple[bytes, tuple[str, ...]]:
        """Return a payload without secrets, and the rules that found secrets in it."""
        found = self._guard.redact(tree.form, payload)
        rules = tuple(sorted({rule for *_, rule in found.rows}))
        if all(f"{tree.digest.hex()}:{rule}" in self._allowed for rule in rules):
            return payload, ()
        return found.payload, rules

    def _decode(self, node: Node, form: str, payload: bytes) -> Entry:
        try:
            if node.source is not None and with_capability(node.source.agent, Referring) is not None:
                payload = self._attached.resolve(node.source.agent, payload)
            return content.decode_payload(node, form, payload)
        except DAMAGE as error:
            return Opaque(at_ms=node.author_seconds * 1000, problem=str(error))


def withheld_in(store: ObjectStore, guard: Guard, sid: str, oid: Oid) -> tuple[str, ...]:
    """Return the rules that find a secret in an entry, no excerpt of which may be shown: it can be a part of one."""
    return next(EntryReader(store, sid, guard).read([load(store, oid)])).withheld


def suspicious_in(oid: Oid, texts: Iterable[str]) -> Iterator[SuspiciousText]:
    """Yield the words in ``texts`` that look like a secret, although no rule found them. ``oid``: their entry."""
    for text in texts:
        for found in _WORD.finditer(text):
            word = found[0]
            if is_random(word.encode()) and not _HARMLESS.fullmatch(word):
                yield SuspiciousText(oid, word[:_SHOWN_CHARS], len(word))


def texts_of(entry: Entry) -> Iterator[str]:
    """Yield the texts of an entry that a page shows."""
    match entry:
        case Message() | CustomMessage():
            for block in entry.content:
                if isinstance(block, Text | Thinking):
                    yield block.text
                elif isinstance(block, ToolCall):
                    yield from _strings(block.arguments)
                elif isinstance(block, File):
                    yield from filter(None, (block.name, block.url))
            if isinstance(entry, Message):
                yield from filter(None, (entry.command, entry.output, entry.error))
        case Compaction() | BranchSummary():
            yield entry.summary
        case Instructions():
            yield from filter(None, (entry.system_prompt, entry.task))


def _strings(value: object) -> Iterator[str]:
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            stack += [*one, *one.values()]
        elif isinstance(one, list | tuple):
            stack += one
