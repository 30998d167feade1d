"""Refs that no longer hold what they are known to have held, though no command took it away.

A ref's file that is gone looks like no ref, and one that was set back looks like any other: only a record tells. What
is known of a ref is what the last clean check saw (store/verified.py) and what operations after it say; without such a
mark, the whole operation log; and of refs in neither, that the catalogue saw them.

A ref that others moved while our line went on beside it (store/chains.py) has lost nothing: what it held is still on a
line of its session. Nor has one whose entries were said again behind what others had said there (sync/reconcile.py):
their commits are others, what they hold is the same.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from gitsession.errors import GitSessionError
from gitsession.session import archived, oplog
from gitsession.store import refs
from gitsession.store.base import ObjectStore, Oid, RefValue
from gitsession.store.objects import parse_commit
from gitsession.store.verified import Mark


@dataclass(frozen=True, slots=True)
class Astray:
    """``was``: what was recorded, and ``when``; ``now``: what it holds, ``None`` where it is gone."""

    name: str
    was: RefValue
    when: str
    now: RefValue | None

    @property
    def what(self) -> str:
        if self.now is None:
            return f"is gone: it was at {self.was[:12]} {self.when}, and no command removed it"
        return f"was at {self.was[:12]} {self.when}, and is now at {self.now[:12]}, which does not follow it"


def find(
    store: ObjectStore, mark: Mark | None, *, seen: Mapping[str, RefValue], unreadable: Collection[str]
) -> list[Astray]:
    """Every one of them. ``seen``: what the catalogue saw; ``unreadable``: refs that are there and cannot be read."""
    while True:
        end = _end_of_log(store)
        # The log before the refs: an append between the two looks only moves forward, and a command moves the log.
        known = _known(store, mark, seen)
        found = [astray for astray in _compare(store, known) if astray.name not in unreadable]
        if not found or _end_of_log(store) == end:
            return found


_Known = dict[str, tuple[RefValue | None, str]]


def _known(store: ObjectStore, mark: Mark | None, seen: Mapping[str, RefValue]) -> _Known:
    """What each ref was last recorded to hold, ``None`` where it was removed; and when that was."""
    marked = mark.refs if mark else {}
    later: _Known = {}
    told: set[str] = set()
    after_mark = True
    try:
        for operation in oplog.history(store):
            after_mark = after_mark and operation.id != marked.get(refs.OPLOG)
            for move in operation.moves:
                told.add(move.ref)
                if after_mark:
                    later.setdefault(move.ref, (move.new, _when(operation)))
    except GitSessionError:
        seen = {}  # what the rest of the log would say of them is not known
    at_mark = {name: (value, "at the last check that found nothing") for name, value in marked.items()}
    at_look = {name: (value, "when sessions were last listed") for name, value in seen.items() if name not in told}
    return {**at_look, **at_mark, **later}


def _when(operation: oplog.Operation) -> str:
    try:
        day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(operation.at_ms / 1000))
    except (OverflowError, ValueError, OSError):
        day = "a day that is none"
    return f"after `{operation.command[:80]}` on {day}"


def _compare(store: ObjectStore, known: _Known) -> Iterator[Astray]:
    there = archived.Whole.of(store).refs("refs/")
    for name, (was, when) in sorted(known.items()):
        if was is None or not (refs.is_session_ref(name) or name == refs.OPLOG or name.startswith(refs.ACTIVE)):
            continue
        now = there.get(name)
        if now is None or (refs.is_session_ref(name) and not _is_kept(store, name, was, there)):
            yield Astray(name, was, when, now)


def _is_kept(store: ObjectStore, name: str, was: RefValue, there: Mapping[str, RefValue]) -> bool:
    """Whether a line of the session of ``name``, its own first, still leads to ``was``, or to entries that hold what
    those behind ``was`` do; also where damage hides it.
    """
    if refs.target(was) is not None or there[name] == was:
        return True
    folder = name.rpartition("/")[0] + "/"
    seen: dict[Oid, Oid] = {}  # the tree of each commit
    try:
        for value in (there[name], *(value for other, value in there.items() if other.startswith(folder))):
            seen.update(_trees(store, value if refs.target(value) is None else None, seen))
            if was in seen:
                return True
        return set(_trees(store, was, seen).values()) <= set(seen.values())
    except GitSessionError:
        return True


def _trees(store: ObjectStore, end: Oid | None, seen: Mapping[Oid, Oid]) -> dict[Oid, Oid]:
    """The commits of a line that are not ``seen`` yet, from its end on, each with its tree."""
    found: dict[Oid, Oid] = {}
    oid = end
    while oid is not None and oid not in seen:
        commit = parse_commit(store.read(oid)[1])
        found[oid] = commit.tree
        oid = next(iter(commit.parents), None)
    return found


def _end_of_log(store: ObjectStore) -> RefValue | None:
    try:
        return store.ref(refs.OPLOG)
    except GitSessionError:
        return None
