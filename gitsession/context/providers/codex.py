"""Requests as codex sends them. Response items from codex's files are unchanged. Other items are converted.

As in codex, a call without a result gets the result ``aborted``, and a result without a call is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gitsession.context.profiles import profile
from gitsession.context.providers.wire import known, sendable
from gitsession.context.value import Context, Item
from gitsession.formats.base.jsonl import LineFailure, Object, parse, record_line
from gitsession.formats.codex.agent import codex
from gitsession.formats.codex.read_entry import sent
from gitsession.formats.codex.write import OUTPUTS, call_output, items_of

ABORTED = "aborted"


def request(context: Context, *, system: str | None = None) -> dict[str, Any]:
    """Return ``input``, and also ``model`` and ``instructions`` if they are known."""
    system_prompt = context.instructions.system_prompt if context.instructions else None
    head = system_prompt if system is None else system
    role = profile(context.profile).llm_role
    items = [input_item for item in context.items if role(item.entry) is not None for input_item in _input_items(item)]
    return {**known(model=context.model, instructions=head), "input": [sendable(item) for item in _paired(items)]}


def _input_items(item: Item) -> list[Object]:
    line = parse(record_line(item.payload)) if item.agent == codex.AGENT else None
    if line is None or isinstance(line, LineFailure):
        return items_of(item.entry)
    payload = line.get("payload")
    if not isinstance(payload, dict):
        return []
    if line.get("type") == "inter_agent_communication":
        parties: Object = {name: payload[name] for name in ("author", "recipient") if name in payload}
        content = [{"type": "input_text", "text": payload.get("content")}]
        return [{"type": "agent_message", **parties, "content": content}]
    return [] if payload.get("role") == "system" else [sent(payload)]


def _paired(items: list[Object]) -> Iterable[Object]:
    """Yield the items without the results that have no call. Each call that has no result is followed by a result."""
    called = {_call_id(item) for item in items if call_output(item, "") is not None}
    answered = {_call_id(item) for item in items if _is_output(item)}
    for item in items:
        if _is_output(item) and _call_id(item) not in called:
            continue
        yield item
        missing = call_output(item, ABORTED) if _call_id(item) not in answered else None
        if missing is not None:
            yield missing


def _is_output(item: Object) -> bool:
    return str(item.get("type")) in OUTPUTS


def _call_id(item: Object) -> str | None:
    call_id = item.get("call_id")
    return call_id if isinstance(call_id, str) else None
