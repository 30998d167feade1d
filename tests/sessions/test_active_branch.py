"""Tests of the active branch: the one chosen here, else the newest of gitsession, else the end of the file."""

from __future__ import annotations

import pytest
from builders import Clock, Watched, begun, bring, entry, exported, fork, pi_file, said, session, talk

from gitsession.errors import NotFound
from gitsession.model.entries import Message
from gitsession.sessions import session as sessions
from gitsession.sessions.active_branch import active, selected_branch
from gitsession.store import refs
from gitsession.store.memory import MemoryStore


def leaf(store: MemoryStore, sid: str) -> str:
    node = session(store, sid, active(store, sid)).leaf
    assert node is not None
    return node.subject.partition(": ")[2]


def test_active_branch_of_an_import_is_the_end_of_the_file() -> None:
    store = MemoryStore()
    sid = bring(store, pi_file(*talk("a", "b", "c"), said("d", "a", at=1))).session
    assert leaf(store, sid) == "words of d"
    bring(store, pi_file(*talk("a", "b", "c"), said("d", "a", at=1), said("e", "c", at=1)))
    assert leaf(store, sid) == "words of e"


@pytest.mark.parametrize(("target", "texts"), [("b", ["words of a", "words of b"]), ("a", ["words of a"]), (None, [])])
def test_line_of_pi_that_moves_the_leaf_ends_the_active_branch(target: str | None, texts: list[str]) -> None:
    """pi-agent-core 0.80 to 0.83 writes such a line below the old leaf, and continues at its target."""
    store = MemoryStore()
    data = pi_file(*talk("a", "b", "c"), entry("leaf", "l", "c", targetId=target))
    sid = bring(store, data).session
    moved = session(store, sid, active(store, sid))
    found = [each.text for node in moved.history() if isinstance(each := moved.read(node), Message)]
    assert found == texts
    assert exported(store, sid) == data
    bring(store, data + said("d", target) + b"\n")
    assert leaf(store, sid) == "words of d"


def test_active_branch_of_an_own_session_is_the_newest() -> None:
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


def test_own_branch_comes_before_that_of_the_import() -> None:
    store = MemoryStore()
    sid = bring(store, pi_file(*talk("a", "b"))).session
    session(store, sid).append(Message.user("ours", at_ms=1))
    bring(store, pi_file(*talk("a", "b", "c")))
    assert leaf(store, sid) == "ours"


def test_equal_times_are_ordered_by_chain_digest() -> None:
    store = MemoryStore()
    held = begun(store)
    held.branch("side")
    mine = held.append(Message.user("x", at_ms=5))
    other = session(store, held.id, "side").append(Message.user("x", at_ms=5))
    assert active(store, held.id) == ("main" if mine.chain > other.chain else "side")


def test_chosen_branch_comes_before_all_others() -> None:
    store = MemoryStore()
    sid = bring(store, pi_file(*talk("a", "b", "c"), said("d", "a"))).session
    session(store, sid).switch("main")
    bring(store, pi_file(*talk("a", "b", "c"), said("d", "a"), said("e", "d")))
    assert (active(store, sid), selected_branch(store, sid)) == ("main", "main")


def test_chosen_branch_is_not_synced() -> None:
    store = MemoryStore()
    held = begun(store)
    held.switch("main")
    assert list(store.refs("refs/gitsession/active/")) == [refs.active(held.id)]


def test_active_branch_follows_a_rewritten_file() -> None:
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


def test_session_with_one_branch_has_no_active_ref() -> None:
    store = MemoryStore()
    assert active(store, bring(store, pi_file()).session) == "main"


def test_fork_starts_with_its_own_entry() -> None:
    store = MemoryStore()
    held = begun(store)
    assert active(store, fork(held).id) == "main"


def test_no_session_has_no_active_branch() -> None:
    with pytest.raises(NotFound):
        active(MemoryStore(), "20260201-aaaaaaaaaaaaa")
    with pytest.raises(NotFound):
        sessions.StoredSession.open(MemoryStore(), "20260201-aaaaaaaaaaaaa", Clock())
