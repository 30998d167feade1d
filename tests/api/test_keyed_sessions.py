"""Tests of sessions that a program finds by an id of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gitsession import InvalidName, Message, NotFound, Store

DAY_MS = 86_400_000


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store.git") if request.param == "disk" else Store.in_memory()


def test_the_key_finds_the_session_before_its_first_message(store: Store) -> None:
    session = store.keyed_session("thread 1", agent="mine", cwd="/work")
    assert session.is_stored and store.find_keyed("thread 1", agent="mine").id == session.id
    session.append(Message.assistant("An answer first"))
    again = store.keyed_session("thread 1", agent="mine")
    assert again.id == session.id and again.leaf.subject == "assistant: An answer first"
    [row] = store.sessions()
    assert (row.agent, row.key, row.source_id, row.project) == ("mine", "thread 1", None, "/work")
    assert store.session("mine:thread 1").id == store.session("mine:thr").id == session.id
    assert store.find_keyed("thread 1", agent="other") is None
    assert store.find_keyed("thread", agent="mine") is None


def test_a_fork_has_no_key(store: Store) -> None:
    session = store.keyed_session("a", agent="mine")
    fork = session.fork()
    assert store.find_keyed("a", agent="mine").id == session.id
    assert store.catalogue().session(fork.id).key is None


@pytest.mark.parametrize("key", ["", " "])
def test_an_empty_key_is_refused(store: Store, key: str) -> None:
    with pytest.raises(InvalidName, match="key is empty"):
        store.keyed_session(key, agent="mine")


def test_writers_that_ask_at_once_get_one_session(tmp_path: Path) -> None:
    path = tmp_path / "store.git"
    Store.create(path).close()

    def asked(_: int) -> str:
        with Store.open(path) as own:
            return own.keyed_session("a", agent="mine").id

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(asked, range(8)))) == 1
    with Store.open(path) as store:
        assert len(store.sessions()) == 1 and store.verify().problems == []


def test_a_clone_finds_the_session_by_its_key(tmp_path: Path) -> None:
    with Store.create(tmp_path / "one.git") as store:
        session = store.keyed_session("a", agent="mine")
        session.append(Message.user("Hello"))
        store.flush()
        other, _ = Store.clone(str(tmp_path / "one.git"), tmp_path / "two.git")
        with other:
            assert other.find_keyed("a", agent="mine").id == session.id


def test_a_session_in_the_trash_has_no_key(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git") as store:
        first = store.keyed_session("a", agent="mine")
        store.trash.put(first.id)
        assert store.find_keyed("a", agent="mine") is None
        assert store.keyed_session("a", agent="mine").id != first.id


def test_maintenance_does_not_archive_a_session_with_a_key(tmp_path: Path) -> None:
    from gitsession.archive.archiving import select_old

    with Store.create(tmp_path / "store.git", clock=lambda: DAY_MS) as store:
        store.keyed_session("a", agent="mine").append(Message.user("Hello"))
        plain = store.new_session(agent="mine")
        plain.append(Message.user("Hello"))
        assert select_old(store.objects, store.sessions(), 9 * DAY_MS) == [plain.id]


def test_an_unknown_key_of_an_agent_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        store.session("mine:b")
