"""Tests of ``StoredSession.append_after``: several entries in one transaction."""

from __future__ import annotations

import pytest

from gitsession import InvalidName, LeafMoved, Malformed, Message, Store


@pytest.fixture
def store() -> Store:
    return Store.in_memory()


def test_entries_are_appended_together_or_on_a_new_branch(store: Store) -> None:
    stored = store.keyed_session("a", agent="mine")._session
    root = stored.leaf
    first = stored.append_after([Message.user("one"), Message.assistant("two")], after=root, branch="main")
    assert [node.subject for node in stored.history()][1:] == ["user: one", "assistant: two"]
    assert stored.leaf.oid == first[-1].oid
    side = stored.append_after([Message.user("side")], after=first[0], branch="side", activate=True)
    assert stored.branches() == {"main": first[-1].oid, "side": side[-1].oid}
    assert store.session("mine:a").branch_name == "side"


def test_nothing_is_appended_if_another_writer_was_first_or_an_entry_is_invalid(store: Store) -> None:
    stored = store.keyed_session("a", agent="mine")._session
    root = stored.leaf
    stored.append(Message.user("first"))
    before = stored.branches()
    with pytest.raises(LeafMoved, match="'main'"):
        stored.append_after([Message.user("one")], after=root, branch="main")
    with pytest.raises(Malformed):
        stored.append_after([Message.user("one"), Message(role="nobody")], after=stored.leaf, branch="main")
    with pytest.raises(InvalidName):
        stored.append_after([Message.user("one")], after=stored.leaf, branch="not valid")
    assert stored.branches() == before
