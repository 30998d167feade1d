"""Tests of the commit messages of gitsession's own entries."""

import pytest
from hypothesis import given
from strategies import ENTRIES

from gitsession.codec.message import render, subject_of
from gitsession.codec.payload import headline
from gitsession.model.blocks import Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import (
    KINDS,
    ROLES,
    Attachment,
    BranchSummary,
    Checkpoint,
    Compaction,
    ContextEdit,
    Continuation,
    Custom,
    CustomMessage,
    Fork,
    Injection,
    Instructions,
    Label,
    Mark,
    Message,
    ModeChange,
    ModelChange,
    Permission,
    PlanChange,
    Project,
    Prune,
    Reset,
    Seal,
    SessionHeader,
    SourceFile,
    ThinkingChange,
    Title,
    Todo,
    TodoItem,
    Tombstone,
    ToolsChange,
    UnknownEntry,
    Usage,
)
from gitsession.model.headline import first_line, format_tokens, line_count

CALL = ToolCall("1", "bash", {"command": "ls"})
SUBJECTS = {
    "user: Fix it": Message.user("\n  \nFix it\nplease"),
    "user: a": Message.user([Image(b"", "image/png"), Text("a"), Text("b")]),
    "user": Message.user(""),
    "assistant: I'll look (+1 tool)": Message.assistant([Thinking("hm"), Text("I'll look"), CALL]),
    "assistant: bash, bash (+2 tools)": Message.assistant([CALL, CALL]),
    "assistant: hi": Message.assistant([OtherBlock({"type": "later"}), Text("hi")]),
    "tool bash: 14 lines": Message.tool(CALL, "x\n" * 14),
    "tool bash: 1 line": Message.tool(CALL, "x"),
    "tool bash: no output": Message.tool(CALL, ""),
    "tool bash: error, 2 lines": Message.tool(CALL, "x\ny", is_error=True),
    "tool: no output": Message(role="tool"),
    "shell: ls -la": Message(role="shell", command="ls -la", output="x\ny", exit_code=0),
    "shell": Message(role="shell"),
    "system: You are": Message(role="system", content=(Text("You are\nan agent"),)),
    "developer: Be brief": Message(role="developer", content=(Text("Be brief"),)),
    "custom: hi": Message(role="custom", content=(Text("hi"),)),
    "session: Login": SessionHeader(agent="pi", title="Login", cwd="/w"),
    "session: /w": SessionHeader(agent="pi", cwd="/w"),
    "session: pi": SessionHeader(agent="pi"),
    "model: anthropic/claude": ModelChange(provider="anthropic", model="claude"),
    "thinking: high": ThinkingChange(level="high"),
    "mode: plan": ModeChange(mode="plan", data={"a": 1}),
    "tools: read, bash": ToolsChange(tools=("read", "bash")),
    "instructions: Mend it": Instructions(task="Mend it\nnow", system_prompt="You are"),
    "instructions: You are": Instructions(system_prompt="You are\nan agent"),
    "instructions": Instructions(),
    "injection": Injection(rules=[1]),
    "compaction: 61k -> 8k tokens": Compaction(summary="s", tokens_before=61_234, tokens_after=7_500),
    "compaction: 999 tokens": Compaction(summary="s", tokens_before=999),
    "compaction: 0 tokens": Compaction(summary="s", tokens_after=0),
    "compaction": Compaction(summary="s"),
    "branch summary: We tried": BranchSummary(summary="We tried\nit"),
    "context edit: abc": ContextEdit(target="abc"),
    "prune: 2 tool results": Prune(targets=("a", "b")),
    "reset": Reset(),
    "label: here": Label(target="abc", label="here"),
    "label: removed": Label(target="abc", label=""),
    "title: Login": Title(title="Login"),
    "title: removed": Title(),
    "custom": Message(role="custom"),
    "custom: todo": Custom(custom_type="todo", data=[1]),
    "custom todo: hi": CustomMessage(custom_type="todo", content=(Text("hi"),)),
    "usage: title": Usage(purpose="title"),
    "permission: allow": Permission(decision="allow", subject={"tool": "bash"}),
    "permission: allow bash(pytest *)": Permission(decision="allow", tool="bash", pattern="pytest *"),
    "permission: deny bash": Permission(decision="deny", tool="bash"),
    "permission: ask (rm *)": Permission(decision="ask", pattern="rm *"),
    "todo: 1/2 done: Test": Todo(
        items=(TodoItem("Mend", "completed"), TodoItem("Test", "in_progress"), TodoItem("No", "cancelled"))
    ),
    "todo: 0/0 done": Todo(),
    "plan: Mend it": PlanChange(plan="Mend it\nand test it"),
    "plan: removed": PlanChange(),
    "mark: archived": Mark(name="archived", value=""),
    "mark: tag removed": Mark(name="tag"),
    "mark: shared https://example.com/s": Mark(name="shared", value="https://example.com/s"),
    "checkpoint: before bash": Checkpoint(mode="edited", reason="before bash"),
    "checkpoint: edited": Checkpoint(mode="edited"),
    "fork: Login": Fork(session="s", agent="a", title="Login"),
    "fork: s": Fork(session="s", agent="a"),
    "source file: 1 superseded": SourceFile(superseded=("3:abc",)),
    "attachment: blob:sha256:ab, 1,200 bytes": Attachment(name="blob:sha256:ab", data=bytes(1_200)),
    "project: remote:h/p": Project(identity="remote:h/p"),
    "continuation": Continuation(session="s", entry="c", line=3),
    "seal: main": Seal(session="s", branch="main", leaf="c", entries=2, format="ssh", signature=b"x"),
    "purged: user message": Tombstone(of="ab" * 32, was="message", role="user"),
    "purged: title": Tombstone(of="ab" * 32, was="title", role="session"),
    "telepathy": UnknownEntry(name="telepathy", body={"wave": 7}),
}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_subject_describes_the_entry(subject):
    assert subject_of(render(headline(SUBJECTS[subject]), bytes(32), None)) == subject


def test_every_kind_has_a_subject_in_this_test():
    assert {type(entry) for entry in SUBJECTS.values()} == {*KINDS.values(), UnknownEntry}
    assert {entry.role for entry in SUBJECTS.values() if isinstance(entry, Message)} == set(ROLES)


@given(ENTRIES)
def test_every_entry_has_a_headline_with_its_kind_role_and_time(entry):
    said = headline(entry)
    assert (said.kind, said.at_ms) == (entry.kind, entry.at_ms)
    expected = {"message": getattr(entry, "role", ""), "custom_message": "custom", "tombstone": "tombstone"}
    assert said.role == expected.get(entry.kind, "session")
    assert said.label


def test_unknown_kind_is_labeled_by_its_name():
    said = headline(UnknownEntry(name="telepathy", at_ms=7))
    assert (said.kind, said.label, said.role, said.at_ms) == ("telepathy", "telepathy", "session", 7)


BODIES = {
    "a user's message": (Message.user("a\nb"), "a\nb"),
    "an assistant's message": (Message.assistant([Text("a"), CALL, Text("b")]), "a\nb"),
    "thinking": (Message.assistant([Thinking("a")]), ""),
    "what a tool gave back": (Message.tool(CALL, "a\nb"), ""),
    "a system prompt": (Message(role="system", content=(Text("a\nb"),)), ""),
    "a developer's prompt": (Message(role="developer", content=(Text("a\nb"),)), ""),
    "a shell command": (Message(role="shell", command="a\nb"), ""),
    "an extension's words": (CustomMessage(custom_type="c", content=(Text("a\nb"),)), "a\nb"),
    "a compaction, whose summary is a file beside it": (Compaction(summary="a\nb"), ""),
    "a branch summary, likewise": (BranchSummary(summary="a\nb"), ""),
    "a title": (Title(title="a\nb"), ""),
}


@pytest.mark.parametrize(("entry", "body"), BODIES.values(), ids=BODIES)
def test_body_is_the_text_of_the_conversation(entry, body):
    assert headline(entry).body == body


def test_model_needs_a_provider_and_a_model():
    assert headline(Message.assistant("a", provider="p", model="m")).model == "p/m"
    assert headline(Message.assistant("a", model="m")).model == ""
    assert headline(Message.assistant("a", provider="p", model="")).model == ""
    assert headline(ModelChange(provider="p", model="m")).model == ""


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0"), (999, "999"), (1_000, "1k"), (1_499, "1k"), (1_500, "2k"), (61_234, "61k")]
)
def test_tokens_are_counted_in_thousands_half_up(count, said):
    assert format_tokens(count) == said


OUTPUTS = {"": "no output", "\n": "1 line", "a": "1 line", "a\n": "1 line", "a\n\n": "2 lines", "\na": "2 lines"}


@pytest.mark.parametrize(("text", "said"), OUTPUTS.items())
def test_lines_are_counted_as_in_an_editor(text, said):
    assert line_count(text) == said


@pytest.mark.parametrize(
    ("text", "line"), [("", ""), (" \n\t\r\n", ""), ("\n  a b \r\nc", "a b"), ("\u3000\nb", "\u3000"), ("a\rb", "a\rb")]
)
def test_first_line_is_the_first_one_with_text(text, line):
    assert first_line(text) == line
