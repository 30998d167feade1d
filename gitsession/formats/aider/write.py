"""Writer of files for ``aider --restore-chat-history``. A file contains only the history of the leaf.

When Aider restores a history, it distinguishes only two roles and recognizes no structure (``read_entry.reread``). So
other content is written as text. Spans that Aider wrote are written unchanged. If a summary was written by another
program, the entries that it replaces are omitted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from gitsession.formats.aider.split_file import OK, RAN, SUMMARY_PREFIX
from gitsession.formats.base.fields import to_iso
from gitsession.formats.base.outgoing import Outgoing, OutgoingEntry, OutgoingLine, WrittenFile
from gitsession.model.blocks import Block, File, Image, Text, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Entry, Message, Reset

_DROPPED = ("# ", "> ", "#### ")
"""The prefixes of lines that Aider does not read as part of an answer."""


def write(out: Outgoing) -> WrittenFile:
    """Write a session as a history file of Aider."""
    notes: Counter[str] = Counter()
    path = out.history()
    visible = _visible_entries(path)
    _count(notes, "left out: entries of other branches", len(out.entries) - len(path))
    _count(notes, "left out: entries before the last summary", len(path) - len(visible))
    _count(notes, "left out: labels", len(out.all_labels()))
    _count(notes, "left out: title", out.name() is not None)
    lines = [] if visible and visible[0].line is not None else [OutgoingLine(_head(out))]
    for outgoing in visible:
        data = outgoing.line
        if data is None:
            data = "".join(_entry_texts(outgoing.entry, notes)).encode("utf-8", "replace")
        if data:
            lines.append(OutgoingLine(data.removesuffix(b"\n"), outgoing.key))
    return WrittenFile(tuple(lines), notes)


def _visible_entries(path: Sequence[OutgoingEntry]) -> Sequence[OutgoingEntry]:
    """Return the entries of ``path`` after the newest summary or reset that Aider did not write.

    For a summary, the result begins with the summary itself and the entries that the compaction keeps. If there is no
    such summary or reset, return ``path``.
    """
    for at in range(len(path) - 1, -1, -1):
        entry = path[at].entry
        if path[at].line is not None:
            continue
        if isinstance(entry, Reset):
            return path[at + 1 :]
        if isinstance(entry, Compaction):
            first = next((n for n in range(at) if path[n].key == entry.first_kept), at)
            return [path[at], *path[first:at], *path[at + 1 :]]
    return path


def _count(notes: Counter[str], what: str, count: int) -> None:
    if count:
        notes[what] += count


def _head(out: Outgoing) -> bytes:
    started = to_iso(out.session.at_ms)[:19].replace("T", " ")
    return f"\n# aider chat started at {started}\n\n> Session {out.session.source_id}, written by gitsession  ".encode()


# Entries


def _entry_texts(entry: Entry, notes: Counter[str]) -> Iterator[str]:
    match entry:
        case Message(role="user" | "custom") | CustomMessage():
            yield _user(_text_of_blocks(entry.content, notes))
        case Message(role="assistant"):
            text = _text_of_blocks(entry.content, notes)
            if text:
                model = " ".join(f"{entry.provider}/{entry.model}".split()) if entry.provider and entry.model else "?"
                yield f"{_answer(text)}> Answered by {model}  \n"  # separates consecutive answers
        case Message(role="tool"):
            notes["written as user text: tool results"] += 1
            failed = "failed with" if entry.is_error else "gave"
            yield _user(f"The tool {entry.tool_name or ''} {failed}:\n\n{_text_of_blocks(entry.content, notes)}")
        case Message(role="shell"):
            yield _user(RAN.format(command=entry.command or "", output=entry.output or "")) + _answer(OK)
        case Compaction() | BranchSummary() if entry.summary.strip():
            yield _user(SUMMARY_PREFIX + entry.summary) + _answer(OK)
        case Message():
            notes[f"left out: {entry.role} messages"] += 1


def _user(text: str) -> str:
    """Return a prompt in Aider's format. Each line begins with ``####`` and ends in two spaces."""
    return "\n" + "".join(f"#### {line}  \n" for line in text.splitlines() or ["<blank>"])


def _answer(text: str) -> str:
    """Return an answer in Aider's format. A space is added to each line that Aider would not read as an answer."""
    lines = (f" {line}" if line.startswith(_DROPPED) else line for line in text.strip().splitlines())
    return "\n" + "".join(f"{line}\n" for line in lines) + "\n"


def _text_of_blocks(content: Sequence[Block], notes: Counter[str]) -> str:
    """Return the text of ``content``, without reasoning."""
    return "\n\n".join(filter(None, (_block(block, notes) for block in content)))


def _block(block: Block, notes: Counter[str]) -> str:
    match block:
        case Text():
            return block.text
        case ToolCall():
            notes["written as text: tool calls"] += 1
            arguments = json.dumps(dict(block.arguments), ensure_ascii=False, default=str)
            return f"I call the tool {block.name}:\n```json\n{arguments}\n```"
        case Image():
            notes["replaced with their type: images"] += 1
            return f"[image {block.mime}]"
        case File():
            notes["replaced with their name: files"] += 1
            return f"[file {block.name}]"
    notes[f"left out: blocks of type {block.type[:40]}"] += 1
    return ""
