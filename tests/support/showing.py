"""Short imported sessions, and the contexts that a profile builds from them."""

from __future__ import annotations

from typing import Any

from builders import bring, entry, pi_file

from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.context.value import Context
from gitsession.model.entries import BranchSummary, Compaction
from gitsession.sessions.entry_addresses import resolve
from gitsession.store.memory import MemoryStore

ALL = ("pi", "pi-0.73", "omp")


def seen(*lines: bytes, profile: str = "pi", at: str = "leaf", agent: str = "pi") -> Context:
    """Import a session with these lines and return its context."""
    store = MemoryStore()
    sid = bring(store, pi_file(*lines), agent=agent).session
    return build.context(ContextHistory(store, resolve(store, sid, at).oid), profile)


def words(context: Context) -> list[str]:
    """Return the text or summary of each item."""
    return [said.summary if isinstance(said, Compaction | BranchSummary) else said.text for said in context.messages]


def called(id: str, parent: str | None, *calls: str, text: str = "", at: int = 1, **fields: Any) -> bytes:
    """Return an assistant message with calls."""
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += [{"type": "toolCall", "id": call, "name": "bash", "arguments": {"command": "ls"}} for call in calls]
    return entry("message", id, parent, at, message={"role": "assistant", "content": content, **fields})


def result(id: str, parent: str | None, call: str, text: str = "out", at: int = 1) -> bytes:
    content = [{"type": "text", "text": text}]
    message = {"role": "toolResult", "toolCallId": call, "toolName": "bash", "content": content, "isError": False}
    return entry("message", id, parent, at, message=message)


def compacted(id: str, parent: str | None, kept: str | None, summary: str = "sum", **fields: Any) -> bytes:
    return entry("compaction", id, parent, summary=summary, firstKeptEntryId=kept, tokensBefore=9, **fields)


def edit(id: str, parent: str, target: str, replacement: object) -> bytes:
    return entry("context_edit", id, parent, targetId=target, replacement=replacement)


def golden_context(case: dict[str, Any], profile: str) -> Context:
    store = MemoryStore()
    sid = bring(store, case["text"].encode(), agent="pi", final=True).session
    leaf = resolve(store, sid, case.get("leaf") or "leaf")
    return build.context(ContextHistory(store, leaf.oid), profile)
