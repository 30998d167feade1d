"""The content of an entry as people read it: a sequence of parts, which the terminal, Markdown and web pages show.

Tool calls have their action, and results have the action of their call and the outcome. ``show``, ``browse``, the
Markdown export and the web pages differ only in the form of each part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gitsession.model.blocks import File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import (
    BranchSummary,
    Compaction,
    CustomMessage,
    Entry,
    Instructions,
    Mark,
    Message,
    ModeChange,
    ModelChange,
    Opaque,
    Permission,
    PlanChange,
    Reset,
    ThinkingChange,
    Todo,
    Tombstone,
)
from gitsession.model.session_state import rule_of
from gitsession.model.todo_lists import todo_line, todo_summary

if TYPE_CHECKING:
    from gitsession.model.tool_actions import ToolAction, ToolOutcome

FindCall: TypeAlias = Callable[[str], ToolCall | None]
"""A function that returns the tool call with an id, from the entries before the result."""

_LONG_ARGUMENT_CHARS = 160

_OPEN_LINES_MAX, _OPEN_FAILURE_LINES_MAX, _OPEN_CHARS_MAX = 6, 40, 2000


class CallPart(NamedTuple):
    """A tool call, or the edits in the text of an answer.

    Attributes:
        action: The requested action.
        id: The agent's id of the call; "" if there is none.
        arguments: The arguments, if the title of the action does not show all of them.
        is_text: Whether the edits are in the text of an answer, which is another part.
    """

    action: ToolAction
    id: str = ""
    arguments: Mapping[str, Any] = {}
    is_text: bool = False

    @property
    def is_command(self) -> bool:
        """True if the command is the only text in the arguments."""
        return self.action.verb == "run" and sum(isinstance(value, str) for value in self.arguments.values()) == 1


class OutputPart(NamedTuple):
    """The result of a tool call, or a command of the user with its output.

    Attributes:
        action: The action of the call. If the call is unknown, its title is the name of the tool.
        outcome: The outcome.
        text: The output.
        result: The message of the result.
    """

    action: ToolAction
    outcome: ToolOutcome
    text: str
    result: Message

    @property
    def title(self) -> str:
        """One line, such as ``bash: pytest -q  [exit 1, 49 lines]``."""
        return f"{self.action.title}  [{self.outcome.text}]"

    @property
    def is_long(self) -> bool:
        """True if the output should be folded."""
        lines_max = _OPEN_FAILURE_LINES_MAX if self.outcome.failed else _OPEN_LINES_MAX
        return self.text.count("\n") >= lines_max or len(self.text) >= _OPEN_CHARS_MAX


class NotePart(NamedTuple):
    """One line of text: the change of a setting, the reason why an answer ended, or an unreadable entry."""

    text: str
    failed: bool = False


Part: TypeAlias = Text | Thinking | Image | File | OtherBlock | CallPart | OutputPart | NotePart


def heading_of(entry: Entry) -> tuple[str, str]:
    """Return the author of an entry, and the model of an answer or the name of an extension.

    Both can be "". The entries without an author are settings, whose only part is a note.
    """
    match entry:
        case Message():
            return entry.role, (entry.model or "") if entry.role == "assistant" else ""
        case CustomMessage():
            return "extension", entry.custom_type
        case Compaction():
            return "summary of earlier entries", ""
        case BranchSummary():
            return "summary of an abandoned branch", ""
        case Instructions():
            return "instructions", ""
    return "", ""


def is_aside(entry: Entry) -> bool:
    """Return whether neither the user nor the model wrote the text of ``entry``, so that it should be folded."""
    return isinstance(entry, CustomMessage | Instructions) or (
        isinstance(entry, Message) and entry.role not in ("user", "assistant", "tool", "shell")
    )


def parts_of(entry: Entry, folder: str = "", find_call: FindCall = lambda _: None) -> Iterator[Part]:
    """Yield the parts of an entry; nothing if the entry has no readable form.

    Args:
        entry: The entry.
        folder: The working directory of the session; "" if it is unknown. Paths in it are shown relative to it.
        find_call: A function that returns the call of a result.
    """
    match entry:
        case Message(role="shell" | "tool"):
            yield from _result(entry, folder, find_call)
        case Message() | CustomMessage():
            yield from _content(entry, folder, find_call)
        case Compaction() | BranchSummary():
            yield Text(entry.summary)
        case Instructions():
            yield from (Text(text) for text in (entry.system_prompt, entry.task) if text)
        case _:
            note = _note(entry)
            if note:
                yield NotePart(note, isinstance(entry, Opaque))


def _content(entry: Message | CustomMessage, folder: str, find_call: FindCall) -> Iterator[Part]:
    calls = {block.id: block for block in entry.content if isinstance(block, ToolCall)}
    for block in entry.content:
        match block:
            case ToolCall():
                yield _call(block, folder)
            case Text() | Thinking():
                if block.text.strip():
                    yield block
                if isinstance(block, Text) and isinstance(entry, Message) and entry.role == "assistant":
                    yield from _edits(block, folder)
            case OtherBlock():
                from gitsession.model.results import result_in

                result = result_in(block)
                if result is None:
                    yield block
                else:
                    yield from _result(result, folder, lambda id: calls.get(id) or find_call(id))
            case _:
                yield block
    if isinstance(entry, Message) and entry.failed:
        yield NotePart(f"{entry.stop}{f': {entry.error}' if entry.error else ''}", failed=True)


def _edits(text: Text, folder: str) -> Iterator[CallPart]:
    if "<<<<< SEARCH" in text.text:  # most texts contain no edits
        from gitsession.model.tool_actions import edit_action, edits_of

        edits = edits_of(text, folder)
        if edits:
            yield CallPart(edit_action("edit", edits), is_text=True)


def _call(call: ToolCall, folder: str) -> CallPart:
    from gitsession.model.tool_actions import action_of

    action = action_of(call, folder)
    arguments = call.arguments if isinstance(call.arguments, Mapping) else {}
    texts = [value for value in arguments.values() if isinstance(value, str)]
    is_shown = action.edits or (action.verb in ("run", "read", "search") and all(map(_is_short, texts)))
    return CallPart(action, call.id, {} if is_shown else arguments)


def _is_short(value: str) -> bool:
    return len(value) <= _LONG_ARGUMENT_CHARS and "\n" not in value


def _result(result: Message, folder: str, find_call: FindCall) -> Iterator[Part]:
    from gitsession.model.tool_actions import action_of, named_action, outcome_of, shell_action

    if result.role == "shell":
        action, text = shell_action(result.command or ""), result.output or ""
    else:
        call = find_call(result.tool_call_id) if result.tool_call_id else None
        action, text = action_of(call, folder) if call else named_action(result.tool_name), result.text
    yield OutputPart(action, outcome_of(result), text, result)
    yield from (block for block in result.content if isinstance(block, Image | File))


def _note(entry: Entry) -> str:
    match entry:
        case ModelChange():
            return f"Model: {'/'.join(filter(None, (entry.provider, entry.model)))}"
        case ThinkingChange():
            return f"Thinking level: {entry.level}"
        case ModeChange():
            return f"Mode: {entry.mode}"
        case Permission():
            scope = "" if entry.scope == "once" else f" ({entry.scope})"
            return f"Permission: {entry.decision} {rule_of(entry)}".rstrip() + scope
        case Todo():
            return "\n".join([f"Todo list: {todo_summary(entry.items)}", *map(todo_line, entry.items)])
        case PlanChange():
            return f"Plan:\n{entry.plan}" if entry.plan else "Plan removed"
        case Mark():
            return (
                f"Mark: {entry.name} {entry.value}".rstrip()
                if entry.value is not None
                else f"Mark removed: {entry.name}"
            )
        case Reset():
            return "Context reset"
        case Tombstone():
            return "This entry was purged."
        case Opaque(problem=problem) if problem:
            return f"This entry cannot be read: {problem}"
    return ""


def file_name(file: File) -> str:
    """Return the name, the type and the address of a file, as far as they are known."""
    return " ".join(filter(None, (file.name, file.mime, file.url)))


def kind_of_block(block: OtherBlock) -> str:
    """Return the agent's name of the type of a block; "" if it is unknown."""
    kind = block.value.get("type") if isinstance(block.value, Mapping) else None
    return kind if isinstance(kind, str) else ""
