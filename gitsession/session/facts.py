"""What the entries of a session say about it: its ``meta`` branch, the marks it holds, what is still in the file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gitsession.codec.digest import to_base64url
from gitsession.model import entries as kinds
from gitsession.model.entries import Entry
from gitsession.session.content import begins_fork, entry_of
from gitsession.session.graph import Tree, place
from gitsession.session.marks import Mark
from gitsession.session.node import Node, load, position
from gitsession.store import refs
from gitsession.store.base import ObjectStore, Oid

MARKING = frozenset({"label", "title"})
"""The kinds of entries, off ``meta``, that are marks."""


@dataclass(frozen=True, slots=True)
class Meta:
    """What ``meta`` says: the header as last seen, how the agent's file stands, and marks. Lines are newest first."""

    header: kinds.Session | None = None
    source_file: kinds.SourceFile = field(default_factory=kinds.SourceFile)
    nodes: tuple[Node, ...] = ()
    marks: tuple[Mark, ...] = ()
    files: tuple[tuple[Node, kinds.SourceFile], ...] = ()

    def newest_lines(self) -> dict[int, Node]:
        """The lines of the agent's file on ``meta``, each as it was last seen."""
        lines: dict[int, Node] = {}
        for node in self.nodes:
            if node.source is not None:
                lines.setdefault(node.source.line, node)
        return lines

    def older_lines(self) -> list[Node]:
        """Lines of the agent's file on ``meta`` that a newer one took the place of."""
        newest = {node.oid for node in self.newest_lines().values()}
        return [node for node in self.nodes if node.source is not None and node.oid not in newest]

    def lines_before(self, line: Iterable[Node]) -> dict[int, Node]:
        """The lines on ``meta`` that were in force when ``line``, entries of an earlier file, was the file.

        The first ``source_file`` to list an entry of ``line`` put an end to it, and lists the headers replaced with it.
        """
        places = {position(node) for node in line}
        ended = None
        known: set[str] = set()
        for node, state in reversed(self.files):
            if places & set(state.superseded):
                ended, listed = node, set(state.superseded) - known
                break
            known = set(state.superseded)
        if ended is None:
            return self.newest_lines()
        lines: dict[int, Node] = {}
        for node in self.nodes[self.nodes.index(ended) :]:
            if node.source is not None and (node.source.line not in lines or position(node) in listed):
                lines[node.source.line] = node
        return lines


def meta(store: ObjectStore, sid: str) -> Meta:
    """The ``meta`` branch of a session, folded: newest wins; a line that left the agent's file does not count."""
    header: kinds.Session | None = None
    source_file: kinds.SourceFile | None = None
    nodes: list[Node] = []
    marks: list[Mark] = []
    files: list[tuple[Node, kinds.SourceFile]] = []
    seen_lines: set[int] = set()
    oid = store.ref(refs.meta(sid))
    while oid is not None:
        node = load(store, oid)
        if node.parent is None or node.kind == kinds.Fork.kind:
            break
        nodes.append(node)
        oid = node.parent
        if node.kind == kinds.Attachment.kind:
            continue  # large, and says nothing about the session
        if node.source is not None:
            # Only the newest of one line counts. What supersedes it was said after it, so it is known by now.
            if node.source.line in seen_lines:
                continue
            seen_lines.add(node.source.line)
            if source_file is not None and position(node) in source_file.superseded:
                continue
        entry = entry_of(store, node)
        if isinstance(entry, kinds.Session) and header is None:
            header = entry
        elif isinstance(entry, kinds.SourceFile):
            source_file = source_file or entry
            files.append((node, entry))
        marks += marks_of(node, entry, on_meta=True)
    return Meta(header, source_file or kinds.SourceFile(), tuple(nodes), tuple(marks), tuple(files))


def imported_now(tree: Tree, superseded: Iterable[str]) -> list[Node]:
    """The imported entries that are still in the agent's file: those that are not superseded, nor below one that is."""
    gone = set(superseded)
    found: list[Node] = []
    stack = list(tree.children.get(None, []))
    while stack:
        node = tree.nodes[stack.pop()]
        if node.source is not None:
            if position(node) in gone:
                continue
            found.append(node)
        stack += tree.children.get(node.oid, [])
    return found


def marks_of(node: Node, entry: Entry, *, on_meta: bool) -> list[Mark]:
    """The marks that ``entry`` makes."""
    line = node.source.line if node.source else None

    def mark(what: str, value: str | None, target: str = "") -> list[Mark]:
        return [Mark(what, entry.at_ms, line, node.chain, target, (value or "").strip())]

    if isinstance(entry, kinds.Label):
        return mark("label", entry.label, entry.target)
    if isinstance(entry, kinds.Title):
        return mark("slot" if on_meta and node.source else "title", entry.title)
    if isinstance(entry, kinds.Session) and on_meta:
        return mark("header", entry.title)
    if isinstance(entry, kinds.Fork):
        labels = (Mark("label", entry.at_ms, None, b"", chain, label) for chain, label in entry.labels.items())
        return [*labels, Mark("title", entry.at_ms, None, b"", "", entry.title or "")]
    return []


def marks(store: ObjectStore, sid: str, tree: Tree, seen: Meta) -> list[Mark]:
    """All marks of a session, by a walk. ``seen``: its ``meta``.

    Those of an older session above a fork do not count, nor do lines that are no longer in the agent's file.
    """
    found = list(seen.marks)
    start = next((oid for oid in tree.nodes if begins_fork(store, tree.nodes[oid], sid)), None)
    above = _above(tree, start)
    in_file = {node.oid for node in imported_now(tree, seen.source_file.superseded)}
    for node in tree.nodes.values():
        counts = node.oid not in above and (node.source is None or node.oid in in_file)
        if counts and (node.kind in MARKING or node.oid == start):
            found += marks_of(node, entry_of(store, node), on_meta=False)
    return found


def _above(tree: Tree, start: Oid | None) -> set[Oid]:
    """The entries of older sessions: those above the fork entry ``start``."""
    above: set[Oid] = set()
    oid = tree.nodes[start].parent if start is not None else None
    while oid is not None and oid in tree.nodes:
        above.add(oid)
        oid = tree.nodes[oid].parent
    return above


def targets(tree: Tree, seen: Meta) -> dict[str, Oid]:
    """What a label or an address may name: an entry's chain, or the agent's id for it.

    Of two entries with one id the later line answers, and one that is in the agent's file before one that was.
    """
    named = {to_base64url(node.chain): node.oid for node in tree.nodes.values()}
    in_file = {node.oid for node in imported_now(tree, seen.source_file.superseded)}
    imported = [node for node in tree.nodes.values() if node.source is not None]
    for node in sorted(imported, key=lambda node: (node.oid in in_file, place(node))):
        if node.source is not None and node.source.id is not None:
            named[node.source.id] = node.oid
    return named
