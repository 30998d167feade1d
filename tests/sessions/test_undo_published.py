"""Tests of undo with a remote: no published ref moves back or is deleted."""

from __future__ import annotations

import pytest
from builders import Clock, session, title_of
from remotes import begun, hub, push, said, shared, store_with, sync, there

from gitsession.errors import Refused
from gitsession.model.entries import Message
from gitsession.sessions import operation_log
from gitsession.sessions.active_branch import active
from gitsession.store import published, refs

CLOCK = Clock()


@pytest.fixture
def store(tmp_path):
    with store_with(tmp_path / "a.git", hub(tmp_path / "hub.git")) as store:
        yield store


def undo(store):
    return operation_log.apply_next(store, "undo", CLOCK())


def redo(store):
    return operation_log.apply_next(store, "redo", CLOCK())


def logged(store, text="asked"):
    """Create a session with an entry in the operation log."""
    made = begun(store, "hi")
    made.append(Message.user(text), command="append", activate=True)
    return made


def test_unpublished_entry_is_undone(store):
    made = logged(store)
    assert undo(store).stays == ()
    assert said(store, made.id) == {"main": ["hi"]}


def test_published_entry_is_kept_and_the_conversation_continues_before_it(store, tmp_path):
    made = logged(store)
    sync(store)
    [stay] = undo(store).stays
    assert (stay.ref, stay.remote, stay.instead) == (refs.leaf(made.id), "origin", "undo-1")
    assert said(store, made.id) == {"main": ["hi", "asked"], "undo-1": ["hi"]}
    assert active(store, made.id) == "undo-1"
    assert sync(store) == {"undo-1": "ahead"}
    assert shared(store) == there(tmp_path / "hub.git")


def test_redo_returns_to_the_branch_that_was_kept(store):
    made = logged(store)
    sync(store)
    undo(store)
    assert redo(store).stays == ()
    assert said(store, made.id) == {"main": ["hi", "asked"]}
    assert active(store, made.id) == "main"
    undo(store)
    assert active(store, made.id) == "undo-1"


def test_done_again_after_the_undo_was_published_both_stay(store):
    made = logged(store)
    sync(store)
    undo(store)
    sync(store)
    [stay] = redo(store).stays
    assert (stay.ref, stay.instead) == (refs.leaf(made.id, "undo-1"), "")
    assert active(store, made.id) == "main"
    assert set(said(store, made.id)) == {"main", "undo-1"}


def test_a_branch_that_was_published_stays(store):
    made = begun(store, "hi")
    made.branch("side")
    sync(store)
    [stay] = undo(store).stays
    assert (stay.ref, stay.instead) == (refs.leaf(made.id, "side"), "")
    assert set(said(store, made.id)) == {"main", "side"}


def test_next_undo_applies_to_the_previous_command(store):
    made = begun(store, "hi")
    made.branch("unpublished")
    sync(store)
    made.branch("later")
    undo(store)
    undo(store)
    assert set(said(store, made.id)) == {"main", "unpublished"}


def test_undone_switch_ignores_that_its_branch_was_published(store):
    made = begun(store, "hi")
    made.branch("side")
    made.switch("side")
    sync(store)
    assert undo(store).stays == ()
    assert active(store, made.id) == "main"


def test_published_title_is_not_undone(store):
    made = begun(store, "hi")
    made.rename("mine")
    sync(store)
    with pytest.raises(Refused, match="was pushed"):
        undo(store)
    assert title_of(store, made.id) == "mine"


def test_entry_published_under_another_name_can_be_undone(store):
    made = begun(store, "hi")
    sync(store)
    made.branch("side")
    assert undo(store).stays == ()
    assert set(said(store, made.id)) == {"main"}


def test_a_push_that_was_killed_counts_until_the_remote_tells(store, tmp_path):
    made = logged(store)
    store.flush()
    ref = refs.leaf(made.id)
    published.record(store.git_dir, "origin", {ref: store.ref(ref)})
    assert [stay.instead for stay in undo(store).stays] == ["undo-1"]
    redo(store)
    push(store)  # the remote accepted it and reported that
    assert not list(published.list_records(store.git_dir))
    assert [stay.instead for stay in undo(store).stays] == ["undo-1"]


def test_undo_that_git_would_revert_is_not_made(store, tmp_path):
    """Refs that a plain `git fetch` would restore are neither moved back nor deleted."""
    made = logged(store)
    made.branch("side")
    sync(store)
    undo(store)
    undo(store)
    before = shared(store)
    assert before[refs.leaf(made.id)] == there(tmp_path / "hub.git")[refs.leaf(made.id)]
    sync(store)
    assert {name: shared(store)[name] for name in before} == before


def test_later_entries_of_a_published_branch_are_kept(store):
    made = logged(store)
    sync(store)
    session(store, made.id, "main").append(Message.user("more"))
    assert [stay.instead for stay in undo(store).stays] == ["undo-1"]
    assert said(store, made.id)["main"] == ["hi", "asked", "more"]
