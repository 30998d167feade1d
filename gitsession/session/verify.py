"""Does the store hold what it says? Every entry that a session ref reaches, checked against docs/format.md."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from gitsession.errors import GitSessionError, NotFound
from gitsession.formats import FORMATS, is_document
from gitsession.formats.record import TAIL
from gitsession.model.entries import Fork, Session
from gitsession.model.headline import VIEW
from gitsession.session import content, graph, oplog, purged
from gitsession.session.check import check
from gitsession.session.meta import is_of_ours
from gitsession.session.node import Node, load
from gitsession.session.purged import Tombstones
from gitsession.store import refs
from gitsession.store.base import ObjectStore, Oid

ON_META = frozenset({"session", "title", "label", "source_file", "attachment", "project", "tombstone"})
"""The kinds that ``meta`` may hold: what may change about a session."""


ON_FILES = frozenset({"checkpoint", "tombstone"})
"""The kinds that ``files`` may hold."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``where``: a ref, a file or an object; ``what``: what is wrong there. ``ref``: the branch that leads there."""

    where: str
    what: str
    ref: str = ""

    @property
    def session(self) -> str:
        """The session that is hit; "" where none is, or several."""
        parsed = refs.parse(self.ref)
        return parsed[0] if parsed else ""


@dataclass
class Report:
    """``checked``: entries; ``whole``: false where time or a sample left entries out."""

    checked: int = 0
    whole: bool = True
    problems: list[Finding] = field(default_factory=list)

    def add(self, where: str, what: str, ref: str = "") -> None:
        self.problems.append(Finding(where, what, ref))


def verify(
    store: ObjectStore,
    sid: str | None = None,
    *,
    sample: int | None = None,
    max_seconds: float | None = None,
    known: Collection[Oid] = (),
) -> Report:
    """Check every entry of a session, or of all. ``sample``: only so many entries, drawn at random.

    ``known``: entries that were found good with all that is before them; only what came after them is checked.
    """
    report = Report()
    until = None if max_seconds is None else time.monotonic() + max_seconds
    nodes, leads = _nodes(store, sid, report, known)
    later = _of_a_later_view(store, nodes, report)
    tombstones = _tombstones(store, report)
    _check_meta(store, sid, nodes, report, tombstones)
    _check_files(store, sid, nodes, report, tombstones)
    if sid is None:
        _check_log(store, report)
    chosen = [node for node in nodes.values() if node.oid not in known]
    if sample is not None and sample < len(chosen):
        report.whole = False
        chosen = random.sample(chosen, sample)
    for node in chosen:
        if until is not None and time.monotonic() > until:
            report.whole = False
            break
        report.checked += 1
        try:
            parent, judge_words = nodes.get(node.parent or ""), node.oid not in later
            for what in check(store, node, parent, judge_words=judge_words, tombstones=tombstones):
                report.add(node.oid, what, leads[node.oid])
        except GitSessionError as error:
            report.add(node.oid, str(error).removeprefix(f"{node.oid}: "), leads[node.oid])
    return report


def _nodes(
    store: ObjectStore, sid: str | None, report: Report, known: Collection[Oid]
) -> tuple[dict[Oid, Node], dict[Oid, str]]:
    """The entries to check, and the ref that leads to each; a known one is among them where others follow it."""
    nodes: dict[Oid, Node] = {}
    leads: dict[Oid, str] = {}
    damaged: set[str] = set()
    for name, value in store.refs(refs.session(sid) if sid else refs.SESSIONS).items():
        if not refs.is_session_ref(name):
            report.add(name, "not the name of a session's branch")
        oid: Oid | None = value
        while oid is not None and oid not in nodes:
            leads[oid] = name
            try:
                nodes[oid] = load(store, oid)
            except GitSessionError as error:
                report.add(oid, f"{str(error).removeprefix(f'{oid}: ')} (reached from {name})", name)
                damaged.add(name)
                break
            oid = nodes[oid].parent if oid not in known else None
    for name in damaged:
        parsed = refs.parse(name)
        if parsed is not None:
            _add_unreached(store, parsed[0], name, nodes, leads)
    return nodes, leads


def _add_unreached(store: ObjectStore, sid: str, ref: str, nodes: dict[Oid, Node], leads: dict[Oid, str]) -> None:
    """What stands before a lost entry is checked too."""
    try:
        tree = graph.tree(store, sid)
    except NotFound:
        return
    for oid, node in tree.nodes.items():
        nodes.setdefault(oid, node)
        leads.setdefault(oid, ref)


def _tombstones(store: ObjectStore, report: Report) -> Tombstones | None:
    try:
        return purged.read(store)
    except GitSessionError as error:
        report.add(refs.TOMBSTONES, str(error))
        return None


def _is_purged(sid: str, tombstones: Tombstones | None) -> bool:
    """Whether all refs of a session lead to the one tombstone that is left of it."""
    return tombstones is not None and purged.SESSION + sid in tombstones


def _check_meta(
    store: ObjectStore, sid: str | None, nodes: Mapping[Oid, Node], report: Report, tombstones: Tombstones | None
) -> None:
    """``meta`` stands below the entry at which its session begins, and holds nothing but what belongs there."""
    for name in store.refs(refs.session(sid) if sid else refs.SESSIONS):
        parsed = refs.parse(name)
        if parsed is None or not refs.is_meta(parsed[1]) or _is_purged(parsed[0], tombstones):
            continue
        node = nodes.get(store.ref(name) or "")
        while node is not None and not starts(node):
            if node.kind not in ON_META and not stands_for_a_part(node) and not is_of_ours(node):
                report.add(node.oid, f"{node.kind[:40]!r} has no place on {name}")
                break
            node = nodes.get(node.parent or "")
        leaves = graph.branches(store, parsed[0])
        if node is not None and starts(node) and _reaches(nodes, leaves, node.oid) is False:
            report.add(name, "begins in another session")


def _check_files(
    store: ObjectStore, sid: str | None, nodes: Mapping[Oid, Node], report: Report, tombstones: Tombstones | None
) -> None:
    """The line of checkpoints holds nothing else, down to where its session, or the one it was forked from, begins."""
    for name, value in store.refs(refs.session(sid) if sid else refs.SESSIONS).items():
        parsed = refs.parse(name)
        if parsed is None or not refs.is_files(parsed[1]) or _is_purged(parsed[0], tombstones):
            continue
        node = nodes.get(value)
        while node is not None and not starts(node):
            if node.kind not in ON_FILES:
                report.add(node.oid, f"{node.kind[:40]!r} has no place on {name}", name)
                break
            node = nodes.get(node.parent or "")


def stands_for_a_part(node: Node) -> bool:
    """On ``meta``: whether it is what waits in a file, or a part of a document as it stands there."""
    if node.source is None:
        return False
    format = FORMATS.get(node.source.agent)
    return node.source.line == TAIL or (format is not None and is_document(format))


def starts(node: Node) -> bool:
    """Whether a session begins there: a root, or a fork."""
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
    entry = content.entry_of(store, node) if starts(node) else None
    return entry.view if isinstance(entry, Session | Fork) else None
