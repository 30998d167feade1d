"""Writer of files that Claude Code can resume: one line per block, linked by ids, and the leaf at the end.

Lines that Claude Code wrote are kept unchanged and are followed by the other entries. The ids of new lines are derived
from the entries, so the same session always results in the same file. Values that the Messages API would reject are
replaced or omitted: ids and names of tools, images of other types, and reasoning that another model signed. Entries of
a kind that Claude Code does not support are omitted and counted in the notes, because Claude Code would delete lines of
other types or show them to the user.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from gitsession.formats.base import jsonl
from gitsession.formats.base.fields import to_iso, uuid_from
from gitsession.formats.base.jsonl import LF, LineFailure, dumps, spoken
from gitsession.formats.base.outgoing import PDF, PICTURES, Outgoing, OutgoingEntry, OutgoingLine, WrittenFile, called
from gitsession.formats.claude.files import session_uuid
from gitsession.formats.claude.read_entry import PROVIDER
from gitsession.formats.claude.records import is_sidechain
from gitsession.model import entries as kinds
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Compaction, Entry, Message, Reset

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

Words = dict[str, Any]


def answer_blocks(entry: Message, notes: Counter[str]) -> list[Words]:
    """Return the blocks of an answer. Reasoning is included only if it was signed by a model of Anthropic."""
    own = entry.provider == PROVIDER
    found: list[Words] = []
    for block in entry.content:
        match block:
            case Text() if block.text.strip():
                found.append({"type": "text", "text": block.text})
            case ToolCall():
                found.append({"type": "tool_use", "id": call_id(block.id), "name": tool_name(block.name),
                              "input": dict(block.arguments)})  # fmt: skip
            case Thinking(redacted=True, signature=str(data)) if own:
                found.append({"type": "redacted_thinking", "data": data})
            case Thinking(signature=str(signature)) if own and signature:
                found.append({"type": "thinking", "thinking": block.text, "signature": signature})
            case Thinking():
                notes["left out: reasoning of another model"] += 1
            case OtherBlock(value=dict(value)) if own:
                found.append(value)
            case Image() | File() | OtherBlock():
                notes["left out: images, files and blocks of other types in an answer"] += 1
    return found


def told(blocks: Iterable[Block], notes: Counter[str]) -> str | list[Words]:
    """Return the content of a user message or tool result: a string if it is a single text block, otherwise blocks."""
    found = [spelt for block in blocks if (spelt := _told(block, notes)) is not None]
    if len(found) == 1 and found[0]["type"] == "text":
        return str(found[0]["text"])
    return found


def result(entry: Message, notes: Counter[str]) -> Words:
    failed = {"is_error": True} if entry.is_error else {}
    content = told(entry.content, notes)
    return {"tool_use_id": call_id(entry.tool_call_id or ""), "type": "tool_result", "content": content, **failed}


def usage(stated: Mapping[str, Any] | None) -> Words:
    """Return the token counts of an answer, with zeros for unknown counts."""
    given = stated or {}
    counts = {ours: given.get(ours, given.get(theirs)) for ours, theirs in _COUNTS.items()}
    return {name: count if type(count) is int and count >= 0 else 0 for name, count in counts.items()}


def call_id(id: str) -> str:
    return _legal(id, CALL_ID_CHARS_MAX)


def tool_name(name: str) -> str:
    return _legal(name, TOOL_NAME_CHARS_MAX)


def _legal(name: str, chars_max: int) -> str:
    """Return ``name`` if the API accepts it, otherwise a unique accepted name that is derived from it."""
    if name and len(name) <= chars_max and not _ILLEGAL.search(name):
        return name
    mark = sha256(name.encode(errors="surrogatepass")).hexdigest()[:_MARK_CHARS]
    return f"{_ILLEGAL.sub('_', name)[: chars_max - _MARK_CHARS - 1]}_{mark}"


def _told(block: Block, notes: Counter[str]) -> Words | None:
    match block:
        case Text():
            return {"type": "text", "text": block.text} if block.text.strip() else None
        case Image() if block.data and block.mime in PICTURES:
            return {"type": "image", "source": _source(block.data, block.mime)}
        case File(data=bytes(data)) if data and block.mime in PICTURES:
            return {"type": "image", "source": _source(data, str(block.mime))}
        case File(data=bytes(data)) if data and block.mime == PDF:
            return {"type": "document", "source": _source(data, PDF), **({"title": block.name} if block.name else {})}
        case File(data=bytes(data)) if data and (words := _decoded(data)) is not None:
            return {"type": "text", "text": f'<file name="{block.name}">\n{words}\n</file>'}
        case OtherBlock(value=dict(value)) if value.get("type") in ("tool_result", "document", "image"):
            return value
    named = block.name if isinstance(block, File) else block.mime if isinstance(block, Image) else ""
    notes["replaced with their name: images, files and blocks that its model does not accept"] += 1
    return {"type": "text", "text": f"[{type(block).__name__.lower()} {named}]"}


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _source(data: bytes, mime: str) -> Words:
    return {"type": "base64", "media_type": mime, "data": base64.b64encode(data).decode()}


EARLIER = "What happened before this point in the conversation, in summary:"
ELSEWHERE = "What was tried on another branch of this conversation, in summary:"
PROGRAM = "Claude Code"

SILENT = frozenset({
    kinds.ModelChange.kind, kinds.ThinkingChange.kind, kinds.Usage.kind, kinds.SourceFile.kind,
    kinds.SessionHeader.kind,
    kinds.Fork.kind, kinds.Custom.kind, kinds.Checkpoint.kind,
})  # fmt: skip
"""Kinds that no model receives. They are omitted without a note."""


@dataclass(frozen=True, slots=True)
class ClaudeEntryContext:
    """Values that the lines of an entry depend on.

    ``answer``: the id for an answer that has none. ``called``: the ids of all calls so far. A result needs one of these
    ids.
    """

    answer: str
    called: Collection[str]
    notes: Counter[str]


def spell(entry: Entry, to: ClaudeEntryContext) -> list[Words]:
    """Return the lines of one entry, each a child of the previous one.

    A line without a ``message`` is not in the tree.
    """
    how = _BY_KIND.get(entry.kind)
    if how is not None:
        return how(entry, to)
    if entry.kind not in SILENT:
        to.notes[f"left out: {called(entry)}"] += 1
    return []


def _message(entry: kinds.Message, to: ClaudeEntryContext) -> list[Words]:
    say = _BY_ROLE.get(entry.role)
    return say(entry, to) if say else []


def _user(entry: kinds.Message, to: ClaudeEntryContext) -> list[Words]:
    return _as_user(told(entry.content, to.notes), is_meta=entry.extra.get("isMeta") is True)


def _assistant(entry: kinds.Message, to: ClaudeEntryContext) -> list[Words]:
    """Return a line for each block, as Claude Code does."""
    blocks = answer_blocks(entry, to.notes)
    stated = entry.extra.get("id")
    calls = any(block.get("type") == "tool_use" for block in blocks)
    message = {
        "id": stated if isinstance(stated, str) and stated else to.answer,
        "type": "message",
        "role": "assistant",
        "model": entry.model or "unknown",
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": usage(entry.usage),
    }
    return [{"type": "assistant", "message": {**message, "content": [block]}} for block in blocks]


def _tool(entry: kinds.Message, to: ClaudeEntryContext) -> list[Words]:
    block = result(entry, to.notes)
    if block["tool_use_id"] not in to.called:
        to.notes["left out: results whose call is not in the history"] += 1
        return []
    return _as_user([block])


def _shell(entry: kinds.Message, to: ClaudeEntryContext) -> list[Words]:
    """Return the lines that Claude Code writes for a shell command that the user runs with the prefix ``!``."""
    if entry.is_excluded:
        return []
    printed = f"<bash-stdout>{entry.output or ''}</bash-stdout><bash-stderr></bash-stderr>"
    return [*_as_user(f"<bash-input>{entry.command or ''}</bash-input>"), *_as_user(printed)]


def _developer(entry: kinds.Message, to: ClaudeEntryContext) -> list[Words]:
    to.notes["developer messages, which its model reads as the user's"] += 1
    return _as_user(told(entry.content, to.notes), is_meta=True)


def _system(entry: kinds.Message, to: ClaudeEntryContext) -> list[Words]:
    to.notes[f"left out: system messages, because {PROGRAM} has its own"] += 1
    return []


def _words_of_an_extension(entry: kinds.Message | kinds.CustomMessage, to: ClaudeEntryContext) -> list[Words]:
    return _as_user(told(entry.content, to.notes), is_meta=True)


def _as_user(content: str | list[Words], *, is_meta: bool = False) -> list[Words]:
    meta = {"isMeta": True} if is_meta else {}
    return [{"type": "user", "message": {"role": "user", "content": content}, **meta}] if content else []


def _compaction(entry: kinds.Compaction, to: ClaudeEntryContext) -> list[Words]:
    """Return the boundary line and the summary line. The caller adds the ids of the kept messages."""
    metadata: Words = {"trigger": "auto" if entry.method == "auto" else "manual", "preTokens": entry.tokens_before or 0}
    if entry.tokens_after is not None:
        metadata["postTokens"] = entry.tokens_after
    is_theirs = isinstance(entry.preserve, Mapping) and "preservedMessages" in entry.preserve
    words = entry.summary if is_theirs else f"{EARLIER}\n\n{entry.summary}"
    [said] = _as_user(words or EARLIER)
    return [
        {"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted", "isMeta": False,
         "level": "info", "compactMetadata": metadata},
        {**said, "isCompactSummary": True, "isVisibleInTranscriptOnly": True},
    ]  # fmt: skip


def _branch_summary(entry: kinds.BranchSummary, to: ClaudeEntryContext) -> list[Words]:
    return _as_user(f"{ELSEWHERE}\n\n{entry.summary}", is_meta=True) if entry.summary.strip() else []


def _title(entry: kinds.Title, to: ClaudeEntryContext) -> list[Words]:
    if not entry.title:
        return []
    if entry.extra.get("automatic") is True:
        return [{"type": "ai-title", "aiTitle": entry.title}]
    return [{"type": "custom-title", "customTitle": entry.title}]


_BY_ROLE: dict[str, Callable[[kinds.Message, ClaudeEntryContext], list[Words]]] = {
    "user": _user,
    "assistant": _assistant,
    "tool": _tool,
    "shell": _shell,
    "system": _system,
    "developer": _developer,
    "custom": _words_of_an_extension,
}

_BY_KIND: dict[str, Callable[[Any, ClaudeEntryContext], list[Words]]] = {
    kinds.Message.kind: _message,
    kinds.CustomMessage.kind: _words_of_an_extension,
    kinds.Compaction.kind: _compaction,
    kinds.BranchSummary.kind: _branch_summary,
    kinds.Title.kind: _title,
}


VERSION = "2.1.197"
"""The release of Claude Code whose line format is written."""

PROMPT_CHARS_MAX = 200
_WHERE = ("cwd", "sessionId", "version", "gitBranch", "isSidechain", "agentId")


def write(out: Outgoing) -> WrittenFile:
    """Write a session as a file of Claude Code."""
    return _Writer(out).run()


def of_its_own(data: bytes) -> bytes:
    """Return a sub-agent's file as a session that can be resumed. Any other file is returned unchanged."""
    if b'"isSidechain":true' not in data or b'"isSidechain":false' in data:
        return data
    lines = data.split(LF)
    for at, line in enumerate(lines):
        said = jsonl.parse(line)
        if isinstance(said, dict) and is_sidechain(said):
            said.pop("agentId", None)
            lines[at] = dumps({**said, "isSidechain": False})
    return LF.join(lines)


class _Writer:
    def __init__(self, out: Outgoing) -> None:
        self.out = out
        self.lines: list[OutgoingLine] = []
        self.notes: Counter[str] = Counter()
        self.uuids: dict[str, list[str]] = {}  # key -> the ids of its lines that a compaction can keep
        # key -> the id of the line that is the parent of the entry's children
        self.ends: dict[str | None, str | None] = {None: None}
        self.below = {entry.key: entry.below for entry in out.entries}
        self.called: set[str] = set()
        self.parents: set[str] = set()
        self.prompt = ""
        self.where: Words = {
            "cwd": out.session.cwd or "/",
            "sessionId": session_uuid(out.session.source_id or ""),
            "version": VERSION,
            "gitBranch": "",
            "isSidechain": False,
        }

    def run(self) -> WrittenFile:
        for entry in self.out.entries:
            if entry.line is not None:
                self._kept(entry, entry.line)
        self.lines += [OutgoingLine(self.out.tail)] if self.out.tail else []
        for entry in self.out.entries:
            if entry.line is None:
                self._entry(entry)
        self._at_the_leaf()
        return WrittenFile(tuple(self.lines), self.notes)

    def _kept(self, leaving: OutgoingEntry, line: bytes) -> None:
        self.lines.append(OutgoingLine(line, None if leaving.is_name else leaving.key, leaving.id))
        said = jsonl.parse(spoken(line))
        if isinstance(said, LineFailure):
            said = {}
        self.where |= {name: said[name] for name in _WHERE if isinstance(said.get(name), str | bool)}
        self._hear(leaving.entry)
        end = leaving.id or self._end_of(leaving.below)
        self.ends[leaving.key] = end
        can_be_kept = not isinstance(leaving.entry, Compaction)
        self.uuids[leaving.key] = [leaving.id] if leaving.id is not None and can_be_kept else []
        if leaving.is_name and leaving.below is not None:
            self.ends[leaving.below] = end

    def _hear(self, entry: Entry) -> None:
        """Update the values that later lines depend on."""
        if isinstance(entry, Message):
            self.called.update(call_id(block.id) for block in entry.content if isinstance(block, ToolCall))
            if entry.role == "user" and entry.extra.get("isMeta") is not True:
                self.prompt = entry.text or self.prompt

    def _entry(self, leaving: OutgoingEntry) -> None:
        parent = self._end_of(leaving.below)
        if isinstance(leaving.entry, Reset):
            self.ends[leaving.key], self.uuids[leaving.key] = None, []
            return
        self._hear(leaving.entry)
        to = ClaudeEntryContext(f"msg_{uuid_from(leaving.key).replace('-', '')}", self.called, self.notes)
        bodies = spell(leaving.entry, to)
        ids = [uuid_from(leaving.key, *([number] if number else [])) for number in range(len(bodies))]
        if isinstance(leaving.entry, Compaction):
            self._compaction(leaving, leaving.entry, bodies, ids, parent)
            return
        self.uuids[leaving.key] = []
        for body, id in zip(bodies, ids, strict=True):
            if "message" not in body:
                self.lines.append(OutgoingLine(dumps({**body, "sessionId": self.where["sessionId"]}), leaving.key))
                continue
            self.lines.append(OutgoingLine(self._line(body, id, parent, leaving.entry.at_ms), leaving.key, id))
            self.uuids[leaving.key].append(id)
            parent = id
        self.ends[leaving.key] = parent

    def _compaction(
        self, leaving: OutgoingEntry, entry: Compaction, bodies: list[Words], ids: list[str], parent: str | None
    ) -> None:
        """Write the two lines of a compaction, which are one record.

        The boundary line lists the kept messages, so that Claude Code puts them after the summary.
        """
        boundary, summary = bodies
        kept = self._since(leaving.below, entry.first_kept)
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
        self.lines.append(OutgoingLine(LF.join(pair), leaving.key, ids[1]))
        # A later compaction that keeps entries before and after this one repeats this summary, so these lines are not
        # kept.
        self.uuids[leaving.key], self.ends[leaving.key] = [], ids[1]

    def _since(self, key: str | None, first: str | None) -> list[str]:
        """Return the line ids from entry ``first`` to entry ``key``, or none if ``first`` is not above ``key``."""
        found: list[str] = []
        while key is not None and first is not None:
            found = [*self.uuids.get(key, []), *found]
            if key == first:
                return found
            key = self.below.get(key)
        return []

    def _end_of(self, key: str | None) -> str | None:
        return self.ends.get(key)

    def _line(self, body: Mapping[str, Any], id: str, parent: str | None, at_ms: int) -> bytes:
        if parent is not None:
            self.parents.add(parent)
        said = {"uuid": id, "timestamp": to_iso(at_ms), "userType": "external", "entrypoint": "cli"}
        return dumps({"parentUuid": parent, **body, **said, **self.where})

    def _at_the_leaf(self) -> None:
        """Write the title and the leaf. If there are lines below the leaf, it must be marked as explicit."""
        where = {"sessionId": self.where["sessionId"]}
        if self.out.title is not None and self.out.title.title:
            self.lines.append(
                OutgoingLine(dumps({"type": "custom-title", "customTitle": self.out.title.title, **where}))
            )
        if self.out.labels:
            self.notes["left out: labels"] += len(self.out.labels)
        leaf = self._end_of(self.out.leaf)
        if leaf is None:
            if self.out.leaf is not None:
                self.notes["reset at the end: Claude Code continues with the entries before it"] += 1
            return
        chosen = {"explicit": True} if leaf in self.parents else {}
        prompt = self.prompt[:PROMPT_CHARS_MAX]
        said = {"type": "last-prompt", "lastPrompt": prompt, "leafUuid": leaf, **chosen, **where}
        self.lines.append(OutgoingLine(dumps(said)))
