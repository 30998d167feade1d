"""Checks that every store must pass after any fault."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import raw

from gitsession.api import Store
from gitsession.git import objects, process
from gitsession.git.types import Oid, RefValue
from gitsession.model.entries import Message
from gitsession.sessions import session as sessions
from gitsession.store import refs
from gitsession.store.create import PROOFS
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore

State = Mapping[str, RefValue]
"""Value of each ref. An oid identifies everything that it reaches, so two equal states have the same entries."""


def judge(git_dir: Path, states: Sequence[State], *, git_too: bool = True) -> State:
    """Check that the store is complete, in one of ``states`` and usable at once. Return the state.

    Args:
        git_too: Also run `git fsck --strict` and all of ``Store.verify``.
    """
    with Store.open(git_dir, clock=lambda: 1) as store:
        held = dict(store.objects.refs("refs/"))
        if held not in states:
            raise AssertionError("neither done nor not done:\n" + "\n".join(_differences(held, states)))
        assert_whole(store.objects)
        assert_goes_on(store)
        assert_nothing_left(git_dir)
        if git_too:
            raw_refs = {name for name in store.objects.refs(refs.SESSIONS) if not refs.is_session_ref(name)}
            report = store.verify()
            about = [problem for problem in report.problems if not any(name in str(problem) for name in raw_refs)]
            assert not about, about
    return held


def assert_whole(store: ObjectStore) -> int:
    """Check that every object that a ref reaches exists and matches its oid. Return the number of objects."""
    todo = [value for value in store.refs("refs/").values() if refs.target(value) is None]
    seen = set(todo)
    while todo:
        oid = todo.pop()
        kind, data = store.read(oid)
        assert objects.oid_of(kind, data) == oid
        below: list[Oid] = []
        if kind == "commit":
            commit = objects.parse_commit(data)
            below = [commit.tree, *commit.parents]
        elif kind == "tree":
            below = [child for _, _, child in objects.parse_tree(data)]
        todo += [child for child in below if child not in seen]
        seen.update(below)
    return len(seen)


def assert_goes_on(store: Store) -> None:
    """Check that an append to every branch and a logged command succeed, and that they can be flushed to git."""
    door = store.objects
    for name in door.refs(refs.SESSIONS):
        sid, branch = refs.parse(name) or ("", "")
        if not refs.is_session_ref(name):
            raw.append(door, "clean", name)
        elif branch == refs.META:
            sessions.StoredSession.open(door, sid, lambda: 1).rename("clean")
        else:
            sessions.StoredSession.open(door, sid, lambda: 1, branch).append(Message.user("clean", at_ms=1))
    before = dict(door.refs("refs/"))
    store.flush()
    assert door.last_flush_error is None, door.last_flush_error
    assert (door.renamed_branches, door.pending) == ([], 0)
    assert dict(door.refs("refs/")) == before


def assert_nothing_left(git_dir: Path) -> None:
    """Check that a flush has left no lock, proof or ``.keep`` file."""
    left = [*git_dir.glob("*.lock"), *git_dir.rglob("refs/**/*.lock"), *(git_dir / PROOFS).iterdir()]
    left += git_dir.glob("objects/pack/*.keep")
    assert not left, left


def sound(git_dir: Path) -> None:
    """Check that git finds no problem and that no temporary files are left."""
    assert process.fsck(git_dir) == []
    assert_nothing_left(git_dir)


def assert_kept(store: ObjectStore, acknowledged: Mapping[str, Sequence[Oid]]) -> int:
    """Check that each acknowledged entry of a ref is on its branch or a renamed one, once and in order.

    Return their number.
    """
    for ref, wanted in acknowledged.items():
        beside = re.compile(re.escape(ref) + r"(-[a-z2-7]{8,52})?")
        lines = [line(store, name) for name in store.refs(ref) if beside.fullmatch(name)]
        places = [{oid: place for place, oid in enumerate(oids)} for oids in lines]
        lost = [oid for oid in wanted if not any(oid in place for place in places)]
        assert not lost, f"{ref}: {len(lost)} of {len(wanted)} acknowledged entries are gone, the first {lost[0]}"
        for place in places:
            order = [place[oid] for oid in wanted if oid in place]
            assert order == sorted(order), f"{ref}: not in the order of their acknowledgement"
    return sum(map(len, acknowledged.values()))


def line(store: ObjectStore, ref: str) -> list[Oid]:
    """Return the commits from root to tip."""
    oids = []
    oid = store.ref(ref)
    while oid:
        oids.append(oid)
        oid = next(iter(objects.parse_commit(store.read(oid)[1]).parents), None)
    return oids[::-1]


def texts(store: GitStore, ref: str = raw.LEAF) -> list[str]:
    """Read the history of ``raw.append`` completely (commit, tree and blob) and return its texts."""
    found = []
    for oid in line(store, ref):
        [(_, _, blob)] = objects.parse_tree(store.read(objects.parse_commit(store.read(oid)[1]).tree)[1])
        found.append(store.read(blob)[1].decode())
    return found


def subjects(store: ObjectStore) -> list[list[str]]:
    """Return the subjects of the commits of every branch of every session.

    They are sorted, because the order of random branch names does not matter.
    """
    told = []
    for name in store.refs(refs.SESSIONS):
        commits = [objects.parse_commit(store.read(oid)[1]) for oid in line(store, name)]
        told.append([commit.message.partition(b"\n")[0].decode() for commit in commits])
    return sorted(told)


def _differences(held: State, states: Sequence[State]) -> list[str]:
    rows = []
    for number, state in enumerate(states):
        rows += [
            f"state {number}: {name} should be {state.get(name)} and is {held.get(name)}"
            for name in sorted({*held, *state})
            if held.get(name) != state.get(name)
        ]
    return rows
