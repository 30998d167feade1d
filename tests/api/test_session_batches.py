"""Tests of entries that are appended together, and of a conversation that continues at an earlier entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitsession import LeafMoved, Malformed, Message, NotFound, Store
from gitsession.model.entries import Custom


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store.git") if request.param == "disk" else Store.in_memory()


def subjects(session) -> list[str]:
    return [node.subject for node in session.history()[1:]]


def test_entries_are_appended_together(store: Store) -> None:
    session = store.new_session(agent="mine")
    session.append(Message.user("One"))
    two, three = session.append_all([Message.assistant("Two"), Message.user("Three")])
    assert three.parent == two.oid and session.leaf == three
    assert subjects(session) == ["user: One", "assistant: Two", "user: Three"]
    assert session.append_all([]) == [] and session.leaf == three
    assert store.verify().problems == [] if store.objects.local_dir else True


def test_entries_of_a_new_session_wait_for_its_first_message(store: Store) -> None:
    session = store.new_session(agent="mine")
    session.append_all([Custom(custom_type="x"), Message.user("One"), Message.assistant("Two")])
    assert session.is_stored and subjects(session) == ["custom: x", "user: One", "assistant: Two"]


def test_one_entry_that_cannot_be_stored_rejects_all(store: Store) -> None:
    session = store.new_session(agent="mine")
    session.append(Message.user("One"))
    with pytest.raises(Malformed):
        session.append_all([Message.assistant("Two"), Custom(custom_type="x", data=1 << 70)])
    with pytest.raises(TypeError, match="expected an entry"):
        session.append_all([Message.assistant("Two"), "Three"])
    assert subjects(session) == ["user: One"]


def test_entries_go_to_the_active_branch_on_request(store: Store) -> None:
    session = store.new_session(agent="mine")
    session.append(Message.user("One"))
    store.session(session.id).branch("side", at="root").switch("side")
    session.append_all([Message.assistant("Main")])
    session.append_all([Message.assistant("Side")], to_active=True)
    assert session.branch_name == "side" and subjects(session) == ["assistant: Side"]
    assert subjects(session.on("main")) == ["user: One", "assistant: Main"]


def test_a_conversation_continues_at_an_earlier_entry_on_another_branch(store: Store) -> None:
    session = store.new_session(agent="mine")
    one = session.append(Message.user("One"))
    tip = session.append(Message.assistant("Two"))
    assert session.continue_at(one, expected=tip) == one
    assert session.branch_name == "rewind-1" and store.session(session.id).leaf == one
    assert session.on("main").leaf == tip
    session.continue_at(tip)  # the branch that ends there is used again
    assert session.branch_name == "main"
    store.undo()
    store.undo()
    assert set(store.session(session.id).branches()) == {"main"} and store.session(session.id).leaf == tip


def test_a_conversation_that_another_writer_moved_is_not_continued(store: Store) -> None:
    session = store.new_session(agent="mine")
    one = session.append(Message.user("One"))
    other = store.session(session.id)
    other.append(Message.assistant("Two"))
    with pytest.raises(LeafMoved):
        session.continue_at("root", expected=one)
    other.branch("side", at=one).switch("side")
    with pytest.raises(LeafMoved, match="another writer"):
        session.continue_at("root", expected=session.leaf)
    with pytest.raises(NotFound):
        session.continue_at("nothing")
    assert set(session.branches()) == {"main", "side"}


def test_entries_are_read_with_the_originals_of_redacted_parts(store: Store) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    session = store.new_session(agent="mine")
    session.append(Message.user(f"My token is {secret}"))
    session.append(Message.assistant("Hello"))
    read = [entry.text for _, entry in session.entries() if isinstance(entry, Message)]
    assert read == ["Hello", f"My token is {secret}"]
    assert [node for node, _ in session.entries("user")] == session.history()[1::-1]
    assert [entry.text for entry in session.contents() if isinstance(entry, Message)] == read
