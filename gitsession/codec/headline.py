"""What the commit message says of an entry of our own. FROZEN under view 1 (see ``codec.message``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gitsession.model import entries as kinds
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Entry
from gitsession.model.headline import Headline


def headline(entry: Entry) -> Headline:
    """The words of ``entry``'s commit message."""
    return _MAKERS.get(type(entry), _unknown)(entry)


def tokens(count: int) -> str:
    """``61k`` for 61,234: thousands, rounded half up; below 1,000 the number itself."""
    return str(count) if count < 1000 else f"{(count + 500) // 1000}k"


def lines(text: str) -> str:
    """``14 lines``: how much a tool gave back."""
    count = text.count("\n") + (not text.endswith("\n")) if text else 0
    return "no output" if not count else "1 line" if count == 1 else f"{count} lines"


def first_line(text: str) -> str:
    """The first line with something on it. Spaces by name: what ``str.strip`` takes for one grows with Unicode."""
    return text.lstrip(" \t\r\n").partition("\n")[0].rstrip(" \t\r")


def _message(entry: kinds.Message) -> Headline:
    text = entry.text
    fields: dict[str, Any] = {"kind": entry.kind, "role": entry.role, "label": entry.role, "at_ms": entry.at_ms}
    if entry.provider and entry.model:
        fields["model"] = f"{entry.provider}/{entry.model}"
    if entry.role == "tool":
        words = ("error, " if entry.is_error else "") + lines(text)
        return Headline(**fields | {"label": f"tool {entry.tool_name or ''}", "words": words})
    if entry.role == "shell":
        return Headline(**fields, words=first_line(entry.command or ""))
    if entry.role in ("system", "developer"):
        return Headline(**fields, words=first_line(text))
    called = [block.name for block in entry.content if isinstance(block, ToolCall)]
    return Headline(**fields, words=first_line(text) or ", ".join(called), body=text, calls=len(called))


def _compaction(entry: kinds.Compaction) -> Headline:
    before = "" if entry.tokens_before is None else tokens(entry.tokens_before)
    after = "" if entry.tokens_after is None else f"{' -> ' if before else ''}{tokens(entry.tokens_after)}"
    words = f"{before}{after} tokens" if before or after else ""
    return Headline(kind=entry.kind, label="compaction", words=words, at_ms=entry.at_ms)  # `summary.md` has the rest


def _branch_summary(entry: kinds.BranchSummary) -> Headline:
    return Headline(
        kind=entry.kind, label="branch summary", words=first_line(entry.summary), at_ms=entry.at_ms
    )


def _custom_message(entry: kinds.CustomMessage) -> Headline:
    label, text = f"custom {entry.custom_type}", entry.text
    return Headline(
        kind=entry.kind, role="custom", label=label, words=first_line(text), body=text, at_ms=entry.at_ms
    )


def _tombstone(entry: kinds.Tombstone) -> Headline:
    words = entry.was if entry.role == "session" else f"{entry.role} {entry.was}"
    return Headline(kind=entry.kind, role=entry.kind, label="purged", words=words, at_ms=entry.at_ms)


def _unknown(entry: Entry) -> Headline:
    name = kinds.kind_of(entry)
    return Headline(kind=name, label=name, at_ms=entry.at_ms)


def _plain(label: str, words: Callable[[Any], str]) -> Callable[[Any], Headline]:
    def make(entry: Any) -> Headline:
        return Headline(kind=entry.kind, label=label, words=words(entry), at_ms=entry.at_ms)

    return make


_MAKERS: dict[type[Entry], Callable[[Any], Headline]] = {
    kinds.SessionHeader: _plain("session", lambda entry: entry.title or entry.cwd or entry.agent),
    kinds.Message: _message,
    kinds.ModelChange: _plain("model", lambda entry: f"{entry.provider}/{entry.model}"),
    kinds.ThinkingChange: _plain("thinking", lambda entry: entry.level),
    kinds.ModeChange: _plain("mode", lambda entry: entry.mode),
    kinds.ToolsChange: _plain("tools", lambda entry: ", ".join(entry.tools)),
    kinds.Instructions: _plain("instructions", lambda entry: first_line(entry.task or entry.system_prompt or "")),
    kinds.Injection: _plain("injection", lambda entry: ""),
    kinds.Compaction: _compaction,
    kinds.BranchSummary: _branch_summary,
    kinds.ContextEdit: _plain("context edit", lambda entry: entry.target),
    kinds.Prune: _plain("prune", lambda entry: f"{len(entry.targets)} tool results"),
    kinds.Reset: _plain("reset", lambda entry: ""),
    kinds.Label: _plain("label", lambda entry: entry.label or "removed"),
    kinds.Title: _plain("title", lambda entry: entry.title or "removed"),
    kinds.Custom: _plain("custom", lambda entry: entry.custom_type),
    kinds.CustomMessage: _custom_message,
    kinds.Usage: _plain("usage", lambda entry: entry.purpose),
    kinds.Permission: _plain("permission", lambda entry: entry.decision),
    kinds.Checkpoint: _plain("checkpoint", lambda entry: entry.reason or entry.mode),
    kinds.Fork: _plain("fork", lambda entry: entry.title or entry.session),
    kinds.SourceFile: _plain("source file", lambda entry: f"{len(entry.superseded)} superseded"),
    kinds.Attachment: _plain("attachment", lambda entry: f"{entry.name}, {len(entry.data):,} bytes"),
    kinds.Project: _plain("project", lambda entry: entry.identity),
    kinds.Continuation: _plain("continuation", lambda entry: ""),  # as releases write it that do not know the kind
    kinds.Seal: _plain("seal", lambda entry: entry.branch),
    kinds.Tombstone: _tombstone,
}
