"""The check of all entries that are reachable from session refs against docs/reference/format.md."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from gitsession import parallel, progress
from gitsession.archive import archive_set
from gitsession.errors import GitSessionError, NotFound, Unavailable
from gitsession.git.types import Oid, RefValue
from gitsession.model.entries import Fork, SessionHeader
from gitsession.model.headline import VIEW
from gitsession.sessions import content, graph, operation_log, read_ahead, tombstone_set
from gitsession.sessions.node import Node, load
from gitsession.sessions.read_ahead import ReadAheadReader
from gitsession.sessions.tombstone_set import Tombstones
from gitsession.store import refs
from gitsession.store.interface import ObjectStore
from gitsession.verify import semantics, signatures, store_parts
from gitsession.verify.entry_check import Manifests, check, is_allowed_on
from gitsession.verify.findings import Finding, Report
from gitsession.verify.semantics import Sessions
from gitsession.verify.store_parts import StorePart

AT_ONCE = 128
"""Number of entries that are read together."""


def verify(
    store: ObjectStore,
    sid: str | None = None,
    *,
    sample: int | None = None,
    max_seconds: float | None = None,
    known: Collection[Oid] = (),
    notices: bool = False,
    git_dir: Path | None = None,
) -> Report:
    """Check every entry of one session, or of all sessions.

    Args:
        store: The store.
        sid: The session; ``None`` for all sessions.
        sample: Number of entries to check, chosen at random; ``None`` for all entries.
        max_seconds: Time limit in seconds; ``None`` for no limit.
        known: Entries that were checked before, together with the entries before them. Only later entries are checked.
        notices: Whether to also report notices.
        git_dir: Folder of the repository, to check a large store one part after the other; ``None`` to check all
            entries together. Only for a check of all entries.
    """
    snapshot = Snapshot.of(store, sid)
    if sid is None and git_dir is not None:
        parts = store_parts.divide(git_dir, snapshot.tips, snapshot.active)
        if len(parts) > 1:
            return _verify_parts(snapshot, parts, notices=notices) or verify(store, notices=notices)
    report = Report()
    until = None if max_seconds is None else time.monotonic() + max_seconds
    loaded = read_ahead.nodes(snapshot.store.commits()) if sid is None and not known else {}
    walk = Walk(snapshot, report, EntryChecks(store, report), known, loaded)
    if sid is None:
        check_log(store, report)
    chosen = [oid for oid in walk.nodes if oid not in known]
    if sample is not None and sample < len(chosen):
        report.whole = False
        chosen = random.sample(chosen, sample)
    if until is None:
        walk.check_all(chosen)
    else:
        for oid in chosen:
            if time.monotonic() > until:
                report.whole = False
                break
            walk.check(oid)
    walk.check_relations(notices=notices)
    return report


def _verify_parts(snapshot: Snapshot, parts: Sequence[StorePart], *, notices: bool) -> Report | None:
    """Check a store one part after the other; return ``None`` if a part does not have the entries that git listed."""
    report = Report()
    checks = EntryChecks(snapshot.store, report)
    check_log(snapshot.store, report)
    for part in progress.each("Checking sessions", parts):
        oids = part.oids()
        loaded = read_ahead.nodes(snapshot.store.read_all(oids))
        walk = Walk(snapshot._replace(tips=part.tips, active=part.active), report, checks, loaded=loaded)
        if walk.nodes.keys() != set(oids):
            return None
        del loaded
        with progress.by(None):
            walk.check_all(list(walk.nodes))
        walk.check_relations(notices=notices)
    return report


class EntryChecks:
    """Data that the checks of all entries of a store share: the tombstone set, and the checked trees of files."""

    def __init__(self, store: ObjectStore, report: Report) -> None:
        self.manifests = Manifests(store, is_partial=getattr(store, "promised", None) is not None)
        self.tombstones: Tombstones | None = None
        try:
            self.tombstones = tombstone_set.read(store)
        except GitSessionError as error:
            report.add(refs.TOMBSTONES, str(error))
        try:
            archive_set.read(store)
        except GitSessionError as error:
            report.add(refs.ARCHIVE, str(error))

    def is_purged(self, sid: str) -> bool:
        """Return whether the whole session was purged. All of its refs then point to one tombstone."""
        return self.tombstones is not None and tombstone_set.SESSION + sid in self.tombstones


class Snapshot(NamedTuple):
    """The refs to check, and the store with a view of the archived sessions.

    ``tips``: the refs of sessions. ``active``: the refs that select active branches.
    """

    store: ObjectStore
    tips: Mapping[str, Oid]
    active: Mapping[str, RefValue]

    @classmethod
    def of(cls, store: ObjectStore, sid: str | None) -> Snapshot:
        """Read the refs of one session, or of all sessions.

        They are read only once, because a second read could return a different state of the store.
        """
        try:
            with store.transaction():  # no other process can move a ref in the meantime
                return cls._read(store, sid)
        except Unavailable:  # the store is read-only, or another process holds its lock for too long
            return cls._read(store, sid)

    @classmethod
    def _read(cls, store: ObjectStore, sid: str | None) -> Snapshot:
        whole = archive_set.UnarchivedStore.of(store)
        prefix, active = (refs.session(sid), refs.active(sid)) if sid else (refs.SESSIONS, refs.ACTIVE)
        return cls(whole, whole.refs(prefix), whole.refs(active))


class Walk:
    """A check of the entries of some sessions. Problems are added to ``report``.

    ``loaded``: entries that were already read; the walk uses those that it reaches.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        report: Report,
        checks: EntryChecks,
        known: Collection[Oid] = (),
        loaded: Mapping[Oid, Node] = MappingProxyType({}),
    ) -> None:
        self._store, self._tips, self._active = snapshot
        self._report, self._checks = report, checks
        self._ahead = ReadAheadReader(self._store)
        self.nodes, self._reached_from = _nodes(self._store, self._tips, report, known, loaded)
        self._later = _entries_of_later_views(self._store, self.nodes, report)

    def check(self, oid: Oid) -> None:
        """Check one entry, without its relations to other entries."""
        node, checks = self.nodes[oid], self._checks
        self._report.checked += 1
        try:
            for problem in check(
                self._ahead,
                node,
                self.nodes.get(node.parent or ""),
                check_message=oid not in self._later,
                tombstones=checks.tombstones,
                manifests=checks.manifests,
            ):
                self._report.add(oid, problem, self._reached_from[oid])
        except GitSessionError as error:
            self._report.add(oid, str(error).removeprefix(f"{oid}: "), self._reached_from[oid])

    def check_row(self, oids: Sequence[Oid]) -> None:
        """Check a few entries separately. Their objects are read together."""
        self._ahead.load(self.nodes[oid] for oid in oids)
        for oid in oids:
            self.check(oid)

    def check_all(self, oids: Sequence[Oid]) -> None:
        """Check entries separately. If there are many entries, several processes are used."""
        for checked, problems in parallel.share(oids, self._check_rows):
            self._report.checked += checked
            self._report.problems += problems

    def _check_rows(self, oids: Sequence[Oid]) -> tuple[int, list[Finding]]:
        report, self._report = self._report, Report()
        try:
            for at in progress.each("Checking entries", range(0, len(oids), AT_ONCE)):
                self.check_row(oids[at : at + AT_ONCE])
            return self._report.checked, self._report.problems
        finally:
            self._report = report

    def check_relations(self, *, notices: bool = False) -> None:
        """Check the relations between entries, and the signatures."""
        report, checks = self._report, self._checks
        leaves = {name: value for name, value in self._tips.items() if not checks.is_purged(refs.session_of(name))}
        sessions = Sessions(self._store, leaves, self.nodes)
        _check_ref_types(sessions, report)
        for finding in semantics.problems(sessions, self._active):
            report.add(finding.where, finding.what, finding.ref or self._reached_from.get(finding.where, ""))
        for signature in signatures.check_signatures(sessions, checks.tombstones):
            report.signatures.append(signature)
            problem = signatures.problem(signature)
            if problem is not None:
                report.problems.append(problem)
        if notices:
            report.notices = [*(report.notices or ()), *semantics.notices(sessions)]


def _nodes(
    store: ObjectStore, tips: Mapping[str, Oid], report: Report, known: Collection[Oid], loaded: Mapping[Oid, Node]
) -> tuple[dict[Oid, Node], dict[Oid, str]]:
    """Return the entries to check by id, and for each entry the name of a ref from which it is reachable.

    The walk follows each ref in ``tips`` back to the root, or to the first entry in ``known``, which is included. If an
    entry cannot be read, the error is added to ``report``, and ``_add_unreached`` finds the entries before it.

    ``is_all``: True if ``tips`` contains the refs of all sessions, so that all commits can be loaded together.
    """
    nodes: dict[Oid, Node] = {}
    reached_from: dict[Oid, str] = {}
    damaged: set[str] = set()
    for name, value in tips.items():
        if not refs.is_session_ref(name):
            report.add(name, "invalid name of a session branch")
        oid: Oid | None = value
        while oid is not None and oid not in nodes:
            reached_from[oid] = name
            try:
                nodes[oid] = loaded.get(oid) or load(store, oid)
            except GitSessionError as error:
                report.add(oid, f"{str(error).removeprefix(f'{oid}: ')} (reached from {name})", name)
                damaged.add(name)
                break
            oid = nodes[oid].parent if oid not in known else None
    for name in damaged:
        parsed = refs.parse(name)
        if parsed is not None:
            _add_unreached(store, parsed[0], name, nodes, reached_from)
    return nodes, reached_from


def _add_unreached(
    store: ObjectStore, sid: str, ref: str, nodes: dict[Oid, Node], reached_from: dict[Oid, str]
) -> None:
    """Add the entries of session ``sid`` that cannot be reached because of a lost entry, so that they are checked."""
    try:
        tree = graph.tree(store, sid)
    except NotFound:
        return
    for oid, node in tree.nodes.items():
        nodes.setdefault(oid, node)
        reached_from.setdefault(oid, ref)


def _check_ref_types(sessions: Sessions, report: Report) -> None:
    """Check that ``meta`` and ``files`` have only entries that may be on them, back to the start of a session.

    The start of the history of ``meta`` must be the start of the same session.
    """
    for name, leaf in sessions.leaves.items():
        sid, branch = refs.parse(name) or ("", "")
        ref_type = refs.META if refs.is_meta(branch) else refs.FILES if refs.is_files(branch) else ""
        for node in sessions.history(leaf) if ref_type else ():
            if node.starts_session:
                if ref_type == refs.META and sessions.on_branches(sid, node.__eq__) is False:
                    report.add(name, "its history starts in another session")
                break
            if not is_allowed_on(node, ref_type):
                problem = f"an entry of kind {node.kind[:40]!r} is not allowed on {name}"
                report.add(node.oid, problem, name if ref_type == refs.FILES else "")
                break


def check_log(store: ObjectStore, report: Report) -> None:
    """Check that the operation log can be read and that all entries in it exist."""
    try:
        for operation in operation_log.history(store):
            for oid in operation.oids:
                if not store.contains(oid):
                    report.add(refs.OPLOG, f"operation {operation.id} refers to {oid}, which is missing")
    except GitSessionError as error:
        report.add(refs.OPLOG, str(error))


def _entries_of_later_views(store: ObjectStore, nodes: Mapping[Oid, Node], report: Report) -> set[Oid]:
    """Return the entries of sessions whose view number is unknown to this release, and report those sessions."""
    later: dict[Oid, bool] = {}
    for oid in nodes:
        history: dict[Oid, None] = {}  # in order; in a damaged store, a history can be a cycle
        at: Oid | None = oid
        while at is not None and at in nodes and at not in later and at not in history:
            history[at] = None
            at = nodes[at].parent
        is_known_later = later.get(at, False) if at is not None else False
        for member in reversed(history):
            entry = content.entry_of(store, nodes[member]) if nodes[member].starts_session else None
            if isinstance(entry, SessionHeader | Fork) and entry.view is not None:
                is_known_later = entry.view > VIEW
                if is_known_later:
                    what = f"unknown view {entry.view}: the commit messages of its entries are not checked"
                    report.add(member, what)
            later[member] = is_known_later
    return {oid for oid, is_later in later.items() if is_later}
