"""Tests of requests for OpenAI's Chat Completions API that apply to no other API."""

import json

from asking import PNG, TWO_CALLS, chat, request, said_by

from gitsession.model.blocks import Image, Text, Thinking
from gitsession.model.entries import CustomMessage, Message


def test_a_conversation_for_chat():
    said = [Message.user("hi"), Message.assistant("hello"), Message.user([Text("a"), Text("b")])]
    assert request("openai-chat", *said) == {
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ]
    }


def test_role_of_extension_messages_depends_on_the_profile():
    word = CustomMessage(custom_type="x", content=(Text("by the way"),))
    picture = CustomMessage(custom_type="x", content=(Text("look"), Image(PNG, "image/png")))
    assert [message["role"] for message in chat(word, picture)] == ["user", "user"]
    assert [message["role"] for message in chat(word, picture, profile="omp")] == ["developer", "user"]


def test_results_follow_their_calls_for_chat():
    _, asked, read, listed, done = chat(*TWO_CALLS)
    assert asked["content"] == "I look"
    function = {"name": "read", "arguments": '{"path":"a.py","n":1}'}
    assert asked["tool_calls"][0] == {"id": "c1", "type": "function", "function": function}
    assert read == {"role": "tool", "tool_call_id": "c1", "content": "import x"}
    assert listed == {"role": "tool", "tool_call_id": "c2", "content": "a.py"}
    assert done["role"] == "assistant"


def test_the_thought_of_another_model_does_not_run_into_its_answer():
    other = said_by("anthropic", "m", Thinking("hm", "sig"), Text("ok"))
    sent = {profile: chat(other, profile=profile)[0]["content"] for profile in ("claude", "opencode", "pi")}
    assert sent == {"claude": "hm\n\nok", "opencode": "hmok", "pi": "hmok"}


def test_reasoning_is_sent_in_its_original_field():
    own = said_by("deepseek", "r1", Thinking("hm", "reasoning_content"), Text("ok"))
    (message,) = chat(own, model="deepseek/r1", valid=False)
    assert message["reasoning_content"] == "hm"


def test_servers_of_chat_get_details_of_reasoning_back_as_they_were():
    details = [{"type": "reasoning.encrypted", "id": "r", "data": "x"}]
    own = said_by("openrouter", "m", Thinking("hm", json.dumps(details)), Text("ok"))
    (message,) = chat(own, model="openrouter/m", valid=False)
    assert message["reasoning_details"] == details
