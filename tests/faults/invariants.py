"""The one judge: what must hold of a store after any fault, whoever injected it."""

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
"""Value of each ref. An oid identifies all that it leads to, so two equal states hold the same entries."""


def judge(git_dir: Path, states: Sequence[State], *, git_too: bool = True) -> State:
    """The store at ``git_dir`` holds one of ``states``, whole, and goes on from there at once. Which one it was.

    ``git_too``: `git fsck --strict` and all of ``Store.verify`` are asked as well.
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
    """Every object that a ref leads to is there, and is what its name says; how many."""
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
    """A clean append to every branch and a command that is logged succeed, and are handed over to git."""
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
    """After a flush: no lock, no proof, no keep."""
    left = [*git_dir.glob("*.lock"), *git_dir.rglob("refs/**/*.lock"), *(git_dir / PROOFS).iterdir()]
    left += git_dir.glob("objects/pack/*.keep")
    assert not left, left


def sound(git_dir: Path) -> None:
    """git finds nothing wrong, and nothing is left of what was under way."""
    assert process.fsck(git_dir) == []
    assert_nothing_left(git_dir)


def assert_kept(store: ObjectStore, acknowledged: Mapping[str, Sequence[Oid]]) -> int:
    """Each acknowledged entry of a ref is on its line once, in order, or on that of a ref beside it; how many."""
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
    """The commits from root to leaf."""
    oids = []
    oid = store.ref(ref)
    while oid:
        oids.append(oid)
        oid = next(iter(objects.parse_commit(store.read(oid)[1]).parents), None)
    return oids[::-1]


def texts(store: GitStore, ref: str = raw.LEAF) -> list[str]:
    """What stands on a line of ``raw.append``, read whole: commit, tree and blob."""
    found = []
    for oid in line(store, ref):
        [(_, _, blob)] = objects.parse_tree(store.read(objects.parse_commit(store.read(oid)[1]).tree)[1])
        found.append(store.read(blob)[1].decode())
    return found


def subjects(store: ObjectStore) -> list[list[str]]:
    """Every line of every session in the subjects of its commits, sorted: names that are drawn by lot do not count."""
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
