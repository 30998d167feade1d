"""Which branch one goes on with: the one chosen here, else the newest of ours, else where the agent's file ends."""

from __future__ import annotations

import pytest
from builders import Clock, Watched, begun, bring, fork, pi_file, said, session, talk

from gitsession.errors import NotFound
from gitsession.model.entries import Message
from gitsession.sessions import session as sessions
from gitsession.sessions.active_branch import active, chosen
from gitsession.store import refs
from gitsession.store.memory import MemoryStore


def leaf(store: MemoryStore, sid: str) -> str:
    node = session(store, sid, active(store, sid)).leaf
    assert node is not None
    return node.subject.partition(": ")[2]


def test_of_an_import_it_is_where_the_file_ends() -> None:
    store = MemoryStore()
    sid = bring(store, pi_file(*talk("a", "b", "c"), said("d", "a", at=1))).session
    assert leaf(store, sid) == "words of d"
    bring(store, pi_file(*talk("a", "b", "c"), said("d", "a", at=1), said("e", "c", at=1)))
    assert leaf(store, sid) == "words of e"


def test_of_our_own_it_is_the_newest() -> None:
    store = MemoryStore()
    held = begun(store, "one")
    held.branch("side")
    session(store, held.id, "side", Clock(held.leaf.author_seconds * 1000 if held.leaf else 0)).append(
        Message.user("on the side")
    )
    assert active(store, held.id) == "side"
    held._clock = Clock(2_000_000_000_000)
    held.append(Message.user("on main"))
    assert active(store, held.id) == "main"


def test_where_we_went_on_from_an_import_ours_comes_first() -> None:
    store = MemoryStore()
    sid = bring(store, pi_file(*talk("a", "b"))).session
    session(store, sid).append(Message.user("ours", at_ms=1))
    bring(store, pi_file(*talk("a", "b", "c")))
    assert leaf(store, sid) == "ours"


def test_two_of_one_moment_are_told_apart_by_their_chains() -> None:
    store = MemoryStore()
    held = begun(store)
    held.branch("side")
    mine = held.append(Message.user("x", at_ms=5))
    other = session(store, held.id, "side").append(Message.user("x", at_ms=5))
    assert active(store, held.id) == ("main" if mine.chain > other.chain else "side")


def test_what_was_chosen_by_hand_stands_above_all() -> None:
    store = MemoryStore()
    sid = bring(store, pi_file(*talk("a", "b", "c"), said("d", "a"))).session
    session(store, sid).switch("main")
    bring(store, pi_file(*talk("a", "b", "c"), said("d", "a"), said("e", "d")))
    assert (active(store, sid), chosen(store, sid)) == ("main", "main")


def test_what_was_chosen_is_not_part_of_what_is_synced() -> None:
    store = MemoryStore()
    held = begun(store)
    held.switch("main")
    assert list(store.refs("refs/gitsession/active/")) == [refs.active(held.id)]


def test_of_a_rewritten_file_it_is_what_the_file_is_now() -> None:
    store = MemoryStore()
    bring(store, pi_file(*talk("a", "b", "c", "d", "e")))
    sid = bring(store, pi_file(*talk("a"), said("b", "a", "new"))).session
    assert leaf(store, sid) == "new"


def test_many_branches_of_a_rewritten_file_are_one_walk() -> None:
    store = MemoryStore()
    trunk = talk(*(f"t{number}" for number in range(100)))
    sides = [said(f"s{number}", "t98", at=number) for number in range(30)]
    sid = bring(store, pi_file(*trunk, *sides)).session
    bring(store, pi_file(*trunk[:50], said("new", "t49")))
    watched = Watched(store)
    assert session(store, sid, active(watched, sid)).leaf == session(store, sid).leaf
    assert watched.reads < 400


def test_a_session_of_one_branch_has_no_choice() -> None:
    store = MemoryStore()
    assert active(store, bring(store, pi_file()).session) == "main"


def test_a_fork_begins_with_its_own_entry() -> None:
    store = MemoryStore()
    held = begun(store)
    assert active(store, fork(held).id) == "main"


def test_no_session_has_no_active_branch() -> None:
    with pytest.raises(NotFound):
        active(MemoryStore(), "20260201-aaaaaaaaaaaaa")
    with pytest.raises(NotFound):
        sessions.StoredSession.open(MemoryStore(), "20260201-aaaaaaaaaaaaa", Clock())
