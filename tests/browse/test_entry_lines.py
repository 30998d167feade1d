"""Tests of the lines of entries: titles and outcomes, Markdown, diffs, folds, and hostile text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import START_MS, Clock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.strip import Strip

from gitsession import (
    Compaction,
    Entry,
    Image,
    Message,
    Node,
    OtherBlock,
    Session,
    Store,
    Text,
    Thinking,
    ToolCall,
    UnknownEntry,
)
from gitsession.browse import entry_lines as module
from gitsession.browse.entry_lines import Folds, entry_lines
from gitsession.browse.entry_text import EntryTexts, text_of
from gitsession.browse.text import age, fit, strip_of
from gitsession.line_text import pad, shorten
from gitsession.model import results
from gitsession.model.headline import clean

FOLDER = "/work/shop"
FOLDED, UNFOLDED = Folds(), Folds(thinking=False, long=False)
BASH = ToolCall("1", "bash", {"command": "pytest -q"})
EDIT = ToolCall("2", "edit", {"path": f"{FOLDER}/auth.py", "old_string": "a\nb", "new_string": "a\nc"})


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        session = store.new_session(agent="pi", cwd=FOLDER)
        session.append(Message.user("Fix the login", at_ms=START_MS))
        yield session


def texts(session: Session) -> EntryTexts:
    return EntryTexts(session._opened.catalogues.get, session, FOLDER)


def line(session: Session, node: Node) -> str:
    """Return the line of an entry in the tree."""
    head, end = texts(session).line(node)
    return "".join(text for text, _ in (*head, *end))


def strips(session: Session, *entries: Entry, width: int = 60, folds: Folds = FOLDED, **more: object) -> list[Strip]:
    """Append entries, and return the lines of the last one in the transcript."""
    node = [session.append(entry) for entry in entries][-1]
    more.setdefault("is_answered", False)
    return entry_lines(node, texts(session), width=width, folds=folds, **more)  # type: ignore[arg-type]


def shown(session: Session, *entries: Entry, **more: object) -> list[str]:
    return [found.text.rstrip() for found in strips(session, *entries, **more)]  # type: ignore[arg-type]


def test_a_tool_result_has_the_title_of_its_call_and_its_outcome(session: Session) -> None:
    session.append(Message.assistant([BASH, EDIT]))
    failed = session.append(Message.tool(BASH, "x\nCommand exited with code 1", is_error=True))
    edited = session.append(Message.tool(EDIT, "ok"))
    assert line(session, failed) == "bash: pytest -q  [exit 1, 2 lines]"
    assert line(session, edited) == "edit auth.py +1 -1  [1 line]"


def test_a_result_without_its_call_has_the_name_of_the_tool(session: Session) -> None:
    node = session.append(Message.tool(BASH, "x"))
    assert line(session, node) == "bash  [1 line]"
    assert shown(session, Message.tool(BASH, "x"))[0] == "  bash  [1 line]"


def test_lines_of_the_tree_are_made_without_reading_entries(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    called = session.append(Message.assistant([Text("I run it."), BASH]))
    answered = session.append(Message.tool(BASH, "x"))
    found = texts(session)
    monkeypatch.setattr(Session, "read", None)
    assert "".join(text for text, _ in found.line(called)[0]) == "assistant: I run it. (+1 tool)"
    assert [text for part in found.line(answered) for text, _ in part] == ["bash: pytest -q", "  [1 line]"]


def test_a_shell_command_of_the_user_is_a_line(session: Session) -> None:
    node = session.append(Message(role="shell", command="ls -l", output="a\nb", exit_code=2))
    assert line(session, node) == "!: ls -l  [exit 2, 2 lines]"


def test_calls_with_results_in_the_same_message_are_one_line(session: Session) -> None:
    result = results.result(call="1", name="bash", text="a\nb")
    node = session.append(Message.assistant([BASH, result]))
    assert line(session, node) == "assistant: bash: pytest -q  [2 lines]"
    assert shown(session, Message.assistant([BASH, result]))[1:4] == ["  bash: pytest -q  [2 lines]", "    a", "    b"]


def test_an_answer_is_markdown(session: Session) -> None:
    text = "# Plan\n\n1. Read `auth.py`\n2. **Fix** it\n\n```python\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    found = shown(session, Message.assistant(text, provider="anthropic", model="sonnet"))
    assert found[0] == "assistant  2026-02-01 00:00  anthropic/sonnet"
    assert "  Plan" in found and "   1 Read auth.py" in found and "   x = 1" in found
    assert any(row.split() == ["1", "2"] for row in found)


def test_html_and_links_are_shown_as_text(session: Session) -> None:
    text = "<b>bold</b> <!-- note -->\n\n<script>alert(1)</script>\n\n[here](http://evil.example/x)"
    found = "\n".join(shown(session, Message.assistant(text)))
    for part in ("<b>bold</b>", "<!-- note -->", "<script>alert(1)</script>", "http://evil.example/x"):
        assert part in found


def test_thinking_is_folded_to_one_line(session: Session) -> None:
    message = Message.assistant([Thinking("first\nsecond"), Text("Done.")])
    assert shown(session, message)[1:3] == ["  thinking (2 lines): first second", "  Done."]
    assert shown(session, message, folds=UNFOLDED)[1:5] == ["  thinking", "  | first", "  | second", "  Done."]


def test_long_output_is_folded_and_short_output_of_a_failure_is_shown(session: Session) -> None:
    output = "\n".join(map(str, range(20)))
    session.append(Message.assistant([BASH]))
    found = shown(session, Message.tool(BASH, output))
    assert found == [
        "  bash: pytest -q  [20 lines]",
        *[f"    {at}" for at in range(6)],
        "  … 14 more lines (space)",
        "",
    ]
    assert len(shown(session, Message.tool(BASH, output), folds=UNFOLDED)) == 22


def test_an_edit_is_a_diff_and_its_result_is_not_repeated(session: Session) -> None:
    session.append(Message.assistant([EDIT]))
    found = shown(session, Message.tool(EDIT, "The file was changed."))
    assert found == ["  edit auth.py +1 -1  [1 line]", "     a", "    -b", "    +c", ""]
    failed = shown(session, Message.tool(EDIT, "no such text", is_error=True))
    assert failed[-2:] == ["    no such text", ""]


def test_the_calls_of_an_answer_are_shown_unless_their_results_follow(session: Session) -> None:
    message = Message.assistant([BASH])
    assert shown(session, message)[1:] == ["  bash: pytest -q", ""]
    assert len(shown(session, message, is_answered=True)) == 1


def test_other_entries_and_blocks_have_a_line(session: Session) -> None:
    message = Message.assistant([Image(b"123", "image/png"), OtherBlock({"type": "audio"}), OtherBlock(7)])
    assert shown(session, message)[1:3] == ["  [image image/png, 3 bytes]", "  [audio]"]
    assert shown(session, Compaction(summary="# Sum"))[1] == "  Sum"
    assert shown(session, UnknownEntry(name="later", body={"x": 1}))[0].startswith("later")
    failed = Message.assistant("half", stop="error", error="overloaded\nnow")
    assert shown(session, failed)[2] == "  error: overloaded now"


def test_a_damaged_entry_is_an_error(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    from gitsession.model.entries import Opaque

    node = session.append(Message.user("x"))
    monkeypatch.setattr(Session, "read", lambda self, at: Opaque(problem="missing object"))
    found = entry_lines(node, texts(session), width=60, folds=Folds(), is_answered=False)
    assert found[0].text.rstrip() == f"{node.oid[:8]} cannot be read: missing object"
    assert line(session, node._replace(role="tool")) == "user: x"


def test_huge_texts_are_cut(session: Session) -> None:
    found = shown(session, Message.assistant("word " * 200_000), folds=UNFOLDED)
    assert found[-2] == "  … 800,000 more characters: run `gitsession show`"
    assert len(found) < module.UNFOLDED_CHARS_MAX / 40
    assert len(shown(session, Message.user("x" * 1_000_000))) == module.PROMPT_LINES + 3


def test_the_text_of_entries_for_the_clipboard(session: Session) -> None:
    assert text_of(Message.user("hi")) == "hi"
    assert text_of(Compaction(summary="sum")) == "sum"
    assert text_of(Message(role="shell", command="ls", output="a")) == "$ ls\na"
    assert text_of(UnknownEntry(name="later")) == ""


HOSTILE = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\x1b\x07\r\t\n\u202e\u200b\u2066\u0301\U0001f469\u200d\U0001f467\ufe0f中`#*[]<>|-_~ "),
    ),
    max_size=120,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(HOSTILE, st.integers(20, 50), st.sampled_from(["user", "assistant", "tool", "shell"]))
def test_every_line_has_the_width_of_the_screen_and_no_control_character(
    session: Session, text: str, width: int, role: str
) -> None:
    text = text.encode("utf-8", "replace").decode()
    entry: Message = {
        "user": Message.user(text),
        "assistant": Message.assistant([Text(text), Thinking(text), ToolCall("9", text, {"command": text})]),
        "tool": Message.tool(ToolCall("9", text), text),
        "shell": Message(role="shell", command=text, output=text),
    }[role]
    for folds in (Folds(), UNFOLDED):
        for found in strips(session, entry, width=width, folds=folds):
            assert found.cell_length == width == cell_len(found.text)
            assert found.text == clean(found.text) and "\n" not in found.text
            assert not any(segment.control or (segment.style and segment.style.link) for segment in found)


@given(HOSTILE, HOSTILE, st.integers(1, 40))
def test_lines_of_a_list_have_exactly_the_width(first: str, second: str, width: int) -> None:
    from gitsession.browse.text import one_line

    parts = [(one_line(first), ""), (one_line(second), "dim")]
    assert cell_len(strip_of(parts, width).text) == width
    assert cell_len(pad(one_line(first), width)) == width
    fitted = fit(parts[:1], parts[1:], width)
    assert cell_len("".join(text for text, _ in fitted)) <= max(width, cell_len(parts[1][0]))


def test_ages_and_cut_texts() -> None:
    now = START_MS + 40 * 86_400_000
    ages = [age(now - seconds * 1000, now) for seconds in (-5, 5, 65, 3700, 90_000, 86_400 * 31)]
    assert ages == ["0s", "5s", "1m", "1h", "1d", "2026-02-10"]
    assert age(0, now) == "-"
    assert shorten("abcdef", 4) == "abc…" and shorten("abc", 0) == ""
