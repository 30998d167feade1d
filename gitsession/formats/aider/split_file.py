"""Splitter of Aider's history files into spans. This module is FROZEN under view 1.

Aider's history is a Markdown file without ids. Aider appends to the file and does not mark the ends of answers. Prompts
and the lines that Aider prints itself end in two spaces, unlike the lines of an answer. A blank line precedes each
prompt and each answer. If Aider prints several lines at once, only the first begins with ``>``, and only the last ends
in two spaces.

A line in a fenced code block of an answer is not recognized as a prompt, as a line of Aider, or as the beginning of a
run. The only exception is the token count that Aider prints after every answer, because an answer can leave a fence
open. If an answer follows the line ``> ^C again to exit``, fences in this answer are ignored.

A span is a sequence of lines with their line endings. It includes the blank lines before its first line of text. The
spans together contain all bytes of the file. Each span is a child of the previous span. The bytes of a span determine
its kind (``kind_of``). Where a span begins depends on the earlier lines, on its first line of text, and on the two
lines after that line.
"""

from __future__ import annotations

import re
from enum import Enum
from hashlib import sha256
from typing import NamedTuple

from gitsession.errors import Malformed
from gitsession.formats.base.fields import storable, to_ms
from gitsession.formats.base.record import Record, Source
from gitsession.model.entries import SessionHeader

LF = b"\n"


class SpanKind(Enum):
    """The kind of a span: blank lines, the beginning of a run, a prompt, output of Aider, or an answer of the model."""

    BLANK = "blank"
    RUN = "run"
    USER = "user"
    TOOL = "tool"
    ANSWER = "answer"


RUN = re.compile(rb"# aider chat started at ([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})[ \t]*")

_FENCE = re.compile(rb" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)
_BROKEN_OFF = b"> ^C again to exit"
_TWO_SPACES = b"  "


def split_spans(data: bytes, *, final: bool = False) -> tuple[tuple[Record, ...], bytes]:
    """Return the complete spans of a history as records, and the bytes after these spans.

    The line number of a record is the number of the last line in the span. Aider may append to the last span of the
    file, so that span is complete only if ``final`` is true.
    """
    lines = data.splitlines(keepends=True) if b"\r" not in data else _lines(data)
    complete = len(lines) if final or not lines or lines[-1].endswith(LF) else len(lines) - 1
    spans: list[Record] = []
    previous: int | None = None
    start = 0
    reader = _Reader(lines, complete, final)
    for at in range(complete):
        is_start = reader.begins(at)
        if is_start is None:
            break
        if is_start:
            spans.append(Record(reader.end_of_text, b"".join(lines[start : reader.end_of_text]), previous))
            start = previous = reader.end_of_text
        if _bare(lines[at]).strip():
            reader.end_of_text = at + 1
    rest = b"".join(lines[start:])
    if final and rest:
        return (*spans, Record(len(lines), rest, previous)), b""
    return tuple(spans), rest


def kind_of(payload: bytes) -> SpanKind:
    """Return the kind of the span ``payload``."""
    all_lines = [_bare(line) for line in _lines(payload)]
    lines = [line for line in all_lines if line.strip()]
    if not lines:
        return SpanKind.BLANK
    no_blank = bool(all_lines[0].strip())
    if RUN.fullmatch(lines[0]) and len(lines) > 1 and _is_quoted(lines[1]):
        return SpanKind.RUN
    if all(_is_prompt(line) for line in lines):
        return SpanKind.USER
    if _is_quoted(lines[0]) and (no_blank or lines[0].endswith(_TWO_SPACES) or all(map(_is_quoted, lines))):
        return SpanKind.TOOL
    return SpanKind.ANSWER


def begins_run(head: bytes) -> bool:
    """Return whether a run begins in ``head``, the beginning of a file.

    The two lines after the first line of the run are checked too, because an answer can contain a similar line.
    """
    lines = [_bare(line) for line in _lines(head)]
    return any(
        RUN.fullmatch(line) and not lines[at + 1].strip() and _is_quoted(lines[at + 2])
        for at, line in enumerate(lines[:-2])
        if line.startswith(b"# ")
    )


class _Reader:
    """The state of the splitter after the lines that it has read. The kind of the next line depends on this state."""

    def __init__(self, lines: list[bytes], complete: int, final: bool) -> None:
        self.lines = lines
        self.complete = complete
        self.final = final
        self.open_kind = SpanKind.BLANK
        self.after_blank = True
        self.end_of_text = 0  # the index after the last line that is not blank
        self.is_continued = False  # whether the text that Aider prints continues on the next line
        self.run_head = 0  # the lines before this index belong to the beginning of a run
        self.end = _TWO_SPACES  # the end of Aider's own lines; b"" if an editor removed trailing spaces
        self.fence: bytes | None = None
        self.tracks_fences = True
        self.broken_off = False

    def begins(self, at: int) -> bool | None:
        """Return whether a span begins at line ``at``, or ``None`` if this depends on lines that are still missing."""
        line = _bare(self.lines[at])
        if at < self.run_head:
            return False
        if not line.strip():
            self.after_blank = True
            return False
        kind = self._kind(at, line)
        if kind is None:
            return None
        if self.is_continued and not (kind is SpanKind.RUN or (kind is SpanKind.USER and self.after_blank)):
            self.is_continued = not line.endswith(_TWO_SPACES)
            self.after_blank = False
            return False
        self.is_continued = kind is SpanKind.TOOL and not line.endswith(self.end)
        begins = self.open_kind is not SpanKind.BLANK and self._is_other(kind)
        if begins or self.open_kind is SpanKind.BLANK:
            self._enter(kind, at)
        if kind is SpanKind.TOOL:
            self.broken_off = line.rstrip() == _BROKEN_OFF
        elif kind is SpanKind.ANSWER and self.tracks_fences:
            self._track_fence(line)
        self.after_blank = False
        return begins

    def _is_other(self, kind: SpanKind) -> bool:
        if kind is SpanKind.ANSWER or self.open_kind is SpanKind.ANSWER:
            return kind is not self.open_kind
        joins = kind is self.open_kind or (kind is SpanKind.TOOL and self.open_kind is SpanKind.RUN)
        return not joins or self.after_blank

    def _enter(self, kind: SpanKind, at: int) -> None:
        self.open_kind = kind
        self.fence = None
        self.tracks_fences = not (kind is SpanKind.ANSWER and self.broken_off)
        self.broken_off = False
        if kind is SpanKind.RUN:
            self.run_head = at + 2
            self.end = _TWO_SPACES if _bare(self.lines[at + 2]).endswith(_TWO_SPACES) else b""

    def _kind(self, at: int, line: bytes) -> SpanKind | None:
        if self.fence is not None:
            return SpanKind.TOOL if self.after_blank and _is_token_count(line) else SpanKind.ANSWER
        if line.startswith(b"# ") and RUN.fullmatch(line):
            return self._run(at)
        if _is_prompt(line) and line.endswith(self.end) and (self.after_blank or self.open_kind is SpanKind.USER):
            return SpanKind.USER
        if _is_quoted(line) and (line.endswith(self.end) or self._is_aiders_before()):
            return SpanKind.TOOL
        return SpanKind.ANSWER

    def _is_aiders_before(self) -> bool:
        """Return whether the previous line is not blank and is not part of an answer.

        The next line cannot belong to an answer in this case, because an answer begins after a blank line.
        """
        return not self.after_blank and self.open_kind in (SpanKind.RUN, SpanKind.USER, SpanKind.TOOL)

    def _run(self, at: int) -> SpanKind | None:
        next_lines = [_bare(line) for line in self.lines[at + 1 : min(at + 3, self.complete)]]
        if next_lines and next_lines[0].strip():
            return SpanKind.ANSWER
        if len(next_lines) < 2:
            return SpanKind.ANSWER if self.final else None
        return SpanKind.RUN if _is_quoted(next_lines[1]) else SpanKind.ANSWER

    def _track_fence(self, line: bytes) -> None:
        """Record whether a fence is open after ``line``, a line of an answer."""
        found = _FENCE.fullmatch(line)
        if found is None:
            return
        mark, rest = found[1], found[2]
        if self.fence is None:
            if mark[:1] == b"~" or b"`" not in rest:
                self.fence = mark
        elif mark[:1] == self.fence[:1] and len(mark) >= len(self.fence) and not rest.strip():
            self.fence = None


def _is_token_count(line: bytes) -> bool:
    """Return whether a line is the token count that Aider prints after an answer.

    No regular expression is used, because a malicious line could make the search slow.
    """
    return line.startswith(b"> Tokens: ") and 0 <= line.find(b" sent, ") < line.rfind(b" received.")


def _is_prompt(line: bytes) -> bool:
    return line.startswith(b"#### ") or line == b"####"


def _is_quoted(line: bytes) -> bool:
    return line.startswith(b"> ") or line == b">"


def _bare(line: bytes) -> bytes:
    return line.removesuffix(LF).removesuffix(b"\r")


def _lines(data: bytes) -> list[bytes]:
    """Return the lines of ``data`` with their line endings. Only LF ends a line, because a CR can be content."""
    lines = [line + LF for line in data.split(LF)]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


CLEARED = ("All chat history cleared.", "All files dropped and chat history cleared.")
"""The lines that Aider prints after ``/clear`` and ``/reset``. After such a line, the context is empty."""

RESTORED = "Restored previous conversation history."
"""The line that Aider prints after it has restored the history, for the option ``--restore-chat-history``."""

APPLIED = "Applied edit to "
"""The beginning of the line with which Aider reports that it has changed a file."""

COMMITTED = "I committed the changes with git hash {hash} & commit msg: {message}"
UPDATED = "I updated the files."
"""The user messages that Aider adds to the conversation after it has changed files. The answer ``OK`` follows."""

RAN = "I ran this command:\n\n{command}\n\nAnd got this output:\n\n{output}\n"
"""The user message that Aider adds if the user ran a command and added the output to the conversation."""

OK = "Ok."
SUMMARY_PREFIX = "I spoke to you previously about a number of things.\n"
"""The beginning of a user message with a summary."""


class Run(NamedTuple):
    """The values in the beginning of a run.

    ``started``: the local time at which the run started, as in the file. ``restored``: whether the run restored the
    history. ``lines``: the lines that Aider printed. A text that is not in the file is "".
    """

    started: str
    version: str
    model: str
    restored: bool
    lines: tuple[str, ...]


class AiderCommit(NamedTuple):
    """The short hash and the message of a commit that Aider made."""

    hash: str
    message: str


def prompt(payload: bytes) -> str:
    """Return the text that the user typed."""
    lines = [line.removeprefix("####").removeprefix(" ").removesuffix("  ") for line in _text_lines(payload)]
    text = "\n".join(lines)
    return "" if text == "<blank>" else text


def is_command(text: str) -> bool:
    """Return whether a prompt is a command to Aider and not a message to the model."""
    return text.startswith(("/", "!"))


def answer(payload: bytes) -> str:
    """Return the text of the model's answer."""
    return _text(payload).strip(" \t\r\n")


def output(payload: bytes) -> list[str]:
    """Return the lines that Aider printed."""
    return [line.removeprefix(">").strip(" \t") for line in _text_lines(payload)]


def run(payload: bytes) -> Run:
    """Return the values in the beginning of a run."""
    head, *_ = _text_lines(payload)
    found = RUN.fullmatch(head.encode())
    lines = tuple(line.removeprefix(">").strip(" \t") for line in _text_lines(payload)[1:])
    version = next((match[1] for line in lines if (match := _VERSION.fullmatch(line))), "")
    model = next((match[1] for line in lines if (match := _MODEL.match(line))), "")
    return Run(found[1].decode() if found else "", version, model, RESTORED in lines, lines)


def commits(lines: list[str]) -> list[AiderCommit]:
    """Return the commits that Aider reports in ``lines``."""
    return [AiderCommit(found[1], found[2]) for line in lines if (found := _COMMIT.fullmatch(line))]


_VERSION = re.compile(r"Aider v(\S{1,40})")
_MODEL = re.compile(r"(?:Main m|M)odel: (\S{1,120})")
_COMMIT = re.compile(r"Commit ([0-9a-f]{4,40}) (.*)")


def _text_lines(payload: bytes) -> list[str]:
    """Return the lines that are not blank, without their line endings."""
    lines = [line.removesuffix("\r") for line in _text(payload).split("\n")]
    return [line for line in lines if line.strip(" \t\r")]


def _text(payload: bytes) -> str:
    return payload.decode("utf-8", "replace")


AGENT = "aider"
NAME = ".aider.chat.history"
"""The default name of Aider's history file, without the suffix. The file is in the top folder of the repository."""


def split(data: bytes, *, name: str = "", final: bool = False) -> Source:
    """Split a file as ``Format.split`` does."""
    first = _first_line(data)
    if not first:
        raise Malformed("the file has no text yet", hint="try again when Aider has written to it")
    folder, _, file_name = name.rpartition("/")
    found = RUN.fullmatch(first)
    started = found[1].decode() if found else ""
    # The file contains no session id. Only the first line of the file never changes, so the id is derived from this
    # line. The name of the folder is added because a script can start runs in many folders in the same second.
    key = started.replace(" ", "T") if started else sha256(first).hexdigest()[:16]
    source_id = "@".join(filter(None, (folder.rpartition("/")[2], key)))
    source_id = storable(source_id)
    records, tail = split_spans(data, final=final)
    return Source(
        agent=AGENT,
        source_id=source_id,
        started_ms=to_ms(started) or 0,
        records=records,
        tail=tail,
        header=SessionHeader(agent=AGENT, source_id=source_id, cwd=folder if file_name == NAME and folder else None),
    )


def _first_line(data: bytes) -> bytes:
    """Return the first complete line of ``data`` that is not blank, or b"" if there is none."""
    at = 0
    while (end := data.find(LF, at)) >= 0:
        line = data[at:end].strip()
        if line:
            return line
        at = end + 1
    return b""
