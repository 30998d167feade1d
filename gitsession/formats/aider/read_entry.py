"""Reader of Aider's spans. The returned entries are views. The reader uses heuristics, because the file has no grammar.

``reread`` returns the messages that Aider itself reads from its history when it restores a conversation. Like Aider,
this function loses much of the content. It omits every line that begins with ``# ``. A line that begins with ``> ``
belongs to Aider, and a line that begins with ``#### `` belongs to the user. All other lines belong to the model.
Consecutive lines of one author form one message. Fences, commands and runs are not recognized. This behavior was
observed with Aider 0.86.2.
"""

from __future__ import annotations

from itertools import groupby

from gitsession.formats.aider import split_file
from gitsession.formats.aider.split_file import SpanKind, kind_of
from gitsession.formats.base.fields import to_ms
from gitsession.model.entries import Custom, Entry, Message, Opaque, Reset


def reread(data: bytes) -> list[tuple[str, str]]:
    """Return the messages that Aider sends when it restores a history.

    Each message consists of a role (``user`` or ``assistant``) and a text.
    """
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("# ")]
    messages = [(role, "".join(_text_of_line(line, role) for line in found)) for role, found in groupby(lines, _role)]
    return [(role, message_text) for role, message_text in messages if role != "tool" and message_text.strip()]


def _role(line: str) -> str:
    return "tool" if line.startswith("> ") else "user" if line.startswith("#### ") else "assistant"


def _text_of_line(line: str, role: str) -> str:
    return line[5:] if role == "user" else line


COMMAND = "aider:command"
"""The type of an entry with a user's command to Aider. ``data`` is the text of the command."""

OUTPUT = "aider:output"
"""The type of an entry with Aider's output. ``data`` is the list of lines."""

RESTORED = "aider:restored"
"""The type of an entry for the beginning of a run that restored the history. ``data`` is Aider's output."""


def entry_of(payload: bytes) -> Entry:
    """Return the entry in a span. Never raises."""
    match kind_of(payload):
        case SpanKind.RUN:
            return _run(payload)
        case SpanKind.USER:
            text = split_file.prompt(payload)
            return Custom(custom_type=COMMAND, data=text) if split_file.is_command(text) else Message.user(text)
        case SpanKind.TOOL:
            lines = split_file.output(payload)
            if any(line in split_file.CLEARED for line in lines):
                return Reset(extra={"output": lines})
            return Custom(custom_type=OUTPUT, data=lines)
        case SpanKind.ANSWER:
            return Message.assistant(split_file.answer(payload))
        case SpanKind.BLANK:
            return Opaque(payload=payload, problem="")


def _run(payload: bytes) -> Entry:
    """Return the entry for the beginning of a run.

    The context of a run is empty at first, unless the run restored the history.
    """
    run = split_file.run(payload)
    at_ms, lines = to_ms(run.started) or 0, list(run.lines)
    if run.restored:
        return Custom(at_ms=at_ms, custom_type=RESTORED, data=lines)
    return Reset(at_ms=at_ms, extra={"output": lines})
