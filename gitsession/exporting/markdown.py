"""Writer of sessions as Markdown, for people to read. The file cannot be imported.

The text of one author must not look like the text of another. So lines that look like a heading of the export are
escaped. Output of tools, diffs and commands are in fences that their content cannot close. A fence that a text leaves
open is closed. HTML outside of code is escaped, because a viewer could run it. The only HTML of the export is
``<details>``, which folds thinking and long output.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

from gitsession.formats.base.fields import to_iso
from gitsession.formats.base.outgoing import Outgoing, OutgoingLine, WrittenFile, describe_kind
from gitsession.line_text import on_a_line
from gitsession.model.blocks import File, Image, Text, Thinking, ToolCall
from gitsession.model.code import fences, is_fence
from gitsession.model.entries import Entry, Label, Message, Title
from gitsession.model.entry_parts import CallPart, NotePart, OutputPart, Part, file_name, heading_of, is_aside, parts_of
from gitsession.model.headline import clean, line_count
from gitsession.model.plain import plain

AGENT = "markdown"

_HEADING = re.compile(r" {0,3}(?=#{1,2}\s|(?:=+|-+)\s*$)")
"""The beginning of a line that looks like a heading of the export."""
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)")
"""A code span within one line."""


def write(out: Outgoing) -> WrittenFile:
    """Write the history of the leaf.

    The notes of the result count the omitted entries: those of other branches, and those without a readable form.
    """
    notes: Counter[str] = Counter()
    labels, history = out.all_labels(), out.history()
    notes["left out: entries of other branches"] += len(out.entries) - len(history)
    paragraphs = list(_head(out))
    calls: dict[str, ToolCall] = {}
    for each in history:
        entry = each.entry
        if isinstance(entry, Title | Label):
            continue  # titles and labels are part of the headings
        if isinstance(entry, Message):
            calls |= {block.id: block for block in entry.content if isinstance(block, ToolCall)}
        texts = list(_texts_of(entry, list(parts_of(entry, out.session.cwd or "", calls.get))))
        if texts:
            author, *body = texts
            paragraphs += [_heading(author, entry.at_ms, labels.get(each.key, "")), *filter(None, body)]
        else:
            notes[f"left out: {describe_kind(entry)}"] += 1
        paragraphs += map(_begun, each.begun)
    data = "\n\n".join(paragraphs).encode("utf-8", "replace")
    return WrittenFile(tuple(OutgoingLine(row) for row in data.split(b"\n")), +notes)


def _head(out: Outgoing) -> Iterator[str]:
    session = out.session
    yield f"# {_one_line(out.name() or f'Session {session.source_id}')}"
    facts = {"session": session.source_id, "agent": session.agent, "folder": session.cwd}
    facts["started"] = _time(session.at_ms)
    yield "\n".join(f"- {name}: {_one_line(value)}" for name, value in facts.items() if value)
    yield from map(_begun, out.begun)


def _begun(session: str) -> str:
    """Return the line below the entry at which another session began, as ``tree`` shows it."""
    return f"↳ {_code(session)}"


def _heading(author: str, at_ms: int, label: str) -> str:
    parts = [author, _time(at_ms), f"‘{_one_line(label)}’" if label else ""]
    return f"## {' · '.join(filter(None, parts))}"


def _time(at_ms: int) -> str:
    return to_iso(at_ms)[:16].replace("T", " ") if at_ms > 0 else ""


def _one_line(text: str) -> str:
    return _no_html(" ".join(clean(text).split()))


def _no_html(text: str) -> str:
    """Return ``text`` with an HTML entity in place of every ``<`` that may begin a tag, a comment, or a link."""
    return _TAG.sub("&lt;", text)


def printable(text: str) -> str:
    """Return ``text`` without terminal control characters. Tabs are kept, because code may contain them."""
    return "\t".join(map(clean, text.split("\t")))


def _texts_of(entry: Entry, parts: list[Part]) -> Iterator[str]:
    """Yield the author and then the paragraphs of an entry, or nothing if the entry has no readable form."""
    author, about = heading_of(entry)
    if author:
        yield f"{_one_line(author)}{f' ({_one_line(about)})' if about else ''}"
        for part in parts:
            yield from _paragraphs(part, folds=is_aside(entry))
    else:  # a setting, whose note is the heading
        yield from (_one_line(part.text) for part in parts if isinstance(part, NotePart))


def _paragraphs(part: Part, *, folds: bool) -> Iterator[str]:
    """Yield the paragraphs of a part of an entry. ``folds``: whether text is folded and not formatted."""
    match part:
        case Text():
            yield _folded(line_count(part.text), _fenced(part.text)) if folds else _escape(part.text)
        case Thinking():
            yield _folded("thinking", _escape(part.text))
        case CallPart():
            yield from _call(part)
        case OutputPart():
            yield from _output(part)
        case NotePart():
            yield f"*{_one_line(part.text)}*"
        case Image():
            yield f"*image: {_one_line(part.mime)}, {len(part.data):,} bytes*"
        case File():
            yield f"*file: {_one_line(file_name(part))}*"


def _call(call: CallPart) -> Iterator[str]:
    action = call.action
    yield _code(action.title)
    for edit in action.edits:
        if edit.moved_to or len(action.edits) > 1:
            yield _code(f"{edit.path}{f' → {edit.moved_to}' if edit.moved_to else ''}  {edit.change} {edit.size}")
        if edit.lines:
            yield _fenced("\n".join(edit.lines), "diff")
    if call.arguments and call.is_command:
        yield _fenced(action.command.strip("\n"), "sh")
    elif call.arguments:
        yield _fenced(json.dumps(plain(call.arguments), indent=2, ensure_ascii=False, default=str), "json")


def _output(output: OutputPart) -> Iterator[str]:
    if output.result.role == "shell":
        yield _fenced(f"$ {output.action.command}\n{output.text}".rstrip())
        if output.outcome.failed:
            yield f"*{output.outcome.text}*"
        return
    yield _code(output.title)
    if output.text.strip():
        fenced = _fenced(output.text)
        yield _folded("output", fenced) if output.is_long else fenced


def _folded(title: str, body: str) -> str:
    """Return ``body``, which a viewer shows when the reader opens it. No line of it can end the fold."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _code(text: str) -> str:
    """Return one line as code."""
    line = on_a_line(text).strip()
    longest = _longest_run(line)
    if longest > 1:  # a line that begins with three backticks could open a fence
        return _fenced(line)
    mark = "`" * (longest + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{mark}{space}{line}{space}{mark}"


def _fenced(text: str, language: str = "") -> str:
    safe = printable(text)
    fence = "`" * max(3, _longest_run(safe) + 1)
    return f"{fence}{language}\n{safe}\n{fence}"


def _longest_run(text: str) -> int:
    """Return the length of the longest sequence of backticks in ``text``."""
    return max(map(len, re.findall(r"`+", text)), default=0)


def _escape(text: str) -> str:
    """Escape the lines of ``text`` that look like headings of the export, and HTML outside of code.

    Programs that display Markdown differ in the text that they treat as code. So HTML is left unescaped only where all
    of them treat it as code: in a fence that begins at the first column, if no indented fence precedes it, because a
    list can end an indented fence early; and in a code span, if each line of the paragraph closes its own spans.
    """
    source = printable(text).split("\n")
    lines: list[str] = []
    start, is_certain = 0, True
    for fence in fences(source):
        is_certain = is_certain and not fence.indent
        lines += [*_prose(source[start : fence.start]), _no_html(source[fence.start])]
        start = fence.end + 1
        code = source[fence.start + 1 : start]
        lines += code if is_certain else map(_no_html, code)
        if fence.end == len(source):
            lines.append(fence.mark)
    return "\n".join([*lines, *_prose(source[start:])]).strip("\n")


def _prose(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines outside of blocks of code, with headings, fences and HTML escaped."""
    for _, group in groupby(lines, key=lambda line: bool(line.strip())):
        yield from _paragraph(list(map(_as_text, group)))


def _as_text(line: str) -> str:
    """Return ``line`` with a backslash before a mark that would make it a heading, or would open a block of code."""
    found = _HEADING.match(line)
    at = found.end() if found else len(line) - len(line.lstrip(" "))
    return f"{line[:at]}\\{line[at:]}" if found or is_fence(line) else line


def _paragraph(lines: list[str]) -> list[str]:
    """Return the lines of a paragraph with HTML escaped.

    Code spans are not escaped if every line closes its own spans.
    """
    if any("`" in _SPAN.sub("", line) or "\\`" in line for line in lines):
        return [_no_html(line) for line in lines]
    return [_outside_code(line) for line in lines]


def _outside_code(line: str) -> str:
    """Return ``line`` with HTML escaped outside of code spans.

    In code spans with ``|``, HTML is escaped too. This character can end a table cell, and thereby the code span.
    """
    parts, at = [], 0
    for span in _SPAN.finditer(line):
        code = span[0]
        parts += [_no_html(line[at : span.start()]), _no_html(code) if "|" in code else code]
        at = span.end()
    return "".join([*parts, _no_html(line[at:])])
