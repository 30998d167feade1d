"""Tests of the parts of entries: text, tool calls with their actions, and results with their outcomes."""

from __future__ import annotations

from gitsession.model import results
from gitsession.model.blocks import File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import (
    Compaction,
    Custom,
    CustomMessage,
    Instructions,
    Message,
    ModelChange,
    Opaque,
    Reset,
)
from gitsession.model.entry_parts import CallPart, NotePart, OutputPart, heading_of, is_aside, parts_of

BASH = ToolCall("1", "bash", {"command": "pytest -q"})
EDIT = ToolCall("2", "edit", {"path": "/work/a.py", "old_string": "a", "new_string": "b"})


def test_an_answer_has_text_thinking_and_the_actions_of_its_calls() -> None:
    entry = Message.assistant([Thinking("hm"), Text("I look."), Text(" \n"), BASH, EDIT])
    thinking, text, bash, edit = parts_of(entry, "/work")
    assert (thinking, text) == (Thinking("hm"), Text("I look."))
    assert isinstance(bash, CallPart) and isinstance(edit, CallPart)
    assert (bash.action.title, bash.id, bash.arguments) == ("bash: pytest -q", "1", {})
    assert (edit.action.title, edit.arguments) == ("edit a.py +1 -1", {})


def test_arguments_that_a_title_does_not_show_are_in_the_part() -> None:
    long = {"command": "a\nb"}
    described = {"command": "a\nb", "description": "Do it"}
    other = {"topic": "x", "n": 1}
    calls = [ToolCall("1", "bash", long), ToolCall("2", "bash", described), ToolCall("3", "ask", other)]
    found = [part for part in parts_of(Message.assistant(calls)) if isinstance(part, CallPart)]
    assert [part.arguments for part in found] == [long, described, other]
    assert [part.is_command for part in found] == [True, False, False]


def test_a_result_has_the_title_of_its_call_and_the_outcome() -> None:
    result = Message.tool(BASH, "x\nCommand exited with code 1", is_error=True)
    [part] = parts_of(result, "", {"1": BASH}.get)
    assert isinstance(part, OutputPart)
    assert part.title == "bash: pytest -q  [exit 1, 2 lines]"
    [part] = parts_of(result)
    assert isinstance(part, OutputPart) and part.title == "bash  [exit 1, 2 lines]"


def test_results_in_a_message_follow_their_calls() -> None:
    result = results.result(call="1", name="bash", text="a\nb", files=[{"name": "x.pdf", "mime": "a/pdf", "url": "u"}])
    call, output, file = parts_of(Message.assistant([BASH, result]))
    assert isinstance(call, CallPart) and isinstance(output, OutputPart)
    assert output.title == "bash: pytest -q  [2 lines]"
    assert file == File("x.pdf", "a/pdf", url="u")


def test_a_command_of_the_user_is_an_output_with_its_command() -> None:
    [part] = parts_of(Message(role="shell", command="ls\n-l", output="a", exit_code=2))
    assert isinstance(part, OutputPart)
    assert (part.title, part.action.command, part.text) == ("!: ls -l  [exit 2, 1 line]", "ls\n-l", "a")


def test_long_output_is_marked() -> None:
    def is_long(text: str, **fields: object) -> bool:
        [part] = parts_of(Message.tool(BASH, text, **fields))
        assert isinstance(part, OutputPart)
        return part.is_long

    assert [is_long("a"), is_long("\n" * 6), is_long("a" * 2000)] == [False, True, True]
    assert [is_long("\n" * 39, is_error=True), is_long("\n" * 40, is_error=True)] == [False, True]


def test_edits_in_the_text_of_an_answer_are_a_call() -> None:
    text = "a.py\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
    found = list(parts_of(Message.assistant(text)))
    assert found[0] == Text(text)
    assert isinstance(found[1], CallPart) and found[1].action.title == "edit a.py +1 -1" and found[1].is_text
    [call] = parts_of(Message.assistant([ToolCall("", "write", {"path": "a.py", "content": ""})]))
    assert isinstance(call, CallPart) and call.action.edits and not call.is_text  # an agent need not give an id
    assert list(parts_of(Message.user(text))) == [Text(text)]


def test_settings_are_notes_and_other_records_have_no_parts() -> None:
    assert list(parts_of(ModelChange(provider="p", model="m"))) == [NotePart("Model: p/m")]
    assert list(parts_of(Reset())) == [NotePart("Context reset")]
    assert list(parts_of(Opaque(problem="lost"))) == [NotePart("This entry cannot be read: lost", failed=True)]
    assert list(parts_of(Custom(custom_type="x", data={}))) == []
    failed = Message.assistant("half", stop="error", error="overloaded")
    assert list(parts_of(failed)) == [Text("half"), NotePart("error: overloaded", failed=True)]


def test_other_blocks_stay_as_they_are() -> None:
    blocks = (Image(b"1", "image/png"), OtherBlock({"type": "audio"}))
    assert tuple(parts_of(Message.user(blocks))) == blocks


def test_authors_and_asides() -> None:
    entries = [
        Message.user("a"), Message.assistant("b", model="m"), Message(role="system"), Compaction(summary="s"),
        CustomMessage(custom_type="x"), Instructions(task="t"), Reset(),
    ]  # fmt: skip
    assert [heading_of(entry) for entry in entries] == [
        ("user", ""), ("assistant", "m"), ("system", ""), ("summary of earlier entries", ""), ("extension", "x"),
        ("instructions", ""), ("", ""),
    ]  # fmt: skip
    assert [is_aside(entry) for entry in entries] == [False, False, True, False, True, True, False]
