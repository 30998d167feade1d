"""Tests of compactions: one entry or none is written, despite bad summarizers and concurrent writers."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import SHARED, Clock, assert_clean, assert_git_agrees, pi_file, said

from gitsession.api import Session, Store
from gitsession.codec.digest import to_base64url
from gitsession.compaction.plan import CompactionRequest, touched_files
from gitsession.compaction.summarizers.extractive import Extractive
from gitsession.compaction.summary import Request, Summary
from gitsession.compaction.write_summary import TURN, SummaryOptions
from gitsession.context.profiles import PROFILES
from gitsession.errors import Refused, SummaryFailed
from gitsession.formats import FORMATS
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Compaction, Instructions, Message, Reset, ThinkingChange
from gitsession.sessions.node import Node

LONG = "word after word, " * 40
"""About 170 tokens."""

KEEP = CompactionRequest(keep_tokens=300)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as made:
        yield made


@pytest.fixture
def session(store: Store) -> Session:
    """Create a session with five exchanges."""
    made = store.new_session(agent="test", cwd="/work")
    talk(made, 5)
    return made


def talk(session: Session, turns: int) -> None:
    first = len(session.history()) // 2
    for number in range(first, first + turns):
        session.append(Message.user(f"request {number}: {LONG}"))
        session.append(Message.assistant(f"answer {number}: {LONG}"))


class Scripted:
    """A summarizer with a scripted answer that records its requests."""

    NAME = "scripted"

    def __init__(self, answer: Callable[[Request], Any] = lambda _: Summary("short")) -> None:
        self.answer = answer
        self.asked: list[Request] = []

    def summarise(self, request: Request, *, progress: object, cancelled: threading.Event) -> Any:
        self.asked.append(request)
        return self.answer(request)


def compact(session: Session, by: Any = None, ask: CompactionRequest = KEEP, **how: Any) -> Node | None:
    return session.compact(session.compaction.plan(request=ask), SummaryOptions(summarizer=by or Scripted(), **how))


def compaction(session: Session, node: Node | None) -> Compaction:
    assert node is not None
    entry = session.read(node)
    assert isinstance(entry, Compaction)
    return entry


def texts(session: Session, profile: str = "pi") -> list[str]:
    shown = session.context(profile=profile).messages
    return [entry.summary if isinstance(entry, Compaction) else entry.text[:10] for entry in shown]  # type: ignore[union-attr]


def test_compaction_is_one_entry_after_all_others(session: Session) -> None:
    before = session.history()
    node = compact(session)
    assert session.history() == [*before, node]
    assert texts(session) == ["short", "request 4:", "answer 4: "]


def test_compaction_records_the_kept_entries_and_the_saved_tokens(session: Session) -> None:
    used = session.context().tokens.used
    kept = session.history()[-2]
    entry = compaction(session, compact(session, focus="the tests"))
    assert entry.first_kept == to_base64url(kept.chain)
    assert entry.tokens_before == used
    assert entry.tokens_after == session.context().tokens.used
    assert entry.tokens_after < used
    assert entry.method == "pi/scripted"
    assert entry.instructions == "the tests"


def test_default_compaction_keeps_as_much_as_pi_and_summarizes_by_rule(session: Session) -> None:
    assert session.compact() is None
    talk(session, 60)
    entry = compaction(session, session.compact())
    assert entry.method == "pi/extractive"
    assert "request 0" in entry.summary
    assert 19_000 < session.context().tokens.used < 25_000


def test_git_and_verify_find_nothing_wrong_with_it(store: Store, session: Session) -> None:
    compact(session)
    assert_clean(store.objects)
    assert_git_agrees(store.objects)


def test_files_are_in_the_entry_and_after_the_summary(session: Session) -> None:
    session.append(Message.user("go on"))
    session.append(
        Message.assistant([ToolCall("1", "read", {"path": "a.py"}), ToolCall("2", "edit", {"path": "b.py"})])
    )
    talk(session, 2)
    entry = compaction(session, compact(session))
    assert (entry.read_files, entry.modified_files) == (("a.py",), ("b.py",))
    assert entry.summary.endswith("<read-files>\na.py\n</read-files>\n\n<modified-files>\nb.py\n</modified-files>")


def test_rule_27_beginning_of_a_split_turn_is_separate(session: Session) -> None:
    for _ in range(4):
        session.append(Message.assistant(f"still at it: {LONG}"))
    asked = Scripted(lambda request: Summary(request.kind))
    entry = compaction(session, compact(session, asked))
    assert [request.kind for request in asked.asked] == ["initial", "prefix"]
    assert entry.summary == f"initial\n\n---\n\n{TURN}\n\nprefix"


def test_short_beginning_of_a_turn_is_kept_verbatim(session: Session) -> None:
    session.append(Message.user("do it all"))
    for _ in range(3):
        session.append(Message.assistant(f"still at it: {LONG}"))
    entry = compaction(session, compact(session, ask=CompactionRequest(keep_tokens=500)))
    assert entry.summary.endswith(f"{TURN}\n\n[User]\ndo it all")


def test_long_input_is_summarized_in_parts_without_loss(session: Session) -> None:
    asked = Scripted(lambda request: Summary(f"{len(asked.asked)}"))
    compact(session, asked, input_tokens_max=400)
    assert [request.previous for request in asked.asked] == ["", "1", "2", "3"]
    said = "".join(request.conversation for request in asked.asked)
    assert all(f"request {number}" in said and f"answer {number}" in said for number in range(4))


def test_plan_does_not_depend_on_the_catalog(store: Store, session: Session) -> None:
    for level in ("low", "high") * 5:
        session.append(ThinkingChange(level=level))
        talk(session, 1)
    before = session.compaction.plan(request=KEEP)
    store.catalogue()  # builds the index, which allows entries to be skipped
    assert session.compaction.plan(request=KEEP) == before
    assert before.first_kept is not None
    assert before.first_kept.kind == ThinkingChange.kind


# ---- imported sessions


@pytest.mark.parametrize("profile", PROFILES)
def test_compaction_of_an_imported_session_names_its_first_kept_entry(store: Store, profile: str) -> None:
    ids = [f"e{number}" for number in range(8)]
    parents = [None, *ids]
    lines = [said(id, parents[n], f"{id} {LONG}", role=("user", "assistant")[n % 2]) for n, id in enumerate(ids)]
    session = store.session(store.agents.import_data(FORMATS["pi"], pi_file(*lines)).session)
    plan = session.compaction.plan(profile=profile, request=CompactionRequest(keep_tokens=400))
    session.compact(plan, SummaryOptions(summarizer=Scripted()))
    shown = ["I " if profile == "aider" else "sh", *ids[-len(plan.kept) :]]  # text of Aider itself comes before it
    assert [text[:2] for text in texts(session, profile)] == shown
    assert store.export(session.id, original=True).data == pi_file(*lines)


# ---- model and level


def test_the_instructions_in_force_are_in_force_after_it(session: Session) -> None:
    session.append(Instructions(system_prompt="Be brief", files={"AGENTS.md": "Use tabs"}))
    talk(session, 3)
    before = session.context()
    compact(session)
    after = session.context()
    assert after.instructions is not None
    assert after.instructions == before.instructions
    assert (after.model, after.thinking, after.rules) == (before.model, before.thinking, before.rules)


def test_system_messages_are_repeated_after_each_compaction(session: Session) -> None:
    session.append(Message(role="system", content=Message.user("Be kind").content, extra={"sections": {"a": "b"}}))
    talk(session, 3)
    for _ in range(2):
        compact(session)
        [system] = [said for said in session.context().messages if _is_system(said)]
        assert (system.text, dict(system.extra)) == ("Be kind", {"sections": {"a": "b"}})
        talk(session, 3)


def _is_system(entry: object) -> bool:
    return isinstance(entry, Message) and entry.role == "system"


# ---- repeated compactions


def test_rule_27_the_next_one_carries_the_last_one_on(session: Session) -> None:
    compact(session, Scripted(lambda _: Summary("first")))
    talk(session, 3)
    asked = Scripted(lambda _: Summary("second"))
    compact(session, asked)
    assert [(request.kind, request.previous) for request in asked.asked] == [("update", "first")]
    assert texts(session)[0] == "second"


def test_directly_behind_one_there_is_nothing_to_do(session: Session) -> None:
    compact(session)
    before = session.history()
    assert compact(session) is None
    assert session.history() == before


def test_every_eighth_is_made_from_the_entries_themselves(session: Session) -> None:
    asked = Scripted(lambda _: Summary("short"))
    for _ in range(17):
        compact(session, asked)
        talk(session, 2)
    fresh = [n for n, request in enumerate(asked.asked) if "request 0" in request.conversation]
    assert fresh == [0, 8, 16]
    assert [n for n, request in enumerate(asked.asked) if not request.previous] == fresh


def test_repeated_compaction_is_the_callers_decision(session: Session) -> None:
    asked = Scripted(lambda _: Summary("short"))
    for _ in range(4):
        compact(session, asked, CompactionRequest(keep_tokens=300, reground_every=2))
        talk(session, 2)
    assert [bool(request.previous) for request in asked.asked] == [False, True, False, True]
    for _ in range(3):
        compact(session, asked, CompactionRequest(keep_tokens=300, reground_every=0))
        talk(session, 2)
        assert asked.asked[-1].previous


def test_a_summary_that_only_a_provider_can_read_is_not_carried_on(session: Session) -> None:
    session.append(Compaction(summary="", preserve={"encrypted": "xyz"}))
    talk(session, 3)
    for every in (0, 8):
        asked = Scripted()
        compact(session, asked, CompactionRequest(keep_tokens=300, reground_every=every))
        assert "request 0" in asked.asked[0].conversation
        session.append(Compaction(summary="", preserve={"encrypted": "xyz"}))
        talk(session, 3)


@pytest.mark.parametrize("carried", [2**63 - 1, -1, "many", None, True], ids=str)
def test_invalid_carried_count_of_another_writer_is_harmless(session: Session, carried: Any) -> None:
    session.append(Compaction(summary="theirs", preserve={"carried": carried, "system": [7, {"text": 7}]}))
    talk(session, 3)
    assert (
        compaction(session, compact(session, ask=CompactionRequest(keep_tokens=300, reground_every=0))).summary
        == "short"
    )


# ---- concurrent changes


def test_concurrent_append_is_kept(session: Session) -> None:
    def slowly(_: Request) -> Summary:
        session.append(Message.user("meanwhile"))
        return Summary("short")

    node = compact(session, Scripted(slowly))
    assert session.history()[-1] == node
    assert texts(session) == ["short", "request 4:", "answer 4: ", "meanwhile"]


def test_concurrent_appends_are_kept_if_the_strategy_keeps_no_entry(session: Session) -> None:
    def slowly(_: Request) -> Summary:
        session.append(Message.user("meanwhile"))
        session.append(Message.assistant("done"))
        return Summary("short")

    session.compact(strategy="codex", keep_tokens=0, summarizer=Scripted(slowly))
    assert texts(session) == ["short", "meanwhile", "done"]
    session.append(Message.user("next"))
    assert texts(session) == ["short", "meanwhile", "done", "next"]


@pytest.mark.parametrize("entry", [Compaction(summary="theirs"), Reset()], ids=["a compaction", "a reset"])
def test_concurrent_compaction_wins(session: Session, entry: Compaction | Reset) -> None:
    def slowly(_: Request) -> Summary:
        session.append(entry)
        return Summary("ours")

    with pytest.raises(Refused, match="was appended to the branch in the meantime"):
        compact(session, Scripted(slowly))
    assert session.history()[-1].kind == entry.kind


def test_session_continues_during_a_background_compaction(session: Session) -> None:
    go = threading.Event()

    def slowly(_: Request) -> Summary:
        assert go.wait(120)
        return Summary("short")

    plan = session.compaction.plan(request=KEEP)
    running = session.compaction.start(plan, SummaryOptions(summarizer=Scripted(slowly)))
    session.append(Message.user("meanwhile"))
    assert not running.done
    go.set()
    assert running.result(120) == session.leaf
    assert texts(session)[-1] == "meanwhile"


def test_cancelled_in_the_background_it_leaves_nothing(session: Session) -> None:
    go = threading.Event()

    def slowly(_: Request) -> Summary:
        assert go.wait(120)
        return Summary("short")

    before = session.history()
    running = session.compaction.start(
        session.compaction.plan(request=KEEP), SummaryOptions(summarizer=Scripted(slowly))
    )
    running.cancel()
    go.set()
    with pytest.raises(SummaryFailed, match="cancelled"):
        running.result(120)
    assert session.history() == before


# ---- bad summarizers


def stop(_: Request) -> None:
    raise KeyboardInterrupt


def fail(_: Request) -> None:
    raise RuntimeError("out of luck")


MISBEHAVING: dict[str, Callable[[Request], Any]] = {
    "says nothing": lambda _: Summary("  "),
    "repeats what it was given": lambda request: Summary(request.conversation),
    "says more than it was given": lambda request: Summary(request.conversation * 2),
    "says no less than was there": lambda request: Summary(request.conversation[:-1]),
    "was cut off": lambda _: Summary("and then", truncated=True),
    "gives no summary": lambda _: "short",
    "gives no text": lambda _: Summary(None),  # type: ignore[arg-type]
    "fails": fail,
    "is interrupted": stop,
}


@pytest.mark.parametrize("answer", MISBEHAVING.values(), ids=MISBEHAVING)
def test_rule_27_a_summarizer_that_misbehaves_writes_nothing_and_the_next_one_may_try(
    store: Store, session: Session, answer: Callable[[Request], Any]
) -> None:
    refs, line = dict(store.objects.refs("refs/")), session.history()
    with pytest.raises((SummaryFailed, KeyboardInterrupt)):
        compact(session, Scripted(answer))
    assert dict(store.objects.refs("refs/")) == refs
    assert session.history() == line
    assert compact(session) is not None


def test_file_lists_that_use_up_the_savings_are_no_gain(session: Session) -> None:
    before = session.history()
    calls = [ToolCall(f"{n}", "read", {"path": f"{n}/" + "x" * 60}) for n in range(9)]
    made = session.compaction.plan(request=KEEP)
    listed = replace(made, files=touched_files([Message.assistant(calls)]), replaced=100)
    with pytest.raises(SummaryFailed, match="not smaller than"):
        session.compact(listed, SummaryOptions(summarizer=Scripted()))
    assert session.history() == before


# ---- repeatedly, on a real session


REAL = SHARED / "sessions/pi/before-compaction.v3.jsonl"


@pytest.mark.skipif(not REAL.exists(), reason="no sessions here")
def test_fifty_compactions_lose_nothing_and_cost_next_to_nothing(tmp_path: Path) -> None:
    data = REAL.read_bytes()
    sizes, summaries = [], 0
    for name in ("with", "without"):
        with Store.create(tmp_path / f"{name}.git", clock=Clock()) as store:
            session = store.session(store.agents.import_data(FORMATS["pi"], data, final=True).session)
            before = session.history()
            for number in range(50):
                if name == "with":
                    node = compact(session, Extractive(), CompactionRequest(keep_tokens=1_000), max_tokens=500)
                    summaries += len(compaction(session, node).summary.encode())
                session.append(Message.user(f"request {number}: {LONG * 5}"))
                session.append(Message.assistant(f"answer {number}: {LONG * 5}"))
            assert session.history()[: len(before)] == before
            assert store.export(session.id, original=True).data == data
            assert_clean(store.objects)
            store.maintain()
            sizes.append(_packed(store))
            digest = session.context().digest
            if name == "with":
                _clone(store, tmp_path / "clone.git")
                with Store.open(tmp_path / "clone.git") as cloned:
                    assert cloned.session(session.id).context().digest == digest
    assert sizes[0] - sizes[1] < summaries  # packed, all data is smaller than the texts alone


def _packed(store: Store) -> int:
    """Return the size of the packs in bytes."""
    return sum(file.stat().st_size for file in Path(store.objects.git_dir).glob("objects/pack/*.pack"))


def _clone(store: Store, place: Path) -> None:
    Store.create(place).close()
    fetch = ["fetch", "-q", store.objects.git_dir, "refs/heads/sessions/*:refs/heads/sessions/*"]
    subprocess.run(["git", "-C", str(place), *fetch], check=True)
