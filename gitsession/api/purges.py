"""What leaves a store: sessions into the trash and back, purges, and the rules by which old ones go."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gitsession.api.catalogues import Catalogues
from gitsession.archive import archive_set, archiving, retention, trash
from gitsession.archive.archive_set import InArchive
from gitsession.archive.retention import Expired, Retention
from gitsession.archive.trash import InTrash
from gitsession.context.line import Memory
from gitsession.errors import Refused
from gitsession.index.names import marks_of
from gitsession.purge import exports, finding, purging
from gitsession.purge.finding import PurgePlan
from gitsession.purge.purging import Purged
from gitsession.sessions import facts, graph, marks
from gitsession.sessions.meta import meta_of
from gitsession.sessions.node import Node
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore


@dataclass(frozen=True, slots=True)
class Trashed:
    """A session in the trash, or archived. ``name``: its title, else how it began; ``updated_ms``: its newest entry."""

    sid: str
    name: str
    entries: int
    updated_ms: int


def trashed(objects: GitStore) -> list[Trashed]:
    """What is in the trash, the newest first."""
    return _described(InTrash(objects), trash.sessions(objects))


def archive(objects: GitStore, sids: Iterable[str], at_ms: int) -> list[str]:
    """Archive sessions."""
    return archiving.archive(objects, sids, at_ms)


def listed_archive(objects: GitStore, number: int | None) -> list[Trashed]:
    """What is archived, the newest first; at most ``number``, of those that began last."""
    said = archive_set.read(objects)
    sids = sorted(said, reverse=True)[:number]
    return _described(InArchive(objects, said), sids)


def restore(objects: GitStore, part: str, at_ms: int) -> str:
    """Take a session out of the trash, or of the archive; its name."""
    if any(part in sid for sid in archive_set.read(objects)) and not any(
        part in sid for sid in trash.sessions(objects)
    ):
        sid = archiving.find(objects, part)
        archiving.restore(objects, sid, at_ms)
    else:
        sid = trash.find(objects, part)
        trash.restore(objects, sid, at_ms)
    return sid


def _described(view: ObjectStore, sids: Iterable[str]) -> list[Trashed]:
    """Sessions of which there is no catalogue, the newest first."""
    found = []
    for sid in sids:
        tree, meta = graph.tree(view, sid), meta_of(view, sid)
        nodes = sorted(tree.nodes.values(), key=lambda node: node.committer_seconds)
        first = next((node.subject.partition(": ")[2] for node, _ in tree.walk() if node.role == "user"), "")
        title = marks.title(facts.marks(view, sid, tree, meta))
        found.append(Trashed(sid, title or first or "(untitled)", len(nodes) - 1, nodes[-1].committer_seconds * 1000))
    return sorted(found, key=lambda one: (-one.updated_ms, one.sid))


def wanted(objects: GitStore, sid: str | None, at: Node | None, text: str) -> PurgePlan:
    """What is to be purged: an entry, a session, or what says ``text``, in one session or in all."""
    view = _view(objects, sid)
    return exports.with_exports(objects, view, _wanted(view, sid, at, text), text)


def _view(objects: GitStore, sid: str | None) -> ObjectStore:
    view = archive_set.Whole.of(objects)
    return InTrash(objects) if sid is not None and not graph.branches(view, sid) else view


def _wanted(view: ObjectStore, sid: str | None, at: Node | None, text: str) -> PurgePlan:
    if text:
        found = finding.saying(view, text, None if sid is None else [sid])
        if sid is None:
            found = _with_trash(found, finding.saying(InTrash(view), text))
        if at is None or any(hit.node.oid == at.oid for hit in found.entries):
            return found
        one = finding.entry(view, sid or "", at)
        return PurgePlan(
            one.more | found.more, (*one.entries, *found.entries), found.files, (), (*one.problems, *found.problems)
        )
    if sid is None:
        raise Refused("nothing to purge", hint="a session, an entry or a text says what")
    return finding.session(view, sid) if at is None else finding.entry(view, sid, at)


def _with_trash(found: PurgePlan, away: PurgePlan) -> PurgePlan:
    """Return one plan of what sessions hold and of what those in the trash hold."""
    entries, files = {hit.node.oid for hit in found.entries}, {hit.oid for hit in found.files}
    return PurgePlan(
        found.more | away.more,
        (*found.entries, *(hit for hit in away.entries if hit.node.oid not in entries)),
        (*found.files, *(hit for hit in away.files if hit.oid not in files)),
        problems=tuple(dict.fromkeys((*found.problems, *away.problems))),
    )


def purge(
    objects: GitStore, catalogues: Catalogues, memory: Memory, what: PurgePlan, clock: Callable[[], int]
) -> Purged:
    """Carry it out, and forget what this handle remembers of it."""
    from gitsession.checkpoints import intents

    begun = list(intents.pending(objects))
    if begun:
        raise Refused(f"{begun[0].words} has not ended", hint="`gitsession rewind --continue` or `--abort` first")
    catalogues.close()
    try:
        exports.forget_digests(objects, what)  # first: nobody does it for a purge that is killed after this
        return purging.add(objects, what.more, clock()) if what.more else Purged()
    finally:
        catalogues.close()
        memory.clear()


def settle(objects: GitStore, catalogues: Catalogues, memory: Memory, *, thorough: bool = False) -> Purged:
    """Make the store what the set of tombstones says, where anything came in that it is not. Cheap otherwise."""
    applied = purging.apply(objects, thorough=thorough)
    if applied.moved or applied.dropped:
        catalogues.close()
        memory.clear()
    return applied


def leaving(objects: GitStore, catalogues: Catalogues, rules: Retention) -> list[Expired]:
    """The sessions that the rules let go, the newest first."""
    catalogue = catalogues.get()

    def labels(sid: str) -> set[str]:
        return {mark.value for mark in marks_of(catalogue.db, sid) if mark.what == "label" and mark.value}

    return retention.chosen(
        catalogue.sessions(), rules, labels=labels, size=lambda sid: retention.size_of(objects, sid)
    )


def let_go(objects: GitStore, leaves: list[Expired], at_ms: int) -> None:
    """Into the trash, as one command."""
    group = secrets.token_hex(8)
    for each in leaves:
        trash.remove(objects, each.row.sid, at_ms, group)
