"""Headlines of the commit messages of Claude Code's records. This module is FROZEN under view 1 (see ``pi.headline``).

This module does not use ``read_entry``, because views may change. If the type of a record is not in ``_BY_TYPE``, the
headline contains the literal name of the type, even if a later release supports the type.
"""

from __future__ import annotations

from collections.abc import Callable

from gitsession.formats.base.fields import count, object_in, opaque, text_of, to_ms
from gitsession.formats.base.jsonl import LineFailure, Object, parse, record_line
from gitsession.formats.claude.records import SYNTHETIC, boundary_before, is_boundary, message_of, text
from gitsession.model.headline import Headline, first_line, format_tokens, line_count


def headline_of(payload: bytes, parsed: Object | LineFailure | None = None) -> Headline:
    """Return the headline of a record. Never raises.

    The headline describes the record line. For a compaction, it describes the boundary line and the summary.
    ``parsed``: the parsed record line, if it is known.
    """
    line = parse(record_line(payload)) if parsed is None else parsed
    if isinstance(line, LineFailure):
        return opaque(line, len(record_line(payload)))
    boundary = boundary_before(line, payload)
    headline = _compaction(boundary, _text_of(line)) if boundary is not None else _headline(line)
    return headline.at(to_ms(line.get("timestamp")))


def _headline(line: Object) -> Headline:
    name = text(line.get("type"))
    if name is None:
        return Headline(kind="unknown", label="unknown")
    describe = _BY_TYPE.get(name)
    return describe(line) if describe else Headline(kind=name, label=name)


def _compaction(boundary: Object, summary: str) -> Headline:
    metadata = object_in(boundary, "compactMetadata")
    counts = [count(metadata.get(name)) for name in ("preTokens", "postTokens")]
    words = " -> ".join(format_tokens(each) for each in counts if each is not None)
    return Headline(kind="compaction", label="compaction", words=f"{words} tokens" if words else "", body=summary)


def _user(line: Object) -> Headline:
    results = [block for block in _blocks(line) if block.get("type") == "tool_result"]
    if results:
        words = line_count("\n".join(text_of(block.get("content")) for block in results))
        failed = "error, " if any(block.get("is_error") is True for block in results) else ""
        return Headline(kind="message", role="tool", label="tool", words=failed + words)
    content = _text_of(line)
    if line.get("isMeta") is True:  # text that Claude Code inserted as a user message
        return Headline(kind="message", role="custom", label="user (meta)", words=first_line(content))
    return Headline(kind="message", role="user", label="user", words=first_line(content), body=content)


def _assistant(line: Object) -> Headline:
    content, blocks = _text_of(line), _blocks(line)
    called = [text(block.get("name")) or "" for block in blocks if block.get("type") == "tool_use"]
    thinks = "thinking" if any(block.get("type") in ("thinking", "redacted_thinking") for block in blocks) else ""
    model = text(message_of(line).get("model"))
    return Headline(
        kind="message", role="assistant", label="assistant", words=first_line(content) or ", ".join(called) or thinks,
        calls=len(called), body=content,
        model=f"anthropic/{model}" if model is not None and model != SYNTHETIC else "",
    )  # fmt: skip


def _attachment(line: Object) -> Headline:
    stated = line.get("attachment")
    attachment = stated if isinstance(stated, dict) else {}
    name = text(attachment.get("type"))
    if name == "queued_command":  # a prompt that the user wrote while the model was busy
        prompt = text_of(attachment.get("prompt"))
        return Headline(kind="message", role="user", label="user", words=first_line(prompt), body=prompt)
    words = text(attachment.get("filename")) or ""
    return Headline(kind="custom_message", role="custom", label=f"attachment {name}" if name else "attachment",
                    words=words)  # fmt: skip


def _system(line: Object) -> Headline:
    if is_boundary(line):
        return _compaction(line, "")
    name, words = text(line.get("subtype")) or "system", first_line(text_of(line.get("content")))
    if name == "local_command":
        return Headline(kind="custom_message", role="custom", label=name, words=words)
    return Headline(kind="custom", label=name, words=words)


def _progress(line: Object) -> Headline:
    data = line.get("data")
    words = text(data.get("type")) if isinstance(data, dict) else None
    return Headline(kind="custom", label="progress", words=words or "")


def _naming(kind: str, label: str, field: str) -> Callable[[Object], Headline]:
    def describe(line: Object) -> Headline:
        return Headline(kind=kind, label=label, words=text(line.get(field)) or "")

    return describe


def _replaced(line: Object) -> Headline:
    return Headline(kind="context_edit", label="content replacement")


_BY_TYPE: dict[str, Callable[[Object], Headline]] = {
    "user": _user,
    "assistant": _assistant,
    "attachment": _attachment,
    "system": _system,
    "progress": _progress,
    "summary": _naming("title", "title", "summary"),
    "ai-title": _naming("title", "title", "aiTitle"),
    "custom-title": _naming("title", "title", "customTitle"),
    "tag": _naming("custom", "tag", "tag"),
    "agent-name": _naming("custom", "agent name", "agentName"),
    "content-replacement": _replaced,
}


# Functions that read the content of a message. They accept values of any type.


def _blocks(line: Object) -> list[Object]:
    content = message_of(line).get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _text_of(line: Object) -> str:
    return text_of(message_of(line).get("content"))
