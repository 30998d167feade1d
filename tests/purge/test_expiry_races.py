"""Tests of ``prune --checkpoints`` while other processes capture and rewind files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from builders import START_MS, Clock
from checkpoints import contents
from faults.invariants import assert_whole

from gitsession import Message, Session, Store
from gitsession.checkpoints import history, intents, rewinding
from gitsession.checkpoints.planning import RewindPlan
from gitsession.git import process
from gitsession.purge import purging
from gitsession.store.drop_objects import ObjectRemoval

LATER_MS = START_MS + 10**6


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def session(store: Store, work: Path) -> Session:
    """Return a session with five states of two files."""
    made = store.new_session(agent="agent", cwd=str(work))
    made.append(Message.user("first"))
    for number in range(5):
        (work / "a.txt").write_text(f"a {number}")
        (work / "b.txt").write_text(f"b {number}")
        made.files.take_checkpoint(workspace=work)
    store.flush()
    return made


def expire(store: Store) -> None:
    """Purge the old checkpoints as another process does."""
    with Store.open(store.objects.git_dir, clock=Clock(LATER_MS)) as other:
        other.purges.apply(other.purges.plan_checkpoints(LATER_MS))


def meanwhile(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, write: Callable[[], object]) -> None:
    """Call ``write`` just before the first call of the function ``name``."""
    step = getattr(module, name)

    def raced(*words, **named):
        monkeypatch.setattr(module, name, step)
        write()
        return step(*words, **named)

    monkeypatch.setattr(module, name, raced)


def assert_states(store: Store, session: Session, *expected: dict[str, str]) -> None:
    store.flush()
    assert_whole(store.objects)
    assert process.fsck(store.objects.git_dir) == []
    assert store.verify().problems == []
    assert [contents(store.objects, point) for point in history.history(store.objects, session.id)] == list(expected)


@pytest.mark.parametrize("paths", [None, ["a.txt"]])
def test_contents_that_expire_during_a_capture_are_stored_again(store, session, work, monkeypatch, paths) -> None:
    (work / "a.txt").write_text("a 0")
    meanwhile(monkeypatch, history, "add", lambda: expire(store))
    session.files.take_checkpoint(workspace=work, paths=paths)
    assert_states(store, session, {"a.txt": "a 4", "b.txt": "b 4"}, {"a.txt": "a 0", "b.txt": "b 4"})


def test_contents_that_are_stored_during_an_expiry_are_kept(store, session, work, monkeypatch) -> None:
    (work / "a.txt").write_text("a 0")
    listing = ObjectRemoval.kinds

    def raced(self):
        found = listing(self)
        monkeypatch.setattr(ObjectRemoval, "kinds", listing)
        session.files.take_checkpoint(workspace=work)
        return found

    monkeypatch.setattr(ObjectRemoval, "kinds", raced)
    expire(store)
    assert_states(store, session, {"a.txt": "a 4", "b.txt": "b 4"}, {"a.txt": "a 0", "b.txt": "b 4"})


@pytest.fixture
def plan(session: Session, work: Path) -> RewindPlan:
    """Return the plan of a rewind that restores one file."""
    second = session.append(Message.user("second"))
    for number in (5, 6):
        with session.files.checkpoint(work):
            (work / "a.txt").write_text(f"a {number}")
    session.append(Message.assistant("done"))
    return session.files.plan_rewind(second, "files", workspace=work)


@pytest.mark.parametrize("step", ["_move_refs", "_delete_objects"])
def test_a_rewind_during_an_expiry_can_be_undone(store, session, work, plan, monkeypatch, step) -> None:
    meanwhile(monkeypatch, purging, step, lambda: session.files.rewind(plan))
    expire(store)
    assert_rewound(store, session, work)


def test_a_rewind_whose_safety_checkpoint_is_renamed_completes(store, session, work, plan, monkeypatch) -> None:
    meanwhile(monkeypatch, intents, "write", lambda: expire(store))
    session.files.rewind(plan)
    assert_rewound(store, session, work)


@pytest.mark.parametrize("verb", ["finish", "abort"])
def test_an_interrupted_rewind_whose_safety_checkpoint_is_renamed(
    store, session, work, plan, monkeypatch, verb
) -> None:
    def interrupted():
        expire(store)
        monkeypatch.setattr(rewinding.RewindRun, "_record", killed)

    record = rewinding.RewindRun._record
    meanwhile(monkeypatch, intents, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.files.rewind(plan)
    monkeypatch.setattr(rewinding.RewindRun, "_record", record)
    with Store.open(store.objects.git_dir, clock=Clock(LATER_MS)) as other:
        files = other.session(session.id).files
        if verb == "finish":
            files.finish_rewind(work)
        else:
            files.abort_rewind(work)
    if verb == "finish":
        assert_rewound(store, session, work)
    else:
        assert (work / "a.txt").read_text() == "a 6"
        assert_states(store, session, {"a.txt": "a 6", "b.txt": "b 4"})


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def assert_rewound(store: Store, session: Session, work: Path) -> None:
    assert (work / "a.txt").read_text() == "a 4"
    assert_states(store, session, {"a.txt": "a 6", "b.txt": "b 4"}, {"a.txt": "a 4", "b.txt": "b 4"})
    store.undo(work)
    assert (work / "a.txt").read_text() == "a 6"
    assert store.verify().problems == []
