"""What each kind of entry is in Claude Code's file: lines without their ids. The inverse of ``claude.view``.

A kind that it has no word for is left out, and noted: lines of other types would be deleted, or shown to its user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from gitsession.formats.base.outgoing import called
from gitsession.formats.claude import write_messages
from gitsession.formats.claude.write_messages import Words
from gitsession.model import entries as kinds
from gitsession.model.entries import Entry

EARLIER = "What happened before this point in the conversation, in summary:"
ELSEWHERE = "What was tried on another branch of this conversation, in summary:"
PROGRAM = "Claude Code"

SILENT = frozenset({
    kinds.ModelChange.kind, kinds.ThinkingChange.kind, kinds.Usage.kind, kinds.SourceFile.kind,
    kinds.SessionHeader.kind,
    kinds.Fork.kind, kinds.Custom.kind, kinds.Checkpoint.kind,
})  # fmt: skip
"""Kinds that say nothing to a model and that nobody misses in a conversation."""


@dataclass(frozen=True, slots=True)
class ClaudeEntryContext:
    """``answer``: the id of an answer that has none. ``called``: the ids of all calls so far, by which results go."""

    answer: str
    called: Collection[str]
    notes: Counter[str]


def spell(entry: Entry, to: ClaudeEntryContext) -> list[Words]:
    """The lines of one entry, the next below the one before. Without a ``type`` of the tree: no place in it."""
    how = _BY_KIND.get(entry.kind)
    if how is not None:
        return how(entry, to)
    if entry.kind not in SILENT:
        to.notes[f"{called(entry)}, for which {PROGRAM} has no word, which are left out"] += 1
    return []


def _message(entry: kinds.Message, to: ClaudeEntryContext) -> list[Words]:
    say = _BY_ROLE.get(entry.role)
    return say(entry, to) if say else []


def _user(entry: kinds.Message, to: ClaudeEntryContext) -> list[Words]:
    return _as_user(write_messages.told(entry.content, to.notes), is_meta=entry.extra.get("isMeta") is True)


def _assistant(entry: kinds.Message, to: ClaudeEntryContext) -> list[Words]:
    """A line for each block, as the program writes it."""
    blocks = write_messages.uttered(entry, to.notes)
    stated = entry.extra.get("id")
    calls = any(block.get("type") == "tool_use" for block in blocks)
    message = {
        "id": stated if isinstance(stated, str) and stated else to.answer,
        "type": "message",
        "role": "assistant",
        "model": entry.model or "unknown",
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": write_messages.usage(entry.usage),
    }
    return [{"type": "assistant", "message": {**message, "content": [block]}} for block in blocks]


def _tool(entry: kinds.Message, to: ClaudeEntryContext) -> list[Words]:
    block = write_messages.result(entry, to.notes)
    if block["tool_use_id"] not in to.called:
        to.notes["results of calls that are not in the line, which are left out"] += 1
        return []
    return _as_user([block])


def _shell(entry: kinds.Message, to: ClaudeEntryContext) -> list[Words]:
    """As the program keeps what its user runs with an exclamation mark."""
    if entry.is_excluded:
        return []
    printed = f"<bash-stdout>{entry.output or ''}</bash-stdout><bash-stderr></bash-stderr>"
    return [*_as_user(f"<bash-input>{entry.command or ''}</bash-input>"), *_as_user(printed)]


def _developer(entry: kinds.Message, to: ClaudeEntryContext) -> list[Words]:
    to.notes["words of a developer, which its model reads as the user's"] += 1
    return _as_user(write_messages.told(entry.content, to.notes), is_meta=True)


def _system(entry: kinds.Message, to: ClaudeEntryContext) -> list[Words]:
    to.notes[f"system messages, in whose place {PROGRAM} has its own"] += 1
    return []


def _words_of_an_extension(entry: kinds.Message | kinds.CustomMessage, to: ClaudeEntryContext) -> list[Words]:
    return _as_user(write_messages.told(entry.content, to.notes), is_meta=True)


def _as_user(content: str | list[Words], *, is_meta: bool = False) -> list[Words]:
    meta = {"isMeta": True} if is_meta else {}
    return [{"type": "user", "message": {"role": "user", "content": content}, **meta}] if content else []


def _compaction(entry: kinds.Compaction, to: ClaudeEntryContext) -> list[Words]:
    """The boundary, and the summary. What it kept is filled in by who knows the ids."""
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
