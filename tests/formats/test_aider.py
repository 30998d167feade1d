"""Tests of Aider's history files: spans, authors, headlines, and lossless exports."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from aider_files import PLACE, answer, edited, history, restored, run, told, user
from builders import SHARED, STORES, assert_clean, exported, moved_forward, session, session_refs
from hypothesis import given, settings
from hypothesis import strategies as st
from mutation import mutant

from gitsession.discovery import sources
from gitsession.errors import Malformed
from gitsession.formats import FORMATS, claimed
from gitsession.formats.aider.agent import aider
from gitsession.formats.aider.read_entry import reread
from gitsession.importing.import_session import ImportResult, import_source
from gitsession.model.entries import Custom, Message, Reset
from gitsession.sessions.meta import meta_of
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore

TALK = history(
    run(),
    user("Add a fib function"),
    answer("Here it is.\n\napp.py\n```python\n<<<<<<< SEARCH\n=======\n# a fib\n> 1\n#### 2  \n>>>>>>> REPLACE\n```"),
    edited("app.py", "8faeaf9 feat: update app"),
    user("/tokens"),
    told("$ 0.0000    1,453 system messages", "", "total"),
    user("Two lines\n\nof it"),
    answer(
        "### Good\n\n#### A heading of the answer\n\n> a quotation\n\n"
        "# aider chat started at 2020-01-01 00:00:00\n(so it says)"
    ),
    restored(),
    user("/exit"),
)  # fmt: skip

REAL = sorted((SHARED / "sessions" / "aider").glob("**/*.md"))


def labels(data: bytes, *, final: bool = True) -> list[str]:
    """Return the labels and the first words of the spans of a file."""
    said = [aider.headline(record.payload) for record in aider.split(data, name=PLACE, final=final).records]
    return [f"{headline.label}: {headline.words}" for headline in said]


def take_in(store: ObjectStore, data: bytes, *, final: bool = False, name: str = PLACE) -> ImportResult:
    return import_source(store, aider, aider.split(data, name=name, final=final))


@pytest.fixture(params=STORES.values(), ids=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    with request.param(tmp_path / "store.git") as opened:
        yield opened
        assert_clean(opened)


# ---- spans


def test_each_span_has_one_author():
    assert labels(TALK) == [
        "run: 2026-11-21 20:43:36 Aider 0.86.2, openai/mock",
        "user: Add a fib function",
        "assistant: Here it is.",
        "commit: 8faeaf9 feat: update app",
        "command: /tokens",
        "output: $ 0.0000    1,453 system messages",
        "user: Two lines",
        "assistant: ### Good",
        "output: Tokens: 1.9k sent, 54 received.",
        "run goes on: 2026-11-22 08:00:00 Aider 0.86.2, openai/mock",
        "command: /exit",
    ]


def test_prompts_and_answers_have_only_their_text():
    entries = [aider.read(record.payload) for record in aider.split(TALK, name=PLACE, final=True).records]
    assert [entry.text for entry in entries if isinstance(entry, Message) and entry.role == "user"] == [
        "Add a fib function",
        "Two lines\n\nof it",
    ]
    answers = [entry.text for entry in entries if isinstance(entry, Message) and entry.role == "assistant"]
    assert answers[0].startswith("Here it is.") and answers[0].endswith("```") and "#### 2  \n" in answers[0]
    assert answers[1].endswith("(so it says)")


def test_run_starts_anew_unless_it_restores_its_history():
    records = aider.split(history(run(), restored()), final=True).records
    first, again = (aider.read(record.payload) for record in records)
    assert isinstance(first, Reset) and first.at_ms == 1_795_293_816_000
    assert isinstance(again, Custom)


@pytest.mark.parametrize("said", ["All chat history cleared.", "All files dropped and chat history cleared."])
def test_clearing_the_chat_is_a_reset(said: str):
    assert isinstance(aider.read(history(told(said))), Reset)


FENCES = {
    "a prompt": "```\n\n#### not typed  \n\n```",
    "what Aider prints": "```\n> not printed  \n```",
    "the beginning of a run": f"```\n{run()}```",
    "a longer fence around a shorter": "````md\n```\n````x\n\n#### not typed  \n````",
    "waves": "~~~\n```\n\n#### not typed  \n~~~",
}


@pytest.mark.parametrize("text", FENCES.values(), ids=FENCES)
def test_fenced_block_is_only_text(text: str):
    data = history(run(), user("q"), answer(text), user("next"))
    assert [label.split(":")[0] for label in labels(data)] == ["run", "user", "assistant", "output", "user"]


NO_FENCES = {
    "one that the answer left open": history(run(), user("q"), answer("```python\nx = 1"), user("next")),
    "one in an answer that was broken off": history(
        run(), user("q"), told("", "", "^C again to exit"), "\n```python\nx = 1\n\n", user("next")
    ),
}


@pytest.mark.parametrize("data", NO_FENCES.values(), ids=NO_FENCES)
def test_a_fence_left_open_ends_with_its_answer(data: bytes):
    assert labels(data)[-1] == "user: next"


def test_adversarial_line_is_split_in_linear_time():
    long = history(run(), user("q"), "\n```\n\n> Tokens: " + " sent, " * 300_000 + "\n\n")
    assert len(aider.split(long, name=PLACE, final=True).records) == 3


def test_date_in_an_answer_does_not_start_a_run():
    line = "# aider chat started at 2020-01-01 00:00:00"
    data = history(run(), user("q"), answer(f"{line}\nat once\n\n{line}\n\nno quotation"))
    assert [label.split(":")[0] for label in labels(data)] == ["run", "user", "assistant", "output"]


def test_output_of_several_lines_is_not_an_answer():
    data = history(run(), user("/ls"), "> Files:\n\napp.py\nb.py  \n", user("q"), answer("a"))
    speakers = [label.split(":")[0] for label in labels(data)]
    assert speakers == ["run", "command", "output", "user", "assistant", "output"]


def test_file_with_trimmed_line_ends_is_read():
    trimmed = b"\n".join(line.rstrip() for line in history(run(), user("a\nb"), answer("c"), user("d")).split(b"\n"))
    assert [label.split(":")[0] for label in labels(trimmed)] == ["run", "user", "assistant", "output", "user"]


def test_windows_line_ends_are_accepted():
    assert labels(TALK.replace(b"\n", b"\r\n")) == labels(TALK)


def test_only_a_file_with_the_start_of_a_run_is_claimed():
    assert claimed(TALK) is aider
    assert claimed(b"# Notes\n\n> quoted\n") is None
    assert claimed(b"# aider chat started at 2020-01-01 00:00:00\nso it said\n") is None
    assert claimed(b"") is None


# ---- the session


def test_session_id_depends_on_the_folder_and_the_first_line():
    source = aider.split(TALK, name=PLACE)
    assert (source.source_id, source.started_ms) == ("app@2026-11-21T20:43:36", 1_795_293_816_000)
    assert source.header is not None and source.header.cwd == "/work/app"
    assert aider.split(TALK, name="/moved/app/.aider.chat.history").source_id == source.source_id
    assert aider.split(TALK, name="/work/b/.aider.chat.history").source_id != source.source_id
    assert aider.split(TALK, name="/work/b/copy").header.cwd is None  # type: ignore[union-attr]


def test_truncated_file_is_identified_by_its_new_beginning():
    cut = history(user("so"), answer("it begins"))
    source = aider.split(cut, name=PLACE)
    assert source.source_id.startswith("app@") and source.started_ms == 0
    assert aider.split(cut + history(run()), name=PLACE).source_id == source.source_id


@pytest.mark.parametrize("data", [b"", b"\n\n", b"# aider chat star"], ids=["empty", "blank", "half a line"])
def test_a_file_in_which_nothing_was_said_is_no_session(data: bytes):
    with pytest.raises(Malformed):
        aider.split(data, name=PLACE)


def test_history_is_exported_byte_identical(store: ObjectStore):
    done = take_in(store, TALK)
    assert exported(store, done.session) == TALK
    assert (done.problems, take_in(store, TALK).moves) == ((), ())
    header = meta_of(store, done.session).header
    assert header is not None and header.cwd == "/work/app"


def test_all_runs_are_on_one_branch(store: ObjectStore):
    opened = session(store, take_in(store, TALK, final=True).session)
    assert [node.subject for node in opened.history()][-4:] == [
        "assistant: ### Good",
        "output: Tokens: 1.9k sent, 54 received.",
        "run goes on: 2026-11-22 08:00:00 Aider 0.86.2, openai/mock",
        "command: /exit",
    ]


def test_the_end_of_a_file_is_not_the_end_of_an_answer(store: ObjectStore):
    begun = history(run(), user("q"), "\nthis much\nso f")
    done = take_in(store, begun)
    assert [node.subject for node in session(store, done.session).history()][1:] == [
        "run: 2026-11-21 20:43:36 Aider 0.86.2, openai/mock", "user: q",
    ]  # fmt: skip
    assert exported(store, done.session) == begun
    take_in(store, begun + b"ar\n\n> Tokens: 1 sent, 1 received.  \n")
    assert session(store, done.session).history()[-1].subject == "assistant: this much"


def grown(data: bytes, ends: list[int]) -> None:
    """Import every prefix and then the whole file.

    Refs only move forward, and the result equals that of one import.
    """
    by_and_by, at_once = MemoryStore(), MemoryStore()
    before: dict[str, object] = {}
    for end in [*ends, len(data)]:
        try:
            sid = take_in(by_and_by, data[:end]).session
        except Malformed:
            continue
        assert exported(by_and_by, sid) == data[:end]
        now = session_refs(by_and_by)
        assert moved_forward(by_and_by, before, now)  # type: ignore[arg-type]
        before = dict(now)
    take_in(at_once, data)
    leaves = [{n: v for n, v in session_refs(s).items() if not n.endswith("/meta")} for s in (by_and_by, at_once)]
    assert leaves[0] == leaves[1]


def test_a_file_that_grows_byte_by_byte_keeps_every_entry():
    said = user("q") + answer("```\n#### no  \n```\nyes") + edited("a", "abcdef1 m")
    short = history(run(), said, restored(), user("/exit"))
    grown(short, list(range(len(short))))


@settings(max_examples=60)
@given(st.lists(st.sampled_from([
    run(), restored(), user("a"), user("/x"), answer("b"), "```\n", "\n", "> half", "  \n", "#### x", "# y\n",
    "\r\n", "\xff", "# aider chat started at 2026-11-21 20:43:36\n", "> Tokens: 1 sent, 2 received.\n", "~~~\n",
]), max_size=25), st.lists(st.integers(0, 600), max_size=5))  # fmt: skip
def test_any_file_is_exported_unchanged_and_can_grow(parts: list[str], ends: list[int]):
    data = history("x\n", *parts)
    grown(data, sorted(min(end, len(data)) for end in ends))
    spans = aider.split(data, name=PLACE, final=True).records
    assert b"".join(span.payload for span in spans) == data


def test_no_wound_raises_or_loses_a_byte():
    draw = random.Random(7)
    for _ in range(300):
        data = mutant(draw, TALK)
        try:
            source = aider.split(data, name=PLACE, final=draw.random() < 0.5)
        except Malformed:
            continue
        assert b"".join(record.payload for record in source.records) + (source.tail or b"") == data
        for record in source.records:
            headline, entry = aider.headline(record.payload), aider.read(record.payload)
            assert (entry.kind or "message") == headline.kind


@pytest.mark.skipif(not REAL, reason="no real files at hand")
@pytest.mark.parametrize("path", REAL, ids=[path.name for path in REAL])
def test_real_files_are_exported_byte_identical(path: Path):
    store, data = MemoryStore(), path.read_bytes()
    done = take_in(store, data, name=path.with_suffix("").as_posix())
    assert exported(store, done.session) == data
    grown(data, [len(data) // 3, len(data) // 2])


def test_aider_is_among_the_formats():
    assert FORMATS["aider"] is aider


# ---- Aider's own reader


def test_aiders_own_reader_reads_headings_as_prompts_and_drops_titles_and_quotations():
    assert reread(TALK)[:4] == [
        ("user", "Add a fib function  \n"),
        ("assistant", "\nHere it is.\n\napp.py\n```python\n<<<<<<< SEARCH\n=======\n"),
        ("user", "2  \n"),
        ("assistant", ">>>>>>> REPLACE\n```\n\n"),
    ]


def test_input_history_is_stored_only_with_aiders_own_history(tmp_path: Path) -> None:
    typed = b"\n# 2026-11-21 20:43:39.249252\n+Add a fib function\n"
    (tmp_path / ".aider.input.history").write_bytes(typed)
    own, copy = tmp_path / ".aider.chat.history.md", tmp_path / ".aider.s1.aider.chat.history.md"
    assert sources.attachments(own, b"", aider) == ({".aider.input.history": typed}, [])
    assert sources.attachments(copy, b"", aider) == ({}, [])
    (tmp_path / ".aider.input.history").unlink()
    assert sources.attachments(own, b"", aider) == ({}, [])
