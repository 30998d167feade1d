"""Tests of ``session.compaction.due``, which compacts in a scheduled task, and of captured sessions."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import assert_clean, pi_file, said
from hooks import Agent

from gitsession import CompactionPolicy, Message, Session, Store
from gitsession.compaction import perform
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Compaction

LONG = "word after word, " * 100  # 400 tokens


def policy(**fields: Any) -> CompactionPolicy:
    return CompactionPolicy(**{"mode": "client", "tokens": 1_500, "keep_tokens": 500, **fields})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git") as made:
        yield made
        assert_clean(made.objects)


@pytest.fixture
def session(store: Store) -> Session:
    """A session of 2,000 tokens that was not compacted, under a policy with a limit of 1,500."""
    made = store.new_session(agent="test")
    for number in range(3):
        made.append(Message.user(f"Do the task {number}. {LONG}"))
        made.append(Message.assistant(f"The task {number} is done. {LONG}"))
    made.compaction.policy = policy()
    return made


def why(session: Session, **options: Any) -> str:
    with session.compaction.due(**options) as plan:
        return plan.nothing


def compact(session: Session) -> None:
    with session.compaction.due() as plan:
        session.compact(plan, session.compaction.policy.summary_options())


def kinds(session: Session) -> list[str]:
    return [node.kind for node in session.history()]


def test_due_compaction_is_applied(session: Session) -> None:
    compact(session)
    assert kinds(session).count(Compaction.kind) == 1
    assert session.context().tokens.used < 1_500


@pytest.mark.parametrize("lock", [True, False])
def test_due_plan_writes_nothing(session: Session, lock: bool) -> None:
    before = session.leaf
    assert why(session, lock=lock) == ""
    assert session.leaf == before


NOT_DUE: dict[str, tuple[dict[str, Any], str]] = {
    "off": ({"mode": "off"}, "automatic compaction is off: set gitsession.compaction to 'client'"),
    "server": ({"mode": "server"}, "the provider compacts the context"),
    "small": ({"tokens": 100_000}, "tokens, and the limit is 100,000"),
    "unknown window": ({"tokens": None}, "the context window is unknown: set gitsession.compactionWindow"),
    "nothing to summarize": ({"keep_tokens": 50_000}, "all entries would be kept"),
}


@pytest.mark.parametrize(("fields", "reason"), NOT_DUE.values(), ids=NOT_DUE)
def test_reason_why_none_is_due(session: Session, fields: dict[str, Any], reason: str) -> None:
    session.compaction.policy = policy(**fields)
    assert reason in why(session)
    assert kinds(session).count(Compaction.kind) == 0


def test_window_replaces_that_of_the_policy(session: Session) -> None:
    session.compaction.policy = policy(tokens=None, percent=90)
    assert why(session, window=1_000) == ""
    assert "the limit is 90,000" in why(session, window=100_000)


def test_second_compaction_waits_for_an_answer(session: Session) -> None:
    compact(session)
    session.compaction.policy = policy(mode="off")
    session.append(Message.user(LONG * 4))
    session.compaction.policy = policy()
    assert why(session) == "the model has not answered since the last compaction"


WAITING: dict[str, tuple[Callable[[list[ToolCall]], list[Message]], bool]] = {
    "no result": (lambda calls: [], True),
    "one of two results": (lambda calls: [Message.tool(calls[0], "done")], True),
    "both results": (lambda calls: [Message.tool(call, "done") for call in calls], False),
    "a prompt after an interrupted turn": (lambda calls: [Message.user("go on")], False),
}


@pytest.mark.parametrize(("later", "waits"), WAITING.values(), ids=WAITING)
def test_none_is_due_between_a_call_and_its_result(
    session: Session, later: Callable[[list[ToolCall]], list[Message]], waits: bool
) -> None:
    session.compaction.policy = policy(mode="off")
    calls = [ToolCall("c1", "read", {}), ToolCall("c2", "read", {})]
    for message in [Message.user("read both"), Message.assistant(calls), *later(calls)]:
        session.append(message)
    session.compaction.policy = policy()
    assert why(session) == ("a tool call waits for its result" if waits else "")


def test_branch_is_compacted_by_one_thread_at_a_time(session: Session, store: Store) -> None:
    reasons: list[str] = []

    def other() -> None:
        again = store.session(session.id)
        again.compaction.policy = policy()
        reasons.extend([why(again), why(again, lock=False)])

    with session.compaction.due():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(60)
    assert reasons == ["the branch is being compacted already", ""]
    assert why(session) == ""


# ---- sessions that an agent records


def configure(**settings: str) -> None:
    for name, value in settings.items():
        subprocess.run(["git", "config", "--global", f"gitsession.{name}", value], check=True)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Compact every session that is appended to, and return the compactions that started."""
    configure(compaction="client", compactionThreshold="10", compactionKeepTokens="0")
    found: list[str] = []
    start = perform.BackgroundCompaction.__init__

    def counted(self: perform.BackgroundCompaction, run: Callable[..., Any]) -> None:
        found.append("started")
        start(self, run)

    monkeypatch.setattr(perform.BackgroundCompaction, "__init__", counted)
    return found


def captured(store: Store, started: list[str]) -> Session:
    """Return the captured session, which has not been compacted, although an append to a fork of it compacts."""
    session = store.session(store.sessions()[0].sid)
    assert (started, Compaction.kind in kinds(session)) == ([], False)
    session.fork().append(Message.assistant(LONG))
    assert started == ["started"]
    return session


def test_hooks_and_ingest_never_compact_a_captured_session(tmp_path: Path, started: list[str]) -> None:
    agent = Agent(tmp_path)
    for number in range(3):
        agent.prompt(f"u{number}", f"Do the task {number}. {LONG}")
        agent.calls(f"t{number}", command="true")
        agent.called(f"t{number}", command="true")
        agent.stops()
        agent.drain()
    with Store.open(agent.store) as store:
        session = captured(store, started)
        assert kinds(session).count("message") == 9
        assert why(session) == "the session was recorded by claude, which compacts its context on its own"


def test_import_never_compacts_a_captured_session(tmp_path: Path, started: list[str]) -> None:
    lines = [
        said(f"a{n}", f"a{n - 1}" if n else None, LONG, role=("user", "assistant")[n % 2], at=n + 1) for n in range(8)
    ]
    with Store.create(tmp_path / "store.git") as store:
        for end in (4, 8):
            (tmp_path / "session.jsonl").write_bytes(pi_file(*lines[:end], cwd=str(tmp_path)))
            store.import_file(tmp_path / "session.jsonl")
        session = captured(store, started)
        assert kinds(session).count("message") == 8
        assert "recorded by pi" in why(session)
        assert session.compact(keep_tokens=100) is not None


def test_fork_of_a_captured_session_is_due(tmp_path: Path) -> None:
    lines = [said("a0", None, LONG, at=1), said("a1", "a0", LONG, role="assistant", at=2)]
    with Store.create(tmp_path / "store.git") as store:
        (tmp_path / "session.jsonl").write_bytes(pi_file(*lines, cwd=str(tmp_path)))
        fork = store.session(store.import_file(tmp_path / "session.jsonl")[0].session).fork()
        fork.compaction.policy = policy(tokens=500, keep_tokens=300)
        assert why(fork) == ""
