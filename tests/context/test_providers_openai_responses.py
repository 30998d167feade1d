"""Tests of requests for OpenAI's Responses API that apply to no other API."""

import json

from asking import TWO_CALLS, request, responses, said_by

from gitsession.model.blocks import Text, Thinking, ToolCall
from gitsession.model.entries import Message


def test_a_conversation_for_responses():
    assert request("openai-responses", Message.user("hi"), Message.assistant("hello")) == {
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "message", "role": "assistant", "content": "hello"},
        ]
    }


def test_results_follow_their_calls_for_responses():
    made = responses(*TWO_CALLS)
    assert [item["type"] for item in made[1:-1]] == ["message", *["function_call"] * 2, *["function_call_output"] * 2]
    assert made[2] == {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path":"a.py","n":1}'}
    assert made[4] == {"type": "function_call_output", "call_id": "c1", "output": "import x"}


def test_pis_id_of_a_call_is_two_ids_for_responses():
    call = ToolCall("call_1|fc_2", "read", {})
    own = said_by("openai", "gpt", call)
    asked, answered = responses(own, Message.tool(call, "out"), model="openai/gpt")
    assert (asked["id"], asked["call_id"], answered["call_id"]) == ("fc_2", "call_1", "call_1")
    asked, _ = responses(own, Message.tool(call, "out"), model="openai/other")
    assert "id" not in asked


def test_encrypted_reasoning_is_sent_as_its_original_item():
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA=="}
    signed = Text("ok", json.dumps({"v": 1, "id": "msg_1", "phase": "final_answer"}))
    own = said_by("openai", "gpt", Thinking("", json.dumps(item)), signed)
    reasoning, message = responses(own, model="openai/gpt")
    assert reasoning == item
    assert (message["id"], message["phase"]) == ("msg_1", "final_answer")
