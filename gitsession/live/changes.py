"""Changes of a store since the last read, including those that other processes make.

A reader compares the refs of the sessions. It uses no thread, and if nothing has changed, it reads no git objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from gitsession.git.types import Oid, RefValue
from gitsession.model.entries import Label, SessionHeader, Title
from gitsession.sessions import graph
from gitsession.sessions.active_branch import active
from gitsession.sessions.content import entry_of
from gitsession.sessions.node import Node
from gitsession.store import refs
from gitsession.store.git_store import GitStore

ChangeKind: TypeAlias = Literal[
    "entry",
    "label",
    "title",
    "checkpoint",
    "branch-created",
    "branch-moved",
    "branch-removed",
    "branch-switched",
    "session-created",
    "session-removed",
]


class Change(NamedTuple):
    """A change of a session.

    ``branch``: the branch that changed; "" for a label, a title or a checkpoint, which is on no branch. ``node``: the
    new entry; for a label or a title, the entry that sets it. ``tip``: the new tip of the branch.
    """

    kind: ChangeKind
    session: str
    branch: str = ""
    node: Node | None = None
    tip: Oid | None = None


class ChangeReader:
    """A reader of the changes that are made after it was created. ``sid``: the session; ``None`` for all sessions."""

    def __init__(self, store: GitStore, sid: str | None = None) -> None:
        self._store = store
        self._sid = sid
        self._mark = store.fingerprint()
        self._tips, self._selected = self._read_refs()
        self._known: dict[str, set[Oid]] = {}

    def read(self) -> Iterator[Change]:
        """Yield the changes since the last call. The entries of a branch are yielded oldest first, and only once.

        Raises ``Corrupt`` if an entry is damaged, and ``Unavailable`` if the store cannot be read.
        """
        mark = self._store.fingerprint()
        if mark == self._mark:
            return
        before, selected = self._tips, self._selected
        self._mark, (self._tips, self._selected) = mark, self._read_refs()
        gone, sids = {sid for sid, _ in before}, {sid for sid, _ in self._tips}
        yield from (Change("session-removed", sid) for sid in sorted(gone - sids))
        yield from (Change("session-created", sid) for sid in sorted(sids - gone))
        for (sid, branch), tip in self._tips.items():
            old = before.get((sid, branch))
            if old != tip:
                yield from self._changes_of(sid, branch, old, tip, before)
        for sid, branch in before.keys() - self._tips.keys():
            if sid in sids and refs.is_branch(branch):
                yield Change("branch-removed", sid, branch)
        for ref in sorted(selected.keys() | self._selected.keys()):
            sid = refs.session_at(ref)
            if selected.get(ref) != self._selected.get(ref) and sid in sids:
                branch = active(self._store, sid)
                yield Change("branch-switched", sid, branch, tip=self._tips.get((sid, branch)))

    def _changes_of(
        self, sid: str, branch: str, old: Oid | None, tip: Oid, before: Mapping[tuple[str, str], Oid]
    ) -> Iterator[Change]:
        if sid not in self._known:
            self._known[sid] = set()
            for (of, _), oid in before.items():
                if of == sid:
                    self._add_new(oid, sid)
        new = self._add_new(tip, sid)
        if refs.is_branch(branch):
            if old is None:
                yield Change("branch-created", sid, branch, tip=tip)
            elif not new or new[0].parent != old:
                yield Change("branch-moved", sid, branch, tip=tip)
            yield from (Change("entry", sid, branch, node) for node in new)
        elif refs.is_files(branch):
            yield from (Change("checkpoint", sid, node=node) for node in new)
        else:
            yield from (Change(kind, sid, node=node) for node in new if (kind := self._kind_of(node)) is not None)

    def _kind_of(self, node: Node) -> Literal["label", "title"] | None:
        """Return the kind of change that an entry on ``meta`` makes; ``None`` for other properties of the session."""
        if node.kind == SessionHeader.kind and getattr(entry_of(self._store, node), "title", None):
            return "title"
        return "label" if node.kind == Label.kind else "title" if node.kind == Title.kind else None

    def _add_new(self, tip: Oid, sid: str) -> list[Node]:
        """Add the entries of the history of ``tip`` to the known ones; return the added entries, oldest first."""
        found = []
        for node in graph.history(self._store, tip):
            if node.oid in self._known[sid]:
                break
            self._known[sid].add(node.oid)
            found.append(node)
        return found[::-1]

    def _read_refs(self) -> tuple[dict[tuple[str, str], Oid], dict[str, RefValue]]:
        """Return the tips of the sessions' refs, those of conversations first, and the selected branches."""
        found = self._store.refs(refs.SESSIONS if self._sid is None else refs.session(self._sid))
        parsed = [(refs.parse(name), oid) for name, oid in found.items()]
        tips = sorted(
            ((place, oid) for place, oid in parsed if place is not None), key=lambda one: not refs.is_branch(one[0][1])
        )
        return dict(tips), dict(self._store.refs(refs.ACTIVE if self._sid is None else refs.active(self._sid)))
