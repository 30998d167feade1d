"""Headlines of the commit messages of codex's records. This module is FROZEN under view 1 (see ``pi.headline``).

A headline describes the record line. If the type of the line is not in the tables of this module, the headline contains
the literal name of the type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gitsession.formats.base.fields import opaque, plain, to_ms
from gitsession.formats.base.jsonl import LineFailure, Object, parse, record_line
from gitsession.formats.codex.split_file import injected
from gitsession.model.headline import Headline, first_line, line_count


def headline_of(payload: bytes, parsed: Object | LineFailure | None = None) -> Headline:
    """Return the headline of a record. Never raises. ``parsed``: the parsed record line, if it is known."""
    line = parse(record_line(payload)) if parsed is None else parsed
    if isinstance(line, LineFailure):
        return opaque(line, len(record_line(payload)))
    return _headline(line).at(to_ms(line.get("timestamp")))


def _headline(line: Object) -> Headline:
    name, payload = line.get("type"), line.get("payload")
    if not isinstance(name, str) or not name:
        return Headline(kind="unknown", label="unknown")
    if not isinstance(payload, dict):
        return _plain_headline(name)
    if name == "response_item":
        return _item(payload)
    if name == "event_msg":
        return _event(payload)
    describe = _BY_TYPE.get(name)
    return (describe(payload) if describe else None) or _plain_headline(name)


def _plain_headline(name: str) -> Headline:
    return Headline(kind=name, label=name)


# Response items


def _item(item: Object) -> Headline:
    name = item.get("type")
    if not isinstance(name, str) or not name:
        return Headline(kind="response_item", label="response_item")
    describe = _BY_ITEM.get(name)
    return describe(item) if describe else _plain_headline(name)


def _message(item: Object) -> Headline:
    role, text = item.get("role"), _text_of(item.get("content"))
    injected_kind = injected(item)
    if injected_kind is not None:
        return Headline(kind="custom_message", role="custom", label="context", words=injected_kind)
    if role in ("user", "assistant"):
        return Headline(kind="message", role=role, label=role, words=first_line(text), body=text)
    if role in ("developer", "system"):
        # These messages are long, so the headline has no body.
        return Headline(kind="message", role=role, label=role, words=first_line(text))
    return Headline(kind="message", role="other", label="message", words=first_line(text))


def _reasoning(item: Object) -> Headline:
    words = first_line(_text_of(item.get("summary")) or _text_of(item.get("content")))
    return Headline(kind="message", role="assistant", label="thinking", words=words)


def _call(item: Object) -> Headline:
    name = item.get("name")
    words = name if isinstance(name, str) and name else str(item["type"]).removesuffix("_call")
    return Headline(kind="message", role="assistant", label="assistant", words=words, calls=1)


def _output(item: Object) -> Headline:
    output = item.get("output")
    words = line_count(_text_of_output(output))
    if isinstance(output, dict) and output.get("success") is False:
        words = f"error, {words}"
    return Headline(kind="message", role="tool", label="tool", words=words)


def _found_tools(item: Object) -> Headline:
    tools = item.get("tools")
    count = len(tools) if isinstance(tools, list) else 0
    return Headline(kind="message", role="tool", label="tool", words="1 tool" if count == 1 else f"{count} tools")


def _compacted_item(item: Object) -> Headline:
    return Headline(kind="message", role="assistant", label="assistant", words=str(item["type"]))


def _agent_message(item: Object) -> Headline:
    text = _text_of(item.get("content"))
    return Headline(kind="custom_message", role="custom", label="agent message", words=first_line(text), body=text)


def _ghost_snapshot(item: Object) -> Headline:
    commit = item.get("ghost_commit")
    words = commit.get("id") if isinstance(commit, dict) else None
    return Headline(kind="custom", label="ghost_snapshot", words=words if isinstance(words, str) else "")


_BY_ITEM: dict[str, Callable[[Object], Headline]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _call,
    "custom_tool_call": _call,
    "local_shell_call": _call,
    "tool_search_call": _call,
    "web_search_call": _call,
    "image_generation_call": _call,
    "function_call_output": _output,
    "custom_tool_call_output": _output,
    "tool_search_output": _found_tools,
    "compaction": _compacted_item,
    "compaction_summary": _compacted_item,
    "context_compaction": _compacted_item,
    "agent_message": _agent_message,
    "ghost_snapshot": _ghost_snapshot,
}


# Other lines


def _event(event: Object) -> Headline:
    name = event.get("type")
    if name == "thread_rolled_back":
        count = event.get("num_turns")
        words = "" if type(count) is not int else "1 turn" if count == 1 else f"{count} turns"
        return Headline(kind="custom", label="rolled back", words=words)
    if name == "thread_name_updated":
        return Headline(kind="title", label="title", words=plain(event.get("thread_name")))
    return Headline(kind="event_msg", label=name if isinstance(name, str) and name else "event_msg")


def _session_meta(meta: Object) -> Headline:
    return Headline(kind="session", label="session", words=plain(meta.get("cwd")))


def _turn_context(settings: Object) -> Headline | None:
    model, effort = settings.get("model"), settings.get("effort")
    if not isinstance(model, str) or not model:
        return None
    words = f"{model} {effort}" if isinstance(effort, str) and effort else model
    return Headline(kind="model_change", label="model", words=words)


def _compacted(compacted: Object) -> Headline:
    items, text = compacted.get("replacement_history"), plain(compacted.get("message"))
    if text.startswith(_SUMMARY_BEGINS) and "\n" in text:
        text = text.partition("\n")[2]
    count = len(items) if isinstance(items, list) else None
    words = "" if count is None else "1 item stays" if count == 1 else f"{count} items stay"
    return Headline(kind="compaction", label="compaction", words=words, body=text)


_SUMMARY_BEGINS = "Another language model started to solve this problem"
"""The beginning of the text that codex writes before a summary."""


def _mail(mail: Object) -> Headline:
    content = mail.get("content")
    text = content if isinstance(content, str) else _text_of(content)
    return Headline(kind="custom_message", role="custom", label="agent message", words=first_line(text), body=text)


_BY_TYPE: dict[str, Callable[[Object], Headline | None]] = {
    "session_meta": _session_meta,
    "turn_context": _turn_context,
    "compacted": _compacted,
    "inter_agent_communication": _mail,
}


# Functions that return the text of a value of any type


def _text_of(content: Any) -> str:
    """Return the texts of the blocks in ``content``, joined by newlines."""
    if not isinstance(content, list):
        return ""
    texts = [block.get("text") for block in content if isinstance(block, dict)]
    return "\n".join([text for text in texts if isinstance(text, str)])


def _text_of_output(output: Any) -> str:
    if isinstance(output, str):
        return output
    if isinstance(output, dict):
        inner = output.get("content")
        return inner if isinstance(inner, str) else _text_of(inner) or plain(output.get("text"))
    return _text_of(output)
