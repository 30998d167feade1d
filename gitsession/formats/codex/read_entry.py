"""Reader of codex's records. The returned entries are views, which may change between releases.

The kind of an entry does not change, because the kind is part of the headline.

An entry is derived from the record line. Of the accompanying lines, only the goal is used. If the type of a record is
unknown, the record becomes an ``UnknownEntry`` with the name of the type. Each response item is one entry. So
reasoning, a call, and the result of the call are three entries, as in codex's files. The token counts of an answer are
in a ``token_count`` event, which is an accompanying line of the item after the answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from gitsession.formats.base.blocks import image
from gitsession.formats.base.fields import Fields, object_in, to_ms
from gitsession.formats.base.jsonl import LF, LineFailure, Object, parse, record_line
from gitsession.formats.codex.split_file import injected
from gitsession.model import entries
from gitsession.model.blocks import Block, File, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Custom, CustomMessage, Entry, Message, Opaque, UnknownEntry
from gitsession.model.session_state import GOAL
from gitsession.model.usage import TOKENS_MAX, AnswerUsage, token_counts

PASSED_THROUGH = "internal_chat_message_metadata_passthrough"
"""A field of an item that codex stores but does not send to any model."""


def sent(item: Object) -> Object:
    """Return the fields of ``item`` that are sent to a provider."""
    return {name: value for name, value in item.items() if name != PASSED_THROUGH}


def read_item(at_ms: int, item: Object, line_fields: Mapping[str, Any]) -> Entry | None:
    """Return the entry that a response item represents, or ``None`` if the type of the item is unknown.

    ``line_fields``: the fields of the line other than the item, the type and the time.
    """
    name = item.get("type")
    read = _ITEMS.get(name) if isinstance(name, str) else None
    return read(at_ms, item, Fields({**line_fields, **item})) if read else None


def read_blocks(content: Any) -> tuple[Block, ...]:
    """Return the blocks of a message or of a tool result."""
    return tuple(_block(block) for block in content) if isinstance(content, list) else ()


def _message(at_ms: int, item: Object, fields: Fields) -> Entry:
    content, role, what = _content(fields), fields.text("role"), injected(item)
    fields.drop("type")
    if what is not None:
        return CustomMessage(at_ms=at_ms, custom_type=what, content=content, display=False, extra=fields.left)
    if role not in ("user", "assistant", "developer", "system"):
        fields.left |= {} if role is None else {"role": role}
        role = "custom"
    return Message(at_ms=at_ms, role=role, content=content, extra=fields.left)


def _content(fields: Fields) -> tuple[Block, ...]:
    content = fields.left.get("content")
    if isinstance(content, list):
        fields.drop("content")
    return read_blocks(content)


def _reasoning(at_ms: int, item: Object, fields: Fields) -> Entry:
    """Return a message with one block of reasoning.

    The ``signature`` of the block is the item as JSON, with the encrypted content, because the API requires the item.
    """
    text = _text_of_blocks(item.get("summary")) or _text_of_blocks(item.get("content"))
    fields.drop(*item.keys() - {PASSED_THROUGH})
    signature = json.dumps(sent(item), ensure_ascii=False, separators=(",", ":"))
    return Message(at_ms=at_ms, role="assistant", content=(Thinking(text, signature),), extra=fields.left)


def _text_of_blocks(blocks: Any) -> str:
    return "\n".join(block.text for block in read_blocks(blocks) if isinstance(block, Text))


def _call(at_ms: int, item: Object, fields: Fields) -> Entry:
    id_, name = item.get("call_id"), item.get("name")
    if not isinstance(id_, str) or not isinstance(name, str):
        return _unconverted(at_ms, item, fields)
    fields.drop("type", "call_id", "name", "arguments", "input")
    return _call_entry(at_ms, ToolCall(id_, name, _arguments(item)), fields)


def _arguments(item: Object) -> Mapping[str, Any]:
    """Return the arguments of a call. Arguments that are not a JSON object become the only field of an object."""
    stated = item.get("arguments")
    if isinstance(stated, str):
        found = parse(stated.encode("utf-8", "surrogatepass"))
        return found if isinstance(found, dict) else {"arguments": stated}
    return stated if isinstance(stated, dict) else {"input": item.get("input")}


def _shell_call(at_ms: int, item: Object, fields: Fields) -> Entry:
    id_, action = item.get("call_id") or item.get("id"), item.get("action")
    if not isinstance(id_, str) or not isinstance(action, dict):
        return _unconverted(at_ms, item, fields)
    fields.drop("type", "call_id", "action")
    return _call_entry(at_ms, ToolCall(id_, "local_shell", action), fields)


def _search_call(at_ms: int, item: Object, fields: Fields) -> Entry:
    id_ = item.get("call_id")
    if not isinstance(id_, str):
        return _unconverted(at_ms, item, fields)
    fields.drop("type", "call_id", "arguments")
    return _call_entry(at_ms, ToolCall(id_, "tool_search", _arguments(item)), fields)


def _call_entry(at_ms: int, call: ToolCall, fields: Fields) -> Entry:
    return Message(at_ms=at_ms, role="assistant", content=(call,), extra=fields.left)


def _unconverted(at_ms: int, item: Object, fields: Fields) -> Entry:
    """Return a message with ``item`` as an unchanged block, because no other type of block can represent the item."""
    line_fields = {name: value for name, value in fields.left.items() if name not in item}
    return Message(at_ms=at_ms, role="assistant", content=(OtherBlock(item),), extra=line_fields)


def _output(at_ms: int, item: Object, fields: Fields) -> Entry:
    output = fields.take("output")
    fields.drop("type")
    inner = output.get("content", output) if isinstance(output, dict) else output
    if isinstance(inner, str):
        content: tuple[Block, ...] = (Text(inner),)
    else:
        content = read_blocks(inner if isinstance(inner, list) else [] if inner is None else [inner])
    return Message(
        at_ms=at_ms,
        role="tool",
        content=content,
        tool_call_id=fields.text("call_id"),
        tool_name=fields.text("name"),
        is_error=isinstance(output, dict) and output.get("success") is False,
        extra=fields.left,
    )


def _found_tools(at_ms: int, item: Object, fields: Fields) -> Entry:
    fields.drop("type")
    content = (OtherBlock({"tools": fields.take("tools")}),)
    return Message(at_ms=at_ms, role="tool", content=content, tool_call_id=fields.text("call_id"), extra=fields.left)


def _agent_message(at_ms: int, item: Object, fields: Fields) -> Entry:
    content = _content(fields)
    fields.drop("type")
    return CustomMessage(at_ms=at_ms, custom_type="agent_message", content=content, details=fields.left)


def _ghost_snapshot(at_ms: int, item: Object, fields: Fields) -> Entry:
    fields.drop("type")
    return Custom(at_ms=at_ms, custom_type="ghost_snapshot", data=fields.take("ghost_commit"), extra=fields.left)


_ITEMS: dict[str, Callable[[int, Object, Fields], Entry]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _call,
    "custom_tool_call": _call,
    "local_shell_call": _shell_call,
    "tool_search_call": _search_call,
    "web_search_call": _unconverted,
    "image_generation_call": _unconverted,
    "function_call_output": _output,
    "custom_tool_call_output": _output,
    "tool_search_output": _found_tools,
    "compaction": _unconverted,
    "compaction_summary": _unconverted,
    "context_compaction": _unconverted,
    "agent_message": _agent_message,
    "ghost_snapshot": _ghost_snapshot,
}


# Content blocks. A block of an unknown type becomes an ``OtherBlock``.


def _block(block: Any) -> Block:
    if not isinstance(block, dict):
        return OtherBlock(block)
    name, text = block.get("type"), block.get("text")
    if name in ("input_text", "output_text", "summary_text", "reasoning_text", "text") and isinstance(text, str):
        return Text(text)
    if name == "input_image":
        return _image(block.get("image_url")) or OtherBlock(block)
    return OtherBlock(block)


def _image(url: Any) -> Block | None:
    if not isinstance(url, str):
        return None
    if not url.startswith("data:"):
        return File(url, url=url)
    head, mark, data = url.removeprefix("data:").partition(";base64,")
    return image(data, head) if mark else None


def tokens_in(line: bytes) -> int | None:
    """Return the size of the context in tokens that the ``token_count`` event ``line`` reports.

    codex writes this event after an answer or a compaction. If ``line`` contains no size, return ``None``.
    """
    return _tokens(_info(line, "last_token_usage"), "total_tokens")


def counts_in(payload: bytes) -> Iterator[AnswerUsage]:
    """Yield the token counts of answers that are in the lines of ``payload``.

    If only the limits in a ``token_count`` event change, codex writes the event again with the same counts. So a count
    is identified by the total number of tokens up to the answer.
    """
    for line in payload.split(b"\n"):
        last = _info(line, "last_token_usage")
        tokens, so_far = _tokens(last, "total_tokens"), _tokens(_info(line, "total_token_usage"), "total_tokens")
        is_guess = last.get("input_tokens") == 0 == last.get("output_tokens")
        if tokens and not is_guess:
            yield AnswerUsage(tokens, str(so_far or ""), token_counts(last))


def _info(line: bytes, name: str) -> Object:
    parsed = parse(line) if b"token_count" in line else LineFailure("")
    return {} if isinstance(parsed, LineFailure) else object_in(object_in(object_in(parsed, "payload"), "info"), name)


def _tokens(usage: Object, name: str) -> int | None:
    stated = usage.get(name)
    return stated if type(stated) is int and 0 < stated < TOKENS_MAX else None


REPLACEMENT = "replacement_history"
"""The key of the list of response items in ``Compaction.preserve``.

These items replace the whole context before the compaction.
"""


def entry_of(payload: bytes) -> Entry:
    """Return the entry that a record represents. Never raises."""
    line = parse(record_line(payload))
    if isinstance(line, LineFailure):
        return Opaque(payload=payload, problem=line.reason)
    name, body = line.get("type"), line.get("payload")
    at_ms = to_ms(line.get("timestamp")) or 0
    found: Entry | None = None
    if isinstance(body, dict):
        if name == "response_item":
            line_fields = {key: value for key, value in line.items() if key not in ("timestamp", "type", "payload")}
            found = read_item(at_ms, body, line_fields)
        elif isinstance(name, str):
            read = (_BY_EVENT.get(str(body.get("type"))) if name == "event_msg" else None) or _BY_TYPE.get(name)
            found = read(at_ms, Fields(body)) if read else None
    if found is None:
        found = UnknownEntry(at_ms=at_ms, name=name if isinstance(name, str) and name else "unknown", body=line)
    goal = _goal_in(payload)
    return replace(found, extra={**found.extra, GOAL: goal}) if goal is not None else found


_GOAL_UPDATED = b'"thread_goal_updated"'


def _goal_in(payload: bytes) -> Object | None:
    """Return the goal of the thread that the accompanying lines of a record state last; ``None`` if they state none."""
    for line in reversed(payload.split(LF)[:-1]) if _GOAL_UPDATED in payload else ():
        parsed = parse(line) if _GOAL_UPDATED in line else LineFailure("")
        event = {} if isinstance(parsed, LineFailure) else object_in(parsed, "payload")
        if event.get("type") == "thread_goal_updated" and isinstance(event.get("goal"), dict):
            return object_in(event, "goal")
    return None


def _session(at_ms: int, fields: Fields) -> Entry:
    started_ms = to_ms(fields.left.get("timestamp"))
    return entries.SessionHeader(
        at_ms=at_ms if started_ms is None else started_ms,
        agent="codex",
        source_id=fields.text("id"),
        cwd=fields.text("cwd"),
        parent=_parent(fields),
        extra=fields.left,
    )


def _parent(fields: Fields) -> str | None:
    """Return the id of the parent thread, or ``None`` if there is no parent thread.

    The parent thread started this thread as a sub-agent, or the user forked this thread from the parent thread.
    """
    spawned = fields.left.get("source")
    for step in ("subagent", "thread_spawn", "parent_thread_id"):
        spawned = spawned.get(step) if isinstance(spawned, dict) else None
    stated = (fields.left.get("parent_thread_id"), spawned, fields.left.get("forked_from_id"))
    return next((thread for thread in stated if isinstance(thread, str) and thread), None)


def _turn_context(at_ms: int, fields: Fields) -> Entry | None:
    model = fields.text("model")
    return entries.ModelChange(at_ms=at_ms, provider="", model=model, extra=fields.left) if model else None


def _compacted(at_ms: int, fields: Fields) -> Entry:
    summary = fields.text("message") or ""
    items = fields.left.get(REPLACEMENT)
    preserved = {REPLACEMENT: fields.take(REPLACEMENT)} if isinstance(items, list) else None
    return entries.Compaction(at_ms=at_ms, summary=summary, preserve=preserved, extra=fields.left)


def _mail(at_ms: int, fields: Fields) -> Entry:
    content = fields.take("content")
    blocks = (Text(content),) if isinstance(content, str) else read_blocks(content)
    return entries.CustomMessage(at_ms=at_ms, custom_type="agent_message", content=blocks, details=fields.left)


def _rolled_back(at_ms: int, fields: Fields) -> Entry:
    fields.drop("type")
    return entries.Custom(at_ms=at_ms, custom_type="thread_rolled_back", data=fields.left)


def _named(at_ms: int, fields: Fields) -> Entry:
    fields.drop("type")
    return entries.Title(at_ms=at_ms, title=fields.text("thread_name"), extra=fields.left)


_BY_TYPE: dict[str, Callable[[int, Fields], Entry | None]] = {
    "session_meta": _session,
    "turn_context": _turn_context,
    "compacted": _compacted,
    "inter_agent_communication": _mail,
}

_BY_EVENT: dict[str, Callable[[int, Fields], Entry | None]] = {
    "thread_rolled_back": _rolled_back,
    "thread_name_updated": _named,
}
