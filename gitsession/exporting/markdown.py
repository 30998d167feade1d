"""A session as Markdown, for people: who said what, in order. Nothing takes such a file in again.

What somebody said must not look like what somebody else said: a line that reads like one of our headings is escaped,
results of tools stand in fences that nothing in them closes, and a fence left open is closed. HTML outside code is
escaped: a viewer that renders it would run it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

from gitsession.formats.base.fields import to_iso
from gitsession.formats.base.outgoing import Outgoing, OutgoingEntry, OutgoingLine, WrittenFile, called
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
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
_OURS = re.compile(r" {0,3}(?=#{1,2}\s|(?:=+|-+)\s*$)")
"""The beginning of a line that reads like one of our headings."""
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)")
"""A code span within one line."""


def write(out: Outgoing) -> WrittenFile:
    """``Writer``: the line to the leaf. ``notes``: what has no words to be read, and other branches."""
    notes: Counter[str] = Counter()
    labels, line = out.all_labels(), _line(out)
    notes["entries on other branches, which are left out"] += len(out.entries) - len(line)
    paragraphs = list(_head(out))
    for each in line:
        if isinstance(each.entry, Title | Label):
            continue  # they stand in the heads
        said = list(_said(each.entry))
        if not said:
            notes[f"{called(each.entry)}, which are left out"] += 1
            continue
        who, *words = said
        paragraphs += [_heading(who, each.entry.at_ms, labels.get(each.key, "")), *filter(None, words)]
    data = "\n\n".join(paragraphs).encode("utf-8", "replace")
    return WrittenFile(tuple(OutgoingLine(row) for row in data.split(b"\n")), +notes)


def _line(out: Outgoing) -> list[OutgoingEntry]:
    """The entries from the root to the leaf."""
    entries = {each.key: each for each in out.entries}
    found: list[OutgoingEntry] = []
    at = entries.get(out.leaf or "")
    while at is not None:
        found.append(at)
        at = entries.get(at.below or "")
    return found[::-1]


def _head(out: Outgoing) -> Iterator[str]:
    session = out.session
    yield f"# {_one_line(out.name() or f'Session {session.source_id}')}"
    facts = {"session": session.source_id, "agent": session.agent, "folder": session.cwd, "begun": _time(session.at_ms)}
    yield "\n".join(f"- {name}: {_one_line(value)}" for name, value in facts.items() if value)


def _heading(who: str, at_ms: int, label: str) -> str:
    parts = [who, _time(at_ms), f"‘{_one_line(label)}’" if label else ""]
    return f"## {' · '.join(filter(None, parts))}"


def _time(at_ms: int) -> str:
    return to_iso(at_ms)[:16].replace("T", " ") if at_ms > 0 else ""


def _one_line(text: str) -> str:
    return _no_html(" ".join(clean(text).split()))


def _no_html(text: str) -> str:
    """Return ``text`` with every ``<`` that may begin a tag, a comment or a link as an entity."""
    return _TAG.sub("&lt;", text)


def _safe(text: str) -> str:
    """What cannot drive a terminal, with the tabs that code may need."""
    return "\t".join(map(clean, text.split("\t")))


def _said(entry: Entry) -> Iterator[str]:
    """Who speaks, and paragraphs; nothing where an entry has no words for people."""
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
            yield "summary of what came before"
            yield _words(entry.summary)
        case BranchSummary():
            yield "summary of a branch that was left"
            yield _words(entry.summary)
        case ModelChange():
            yield f"model {_one_line('/'.join(filter(None, (entry.provider, entry.model))))}"
        case Reset():
            yield "the context begins anew"


def _block(block: Block) -> str:
    match block:
        case Text():
            return _words(block.text)
        case Thinking():
            return "\n".join(f"> {line}" for line in _words(block.text).split("\n")) if block.text.strip() else ""
        case ToolCall():
            arguments = json.dumps(plain(block.arguments), indent=2, ensure_ascii=False, default=str)
            return f"**{_one_line(block.name)}**\n\n{_fenced(arguments, 'json')}"
        case Image():
            return f"*picture: {_one_line(block.mime)}, {len(block.data):,} bytes*"
        case File():
            return f"*file: {_one_line(' '.join(filter(None, (block.name, block.mime, block.url))))}*"
        case OtherBlock():
            return ""  # what an agent notes between its words
    return ""


def _fenced(text: str, language: str = "") -> str:
    safe = _safe(text)
    longest = max((len(run) for run in re.findall(r"`+", safe)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{safe}\n{fence}"


def _words(text: str) -> str:
    """Return words as they are, but for lines that would be taken for ours, and HTML outside code.

    Which text is code depends on how a reader splits blocks. Code is left as it is only where every way agrees: in a
    fence at the first column while no indented one came before, which a list may end early, and in a code span of a
    paragraph each of whose lines closes its own spans.
    """
    lines: list[str] = []
    paragraph: list[str] = []
    fence, is_certain = "", True
    for line in _safe(text).split("\n"):
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
            paragraph.append(_OURS.sub(lambda ours: f"{ours[0]}\\", line, count=1) if _OURS.match(line) else line)
    lines += _prose(paragraph)
    return "\n".join([*lines, fence] if fence else lines).strip("\n")


def _prose(lines: list[str]) -> list[str]:
    """Return the lines of a paragraph without HTML; code spans stay where no line leaves one open."""
    if any("`" in _SPAN.sub("", line) or "\\`" in line for line in lines):
        return [_no_html(line) for line in lines]
    return [_outside_code(line) for line in lines]


def _outside_code(line: str) -> str:
    """Return ``line`` without HTML outside code spans, or in one with a ``|``, which may end a cell of a table."""
    parts, at = [], 0
    for span in _SPAN.finditer(line):
        code = span[0]
        parts += [_no_html(line[at : span.start()]), _no_html(code) if "|" in code else code]
        at = span.end()
    return "".join([*parts, _no_html(line[at:])])
