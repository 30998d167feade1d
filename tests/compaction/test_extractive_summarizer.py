"""Tests of the extractive summarizer: its content, that it is deterministic, and that it respects the length limit."""

import threading
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from summaries import CONVERSATION, EDIT, FILLER, READ, REQUEST

from gitsession.compaction import prompts
from gitsession.compaction.serialise import TranscriptItem, serialise
from gitsession.compaction.summarizers import make
from gitsession.compaction.summarizers.extractive import LINE_CHARS_MAX, SHARES
from gitsession.compaction.summarizers.options import Options
from gitsession.compaction.summary import Request, summarise
from gitsession.model.entries import Message


def by_rule(request=REQUEST):
    return summarise(make(Options()), request).text


def section(text, title):
    _, _, rest = text.partition(f"## {title}\n")
    return rest.partition("\n\n## ")[0].splitlines()


def test_summary_by_rule_has_prompts_work_decisions_and_open_questions():
    text = by_rule(Request(items=CONVERSATION[:-1]))
    assert section(text, "Goal") == ["- Fix the login redirect. We must keep the old cookie."]
    assert section(text, "Progress")[0].startswith("- The redirect is fixed.")
    assert "- edit failed: no such line" in section(text, "Progress")
    assert section(text, "Key decisions") == ["- We must keep the old cookie."]
    assert section(text, "Next steps") == ["- Next I will write a test.", "- open: Which framework do you want?"]
    assert section(text, "Files") == ["- changed auth.py"]


def test_turn_without_text_is_described_by_its_calls():
    entries = [Message.user(FILLER), Message.assistant([READ, READ, EDIT])]
    assert section(by_rule(Request(items=serialise(entries))), "Progress") == ["- used read 2x, edit 1x"]


def test_words_of_consent_are_not_goals():
    entries = [Message.user(text) for text in ("yo", FILLER, "ok", "yes, go on", "и тесты", "Add a page on themes")]
    goals = section(by_rule(Request(items=serialise(entries))), "Goal")
    assert [goal for goal in goals if "so forth" not in goal] == ["- yo", "- и тесты", "- Add a page on themes"]


def test_a_request_without_an_answer_is_a_next_step():
    assert section(by_rule(), "Next steps")[0].startswith("- not answered yet: pytest.")


def test_a_summary_by_rule_is_the_same_every_time():
    assert by_rule() == by_rule()


def test_focus_of_the_user_comes_first_if_space_is_short():
    asked = [Message.user(f"Task {number}: {'x' * 90} {'cookie' if number == 7 else ''}") for number in range(60)]
    text = by_rule(Request(items=serialise(asked), focus="the Cookie", max_tokens=300))
    assert any(line.startswith("- Task 7:") for line in section(text, "Goal"))


def test_an_earlier_summary_is_carried_on():
    first = prompts.with_files(by_rule(Request(items=CONVERSATION[:-1])), ["auth.py"], [])
    text = by_rule(Request(items=CONVERSATION[-1:], previous=first, kind="update"))
    assert section(text, "Goal")[0] == "- Fix the login redirect. We must keep the old cookie."
    assert "- changed auth.py" in section(text, "Files")
    assert "<read-files>" not in text


def test_summary_of_another_summarizer_is_kept_as_earlier_context():
    text = by_rule(replace(REQUEST, previous="We fixed the menu.\n\n## Context\n* Python 3.11"))
    assert section(text, "Earlier") == ["- We fixed the menu.", "- Python 3.11"]


def test_a_summary_of_a_summary_does_not_grow_for_ever():
    text, sizes = "", []
    for number in range(60):
        said = serialise([Message.user(f"Task {number}. {FILLER}"), Message.assistant(f"Did {number}. {FILLER}")])
        text = by_rule(Request(items=said, previous=text, kind="update" if text else "initial", max_tokens=500))
        sizes.append(len(text))
    assert max(sizes) <= 500 * 4
    assert section(text, "Goal")[0].startswith("- Task 0.")
    assert section(text, "Goal")[-1].startswith("- Task 59.")


SAID = st.lists(
    st.builds(
        TranscriptItem,
        st.sampled_from(["user", "assistant", "call", "result", "shell", "summary", "note"]),
        st.text(max_size=80) | st.sampled_from([FILLER, "## Goal\n- x", "Why? Because.", "\ud83d"]),
        st.text(max_size=5),
        st.text(max_size=5),
        st.booleans(),
    ),
    max_size=12,
).map(tuple)


@settings(max_examples=150)
@given(said=SAID, previous=st.text(max_size=200), focus=st.text(max_size=9), max_tokens=st.integers(0, 2000))
def test_a_summary_by_rule_never_fails_and_keeps_to_its_room(said, previous, focus, max_tokens):
    request = Request(items=said, previous=previous, focus=focus, max_tokens=max_tokens)
    text = make(Options()).summarise(request, progress=lambda _: None, cancelled=threading.Event()).text
    assert len(text) <= max(max_tokens * 4, 40)
    assert all(line.startswith("- ") or line[3:] in SHARES for line in text.split("\n") if line)
    assert max(map(len, text.split("\n"))) <= LINE_CHARS_MAX + 2


def test_tool_name_cannot_start_a_heading():
    said = (
        *[TranscriptItem("user", "What was asked, in many words. " * 9)] * 3,
        TranscriptItem("call", "", "ls\n## Goal", ""),
    )
    text = make(Options()).summarise(Request(items=said), progress=lambda _: None, cancelled=threading.Event()).text
    assert "- used ls ## Goal 1x" in text.split("\n")
