"""Headlines of the commit messages for lines of pi and omp. This module is FROZEN under view 1.

The object id of a commit depends on the commit message, so the headline for a payload must never change. A change of a
headline requires a new view number, and the code of the old view must be kept. This module does not use
``Format.read``, because views may change between releases. If the type of a line is not listed in this module, the
headline contains the literal name of the type. This rule remains valid if a later release supports the type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gitsession.formats.base.fields import count, opaque, plain, text_of, to_ms
from gitsession.formats.base.jsonl import LineFailure, Object, parse
from gitsession.model.headline import Headline, first_line, format_tokens, line_count


def headline_of(payload: bytes, parsed: Object | LineFailure | None = None) -> Headline:
    """Return the headline of a line. Never raises. ``parsed``: the parsed line, if it is known."""
    line = parse(payload) if parsed is None else parsed
    if isinstance(line, LineFailure):
        return opaque(line, len(payload))
    return _headline(line).at(_at_ms(line))


def _headline(line: Object) -> Headline:
    name = line.get("type")
    if not isinstance(name, str) or not name:
        return Headline(kind="unknown", label="unknown")
    describe = _BY_TYPE.get(name)
    return describe(line) if describe else Headline(kind=name, label=name)


def _at_ms(line: Object) -> int | None:
    """Return the time of ``line``. If the line has no time, return the time of its message, or ``None``."""
    own = to_ms(line.get("timestamp"))
    message = line.get("message")
    return own if own is not None or not isinstance(message, dict) else to_ms(message.get("timestamp"))


# Messages, by role


def _message(line: Object) -> Headline:
    message = line.get("message")
    if not isinstance(message, dict):
        return Headline(kind="message", role="other", label="message")
    role = message.get("role")
    describe = _BY_ROLE.get(role) if isinstance(role, str) else None
    return describe(message) if describe else _other(message)


def _user(message: Object) -> Headline:
    text = text_of(message.get("content"))
    return Headline(kind="message", role="user", label="user", words=first_line(text), body=text)


def _assistant(message: Object) -> Headline:
    content, provider, model = message.get("content"), message.get("provider"), message.get("model")
    text = text_of(content)
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    called = [plain(block.get("name")) for block in blocks if block.get("type") == "toolCall"]
    return Headline(
        kind="message",
        role="assistant",
        label="assistant",
        words=first_line(text) or ", ".join(called),
        calls=len(called),
        body=text,
        model=_joined(provider, model),
    )


def _tool(message: Object) -> Headline:
    words = line_count(text_of(message.get("content")))
    if message.get("isError") is True:
        words = f"error, {words}"
    return Headline(kind="message", role="tool", label=_label_with_name("tool", message.get("toolName")), words=words)


def _shell(message: Object) -> Headline:
    words = first_line(plain(message.get("command")))
    return Headline(kind="message", role="shell", label="shell", words=words)


def _prompt(message: Object) -> Headline:
    role = str(message["role"])
    words = first_line(text_of(message.get("content")))  # no body, because prompts are long
    return Headline(kind="message", role=role, label=role, words=words)


def _custom_role(message: Object) -> Headline:
    text = text_of(message.get("content"))
    label = _label_with_name("custom", message.get("customType"))
    return Headline(kind="message", role="custom", label=label, words=first_line(text), body=text)


def _other(message: Object) -> Headline:
    words = first_line(text_of(message.get("content")))
    return Headline(kind="message", role="other", label="message", words=words)


# Other types


def _named(kind: str, label: str, field: str = "") -> Callable[[Object], Headline]:
    """Return a function that describes a line. ``field``: the name of the field with the text; "" for no text."""
    return lambda line: Headline(kind=kind, label=label, words=plain(line.get(field)) if field else "")


def _model_change(line: Object) -> Headline:
    words = _joined(line.get("provider"), line.get("modelId")) or plain(line.get("model"))  # omp writes only this field
    return Headline(kind="model_change", label="model", words=words)


def _compaction(line: Object) -> Headline:
    before, after = count(line.get("tokensBefore")), count(line.get("tokensAfter"))
    words = " -> ".join(format_tokens(each) for each in (before, after) if each is not None)
    return Headline(
        kind="compaction",
        label="compaction",
        words=f"{words} tokens" if before is not None else "",
        body=plain(line.get("summary")),
    )


def _branch_summary(line: Object) -> Headline:
    text = plain(line.get("summary"))
    return Headline(kind="branch_summary", label="branch summary", words=first_line(text), body=text)


def _label(line: Object) -> Headline:
    return Headline(kind="label", label="label", words=plain(line.get("label")) or "removed")


def _custom(line: Object) -> Headline:
    return Headline(kind="custom", label=_label_with_name("custom", line.get("customType")))


def _custom_message(line: Object) -> Headline:
    text = text_of(line.get("content"))
    label = _label_with_name("custom", line.get("customType"))
    return Headline(kind="custom_message", role="custom", label=label, words=first_line(text), body=text)


def _usage(line: Object) -> Headline:
    return Headline(kind="usage", label="usage", words=_joined(line.get("provider"), line.get("model")))


def _service_tier(line: Object) -> Headline:
    return Headline(kind="mode_change", label="mode", words="service_tier")


_BY_ROLE: dict[str, Callable[[Object], Headline]] = {
    "user": _user,
    "assistant": _assistant,
    "toolResult": _tool,
    "bashExecution": _shell,
    "system": _prompt,
    "developer": _prompt,
    "custom": _custom_role,
    "hookMessage": _custom_role,
}

_BY_TYPE: dict[str, Callable[[Object], Headline]] = {
    "session": _named("session", "session", "cwd"),
    "message": _message,
    "model_change": _model_change,
    "thinking_level_change": _named("thinking_change", "thinking", "thinkingLevel"),
    "compaction": _compaction,
    "branch_summary": _branch_summary,
    "label": _label,
    "session_info": _named("title", "title", "name"),
    "title": _named("title", "title", "title"),
    "title_change": _named("title", "title", "title"),
    "custom": _custom,
    "custom_message": _custom_message,
    "usage": _usage,
    "model_usage": _usage,
    "context_edit": _named("context_edit", "context edit"),
    "active_tools_change": _named("tools_change", "tools"),
    "mode_change": _named("mode_change", "mode", "mode"),
    "service_tier_change": _service_tier,
    "ttsr_injection": _named("injection", "injection"),
    "session_init": _named("instructions", "instructions"),
    "reset_boundary": _named("reset", "reset"),
}


# Functions that accept values of any type and return text


def _label_with_name(what: str, name: Any) -> str:
    return f"{what} {name}" if isinstance(name, str) and name else what


def _joined(provider: Any, model: Any) -> str:
    return f"{provider}/{model}" if isinstance(provider, str) and isinstance(model, str) else ""
