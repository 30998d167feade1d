"""Tests of ``Session.walk``, ``Store.sessions_of`` and ``Store.next_undo``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import OPENED

from gitsession import Message, NotFound, Session, Store
from gitsession.store.interface import ObjectStore


@pytest.fixture(params=OPENED)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with OPENED[request.param](tmp_path / "store.git") as made:
        yield made


def begin(store: Store, *prompts: str, cwd: str = "/work") -> Session:
    session = store.new_session(agent="pi", cwd=cwd)
    for text in prompts:
        session.append(Message.user(text))
    return session


def test_walk_yields_the_history_newest_first(store: Store) -> None:
    session = begin(store, "one", "two", "three")
    assert list(session.walk()) == session.history()[::-1]
    assert list(session.walk("leaf~1")) == session.history()[-2::-1]
    with pytest.raises(NotFound):
        session.walk("elsewhere")


def test_walk_reads_an_entry_only_when_it_is_requested(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = begin(store, *map(str, range(50)))
    tip, entries = session.leaf, session.walk("main")
    read: list[str] = []
    kind = type(store.objects)
    original = kind.read

    def counted(self: ObjectStore, oid: str):
        read.append(oid)
        return original(self, oid)

    monkeypatch.setattr(kind, "read", counted)
    assert next(entries) == tip
    assert len(read) <= 1


def test_the_sessions_of_a_folder_are_selected(store: Store, tmp_path: Path) -> None:
    near, _ = begin(store, "near", cwd=str(tmp_path)), begin(store, "far")
    assert [row.sid for row in store.sessions_of(tmp_path)] == [near.id]
    assert store.sessions_of(tmp_path, []) == []
    assert store.session("@", cwd=str(tmp_path)).id == near.id


def test_next_undo_names_the_command_that_undo_undoes(store: Store) -> None:
    session, other = begin(store, "one"), begin(store, "two")
    session.label("leaf", "good")
    command = store.next_undo(session=session.id)
    assert command.startswith("label")
    with pytest.raises(NotFound):
        store.next_undo(session=other.id)
    done = store.undo(session=session.id)
    assert done.operation is not None and done.operation.command == command
