"""Reader of Aider's spans. The returned entries are views, which may change between releases.

The reader uses heuristics, because Aider does not define a grammar for its history files.

``reread`` reads a history in the same way as Aider does when it restores a conversation. Much of the content is lost.
Lines that begin with ``# `` are omitted. Lines that begin with ``> `` are attributed to Aider, lines that begin with
``#### `` are attributed to the user, and all other lines are attributed to the model. Consecutive lines of one author
form one message. Fenced code blocks, commands, and the beginnings of runs are not recognized. This behavior was
observed with Aider 0.86.2.
"""

from __future__ import annotations

from itertools import groupby

from gitsession.formats.aider import split_file
from gitsession.formats.aider.split_file import SpanKind, kind_of
from gitsession.formats.base.fields import to_ms
from gitsession.model.entries import Custom, Entry, Message, Opaque, Reset


def reread(data: bytes) -> list[tuple[str, str]]:
    """Return the messages that Aider sends to the model after it has restored the history ``data``.

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
"""The type of a ``Custom`` entry with a command from the user to Aider. ``data`` is the text of the command."""

OUTPUT = "aider:output"
"""The type of a ``Custom`` entry with Aider's output. ``data`` is the list of output lines."""

RESTORED = "aider:restored"
"""The type of a ``Custom`` entry for a run that restored the history. ``data`` is the list of Aider's output lines."""


def entry_of(payload: bytes) -> Entry:
    """Return the entry that the span ``payload`` represents. Never raises."""
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

    The entry is a ``Reset`` unless the run restored the history, because the context of a new run is empty.
    """
    run = split_file.run(payload)
    at_ms, lines = to_ms(run.started) or 0, list(run.lines)
    if run.restored:
        return Custom(at_ms=at_ms, custom_type=RESTORED, data=lines)
    return Reset(at_ms=at_ms, extra={"output": lines})
