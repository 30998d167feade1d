"""Tests of failing summarizer programs and HTTP models: no entry is written, and the next attempt succeeds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import Clock, assert_clean
from http_models import chat_answer, hang, model_at
from http_models import serving as serving_http

from gitsession.api import Session, Store
from gitsession.compaction.plan import CompactionRequest, Plan
from gitsession.compaction.summarizers import make
from gitsession.compaction.summarizers.extractive import Extractive
from gitsession.compaction.summarizers.options import Options
from gitsession.compaction.summary import Summarizer
from gitsession.compaction.write_summary import SummaryOptions
from gitsession.errors import SummaryFailed
from gitsession.model.entries import Message

LONG = "word after word, " * 40
MUCH = "and more of it, " * 4000

PROGRAMS = {
    "fails": ("import sys; print('half of it'); sys.exit(3)", "exit code 3"),
    "hangs": ("import time; time.sleep(600)", "did not finish within 2 s"),
    "returns nothing": ("pass", "empty summary"),
    "returns more than it was given": (f"print({MUCH!r})", "longer than its input"),
    "returns what it was given": (
        "import sys; print(sys.stdin.read()[-6000:])",
        "not shorter|not smaller|longer than its input",
    ),
    "is killed by a signal": ("import os; print('half', flush=True); os.kill(os.getpid(), 9)", "signal 9"),
    "is ended by a signal": ("import os; print('half', flush=True); os.kill(os.getpid(), 15)", "signal 15"),
}

ENDPOINTS = {
    "fails": ((400, {}, {"error": {"message": "no money left"}}), "returned status 400: no money left"),
    "hangs": (hang, "did not answer within 2 s"),
    "returns nothing": ((200, {}, chat_answer("")), "empty summary"),
    "returns more than it was given": ((200, {}, chat_answer(MUCH)), "not shorter"),
    "is cut off by its length": ((200, {}, chat_answer("and then", "length")), "token limit"),
    "breaks off": ((200, {"Transfer-Encoding": "chunked"}, b"{"), "127.0.0.1"),
    "returns something else": ((200, {}, b"<html>"), "invalid openai-chat response"),
}


def limit(words: str) -> float:
    """Return a short limit only for summarizers that hang, because the others may be slow on a busy machine."""
    return 2.0 if "within 2 s" in words else 120.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as made:
        session = made.new_session(agent="test", cwd="/work")
        for number in range(5):
            session.append(Message.user(f"request {number}: {LONG}"))
            session.append(Message.assistant(f"answer {number}: {LONG}"))
        session.branch("side", at="leaf~4")
        yield made


def planned(session: Session, strategy: str) -> Plan:
    if strategy == "leave":
        return session.compaction.plan_leaving("side")
    return session.compaction.plan(strategy, request=CompactionRequest(keep_tokens=300))


def refused_and_then_done(store: Store, strategy: str, summarizer: Summarizer, words: str) -> None:
    [found] = store.sessions()
    session = store.session(found.sid).on("main")
    before, objects = dict(store.objects.refs("refs/")), set(store.objects.oids())
    with pytest.raises(SummaryFailed, match=words):
        session.compact(planned(session, strategy), SummaryOptions(summarizer=summarizer), undoable=True)
    assert dict(store.objects.refs("refs/")) == before
    assert set(store.objects.oids()) == objects
    node = session.compact(planned(session, strategy), SummaryOptions(summarizer=Extractive()), undoable=True)
    assert session.history()[-1] == node
    assert_clean(store.objects)


@pytest.mark.parametrize("strategy", ["pi", "codex", "leave"])
@pytest.mark.parametrize(("script", "words"), PROGRAMS.values(), ids=PROGRAMS)
def test_failing_program_writes_no_entry_and_the_next_attempt_succeeds(
    store: Store, script: str, words: str, strategy: str
) -> None:
    argv = (sys.executable, "-c", script)
    summarizer = make(Options(name="command", command=argv, time_limit_s=limit(words)))
    refused_and_then_done(store, strategy, summarizer, words)


@pytest.mark.parametrize("strategy", ["pi", "codex", "leave"])
@pytest.mark.parametrize(("answer", "words"), ENDPOINTS.values(), ids=ENDPOINTS)
def test_failing_endpoint_writes_no_entry_and_the_next_attempt_succeeds(
    store: Store, answer: object, words: str, strategy: str
) -> None:
    with serving_http(answer) as server:
        refused_and_then_done(store, strategy, model_at(server, time_limit_s=limit(words)), words)


def test_killed_compaction_writes_no_entry_and_the_next_attempt_succeeds(store: Store, tmp_path: Path) -> None:
    before, started = dict(store.objects.refs("refs/")), tmp_path / "started"
    [found] = store.sessions()
    words = f"sh -c 'cat > /dev/null; echo half; echo $$ > {started}.pid; mv {started}.pid {started}; exec sleep 600'"
    compact = ["compact", found.sid, "--keep-tokens", "300", "--summarizer-command", words]
    command = [sys.executable, "-m", "gitsession", "--store", str(store.objects.git_dir), *compact]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(2400):
            if started.exists():
                break
            time.sleep(0.05)
        assert started.exists()
        os.kill(process.pid, 9)
    finally:
        process.kill()
        process.wait()
        if started.exists():
            os.kill(int(started.read_text()), 9)
    assert dict(store.objects.refs("refs/")) == before
    session = store.session(found.sid).on("main")
    assert session.compact(planned(session, "pi"), SummaryOptions(summarizer=Extractive())) == session.leaf
    assert_clean(store.objects)
