"""Tests of follow: each new entry of a store is reported once, in order, whoever wrote it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hooks import Agent

from gitsession import Message, NewEntry, Session, Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git") as opened:
        yield opened


def begun(store: Store, words: str = "hello") -> Session:
    session = store.new_session(agent="test")
    session.append(Message.user(words))
    return session


def now(news: Iterator[NewEntry | None]) -> list[str]:
    """Return the subjects of the new entries until there are no more."""
    found = []
    while (one := next(news)) is not None:
        found.append(one.node.subject)
    return found


def test_entries_are_reported_in_order_and_once(store: Store) -> None:
    session = begun(store)
    news = store.follow(every=0, idle=True)
    assert now(news) == []
    session.append(Message.assistant("one"))
    session.append(Message.assistant("two"))
    assert now(news) == ["assistant: one", "assistant: two"]
    session.append(Message.assistant("three"))
    assert now(news) == ["assistant: three"]
    assert now(news) == []


def test_new_session_is_reported_from_its_start(store: Store) -> None:
    news = store.follow(every=0, idle=True)
    begun(store)
    assert now(news)[-1] == "user: hello"


def test_branch_from_an_earlier_entry_has_only_its_new_entries(store: Store) -> None:
    session = begun(store)
    session.append(Message.assistant("one"))
    news = store.follow(every=0, idle=True)
    side = session.branch("side", "leaf~1")
    assert now(news) == []
    side.append(Message.assistant("other"))
    assert now(news) == ["assistant: other"]


def test_fork_has_only_its_own_entries(store: Store) -> None:
    session = begun(store)
    root = session.history()[-1]
    news = store.follow(every=0, idle=True)
    fork = session.fork()
    fork.branch("above", root).append(Message.user("another way"))
    again = fork.fork()
    found = now(news)
    assert sorted(found) == sorted([f"fork: {fork.id}", "user: another way", f"fork: {again.id}"])
    fork.append(Message.assistant("one"))
    assert now(news) == ["assistant: one"]


def test_undone_and_redone_entry_is_reported_once(store: Store) -> None:
    session = begun(store)
    news = store.follow(every=0, idle=True)
    session.branch("side").append(Message.assistant("one"))
    assert now(news) == ["assistant: one"]
    assert now(news) == []


def test_other_sessions_are_not_reported(store: Store) -> None:
    one, two = begun(store), begun(store)
    news = one.follow(every=0, idle=True)
    two.append(Message.assistant("two"))
    one.append(Message.assistant("one"))
    assert now(news) == ["assistant: one"]


def test_entry_of_another_process_is_reported(store: Store) -> None:
    session = begun(store)
    news = session.follow(every=0.01)
    found: list[NewEntry | None] = []
    listener = threading.Thread(target=lambda: found.append(next(news)), daemon=True)
    listener.start()
    code = (
        "import sys; from gitsession import Message, Store\n"
        "with Store.open(sys.argv[1]) as store: store.session(sys.argv[2]).append(Message.assistant('from afar'))"
    )
    subprocess.run([sys.executable, "-c", code, str(store.objects.git_dir), session.id], check=True)
    listener.join(120)
    [one] = found
    assert one is not None
    assert (one.session, one.branch, one.node.subject) == (session.id, "main", "assistant: from afar")


def test_flushed_and_packed_store_repeats_nothing(store: Store) -> None:
    session = begun(store)
    news = store.follow(every=0, idle=True)
    session.append(Message.assistant("one"))
    store.flush()
    assert now(news) == ["assistant: one"]
    store.maintain()
    assert now(news) == []


def test_log_follow_prints_the_newest_and_later_entries(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    agent.prompt("u1", "do it")
    agent.drain()
    command = [sys.executable, "-m", "gitsession", "--store", str(agent.store), "log", "--follow", "--json"]
    with Store.open(agent.store) as store:
        command.append(store.sessions()[0].sid)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        lines = [json.loads(child.stdout.readline()) for _ in range(2)]
        assert [line["kind"] for line in lines] == ["session", "message"]
        agent.calls("t1")
        agent.called("t1")
        line = json.loads(child.stdout.readline())
        child.terminate()
        assert line["schema"] == "gitsession/entry/1"
        assert line["role"] == "assistant"
        assert child.wait(120) == 143
