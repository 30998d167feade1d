"""Tool calls and their results as people read them: the command, the file, or the query, and the outcome.

Every agent names its tools and their arguments differently, so a call is recognized by its arguments.
No function in this module raises an exception.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gitsession.model.blocks import Block, Text, ToolCall
from gitsession.model.entries import Message
from gitsession.model.file_edits import (
    PATHS,
    FileEdit,
    edits_in,
    edits_in_command,
    edits_in_text,
    first_text,
    relative,
)
from gitsession.model.headline import clean, line_count
from gitsession.model.session_state import todos_of_call
from gitsession.model.todo_lists import todo_summary

_COMMANDS = ("command", "cmd", "script")
_FOLDERS = ("workdir", "working_directory")
_QUERIES = ("pattern", "query", "regex", "url", "q")
_TASKS = ("description", "prompt", "message", "task", "name", "skill")
_SUBJECT_CHARS_MAX = 1000


class ToolAction(NamedTuple):
    """The action that a tool call requests.

    Attributes:
        tool: The name of the tool, such as ``bash``.
        verb: ``run``, ``edit``, ``read``, ``search``, ``delegate`` or ``other``.
        subject: The command, the paths, the query, or the task, on one line; "" if there is none.
        edits: The requested changes of files.
        command: The whole command, with its line ends; "" if the call runs none. If the command begins with patches
            (codex), only the rest.
        path: The file that the call reads; "" if it reads none.
    """

    tool: str
    verb: str
    subject: str
    edits: tuple[FileEdit, ...] = ()
    command: str = ""
    path: str = ""

    @property
    def title(self) -> str:
        """One line, such as ``bash: pytest -q`` or ``edit auth.py +3 -1``."""
        if self.edits:
            rest = f"; {_one_line(self.command)}" if self.command else ""
            return f"{self.tool} {', '.join(f'{_one_line(edit.path)} {edit.size}' for edit in self.edits)}{rest}"
        if not self.subject:
            return self.tool
        return f"{self.tool}: {self.subject}" if self.verb == "run" else f"{self.tool} {self.subject}"


def action_of(call: ToolCall, folder: str = "") -> ToolAction:
    """Return the action of a tool call. Paths in ``folder`` are relative to it.

    ``folder``: the working directory of the session; "" if it is unknown.
    """
    tool = _one_line(call.name) or "tool"
    arguments = _arguments(call.arguments)
    edits, command = edits_in(arguments), ""
    if not edits:
        command = next(filter(None, (_command(arguments.get(name)) for name in _COMMANDS)), "")
        edits, command = edits_in_command(command)
    if edits:
        made_in = first_text(arguments, _FOLDERS) or ""
        return edit_action(tool, (edit.made_in(made_in).relative_to(folder) for edit in edits), command)
    if command:
        return ToolAction(tool, "run", _one_line(command.removeprefix(f"cd {folder} && ")), command=command)
    path, query = relative(first_text(arguments, PATHS) or "", folder), first_text(arguments, _QUERIES)
    if query:
        return ToolAction(tool, "search", _one_line(query) + (f" in {_one_line(path)}" if path else ""))
    if path:
        return ToolAction(tool, "read", _one_line(path) + _range(arguments), path=path)
    todos = todos_of_call(call)
    if todos:
        return ToolAction(tool, "other", _one_line(todo_summary(todos)))
    task = first_text(arguments, _TASKS)
    if task:
        return ToolAction(tool, "delegate", _one_line(task))
    return ToolAction(tool, "other", _one_line(next((v for v in arguments.values() if isinstance(v, str)), "")))


def edits_of(block: Block, folder: str = "") -> tuple[FileEdit, ...]:
    """Return the changes of files that a block requests: a tool call, or the text of an answer (Aider).

    Paths in ``folder`` are relative to it.
    """
    if isinstance(block, ToolCall):
        return action_of(block, folder).edits
    if isinstance(block, Text):
        return tuple(edit.relative_to(folder) for edit in edits_in_text(block.text))
    return ()


def edit_action(tool: str, edits: Iterable[FileEdit], command: str = "") -> ToolAction:
    """Return the action that requests changes of files, and then runs a command."""
    edits = tuple(edits)
    subject = ", ".join(_one_line(edit.path) for edit in edits)
    return ToolAction(tool, "run" if command else "edit", subject, edits, command)


def shell_action(command: str) -> ToolAction:
    """Return the action of a command that the user ran."""
    return ToolAction("!", "run", _one_line(command), command=command)


def named_action(tool: str | None) -> ToolAction:
    """Return the action of a call of which only the name of the tool is known."""
    return ToolAction(_one_line(tool or "") or "tool", "other", "")


def _arguments(arguments: Any) -> Mapping[str, Any]:
    """Return the arguments of a call. Some agents store them as JSON text in a single argument."""
    if not isinstance(arguments, Mapping):
        return {}
    for name in ("arguments", "input"):
        text = arguments.get(name)
        if len(arguments) == 1 and isinstance(text, str) and text.startswith("{"):
            try:
                parsed = json.loads(text)
            except (ValueError, RecursionError):
                break
            return parsed if isinstance(parsed, dict) else arguments
    return arguments


def _command(value: Any) -> str:
    """Return a command line as text. Of a list such as ``["bash", "-lc", "ls"]``, return only the last part."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        return ""
    if len(value) == 3 and value[1] in ("-c", "-lc"):
        return str(value[2])
    return shlex.join(value)


def _range(arguments: Mapping[str, Any]) -> str:
    """Return the range of lines that a call reads, such as ``:20-29``."""
    start, number = arguments.get("offset"), arguments.get("limit")
    if type(start) is not int or start < 0:
        start = 1 if type(number) is int else 0
    if not start:
        return ""
    return f":{start}-{start + number - 1}" if type(number) is int and number > 0 else f":{start}"


def _one_line(text: str) -> str:
    return " ".join(clean(text[:_SUBJECT_CHARS_MAX]).split())


# ---- results


class ToolOutcome(NamedTuple):
    """The outcome of a tool call.

    Attributes:
        is_error: Whether the tool failed.
        exit_code: The exit code of a command; ``None`` if it is unknown.
        lines: The size of the output, such as ``49 lines``.
    """

    is_error: bool
    exit_code: int | None
    lines: str

    @property
    def failed(self) -> bool:
        """True if the tool failed, or if the command ended with an exit code other than 0."""
        return self.is_error or bool(self.exit_code)

    @property
    def text(self) -> str:
        """The outcome as text, such as ``exit 1, 49 lines`` or ``error, 1 line``."""
        problem = f"exit {self.exit_code}, " if self.exit_code else "error, " if self.is_error else ""
        return problem + self.lines


_END_CHARS, _BEGIN_CHARS = 200, 400
_EXIT_NAMES = ("exit_code", "exitCode", "exit")
_PI_EXIT = re.compile(r"Command exited with code (-?\d{1,9})\s*\Z")
_CODEX_HEAD = re.compile(
    r"(?:(?:Chunk ID|Wall time|Original token count|Exit code|Process exited with code|Output)\b[^\n]*\n)+"
)
_CODEX_EXIT = re.compile(r"(?:Exit code:|Process exited with code) (-?\d{1,9})\b")
_CODEX_FAILED = re.compile(r"apply_patch verification failed: |patch rejected(?: by user|: )|exec_command failed for `")
"""The beginning of codex's messages about calls that it did not run. It stores no flag for them."""

_CLAUDE_EXIT = re.compile(r"(?:Error: )?Exit code (\d{1,9})\b")


def outcome_of(result: Message) -> ToolOutcome:
    """Return the outcome of a tool call from its result, a message with the role ``tool`` or ``shell``."""
    if result.role == "shell":
        return ToolOutcome(result.is_error, result.exit_code, line_count(result.output or ""))
    text = result.text
    is_error = result.is_error or _CODEX_FAILED.match(text) is not None
    recorded = _recorded_exit(result.details)
    if text.startswith('{"output":') and recorded is None:
        text, recorded = _structured(text)
    head = _CODEX_HEAD.match(text, 0, _BEGIN_CHARS)
    if head and "Output" in head[0]:
        text = text[head.end() :]
        recorded = _code(_CODEX_EXIT.search(head[0]))
    if recorded is None:
        ended = _PI_EXIT.search(text, max(len(text) - _END_CHARS, 0))
        recorded = _code(ended or _CLAUDE_EXIT.match(text) if is_error or ended else None)
    return ToolOutcome(is_error, recorded, line_count(text))


def _recorded_exit(details: Any) -> int | None:
    """Return the exit code in the details of a result, or in their member ``metadata``."""
    for value in (details, details.get("metadata") if isinstance(details, Mapping) else None):
        if isinstance(value, Mapping):
            for name in _EXIT_NAMES:
                if type(value.get(name)) is int:
                    return int(value[name])
    return None


def _structured(text: str) -> tuple[str, int | None]:
    """Return the output and the exit code of a result that is a JSON object, as in older files of codex."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text, None
    output = value.get("output") if isinstance(value, dict) else None
    return (output, _recorded_exit(value)) if isinstance(output, str) else (text, None)


def _code(found: re.Match[str] | None) -> int | None:
    return int(found[1]) if found else None
