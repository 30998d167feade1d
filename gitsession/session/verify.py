"""Does the store hold what it says? Every entry that a session ref reaches, checked against docs/format.md."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gitsession.codec import headline as own_headline
from gitsession.codec import holes, payload
from gitsession.codec.digest import chain as chain_of
from gitsession.codec.digest import digest as digest_of
from gitsession.codec.holes import Stored
from gitsession.errors import Corrupt, GitSessionError, Malformed
from gitsession.formats import FORMATS
from gitsession.model.entries import Fork, Session
from gitsession.model.headline import VIEW, Headline
from gitsession.session import content, graph, keep, oplog
from gitsession.session.node import Node, load
from gitsession.store import layout, refs
from gitsession.store.base import ObjectStore, Oid
from gitsession.store.objects import oid_of, parse_commit, parse_tree

ON_META = frozenset({"session", "title", "label", "source_file", "attachment"})
"""The kinds that ``meta`` may hold: what may change about a session."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``where``: a ref or an object; ``what``: what is wrong there."""

    where: str
    what: str


@dataclass
class Report:
    """``checked``: entries; ``whole``: false where time or a sample left entries out."""

    checked: int = 0
    whole: bool = True
    problems: list[Finding] = field(default_factory=list)

    def add(self, where: str, what: str) -> None:
        self.problems.append(Finding(where, what))


def verify(
    store: ObjectStore, sid: str | None = None, *, sample: int | None = None, max_seconds: float | None = None
) -> Report:
    """Check every entry of a session, or of all. ``sample``: only so many entries, drawn at random."""
    report = Report()
    until = None if max_seconds is None else time.monotonic() + max_seconds
    nodes = _nodes(store, sid, report)
    later = _of_a_later_view(store, nodes, report)
    _check_meta(store, sid, nodes, report)
    if sid is None:
        _check_log(store, report)
    chosen = list(nodes.values())
    if sample is not None and sample < len(chosen):
        report.whole = False
        chosen = random.sample(chosen, sample)
    for node in chosen:
        if until is not None and time.monotonic() > until:
            report.whole = False
            break
        report.checked += 1
        try:
            for what in check(store, node, nodes.get(node.parent or ""), judge_words=node.oid not in later):
                report.add(node.oid, what)
        except GitSessionError as error:
            report.add(node.oid, str(error).removeprefix(f"{node.oid}: "))
    return report


def _nodes(store: ObjectStore, sid: str | None, report: Report) -> dict[Oid, Node]:
    nodes: dict[Oid, Node] = {}
    for name, value in store.refs(refs.session(sid) if sid else refs.SESSIONS).items():
        if not refs.is_session_ref(name):
            report.add(name, "not the name of a session's branch")
        oid: Oid | None = value
        while oid is not None and oid not in nodes:
            try:
                nodes[oid] = load(store, oid)
            except GitSessionError as error:
                report.add(oid, f"{str(error).removeprefix(f'{oid}: ')} (reached from {name})")
                break
            oid = nodes[oid].parent
    return nodes


def _check_meta(store: ObjectStore, sid: str | None, nodes: Mapping[Oid, Node], report: Report) -> None:
    """``meta`` stands below the entry at which its session begins, and holds nothing but what belongs there."""
    for name in store.refs(refs.session(sid) if sid else refs.SESSIONS):
        parsed = refs.parse(name)
        if parsed is None or parsed[1] != refs.META:
            continue
        node = nodes.get(store.ref(name) or "")
        while node is not None and not _starts(node):
            if node.kind not in ON_META:
                report.add(node.oid, f"{node.kind[:40]!r} has no place on {name}")
                break
            node = nodes.get(node.parent or "")
        leaves = graph.branches(store, parsed[0])
        if node is not None and _starts(node) and _reaches(nodes, leaves, node.oid) is False:
            report.add(name, "begins in another session")


def _starts(node: Node) -> bool:
    return node.source is None and (node.parent is None or node.kind == Fork.kind)


def _reaches(nodes: Mapping[Oid, Node], leaves: Mapping[str, Oid], start: Oid) -> bool | None:
    """Whether a branch comes from ``start``; ``None`` where damage on the way leaves it open."""
    open_ended = False
    for leaf in leaves.values():
        seen: set[Oid] = set()
        at: Oid | None = leaf
        while at is not None and at in nodes and at not in seen:
            if at == start:
                return True
            seen.add(at)
            at = nodes[at].parent
        open_ended |= at is not None
    return None if open_ended else False


def _check_log(store: ObjectStore, report: Report) -> None:
    try:
        for _ in oplog.history(store):
            pass
    except GitSessionError as error:
        report.add(refs.OPLOG, str(error))


def _of_a_later_view(store: ObjectStore, nodes: Mapping[Oid, Node], report: Report) -> set[Oid]:
    """The entries whose session began under a view number that this release does not know: each such start is told."""
    later: dict[Oid, bool] = {}
    for oid in nodes:
        line: dict[Oid, None] = {}  # in order; a damaged store may even hold a circle
        at: Oid | None = oid
        while at is not None and at in nodes and at not in later and at not in line:
            line[at] = None
            at = nodes[at].parent
        known = later.get(at, False) if at is not None else False
        for one in reversed(line):
            stated = _view_stated(store, nodes[one])
            if stated is not None:
                known = stated > VIEW
                if known:
                    report.add(one, f"view {stated} is not known here: the words of its entries are not checked")
            later[one] = known
    return {oid for oid, is_later in later.items() if is_later}


def _view_stated(store: ObjectStore, node: Node) -> int | None:
    entry = content.entry_of(store, node) if _starts(node) else None
    return entry.view if isinstance(entry, Session | Fork) else None


def check(store: ObjectStore, node: Node, parent: Node | None, *, judge_words: bool = True) -> Iterator[str]:
    """What is wrong with one entry; raises where it cannot be read. ``judge_words``: whether its view is ours."""
    if node.parent is not None and parent is None:
        yield f"its parent {node.parent} cannot be read"
        return
    if node.second_parent is not None:
        yield from _second_parent_problems(store, node.second_parent)
    yield from _tree_problems(store, node)
    parts = content.kept(store, node)
    chain = chain_of(None if parent is None else parent.chain, digest_of(parts.stored, parts.holes))
    if chain != node.chain:
        yield "the chain does not fit: the payload, or an entry before it, is not what was written here"
    data = content.whole(store, node, parts)
    headline = _headline(node, parts.form, data) if judge_words else None
    if headline is None:
        return
    lifted = Stored(parts.stored, parts.holes, ())
    draft = keep.Draft(parts.form, lifted, headline, node.source, parts.files, node.second_parent)
    expected, made = keep.commit_of(draft, node.tree, parent)
    found = store.read(node.oid)[1]
    if expected != found:
        yield from _commit_problems(expected, found)
    elif made.oid != node.oid:
        yield f"the commit that is there is {made.oid}"


def _second_parent_problems(store: ObjectStore, oid: Oid) -> Iterator[str]:
    try:
        load(store, oid)
    except GitSessionError as error:
        yield f"its second parent is no entry: {error}"


def _headline(node: Node, form: str, data: bytes) -> Headline | None:
    """The words that the message must have; ``None`` where this release does not know the agent."""
    format = FORMATS.get(node.source.agent) if node.source else None
    if node.source is not None and format is None:
        return None
    expected = layout.OWN if format is None else format.FORM
    if form != expected:
        raise Malformed(f"kept as {layout.payload(form)}, expected {layout.payload(expected)}")
    return own_headline.headline(payload.decode(data)[0]) if format is None else format.headline(data)


def _tree_problems(store: ObjectStore, node: Node) -> Iterator[str]:
    top = {name: (mode, oid) for mode, name, oid in _tree(store, node.tree)}
    for name, (mode, _) in top.items():
        layout.check(name, node.tree)
        expected = layout.TREE_MODE if name in (layout.BLOBS, layout.FILES) else layout.FILE_MODE
        if mode != expected:
            yield f"{name} has mode {mode}, expected {expected}"
    if sum(layout.form_of(name) is not None for name in top) != 1:
        yield "expected one payload in the tree"
    lifted = set()
    if layout.HOLES in top:
        table = holes.parse(store.read(top[layout.HOLES][1])[1])
        lifted = {digest.hex() for _, _, digest, encoding in table if encoding != "summary"}
        if any(encoding == "summary" for *_, encoding in table) != (layout.SUMMARY in top):
            yield f"{layout.SUMMARY} and the holes disagree"
    elif layout.SUMMARY in top:
        yield f"{layout.SUMMARY} without a hole that names it"
    kept = _tree(store, top[layout.BLOBS][1]) if layout.BLOBS in top else []
    for mode, name, _ in kept:
        if mode != layout.FILE_MODE:
            yield f"{layout.BLOBS}/{name} has mode {mode}, expected {layout.FILE_MODE}"
    if {name for _, name, _ in kept} != lifted:
        yield f"{layout.BLOBS}/ and the holes disagree"


def _tree(store: ObjectStore, oid: Oid) -> list[tuple[str, str, Oid]]:
    """Raises ``Corrupt`` where it is not what its oid says: no digest covers the names in a tree."""
    kind, data = store.read(oid)
    if oid_of(kind, data) != oid:
        raise Corrupt(f"the tree {oid} is not what its name says")
    return parse_tree(data)


def _commit_problems(expected: bytes, found: bytes) -> Iterator[str]:
    try:
        ours, theirs = parse_commit(expected), parse_commit(found)
    except Malformed as error:
        yield str(error)
        return
    if ours.message != theirs.message:
        yield "the commit message is not the one its payload has"
    if ours.author_name != theirs.author_name:
        yield f"the author is {theirs.author_name!r}, the payload says {ours.author_name!r}"
    if (ours.author_seconds, ours.committer_seconds) != (theirs.author_seconds, theirs.committer_seconds):
        yield "the commit's times are not those of its payload and its parent"
    if ours == theirs:
        yield "the commit has headers that no entry has"
