"""Tests of automatic compaction: its limits (rule 16, C1, O1), its guard against loops (K6), and failures."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import assert_clean

from gitsession import CompactionPolicy, ContextEdit, Message, Refused, Session, Store, SummaryFailed
from gitsession.compaction.policy import OFF, from_config
from gitsession.compaction.summary import Request, Summary
from gitsession.context.profiles import CompactionSettings
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Compaction, ModelChange

LONG = "word after word " * 100  # 400 tokens


class Writer:
    """A summarizer that counts its calls and answers with ``answer``."""

    NAME = "writer"

    def __init__(self, answer: Callable[[Request], Any] = lambda _: Summary("short")) -> None:
        self.answer, self.calls = answer, 0

    def summarise(self, request: Request, **_: Any) -> Summary:
        self.calls += 1
        found: Summary = self.answer(request)
        return found


def fail(_: Request) -> Summary:
    raise SummaryFailed("the server is down")


def policy(writer: Any, **fields: Any) -> CompactionPolicy:
    how = {"mode": "client", "tokens": 3_000, "keep_tokens": 500, "summarizers": (writer,)}
    return CompactionPolicy(**{**how, **fields})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git") as made:
        yield made
        assert_clean(made.objects)


def session(store: Store, how: CompactionPolicy) -> Session:
    made = store.new_session(agent="test")
    made.compaction.policy = how
    return made


def turn(session: Session, used: int | None = None, text: str = LONG) -> None:
    """Append a prompt and an answer, and wait for an automatic compaction."""
    session.append(Message.user(text))
    settle(session)
    session.append(Message.assistant(text, usage=None if used is None else {"totalTokens": used}))
    settle(session)


def settle(session: Session) -> None:
    running = session.compaction.automatic
    if running is not None:
        try:
            running.result(60)
        except (Refused, SummaryFailed):
            pass
        running._thread.join(60)


def compactions(session: Session) -> int:
    return sum(node.kind == Compaction.kind for node in session.history())


# ---- limits


LIMITS: dict[str, tuple[dict[str, Any], int | None, int | None]] = {
    "rule 16: the agent's reserve": ({}, 100_000, 83_616),
    "C1: the lower one of tokens and 90 % of the window": (
        {"tokens": 150_000, "percent": 90},
        200_000,
        150_000,
    ),
    "C1: 90 % of the window": ({"tokens": 190_000, "percent": 90}, 200_000, 180_000),
    "O1: the window without the reserves": ({"reserve": {"output": 20_000, "tools": 5_000}}, 200_000, 175_000),
    "O1: without a window, never": ({"percent": 90}, None, None),
    "tokens need no window": ({"tokens": 1_000}, None, 1_000),
    "reserves larger than the window leave nothing": ({"reserve": {"output": 20_000}}, 10_000, 0),
}


@pytest.mark.parametrize(("fields", "window", "limit"), LIMITS.values(), ids=LIMITS)
def test_limit_of_a_policy(fields: dict[str, Any], window: int | None, limit: int | None) -> None:
    assert CompactionPolicy(**fields).limit(window, CompactionSettings()) == limit


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("anthropic/claude-opus-4-5", 200_000),
        ("claude-sonnet-4-5[1m]", 1_000_000),
        ("gpt-5.2-codex", 272_000),
        ("other", None),
    ],
)
def test_window_comes_from_the_setting_or_from_the_model(model: str, window: int | None) -> None:
    assert OFF.window_for(model) == window
    assert CompactionPolicy(window=5).window_for(model) == 5


INVALID: dict[str, dict[str, Any]] = {
    "mode": {"mode": "always"},
    "strategy": {"strategy": "other"},
    "strategy that requires an entry": {"strategy": "from"},
    "percentage": {"percent": 101},
    "window": {"window": 0},
    "reserve": {"reserve": {"output": -1}},
    "messages with codex": {"strategy": "codex", "keep_messages": 1},
}


@pytest.mark.parametrize("fields", INVALID.values(), ids=INVALID)
def test_invalid_policy_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="invalid compaction policy"):
        CompactionPolicy(**fields)


def test_policy_from_the_configuration() -> None:
    found = from_config(
        {
            "gitsession.compaction": "client",
            "gitsession.compactionwindow": "200k",
            "gitsession.compactionthreshold": "80%",
            "gitsession.compactionreserve": "output=20k, summary=4096",
            "gitsession.compactionkeepmessages": "6",
            "gitsession.compactionstrategy": "opencode",
            "gitsession.compactionsummarizers": "http:qwen3:8b http:claude-opus-4-5, extractive",
        }
    )
    assert (found.mode, found.window, found.percent, found.tokens) == ("client", 200_000, 80.0, None)
    assert found.reserve == {"output": 20_000, "summary": 4_096}
    assert (found.keep_messages, found.strategy) == (6, "opencode")
    assert found.summarizers == ("http:qwen3:8b", "http:claude-opus-4-5", "extractive")
    assert found.limit(200_000, CompactionSettings()) == 160_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compaction", "maybe"),
        ("compactionwindow", "large"),
        ("compactionthreshold", "80 %"),
        ("compactionthreshold", "0%"),
        ("compactionreserve", "output"),
        ("compactionkeeptokens", "-1"),
        ("compactionpause", "perhaps"),
    ],
)
def test_invalid_setting_is_refused(name: str, value: str) -> None:
    with pytest.raises(Refused, match="invalid"):
        from_config({f"gitsession.{name}": value})


# ---- start


def test_rule_16_append_compacts_when_the_last_answer_exceeds_the_limit(store: Store) -> None:
    writer = Writer()
    found = session(store, policy(writer))
    for used in (500, 1_000, 2_500):
        turn(found, used)
    assert writer.calls == 0
    turn(found, 3_001)
    assert compactions(found) == 1
    assert found.context().messages[0] == found.read(found.history()[-1])
    entry = found.read(found.history()[-1])
    assert isinstance(entry, Compaction)
    assert entry.method == "pi/writer"


def test_without_token_counts_an_estimate_decides(store: Store) -> None:
    writer = Writer()
    found = session(store, policy(writer))
    for _ in range(3):
        turn(found)
    assert writer.calls == 0
    turn(found)
    assert compactions(found) == 1


def test_policy_off_starts_nothing_and_loads_nothing(tmp_path: Path) -> None:
    program = (
        "import sys, gitsession\n"
        f"with gitsession.Store.create({str(tmp_path / 's.git')!r}) as store:\n"
        "    session = store.new_session(agent='t')\n"
        "    session.append(gitsession.Message.user('a'))\n"
        "    before = set(sys.modules)\n"
        "    session.append(gitsession.Message.assistant('b', usage={'totalTokens': 10**6}))\n"
        "    print([name for name in sys.modules if 'compaction' in name], set(sys.modules) - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[] set()\n"


def test_configuration_applies_to_every_store(tmp_path: Path) -> None:
    for name, value in (("compaction", "client"), ("compactionThreshold", "3000"), ("compactionKeepTokens", "500")):
        subprocess.run(["git", "config", "--global", f"gitsession.{name}", value], check=True)
    with Store.create(tmp_path / "store.git") as store:
        found = store.new_session(agent="test")
        turn(found, 1_000, text="Fix the login. " + LONG)
        turn(found, 2_000)
        turn(found, 5_000)
        assert compactions(found) == 1


def test_invalid_configuration_does_not_fail_an_append(tmp_path: Path) -> None:
    subprocess.run(["git", "config", "--global", "gitsession.compaction", "sometimes"], check=True)
    with Store.create(tmp_path / "store.git") as store:
        found = store.new_session(agent="test")
        turn(found, 10**6)
        assert compactions(found) == 0
        with pytest.raises(Refused, match="mode is 'sometimes'"):
            _ = found.compaction.policy


def test_policy_of_the_store_applies_to_all_sessions(tmp_path: Path) -> None:
    Store.create(tmp_path / "store.git").close()
    with Store.open(tmp_path / "store.git", compaction=policy(Writer())) as store:
        found = store.new_session(agent="test")
        turn(found, 2_000)
        turn(found, 5_000)
        assert compactions(found) == 1


def test_store_in_memory_compacts_one_branch_at_a_time() -> None:
    with Store.in_memory() as store:
        found = session(store, policy(Writer()))
        turn(found, 2_000)
        with found.compaction.due():
            turn(found, 5_000)
            assert compactions(found) == 0
        turn(found, 9_000)
        assert compactions(found) > 0


def test_window_of_the_recorded_model_applies(store: Store) -> None:
    writer = Writer()
    found = session(store, policy(writer, tokens=None, percent=90))
    found.append(Message.user(LONG))
    found.append(ModelChange(provider="anthropic", model="claude-opus-4-5"))
    for used in (178_000, 179_000):
        turn(found, used)
    assert writer.calls == 0
    turn(found, 181_000)
    assert compactions(found) == 1


def test_reopened_session_is_checked_at_its_first_append(store: Store) -> None:
    writer = Writer()
    found = session(store, OFF)
    for used in (1_000, 9_000):
        turn(found, used)
    again = store.session(found.id)
    again.compaction.policy = policy(writer)
    again.append(Message.user("go on"))
    settle(again)
    assert writer.calls == 1


def test_no_compaction_starts_between_a_call_and_its_result(store: Store) -> None:
    writer = Writer()
    found = session(store, policy(writer))
    turn(found, 1_000)
    calls = [ToolCall("c1", "read", {}), ToolCall("c2", "read", {})]
    found.append(Message.user(LONG))
    found.append(Message.assistant(calls, usage={"totalTokens": 9_000}))
    found.append(Message.tool(calls[0], LONG))
    settle(found)
    assert writer.calls == 0
    found.append(Message.tool(calls[1], LONG))
    settle(found)
    assert compactions(found) == 1
    tools = [entry for entry in found.context().messages if isinstance(entry, Message) and entry.role == "tool"]
    assert len(tools) == 2


def test_answer_appended_during_a_check_is_checked_too(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from gitsession.context import build

    checking, go, context = threading.Event(), threading.Event(), build.context

    def slowly(*words: Any, **named: Any) -> Any:
        result = context(*words, **named)
        checking.set()
        assert go.wait(60)
        return result

    writer = Writer()
    found = session(store, OFF)
    for _ in range(3):
        turn(found, 1_000)
    found.compaction.policy = policy(writer)
    monkeypatch.setattr(build, "context", slowly)
    found.append(Message.user(LONG))
    assert checking.wait(60)
    found.append(Message.assistant(LONG, usage={"totalTokens": 5_000}))
    go.set()
    settle(found)
    assert compactions(found) == 1


# ---- loops


def test_k6_a_model_that_always_reports_a_full_window_causes_no_loop(store: Store) -> None:
    """A hundred short turns that each report 95 % of the window are compacted once, not a hundred times."""
    writer = Writer()
    found = session(store, policy(writer, tokens=None, window=100_000, percent=90, keep_tokens=100))
    for _ in range(5):
        turn(found, 95_000)
    first = writer.calls
    assert first == 1
    for _ in range(100):
        turn(found, 95_000, text="next")
    assert (writer.calls, compactions(found)) == (1, 1)


def test_k6_nothing_to_summarize_is_not_tried_at_every_append(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from gitsession.context import build

    built = 0

    def counted(*words: Any, **named: Any) -> Any:
        nonlocal built
        built += 1
        return context(*words, **named)

    context = build.context
    monkeypatch.setattr(build, "context", counted)
    found = session(store, policy(Writer(), tokens=100_000, keep_tokens=90_000))
    for _ in range(50):
        turn(found, 150_000, text="short")
    assert compactions(found) == 0
    assert built <= 3


def test_appends_below_the_limit_build_no_context(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    found = session(store, policy(Writer(), tokens=1_000_000))
    turn(found, 1_000)
    from gitsession.context import build

    monkeypatch.setattr(build, "context", None)
    for number in range(20):
        turn(found, 1_000 + number)
    assert compactions(found) == 0


def test_edit_of_the_context_is_counted_again(store: Store) -> None:
    writer = Writer()
    found = session(store, policy(writer, tokens=2_000, keep_tokens=100))
    turn(found, 1_000)
    turn(found, 1_500)
    found.append(ContextEdit(target=found.history()[1].oid, replacement=None))
    settle(found)
    assert writer.calls == 0
    turn(found, 2_500)
    assert compactions(found) == 1


# ---- failures


def test_errors_do_not_fail_the_append_and_are_reported(store: Store) -> None:
    reported: list[Exception] = []
    found = session(store, policy(Writer(fail), report=reported.append))
    turn(found, 2_000)
    turn(found, 5_000)
    assert [str(error) for error in reported] == ["the server is down"]
    running = found.compaction.automatic
    assert running is not None
    with pytest.raises(SummaryFailed, match="the server is down"):
        running.result()


def test_after_three_failures_no_further_compaction_is_tried(store: Store) -> None:
    writer = Writer(fail)
    found = session(store, policy(writer))
    for number in range(20):
        turn(found, 5_000 + 1_000 * number)
    assert writer.calls == 3
    writer.answer = lambda _: Summary("short")
    found.compaction.policy = found.compaction.policy  # a new attempt
    found.append(Message.assistant(LONG, usage={"totalTokens": 50_000}))
    settle(found)
    assert compactions(found) == 1


CHAIN: dict[str, Callable[[Request], Any]] = {
    "C2: a failure": fail,
    "an error of a plugin": lambda _: 1 / 0,
    "a summary that was cut off": lambda _: Summary("and then", truncated=True),
    "a summary that is not smaller": lambda request: Summary(request.conversation[:-1]),
    "an empty summary": lambda _: Summary(" "),
}


@pytest.mark.parametrize("answer", CHAIN.values(), ids=CHAIN)
def test_weak_model_is_followed_by_the_main_model(store: Store, answer: Callable[[Request], Any]) -> None:
    weak, main, last = Writer(answer), Writer(), Writer()
    found = session(store, policy(weak, summarizers=(weak, main, last)))
    turn(found, 2_000)
    turn(found, 5_000)
    assert ((weak.calls > 0), main.calls, last.calls) == (True, 1, 0)
    assert compactions(found) == 1


def test_summarizer_with_invalid_settings_is_followed_by_the_next_one(store: Store) -> None:
    found = session(store, policy(None, summarizers=("http:weak", "no-such-plugin", "extractive")))
    turn(found, 2_000, text="Fix the login. " + LONG)
    turn(found, 5_000)
    entry = found.read(found.history()[-1])
    assert isinstance(entry, Compaction)
    assert entry.method == "pi/extractive"


def test_failure_of_all_summarizers_names_each_of_them(store: Store) -> None:
    found = session(store, policy(None, summarizers=(Writer(fail), Writer(lambda _: Summary("")))))
    turn(found, 2_000)
    turn(found, 5_000)
    assert compactions(found) == 0
    running = found.compaction.automatic
    assert running is not None
    with pytest.raises(SummaryFailed, match="writer: the server is down; writer: the summarizer returned an empty"):
        running.result()


def test_reserve_for_the_summary_is_its_maximum_length(store: Store) -> None:
    lengths: list[int] = []

    def answer(request: Request) -> Summary:
        lengths.append(request.max_tokens)
        return Summary("short")

    found = session(store, policy(Writer(answer), reserve={"summary": 1_234}))
    turn(found, 2_000)
    turn(found, 5_000)
    assert lengths == [1_234]


# ---- races


def test_entries_appended_meanwhile_are_kept(store: Store) -> None:
    go = threading.Event()

    def slowly(_: Request) -> Summary:
        assert go.wait(60)
        return Summary("short")

    found = session(store, policy(Writer(slowly)))
    turn(found, 2_000)
    found.append(Message.user(LONG))
    found.append(Message.assistant(LONG, usage={"totalTokens": 5_000}))
    for number in range(20):
        found.append(Message.user(f"meanwhile {number}"))
        found.append(Message.assistant(f"answer {number}", usage={"totalTokens": 6_000 + number}))
    go.set()
    settle(found)
    texts = [getattr(entry, "text", "") for entry in found.context().messages]
    assert texts[-40:] == [text for number in range(20) for text in (f"meanwhile {number}", f"answer {number}")]
    assert compactions(found) == 1


def test_entries_appended_meanwhile_are_kept_if_the_strategy_keeps_none(store: Store) -> None:
    def slowly(_: Request) -> Summary:
        found.append(Message.user("meanwhile"))
        return Summary("short")

    found = session(store, OFF)
    for _ in range(3):
        turn(found)
    found.compact(strategy="codex", keep_tokens=0, summarizer=Writer(slowly))
    assert [getattr(entry, "text", "short") for entry in found.context().messages] == ["short", "meanwhile"]


def test_threads_with_handles_of_their_own_compact_a_branch_once_at_a_time(store: Store) -> None:
    active, most, lock = 0, 0, threading.Lock()

    def answer(_: Request) -> Summary:
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
        threading.Event().wait(0.05)
        with lock:
            active -= 1
        return Summary("short")

    found = session(store, policy(Writer(answer)))
    turn(found, 2_000)
    before = len(found.history())

    def write(number: int) -> None:
        handle = store.session(found.id)
        handle.compaction.policy = found.compaction.policy
        for count in range(10):
            handle.append(Message.user(f"{number}/{count} {LONG}"))
            handle.append(Message.assistant(LONG, usage={"totalTokens": 5_000}))
        settle(handle)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    history = found.history()
    assert most == 1
    assert compactions(found) >= 1
    assert len(history) - compactions(found) == before + 80


_PROGRAM = """
import sys
from gitsession import CompactionPolicy, Message, Store, SummaryFailed, Refused
path, sid, number = sys.argv[1:]
policy = CompactionPolicy(mode="client", tokens=3_000, keep_tokens=500, summarizers=("extractive",))
with Store.open(path, compaction=policy) as store:
    session = store.session(sid)
    for count in range(10):
        session.append(Message.user(f"Do the task {number}/{count}. " + "word after word " * 100))
        session.append(Message.assistant("It is done. " + "word after word " * 100, usage={"totalTokens": 5_000}))
        print("appended", flush=True)
    running = session.compaction.automatic
    try:
        running and running.result(60)
    except (SummaryFailed, Refused):
        pass
"""


def test_processes_append_while_one_of_them_compacts(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git") as store:
        found = store.new_session(agent="test")
        found.append(Message.user("Begin."))
    words = [sys.executable, "-c", _PROGRAM, str(tmp_path / "store.git"), found.id]
    writers = [subprocess.Popen([*words, str(number)], stdout=subprocess.DEVNULL) for number in range(3)]
    assert [writer.wait(240) for writer in writers] == [0, 0, 0]
    with Store.open(tmp_path / "store.git") as store:
        kinds = [node.kind for node in store.session(found.id).history()]
        assert kinds.count(Compaction.kind) >= 1
        assert kinds.count("message") == 61
        assert_clean(store.objects)


_KILLED = """
import os, sys, threading
from gitsession import CompactionPolicy, Message, Store, Summary
class Slow:
    def summarise(self, request, **_):
        print("summarizing", flush=True)
        threading.Event().wait(600)
policy = CompactionPolicy(mode="client", tokens=3_000, keep_tokens=500, summarizers=(Slow(),))
store = Store.open(sys.argv[1], compaction=policy)
session = store.session(sys.argv[2])
for _ in range(3):
    session.append(Message.user("word after word " * 100))
    session.append(Message.assistant("word after word " * 100, usage={"totalTokens": 5_000}))
threading.Event().wait(600)
"""


def test_killed_process_leaves_no_compaction_and_no_lock(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git") as store:
        found = store.new_session(agent="test")
        found.append(Message.user("Begin."))
    words = [sys.executable, "-c", _KILLED, str(tmp_path / "store.git"), found.id]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "summarizing\n"
        child.kill()
    with Store.open(tmp_path / "store.git", compaction=policy(Writer())) as store:
        again = store.session(found.id)
        assert compactions(again) == 0
        again.append(Message.user("go on"))
        settle(again)
        assert compactions(again) == 1
        assert_clean(store.objects)


def test_close_cancels_and_leaves_no_compaction(tmp_path: Path) -> None:
    started = threading.Event()

    class Slow:
        def summarise(self, request: Request, *, cancelled: threading.Event, **_: Any) -> Summary:
            started.set()
            assert cancelled.wait(60)
            raise SummaryFailed("the summary was cancelled")

    store = Store.create(tmp_path / "store.git")
    found = session(store, policy(Slow(), report=lambda error: pytest.fail(str(error))))
    turn(found, 2_000)
    found.append(Message.user(LONG))
    found.append(Message.assistant(LONG, usage={"totalTokens": 5_000}))
    assert started.wait(60)
    running = found.compaction.automatic
    store.close()
    assert running is not None
    assert running.done
    with Store.open(tmp_path / "store.git") as again:
        assert compactions(again.session(found.id)) == 0
        assert_clean(again.objects)


def test_forked_child_does_not_wait_for_a_compaction_of_its_parent(store: Store) -> None:
    go = threading.Event()

    def slowly(_: Request) -> Summary:
        assert go.wait(60)
        return Summary("short")

    found = session(store, policy(Writer(slowly)))
    turn(found, 2_000)
    found.append(Message.user(LONG))
    found.append(Message.assistant(LONG, usage={"totalTokens": 5_000}))
    child = os.fork()
    if child == 0:
        running = found.compaction.automatic
        assert running is not None
        running.stop(60)
        os._exit(running.is_running)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    go.set()
    settle(found)
    assert compactions(found) == 1


def test_compaction_stays_on_its_branch_if_the_handle_moves(store: Store) -> None:
    go = threading.Event()

    def slowly(_: Request) -> Summary:
        assert go.wait(60)
        return Summary("short")

    found = session(store, policy(Writer(slowly)))
    turn(found, 2_000)
    found.append(Message.user(LONG))
    found.append(Message.assistant(LONG, usage={"totalTokens": 5_000}))
    found.branch("side")
    found.switch("side")
    go.set()
    settle(found)
    assert compactions(found) == 0
    assert compactions(found.on("main")) == 1


# ---- kept messages


@pytest.mark.parametrize("strategy", ["pi", "opencode", "aider"])
def test_kept_messages_are_counted(store: Store, strategy: str) -> None:
    found = session(store, policy(Writer(), strategy=strategy, keep_tokens=None, keep_messages=2))
    for _ in range(3):
        turn(found, 2_000)
    turn(found, 5_000, text=f"newest {LONG}")
    kept = found.context().messages[1:]
    assert [entry.text[:6] for entry in kept if isinstance(entry, Message)] == ["newest", "newest"]


def test_smaller_one_of_kept_messages_and_kept_tokens_applies(store: Store) -> None:
    found = session(store, policy(Writer(), keep_tokens=100, keep_messages=4))
    for used in (2_000, 2_000, 5_000):
        turn(found, used)
    assert len(found.context().messages) == 2


# ---- overflow


class TooLong(Exception):
    """The error of a provider."""


def test_overflow_is_compacted_and_sent_once_more(store: Store) -> None:
    found = session(store, policy(Writer(), mode="off"))
    for _ in range(4):
        turn(found)
    sizes: list[int] = []

    def send() -> str:
        sizes.append(len(found.context().messages))
        if len(sizes) == 1:
            raise TooLong("prompt is too long: 210000 tokens > 200000 maximum")
        return "answer"

    assert found.compaction.send(send) == "answer"
    assert len(sizes) == 2
    assert sizes[1] < sizes[0]
    assert compactions(found) == 1


def test_overflow_is_retried_only_once(store: Store) -> None:
    found = session(store, policy(Writer(), mode="off"))
    for _ in range(4):
        turn(found)
    calls = 0

    def send() -> None:
        nonlocal calls
        calls += 1
        raise TooLong(f"prompt is too long ({calls})")

    with pytest.raises(TooLong, match=r"\(2\)"):
        found.compaction.send(send)
    assert calls == 2


def test_overflow_with_a_kept_part_that_is_too_large_keeps_less(store: Store) -> None:
    found = session(store, policy(Writer(), mode="off", keep_tokens=1_000_000))
    for _ in range(4):
        turn(found)
    answers = iter([TooLong("prompt is too long"), None])

    def send() -> str:
        error = next(answers)
        if error is not None:
            raise error
        return "answer"

    assert found.compaction.send(send) == "answer"
    assert compactions(found) == 1


def test_overflow_that_cannot_be_compacted_raises_the_error_of_the_provider(store: Store) -> None:
    found = session(store, policy(Writer(fail), mode="off"))
    for _ in range(4):
        turn(found)

    def send() -> None:
        raise TooLong("prompt is too long")

    with pytest.raises(TooLong) as raised:
        found.compaction.send(send)
    assert raised.value.__notes__ == ["gitsession: the context was not compacted: the server is down"]
    assert compactions(found) == 0


def test_other_errors_are_not_retried(store: Store) -> None:
    found = session(store, policy(Writer()))
    turn(found)
    calls = 0

    def send() -> None:
        nonlocal calls
        calls += 1
        raise ValueError("invalid key")

    with pytest.raises(ValueError, match="invalid key"):
        found.compaction.send(send)
    assert calls == 1
