"""Import of OpenTelemetry traces as sessions: of spans with the semantic conventions for generative AI.

A conversation is one session with the key of the conversation. A span of an answer contains the whole input of the
model, so only the messages that the session lacks are appended. If the input differs from every branch, as that of a
sub-agent does, a new branch begins where the two differ.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from gitsession.api import Session, Store
from gitsession.errors import Malformed
from gitsession.exporting.otlp import SCOPE
from gitsession.git.types import Oid
from gitsession.importing.import_session import ImportResult
from gitsession.model.entries import FAILED, Message
from gitsession.model.genai_messages import from_genai
from gitsession.sessions.operation_log import Move
from gitsession.store import refs

_AGENT = "opentelemetry"
_FAILED = 2

Identity: TypeAlias = tuple[object, ...]


class AnswerSpan(NamedTuple):
    """A span of one answer of a model.

    Attributes:
        agent: The name of the service that recorded the span.
        conversation: The id of the conversation, or else of the trace.
        begin_ms: When the request was sent, Unix time in ms.
        end_ms: When the answer was complete, Unix time in ms.
        attributes: The attributes, as Python values.
        id: The id of the span.
        previous: In an export of gitsession, the id of the answer after which the input begins; otherwise "".
        error: The message of a failed answer; ``None`` if it did not fail.
    """

    agent: str
    conversation: str
    begin_ms: int
    end_ms: int
    attributes: Mapping[str, Any]
    id: str = ""
    previous: str = ""
    error: str | None = None


def answers_in(data: bytes) -> Iterator[AnswerSpan]:
    """Yield the answers in a file of the OpenTelemetry protocol in JSON, with one or more documents on lines.

    Raises:
        Malformed: The file is not JSON of the protocol.
    """
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
            resources = document["resourceSpans"]
            yield from (span for resource in resources for span in _answers_of(resource))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            what = "not a trace in the JSON form of the OpenTelemetry protocol"
            raise Malformed(f"{what}: {error}", where=f"line {number}") from None


class TraceRecorder:
    """The sessions of a store to which the answers of traces are added."""

    def __init__(self, store: Store, *, cwd: str | None = None) -> None:
        """Wrap an open store. ``cwd``: the working directory of new sessions."""
        self._store = store
        self._cwd = cwd
        self._known: dict[tuple[str, str], _Conversation] = {}

    def record(self, spans: Iterable[AnswerSpan]) -> list[ImportResult]:
        """Append the messages of answers to the sessions of their conversations.

        Args:
            spans: The answers, in any order.

        Returns:
            The result of each conversation, in the order of their first answers.
        """
        found: dict[tuple[str, str], list[AnswerSpan]] = {}
        for span in sorted(spans, key=lambda span: (span.end_ms, span.begin_ms)):
            found.setdefault((span.agent, span.conversation), []).append(span)
        return [self._conversation(*key).record(answers) for key, answers in found.items()]

    def _conversation(self, agent: str, id: str) -> _Conversation:
        if (agent, id) not in self._known:
            self._known[agent, id] = _Conversation(self._store.keyed_session(id, agent=agent, cwd=self._cwd))
        return self._known[agent, id]


class _Conversation:
    """A session to which answers are added, as a tree of its messages. The start of the conversation is ""."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._children: dict[tuple[Oid, Identity], Oid] = {}
        self._answers: dict[str, Oid] = {}
        ends: dict[Oid | None, Oid] = {None: ""}
        for node, _ in session.tree().walk():  # parents before children, each entry once
            at, entry = ends[node.parent], session.read(node)
            if isinstance(entry, Message):
                at = self._children.setdefault((at, _identity(entry)), node.oid)
            ends[node.oid] = at
        self._branches = {ends[oid]: name for name, oid in session.branches().items()}

    def record(self, answers: Iterable[AnswerSpan]) -> ImportResult:
        """Append the messages that the session lacks."""
        before, known = self._session.branches(), len(self._children)
        seen = {oid for answer in answers for oid in self._add(answer)}
        after = self._session.branches()
        changed = {name: oid for name, oid in after.items() if before.get(name) != oid}
        return ImportResult(
            session=self._session.id,
            entries=len(seen),
            new=len(self._children) - known,
            rewritten=None,
            branch=next(reversed(changed), self._session.branch_name),
            moves=tuple(
                Move(refs.leaf(self._session.id, name), before.get(name), oid) for name, oid in changed.items()
            ),
            problems=(),
        )

    def _add(self, span: AnswerSpan) -> Iterator[Oid]:
        """Append the messages of an answer that the session lacks, and yield the entries of all."""
        at = self._answers.get(span.previous, "")
        for message in _messages(span):
            key = at, _identity(message)
            if key not in self._children:
                self._children[key] = self._append(at, message)
            at = self._children[key]
            yield at
        self._answers[span.id] = at

    def _append(self, at: Oid, message: Message) -> Oid:
        """Append a message after the entry ``at``: to the branch that ends there, or to a new one."""
        name = self._branches.pop(at, None)
        if name is None:
            known = self._session.branches()
            name = next(free for number in itertools.count(2) if (free := f"chat-{number}") not in known)
            self._session.branch(name, at=at or "root")
        oid = self._session.on(name).append(message).oid
        self._branches[oid] = name
        return oid


def _identity(message: Message) -> Identity:
    """Return what two copies of a message have in common.

    A tool result is known by its call. Instructions differ from one request to the next, for example by the date.
    """
    if message.role == "system":
        return ("system",)
    if message.role == "tool" and message.tool_call_id:
        return ("tool", message.tool_call_id)
    return (message.role, repr(message.content))


def _messages(span: AnswerSpan) -> Iterator[Message]:
    attributes = span.attributes
    instructions = _decoded(attributes.get("gen_ai.system_instructions"))
    if isinstance(instructions, list) and instructions:
        yield from from_genai({"role": "system", "parts": instructions})
    for value in _listed(attributes.get("gen_ai.input.messages")):
        yield from (dataclasses.replace(message, at_ms=span.begin_ms) for message in from_genai(value))
    for value in _listed(attributes.get("gen_ai.output.messages")):
        for message in from_genai(value):
            yield _answer(message, span, value) if message.role == "assistant" else message


def _answer(message: Message, span: AnswerSpan, value: object) -> Message:
    attributes = span.attributes
    reason = value.get("finish_reason") if isinstance(value, dict) else None
    return dataclasses.replace(
        message,
        at_ms=span.end_ms,
        provider=_text(attributes.get("gen_ai.provider.name") or attributes.get("gen_ai.system")),
        model=_text(attributes.get("gen_ai.response.model") or attributes.get("gen_ai.request.model")),
        usage=_usage(attributes),
        stop=_text(reason) if span.error is None or reason in FAILED else "error",
        error=span.error or None,
    )


def _usage(attributes: Mapping[str, Any]) -> dict[str, int] | None:
    """Return the tokens of an answer; the count of the input includes those of the cache."""
    names = {
        "input": "input_tokens",
        "output": "output_tokens",
        "cacheRead": "cache_read.input_tokens",
        "cacheWrite": "cache_creation.input_tokens",
    }
    found = {name: attributes.get(f"gen_ai.usage.{attribute}") for name, attribute in names.items()}
    counts = {name: value for name, value in found.items() if type(value) is int and value >= 0}
    if "input" in counts:
        cached = counts.get("cacheRead", 0) + counts.get("cacheWrite", 0)
        counts["input"] = max(0, counts["input"] - cached)
    return counts or None


def _answers_of(resource: Mapping[str, Any]) -> Iterator[AnswerSpan]:
    about = _attributes((resource.get("resource") or {}).get("attributes"))
    for scope in resource.get("scopeSpans") or ():
        is_ours = (scope.get("scope") or {}).get("name") == SCOPE
        for span in scope.get("spans") or ():
            found = answer_of(about, _attributes(span.get("attributes")), str(span.get("traceId")))
            if found is not None:
                status = span.get("status") or {}
                yield found._replace(
                    begin_ms=_milliseconds(span.get("startTimeUnixNano")),
                    end_ms=_milliseconds(span.get("endTimeUnixNano")),
                    id=str(span.get("spanId")),
                    previous=next((str(link.get("spanId")) for link in span.get("links") or () if is_ours), ""),
                    error=str(status.get("message") or "") if status.get("code") == _FAILED else None,
                )


def answer_of(resource: Mapping[str, Any], attributes: Mapping[str, Any], trace: str) -> AnswerSpan | None:
    """Return the answer that a span records, without its times; ``None`` if the span records none.

    Args:
        resource: The attributes of the resource.
        attributes: The attributes of the span.
        trace: The id of the trace.
    """
    if not attributes.keys() & {"gen_ai.input.messages", "gen_ai.output.messages"}:
        return None
    if attributes.get("gen_ai.operation.name") in ("invoke_agent", "create_agent", "execute_tool"):
        return None  # their messages are those of the answers
    agent = _text(resource.get("service.name")) or _text(attributes.get("gen_ai.agent.name")) or _AGENT
    return AnswerSpan(agent, _text(attributes.get("gen_ai.conversation.id")) or trace, 0, 0, attributes)


def _milliseconds(nanoseconds: Any) -> int:
    return int(nanoseconds or 0) // 1_000_000


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair["key"]: _value(pair.get("value") or {}) for pair in pairs or ()}


def _value(value: Mapping[str, Any]) -> Any:
    for kind, found in value.items():
        match kind:
            case "intValue":
                return int(found)
            case "arrayValue":
                return [_value(item) for item in found.get("values") or ()]
            case "kvlistValue":
                return _attributes(found.get("values"))
        return found
    return None


def _listed(value: Any) -> list[Any]:
    decoded = _decoded(value)
    return decoded if isinstance(decoded, list) else []


def _decoded(value: Any) -> Any:
    """Return a structured attribute, which many tools record as a string of JSON."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
