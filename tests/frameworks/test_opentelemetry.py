"""Tests of the span exporter with the SDK of OpenTelemetry, and of traces with the definition of the protocol."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Status, StatusCode

from gitsession import Message, Store
from gitsession.frameworks.opentelemetry import GitSessionSpanExporter


def told(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def test_the_answers_of_a_running_program_are_a_session(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git") as store:
        provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
        provider.add_span_processor(SimpleSpanProcessor(GitSessionSpanExporter(store)))
        tracer = provider.get_tracer("test")
        history = [told("user", "Hello")]
        with tracer.start_as_current_span("invoke_agent shop", attributes={"gen_ai.conversation.id": "c1"}):
            for answer in ("Hi", "Bye"):
                with tracer.start_as_current_span("chat gpt") as span:
                    span.set_attribute("gen_ai.conversation.id", "c1")
                    span.set_attribute("gen_ai.request.model", "gpt")
                    span.set_attribute("gen_ai.usage.output_tokens", 7)
                    span.set_attribute("gen_ai.input.messages", json.dumps(history))
                    span.set_attribute("gen_ai.output.messages", json.dumps([told("assistant", answer)]))
                    if answer == "Bye":
                        span.set_status(Status(StatusCode.ERROR, "cut off"))
                history += [told("assistant", answer), told("user", "And?")]
        session = store.session("shop:c1")
        subjects = [node.subject for node in session.history()][1:]
        assert subjects == ["user: Hello", "assistant: Hi", "user: And?", "assistant: Bye"]
        last = session.read("leaf")
        assert isinstance(last, Message)
        assert (last.model, last.stop, last.error, last.usage) == ("gpt", "error", "cut off", {"output": 7})
        provider.shutdown()


def test_an_exported_trace_matches_the_definition_of_the_protocol() -> None:
    trace = pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2")
    json_format = pytest.importorskip("google.protobuf.json_format")
    with Store.in_memory() as store:
        session = store.new_session(agent="mine")
        session.append(Message.user("Hello"))
        session.append(Message.assistant("Hi", usage={"input": 1, "output": 2}))
        session.append(Message.assistant("Hi again"))
        document = json.loads(store.export(session.id, to="otlp").data)
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for owner in (span, *span.get("links", ())):
            for name in {"traceId", "spanId", "parentSpanId"} & owner.keys():
                # hexadecimal in OTLP, base64 in the JSON form of Protocol Buffers
                owner[name] = base64.b64encode(bytes.fromhex(owner[name])).decode()
    parsed = json_format.ParseDict(document, trace.TracesData())
    names = [span.name for span in parsed.resource_spans[0].scope_spans[0].spans]
    assert names == ["invoke_agent mine", "chat", "chat"]
