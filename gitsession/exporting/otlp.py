"""Writer of sessions as a trace, in the JSON form of the OpenTelemetry protocol (docs/reference/otlp.md).

The file has one line, which a collector accepts as the body of a request to ``/v1/traces``. A session is one trace: a
span for the agent, and below it a span for each answer of a model and each call of a tool.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gitsession.codec.digest import hash_of
from gitsession.formats.base.outgoing import Outgoing, OutgoingEntry, OutgoingLine, WrittenFile, describe_kind
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Message
from gitsession.model.genai_messages import to_genai
from gitsession.model.plain import plain
from gitsession.model.usage import answer_id, token_counts

AGENT = "otlp"
SCOPE = "gitsession"

_INTERNAL, _CLIENT = 1, 3
_ERROR = 2


def write(out: Outgoing) -> WrittenFile:
    """Write all branches. The notes of the result count the entries that a trace does not contain."""
    trace = _Trace(out)
    spans = [span for each in out.entries for span in trace.spans_of(each)]
    document = {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes({"service.name": out.session.agent})},
                "scopeSpans": [{"scope": {"name": SCOPE}, "spans": [trace.root(), *spans]}],
            }
        ]
    }
    data = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return WrittenFile((OutgoingLine(data),), +trace.notes)


class _Trace:
    def __init__(self, out: Outgoing) -> None:
        self._out = out
        self._id = hash_of(b"trace\0", (out.session.source_id or "").encode())[:16].hex()
        self._by_key = {each.key: each for each in out.entries}
        self._last = {answer_id(each.entry.extra): each.key for each in out.entries if isinstance(each.entry, Message)}
        """The last entry of each answer that an agent divided into several, which reports the tokens of all."""
        self._calls: dict[str, tuple[ToolCall, int]] = {}
        self._events: list[dict[str, Any]] = []
        self.notes: Counter[str] = Counter()

    def root(self) -> dict[str, Any]:
        """Return the span of the agent. Call it after ``spans_of``."""
        session = self._out.session
        times = [session.at_ms, *(each.entry.at_ms for each in self._out.entries)]
        known = [at_ms for at_ms in times if at_ms > 0] or [0]
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": session.agent,
            "gen_ai.conversation.id": session.source_id,
            "session.title": self._out.name(),
            "session.cwd": session.cwd,
        }
        span = self._span("", f"invoke_agent {session.agent}", _INTERNAL, (min(known), max(known)), attributes)
        return span | ({"events": self._events} if self._events else {})

    def spans_of(self, each: OutgoingEntry) -> Iterator[dict[str, Any]]:
        entry = each.entry
        match entry:
            case Message(role="assistant"):
                calls = [block for block in entry.content if isinstance(block, ToolCall)]
                self._calls |= {call.id: (call, entry.at_ms) for call in calls}
                yield self._answer(each, entry)
            case Message(role="tool"):
                yield self._result(each, entry)
            case Message() | CustomMessage():
                pass  # the input of the next answer
            case Compaction() | BranchSummary():
                attributes = {"session.summary": entry.summary}
                self._events.append(_event(f"session.{entry.kind}", entry.at_ms, attributes))
            case _:
                self.notes[f"left out: {describe_kind(entry)}"] += 1

    def _answer(self, each: OutgoingEntry, answer: Message) -> dict[str, Any]:
        inputs, previous = self._inputs(each)
        began = max((entry.at_ms for entry in inputs), default=0) or answer.at_ms
        id = answer_id(answer.extra)
        usage = answer.usage if not id or self._last[id] == each.key else None
        counts = token_counts(usage)
        tokens = counts.input_tokens + counts.cache_read_tokens + counts.cache_write_tokens
        output = to_genai(answer) | {"finish_reason": answer.stop or "stop"}
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": self._out.session.source_id,
            "gen_ai.provider.name": answer.provider,
            "gen_ai.request.model": answer.model,
            "gen_ai.response.model": answer.model,
            "gen_ai.response.finish_reasons": [answer.stop] if answer.stop else None,
            "gen_ai.usage.input_tokens": tokens if usage else None,
            "gen_ai.usage.output_tokens": counts.output_tokens if usage else None,
            "gen_ai.usage.cache_read.input_tokens": counts.cache_read_tokens or None,
            "gen_ai.usage.cache_creation.input_tokens": counts.cache_write_tokens or None,
            "gen_ai.input.messages": _json([_input(entry) for entry in inputs]),
            "gen_ai.output.messages": _json([output]),
            "error.type": "_OTHER" if answer.failed else None,
        }
        name = f"chat {answer.model}" if answer.model else "chat"
        span = self._span(each.key, name, _CLIENT, (began, answer.at_ms), attributes)
        if previous is not None:
            span["links"] = [{"traceId": self._id, "spanId": self._span_id(previous)}]
        return span | ({"status": _failure(answer.error)} if answer.failed else {})

    def _result(self, each: OutgoingEntry, result: Message) -> dict[str, Any]:
        call, began = self._calls.get(result.tool_call_id or "", (None, 0))
        name = result.tool_name or (call.name if call else "unknown")
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.conversation.id": self._out.session.source_id,
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": result.tool_call_id,
            "gen_ai.tool.call.arguments": _json(plain(call.arguments)) if call else None,
            "gen_ai.tool.call.result": result.text,
            "error.type": "tool_error" if result.is_error else None,
        }
        times = (began or result.at_ms, result.at_ms)
        span = self._span(each.key, f"execute_tool {name}", _INTERNAL, times, attributes)
        return span | ({"status": _failure(None)} if result.is_error else {})

    def _inputs(self, each: OutgoingEntry) -> tuple[list[Message | CustomMessage], str | None]:
        """Return the messages between an answer and the answer before it, in order, and the key of that answer."""
        found: list[Message | CustomMessage] = []
        seen = {each.key}
        at = self._by_key.get(each.parent or "")
        while at is not None and at.key not in seen:
            if isinstance(at.entry, Message) and at.entry.role == "assistant":
                return found[::-1], at.key
            if isinstance(at.entry, Message | CustomMessage):
                found.append(at.entry)
            seen.add(at.key)
            at = self._by_key.get(at.parent or "")
        return found[::-1], None

    def _span(
        self, key: str, name: str, kind: int, times_ms: tuple[int, int], attributes: Mapping[str, Any]
    ) -> dict[str, Any]:
        begin, end = times_ms
        return {
            "traceId": self._id,
            "spanId": self._span_id(key),
            **({"parentSpanId": self._span_id("")} if key else {}),
            "name": name,
            "kind": kind,
            "startTimeUnixNano": _nanoseconds(min(begin, end)),
            "endTimeUnixNano": _nanoseconds(end),
            "attributes": _attributes(attributes),
        }

    def _span_id(self, key: str) -> str:
        return hash_of(b"span\0", self._id.encode(), key.encode())[:8].hex()


def _input(entry: Message | CustomMessage) -> dict[str, Any]:
    return to_genai(entry if isinstance(entry, Message) else Message(role="user", content=entry.content))


def _event(name: str, at_ms: int, attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "timeUnixNano": _nanoseconds(at_ms), "attributes": _attributes(attributes)}


def _failure(message: str | None) -> dict[str, Any]:
    return {"code": _ERROR, **({"message": message} if message else {})}


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return attributes in the JSON form of the protocol. Those with the value ``None`` are left out."""
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": str(value)}


def _nanoseconds(at_ms: int) -> str:
    return str(max(at_ms, 0) * 1_000_000)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
