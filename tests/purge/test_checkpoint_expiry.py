"""``prune --checkpoints``: old checkpoints expire, and the newest state of each file is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import Clock
from checkpoints import contents

from gitsession import Message, Store
from gitsession.checkpoints.history import history
from gitsession.git.objects import oid_of
from gitsession.store import refs


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=clock) as opened:
        yield opened


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def states(store: Store, sid: str) -> list[dict[str, str]]:
    return [contents(store.objects, point) for point in history(store.objects, sid)]


def has_blob(store: Store, text: str) -> bool:
    store.flush()
    return store.objects.contains(oid_of("blob", text.encode()))


def test_old_checkpoints_expire(store: Store, work: Path, clock: Clock) -> None:
    session = store.new_session(agent="agent", cwd=str(work))
    session.append(Message.user("first"))
    (work / "deleted.txt").write_text("deleted")
    for text in ("one", "two", "three"):
        (work / "a.txt").write_text(text)
        session.files.take_checkpoint(workspace=work)
        (work / "deleted.txt").unlink(missing_ok=True)
    start_ms = clock()
    second = session.append(Message.user("second"))
    with session.files.checkpoint(work):
        (work / "a.txt").write_text("four")
    session.append(Message.assistant("done"))
    before = states(store, session.id)
    store.purges.apply(store.purges.plan_checkpoints(start_ms))
    assert states(store, session.id) == before[-2:] == [{"a.txt": "three"}, {"a.txt": "four"}]
    assert [has_blob(store, text) for text in ("deleted", "two", "three", "four")] == [True, False, True, True]
    assert store.verify().problems == []
    assert store.purges.plan_checkpoints(start_ms).is_empty
    session.files.rewind(session.files.plan_rewind(second, "files", workspace=work))
    assert (work / "a.txt").read_text() == "three"


def test_expired_bytes_can_be_captured_again(store: Store, work: Path, clock: Clock) -> None:
    session = store.new_session(agent="agent", cwd=str(work))
    session.append(Message.user("first"))
    for text in ("one", "two", "three"):
        (work / "a.txt").write_text(text)
        session.files.take_checkpoint(workspace=work)
    store.purges.apply(store.purges.plan_checkpoints(clock()))
    assert not has_blob(store, "one")
    (work / "a.txt").write_text("one")
    session.files.take_checkpoint(workspace=work)
    assert states(store, session.id) == [{"a.txt": "three"}, {"a.txt": "one"}]
    assert store.verify().problems == []


def test_a_checkpoint_that_a_fork_needs_is_kept(store: Store, work: Path, clock: Clock) -> None:
    session = store.new_session(agent="agent", cwd=str(work))
    session.append(Message.user("first"))
    (work / "a.txt").write_text("one")
    session.files.take_checkpoint(workspace=work)
    fork = session.fork()
    for text in ("two", "three"):
        (work / "a.txt").write_text(text)
        session.files.take_checkpoint(workspace=work)
    store.trash.put(fork.id)
    store.purges.apply(store.purges.plan_checkpoints(clock()))
    assert states(store, session.id) == [{"a.txt": "three"}]
    store.trash.restore(fork.id)
    assert states(store, fork.id) == [{"a.txt": "one"}]
    assert store.verify().problems == []


def test_nothing_expires_in_a_store_without_checkpoints(store: Store, clock: Clock) -> None:
    assert store.purges.plan_checkpoints(clock()).is_empty
    session = store.new_session(agent="agent")
    session.append(Message.user("first"))
    assert store.purges.plan_checkpoints(clock()).is_empty
    assert store.objects.ref(refs.TOMBSTONES) is None
