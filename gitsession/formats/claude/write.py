"""Writer of session files that Claude Code can resume.

Each block of an answer is a separate line. Lines refer to their parents by id, and the last line names the leaf.

Lines that Claude Code wrote are kept unchanged. They are followed by lines for the entries that Claude Code did not
write. The ids of the new lines are derived from the entries, so the same session always results in the same file.
Values that the Messages API would reject are replaced or omitted: invalid call ids and tool names, images of
unsupported types, and reasoning that another model signed. Entries of a kind that Claude Code does not support are
omitted, because Claude Code would delete their lines or show them to the user. The notes contain the number of omitted
entries, except for the kinds in ``SILENTLY_OMITTED``.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from gitsession.formats.base import jsonl
from gitsession.formats.base.fields import to_iso, uuid_from
from gitsession.formats.base.jsonl import LF, LineFailure, dumps, record_line
from gitsession.formats.base.outgoing import (
    PDF,
    PICTURES,
    Outgoing,
    OutgoingEntry,
    OutgoingLine,
    WrittenFile,
    describe_kind,
    file_text,
)
from gitsession.formats.claude.files import session_uuid
from gitsession.formats.claude.read_entry import PROVIDER
from gitsession.formats.claude.records import is_sidechain
from gitsession.model import entries as kinds
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Compaction, CustomMessage, Entry, Message, Reset

CALL_ID_CHARS_MAX = 64
TOOL_NAME_CHARS_MAX = 128

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_MARK_CHARS = 8
_COUNTS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cacheRead",
    "cache_creation_input_tokens": "cacheWrite",
}

Json = dict[str, Any]


def answer_blocks(entry: Message, notes: Counter[str]) -> list[Json]:
    """Return the blocks of an answer. Reasoning is included only if a model of Anthropic signed the reasoning."""
    is_own = entry.provider == PROVIDER
    found: list[Json] = []
    for block in entry.content:
        match block:
            case Text() if block.text.strip():
                found.append({"type": "text", "text": block.text})
            case ToolCall():
                id, name = call_id(block.id), _legal(block.name, TOOL_NAME_CHARS_MAX)
                found.append({"type": "tool_use", "id": id, "name": name, "input": dict(block.arguments)})
            case Thinking(redacted=True, signature=str(data)) if is_own:
                found.append({"type": "redacted_thinking", "data": data})
            case Thinking(signature=str(signature)) if is_own and signature:
                found.append({"type": "thinking", "thinking": block.text, "signature": signature})
            case Thinking():
                notes["left out: another model's reasoning"] += 1
            case OtherBlock(value=dict(value)) if is_own:
                found.append(value)
            case Image() | File() | OtherBlock():
                notes["left out: images, files and blocks of other types in an answer"] += 1
    return found


def content_of(blocks: Iterable[Block], notes: Counter[str]) -> str | list[Json]:
    """Return the content of a user message or tool result.

    A single text block becomes a string. Any other content is a list of blocks.
    """
    found = [converted for block in blocks if (converted := _block_of(block, notes)) is not None]
    if len(found) == 1 and found[0]["type"] == "text":
        return str(found[0]["text"])
    return found


def result(entry: Message, notes: Counter[str]) -> Json:
    failed = {"is_error": True} if entry.is_error else {}
    content = content_of(entry.content, notes)
    return {"tool_use_id": call_id(entry.tool_call_id or ""), "type": "tool_result", "content": content, **failed}


def usage(stated: Mapping[str, Any] | None) -> Json:
    """Return the token counts of an answer, with zeros for unknown counts."""
    known = stated or {}
    counts = {name: known.get(name, known.get(other)) for name, other in _COUNTS.items()}
    return {key: count if type(count) is int and count >= 0 else 0 for key, count in counts.items()}


def call_id(id: str) -> str:
    return _legal(id, CALL_ID_CHARS_MAX)


def _legal(name: str, chars_max: int) -> str:
    """Return ``name`` if the API accepts it, otherwise a unique valid name that is derived from ``name``."""
    if name and len(name) <= chars_max and not _ILLEGAL.search(name):
        return name
    mark = sha256(name.encode(errors="surrogatepass")).hexdigest()[:_MARK_CHARS]
    return f"{_ILLEGAL.sub('_', name)[: chars_max - _MARK_CHARS - 1]}_{mark}"


def _block_of(block: Block, notes: Counter[str]) -> Json | None:
    match block:
        case Text():
            return {"type": "text", "text": block.text} if block.text.strip() else None
        case Image() if block.data and block.mime in PICTURES:
            return {"type": "image", "source": _source(block.data, block.mime)}
        case File(data=bytes(data)) if data and block.mime in PICTURES:
            return {"type": "image", "source": _source(data, str(block.mime))}
        case File(data=bytes(data)) if data and block.mime == PDF:
            return {"type": "document", "source": _source(data, PDF), **({"title": block.name} if block.name else {})}
        case File() if (text := file_text(block)).startswith("<file"):
            return {"type": "text", "text": text}
        case OtherBlock(value=dict(value)) if value.get("type") in ("tool_result", "document", "image"):
            return value
    label = block.name if isinstance(block, File) else block.mime if isinstance(block, Image) else ""
    notes["replaced with their name: images, files and blocks that its model does not accept"] += 1
    return {"type": "text", "text": f"[{type(block).__name__.lower()} {label}]"}


def _source(data: bytes, mime: str) -> Json:
    return {"type": "base64", "media_type": mime, "data": base64.b64encode(data).decode()}


SUMMARY_INTRO = "What happened before this point in the conversation, in summary:"
BRANCH_SUMMARY_INTRO = "What was tried on another branch of this conversation, in summary:"

SILENTLY_OMITTED = frozenset({
    kinds.ModelChange.kind, kinds.ThinkingChange.kind, kinds.Usage.kind, kinds.SourceFile.kind,
    kinds.SessionHeader.kind,
    kinds.Fork.kind, kinds.Custom.kind, kinds.Checkpoint.kind, kinds.Message.kind,
})  # fmt: skip
"""The kinds of entries that are omitted without a note: kinds that no model receives, and messages of unknown roles."""


def _user_lines(content: str | list[Json], *, is_meta: bool = False) -> list[Json]:
    meta = {"isMeta": True} if is_meta else {}
    return [{"type": "user", "message": {"role": "user", "content": content}, **meta}] if content else []


def _shell_lines(entry: Message) -> list[Json]:
    """Return the lines that Claude Code writes for a shell command that the user runs with the prefix ``!``."""
    if entry.is_excluded:
        return []
    printed = f"<bash-stdout>{entry.output or ''}</bash-stdout><bash-stderr></bash-stderr>"
    return [*_user_lines(f"<bash-input>{entry.command or ''}</bash-input>"), *_user_lines(printed)]


def _compaction_lines(entry: Compaction) -> list[Json]:
    """Return the boundary line and the summary line of a compaction, without the ids of the kept messages."""
    metadata: Json = {"trigger": "auto" if entry.method == "auto" else "manual", "preTokens": entry.tokens_before or 0}
    if entry.tokens_after is not None:
        metadata["postTokens"] = entry.tokens_after
    is_own = isinstance(entry.preserve, Mapping) and "preservedMessages" in entry.preserve
    summary = entry.summary if is_own else f"{SUMMARY_INTRO}\n\n{entry.summary}"
    [line] = _user_lines(summary or SUMMARY_INTRO)
    return [
        {"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted", "isMeta": False,
         "level": "info", "compactMetadata": metadata},
        {**line, "isCompactSummary": True, "isVisibleInTranscriptOnly": True},
    ]  # fmt: skip


def _title_lines(title: kinds.Title) -> list[Json]:
    if not title.title:
        return []
    if title.extra.get("automatic") is True:
        return [{"type": "ai-title", "aiTitle": title.title}]
    return [{"type": "custom-title", "customTitle": title.title}]


VERSION = "2.1.197"
"""The release of Claude Code whose line format this module uses."""

PROMPT_CHARS_MAX = 200
_COMMON = ("cwd", "sessionId", "version", "gitBranch", "isSidechain", "agentId")


def write(out: Outgoing) -> WrittenFile:
    """Write a session as a file of Claude Code."""
    return _Writer(out).run()


def relocate(data: bytes, id: str, cwd: str) -> bytes:
    """Return ``data`` unchanged, unless ``data`` is the file of a sub-agent.

    Claude Code derives the id and the folder of a session from the path of the file, so most files need no change. The
    file of a sub-agent becomes the file of an independent session, because Claude Code cannot resume a sub-agent.
    """
    if b'"isSidechain":true' not in data or b'"isSidechain":false' in data:
        return data
    lines = data.split(LF)
    for at, line in enumerate(lines):
        record = jsonl.parse(line)
        if isinstance(record, dict) and is_sidechain(record):
            record.pop("agentId", None)
            lines[at] = dumps({**record, "isSidechain": False})
    return LF.join(lines)


class _Writer:
    def __init__(self, out: Outgoing) -> None:
        self.out = out
        self.lines: list[OutgoingLine] = []
        self.notes: Counter[str] = Counter()
        self.uuids: dict[str, list[str]] = {}  # key -> the ids of the entry's lines that a compaction can keep
        # Key of an entry -> the id of the line below which the children of the entry are written.
        self.ends: dict[str | None, str | None] = {None: None}
        self.parent_of = {entry.key: entry.parent for entry in out.entries}
        self.call_ids: set[str] = set()
        self.parents: set[str] = set()
        self.prompt = ""
        self.common: Json = {
            "cwd": out.session.cwd or "/",
            "sessionId": session_uuid(out.session.source_id or ""),
            "version": VERSION,
            "gitBranch": "",
            "isSidechain": False,
        }

    def run(self) -> WrittenFile:
        for entry in self.out.entries:
            if entry.line is not None:
                self._write_unchanged(entry, entry.line)
        self.lines += [OutgoingLine(self.out.tail)] if self.out.tail else []
        for entry in self.out.entries:
            if entry.line is None:
                self._write_entry(entry)
        self._write_title_and_leaf()
        return WrittenFile(tuple(self.lines), self.notes)

    def _write_unchanged(self, outgoing: OutgoingEntry, line: bytes) -> None:
        self.lines.append(OutgoingLine(line, None if outgoing.is_name else outgoing.key, outgoing.id))
        parsed = jsonl.parse(record_line(line))
        if isinstance(parsed, LineFailure):
            parsed = {}
        self.common |= {name: parsed[name] for name in _COMMON if isinstance(parsed.get(name), str | bool)}
        self._update_state(outgoing.entry)
        end = outgoing.id or self.ends.get(outgoing.parent)
        self.ends[outgoing.key] = end
        is_keepable = not isinstance(outgoing.entry, Compaction)
        self.uuids[outgoing.key] = [outgoing.id] if outgoing.id is not None and is_keepable else []
        if outgoing.is_name and outgoing.parent is not None:
            self.ends[outgoing.parent] = end

    def _update_state(self, entry: Entry) -> None:
        """Update the values on which later lines depend."""
        if isinstance(entry, Message):
            self.call_ids.update(call_id(block.id) for block in entry.content if isinstance(block, ToolCall))
            if entry.role == "user" and entry.extra.get("isMeta") is not True:
                self.prompt = entry.text or self.prompt

    def _write_entry(self, outgoing: OutgoingEntry) -> None:
        parent = self.ends.get(outgoing.parent)
        if isinstance(outgoing.entry, Reset):
            self.ends[outgoing.key], self.uuids[outgoing.key] = None, []
            return
        self._update_state(outgoing.entry)
        bodies = self._lines_of(outgoing.key, outgoing.entry)
        ids = [uuid_from(outgoing.key, *([number] if number else [])) for number in range(len(bodies))]
        if isinstance(outgoing.entry, Compaction):
            self._compaction(outgoing, outgoing.entry, bodies, ids, parent)
            return
        self.uuids[outgoing.key] = []
        for body, id in zip(bodies, ids, strict=True):
            if "message" not in body:
                self.lines.append(OutgoingLine(dumps({**body, "sessionId": self.common["sessionId"]}), outgoing.key))
                continue
            self.lines.append(OutgoingLine(self._line(body, id, parent, outgoing.entry.at_ms), outgoing.key, id))
            self.uuids[outgoing.key].append(id)
            parent = id
        self.ends[outgoing.key] = parent

    def _lines_of(self, key: str, entry: Entry) -> list[Json]:
        """Return the lines of one entry.

        Each line with a ``message`` is a child of the previous one. Except in a compaction, a line without a
        ``message`` is not in the tree.
        """
        match entry:
            case Message(role="user"):
                return _user_lines(content_of(entry.content, self.notes), is_meta=entry.extra.get("isMeta") is True)
            case Message(role="assistant"):
                return self._answer_lines(key, entry)
            case Message(role="tool"):
                block = result(entry, self.notes)
                if block["tool_use_id"] in self.call_ids:
                    return _user_lines([block])
                self.notes["left out: results whose call is not in the history"] += 1
            case Message(role="shell"):
                return _shell_lines(entry)
            case Message(role="system"):
                self.notes["left out: system messages, because Claude Code has its own"] += 1
            case Message(role="developer"):
                self.notes["developer messages, which its model reads as the user's"] += 1
                return _user_lines(content_of(entry.content, self.notes), is_meta=True)
            case Message(role="custom") | CustomMessage():
                return _user_lines(content_of(entry.content, self.notes), is_meta=True)
            case Compaction():
                return _compaction_lines(entry)
            case kinds.BranchSummary():
                summary = f"{BRANCH_SUMMARY_INTRO}\n\n{entry.summary}" if entry.summary.strip() else ""
                return _user_lines(summary, is_meta=True)
            case kinds.Title():
                return _title_lines(entry)
            case _ if entry.kind not in SILENTLY_OMITTED:
                self.notes[f"left out: {describe_kind(entry)}"] += 1
        return []

    def _answer_lines(self, key: str, entry: Message) -> list[Json]:
        """Return one line for each block of an answer, as Claude Code writes answers."""
        blocks = answer_blocks(entry, self.notes)
        stated = entry.extra.get("id")
        calls = any(block.get("type") == "tool_use" for block in blocks)
        message = {
            "id": stated if isinstance(stated, str) and stated else f"msg_{uuid_from(key).replace('-', '')}",
            "type": "message",
            "role": "assistant",
            "model": entry.model or "unknown",
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": usage(entry.usage),
        }
        return [{"type": "assistant", "message": {**message, "content": [block]}} for block in blocks]

    def _compaction(
        self, outgoing: OutgoingEntry, entry: Compaction, bodies: list[Json], ids: list[str], parent: str | None
    ) -> None:
        """Write the boundary line and the summary line of a compaction, which form one record.

        The boundary line contains the ids of the messages that the compaction keeps. Claude Code moves these messages
        after the summary.
        """
        boundary, summary = bodies
        kept = self._since(outgoing.parent, entry.first_kept)
        if kept:
            anchor = {"anchorUuid": ids[1]}
            boundary["compactMetadata"] |= {
                "preservedSegment": {"headUuid": kept[0], **anchor, "tailUuid": kept[-1]},
                "preservedMessages": {**anchor, "uuids": kept, "allUuids": kept},
            }
        cut = {**boundary, **({"logicalParentUuid": parent} if parent else {})}
        pair = [self._line(cut, ids[0], None, entry.at_ms), self._line(summary, ids[1], ids[0], entry.at_ms)]
        if parent is not None:
            self.parents.add(parent)
        self.lines.append(OutgoingLine(LF.join(pair), outgoing.key, ids[1]))
        # A later compaction can keep entries before and after this compaction. The summary of the later compaction
        # replaces this summary. So the two lines of this compaction are never kept.
        self.uuids[outgoing.key], self.ends[outgoing.key] = [], ids[1]

    def _since(self, key: str | None, first: str | None) -> list[str]:
        """Return the ids of the lines that a compaction can keep, from entry ``first`` to entry ``key``.

        If ``first`` is neither ``key`` nor an ancestor of ``key``, the list is empty.
        """
        found: list[str] = []
        while key is not None and first is not None:
            found = [*self.uuids.get(key, []), *found]
            if key == first:
                return found
            key = self.parent_of.get(key)
        return []

    def _line(self, body: Mapping[str, Any], id: str, parent: str | None, at_ms: int) -> bytes:
        if parent is not None:
            self.parents.add(parent)
        fields = {"uuid": id, "timestamp": to_iso(at_ms), "userType": "external", "entrypoint": "cli"}
        return dumps({"parentUuid": parent, **body, **fields, **self.common})

    def _write_title_and_leaf(self) -> None:
        """Write the lines that set the title and the leaf.

        If other lines are below the leaf, the leaf is marked as explicit. Without this mark, Claude Code would continue
        at the newest of these lines.
        """
        session_field = {"sessionId": self.common["sessionId"]}
        if self.out.title is not None and self.out.title.title:
            self.lines.append(
                OutgoingLine(dumps({"type": "custom-title", "customTitle": self.out.title.title, **session_field}))
            )
        if self.out.labels:
            self.notes["left out: labels"] += len(self.out.labels)
        leaf = self.ends.get(self.out.leaf)
        if leaf is None:
            if self.out.leaf is not None:
                self.notes["reset at the end: Claude Code continues with the entries before it"] += 1
            return
        explicit = {"explicit": True} if leaf in self.parents else {}
        prompt = self.prompt[:PROMPT_CHARS_MAX]
        last_prompt = {"type": "last-prompt", "lastPrompt": prompt, "leafUuid": leaf, **explicit, **session_field}
        self.lines.append(OutgoingLine(dumps(last_prompt)))
