"""Writer of sessions as Markdown, for people to read. The file cannot be imported.

The text of one author must not look like the text of another. So lines that look like a heading of the export are
escaped. Tool results are in fences that their content cannot close. A fence that a text leaves open is closed. HTML
outside of code is escaped, because a viewer could run it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

from gitsession.formats.base.fields import to_iso
from gitsession.formats.base.outgoing import Outgoing, OutgoingLine, WrittenFile, describe_kind
from gitsession.model.blocks import Block, File, Image, Text, Thinking, ToolCall
from gitsession.model.entries import (
    BranchSummary,
    Compaction,
    CustomMessage,
    Entry,
    Label,
    Message,
    ModelChange,
    Reset,
    Title,
)
from gitsession.model.headline import clean
from gitsession.model.plain import plain

AGENT = "markdown"

_FENCE = re.compile(r"( {0,3})(`{3,}(?!.*`)|~{3,})")
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
    for each in history:
        if isinstance(each.entry, Title | Label):
            continue  # titles and labels are part of the headings
        texts = list(_paragraphs_of(each.entry))
        if not texts:
            notes[f"left out: {describe_kind(each.entry)}"] += 1
            continue
        author, *body = texts
        paragraphs += [_heading(author, each.entry.at_ms, labels.get(each.key, "")), *filter(None, body)]
    data = "\n\n".join(paragraphs).encode("utf-8", "replace")
    return WrittenFile(tuple(OutgoingLine(row) for row in data.split(b"\n")), +notes)


def _head(out: Outgoing) -> Iterator[str]:
    session = out.session
    yield f"# {_one_line(out.name() or f'Session {session.source_id}')}"
    facts = {"session": session.source_id, "agent": session.agent, "folder": session.cwd}
    facts["started"] = _time(session.at_ms)
    yield "\n".join(f"- {name}: {_one_line(value)}" for name, value in facts.items() if value)


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


def _paragraphs_of(entry: Entry) -> Iterator[str]:
    """Yield the author and then the paragraphs of an entry, or nothing if the entry has no readable form."""
    match entry:
        case Message(role="shell"):
            yield "shell"
            yield _fenced(f"$ {entry.command or ''}\n{entry.output or ''}".rstrip())
        case Message(role="tool"):
            yield f"tool {_one_line(entry.tool_name or '')}".rstrip() + (", failed" if entry.is_error else "")
            for block in entry.content:
                yield _fenced(block.text) if isinstance(block, Text) else _block(block)
        case Message():
            model = f" ({_one_line(entry.model)})" if entry.model else ""
            yield f"{_one_line(entry.role)}{model}"
            yield from map(_block, entry.content)
            if entry.failed:
                yield f"*{entry.stop}{': ' + _one_line(entry.error) if entry.error else ''}*"
        case CustomMessage():
            yield f"extension {_one_line(entry.custom_type)}"
            yield from map(_block, entry.content)
        case Compaction():
            yield "summary of earlier entries"
            yield _escape(entry.summary)
        case BranchSummary():
            yield "summary of an abandoned branch"
            yield _escape(entry.summary)
        case ModelChange():
            yield f"model {_one_line('/'.join(filter(None, (entry.provider, entry.model))))}"
        case Reset():
            yield "context reset"


def _block(block: Block) -> str:
    match block:
        case Text():
            return _escape(block.text)
        case Thinking():
            return "\n".join(f"> {line}" for line in _escape(block.text).split("\n")) if block.text.strip() else ""
        case ToolCall():
            arguments = json.dumps(plain(block.arguments), indent=2, ensure_ascii=False, default=str)
            return f"**{_one_line(block.name)}**\n\n{_fenced(arguments, 'json')}"
        case Image():
            return f"*image: {_one_line(block.mime)}, {len(block.data):,} bytes*"
        case File():
            return f"*file: {_one_line(' '.join(filter(None, (block.name, block.mime, block.url))))}*"
    return ""  # an agent's notes, which are not part of the text


def _fenced(text: str, language: str = "") -> str:
    safe = printable(text)
    longest = max((len(run) for run in re.findall(r"`+", safe)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{safe}\n{fence}"


def _escape(text: str) -> str:
    """Escape the lines of ``text`` that look like headings of the export, and HTML outside of code.

    Programs that display Markdown differ in the text that they treat as code. So HTML is left unescaped only where all
    of them treat it as code: in a fence that begins at the first column, if no indented fence precedes it, because a
    list can end an indented fence early; and in a code span, if each line of the paragraph closes its own spans.
    """
    lines: list[str] = []
    paragraph: list[str] = []
    fence, is_certain = "", True
    for line in printable(text).split("\n"):
        found = _FENCE.match(line)
        if fence:
            closes = found and found[2].startswith(fence) and not line[found.end() :].strip()
            fence = "" if closes else fence
            lines.append(line if is_certain else _no_html(line))
        elif found or not line.strip():
            lines += [*_prose(paragraph), _no_html(line)]
            paragraph = []
            if found:
                fence = found[2]
                is_certain = is_certain and not found[1]
        else:
            paragraph.append(
                _HEADING.sub(lambda match: f"{match[0]}\\", line, count=1) if _HEADING.match(line) else line
            )
    lines += _prose(paragraph)
    return "\n".join([*lines, fence] if fence else lines).strip("\n")


def _prose(lines: list[str]) -> list[str]:
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
