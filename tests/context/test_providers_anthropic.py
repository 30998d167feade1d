"""Tests of requests for Anthropic's Messages API that apply to no other API."""

from asking import READ, SIGNED, TWO_CALLS, anthropic, request, said_by, texts_in

from gitsession.model.blocks import Text, Thinking
from gitsession.model.entries import Message


def test_a_conversation_for_anthropic():
    made = request("anthropic", Message.user("hi"), Message.assistant("hello"), Message.user("more"))
    assert made == {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "hello"}]},
            {"role": "user", "content": [{"type": "text", "text": "more"}]},
        ]
    }


def test_user_message_comes_first_for_anthropic():
    first, second = anthropic(Message.assistant("hello"))
    assert (first["role"], second["role"]) == ("user", "assistant")


def test_neighbours_of_one_role_are_one_turn_for_anthropic():
    made = anthropic(Message.user("a"), Message.user("b"), Message.assistant("c"), Message.assistant("d"))
    assert [(turn["role"], texts_in(turn["content"])[1::2]) for turn in made] == [
        ("user", ["a", "b"]),
        ("assistant", ["c", "d"]),
    ]


def test_a_later_system_message_joins_the_prompt_for_anthropic():
    later = Message(role="system", content=(Text("now be brief"),))
    made = request("anthropic", Message.user("hi"), later, Message.user("more"), system="be good")
    assert made["system"] == "be good\n\nnow be brief"
    assert [turn["role"] for turn in made["messages"]] == ["user"]


def test_developer_message_is_a_user_message_for_anthropic():
    later = Message(role="developer", content=(Text("now be brief"),))
    (turn,) = anthropic(Message.user("hi"), later)
    assert [block["text"] for block in turn["content"]] == ["hi", "now be brief"]


def test_named_sections_of_the_prompt_are_replaced_and_removed():
    made = request(
        "anthropic",
        Message(role="system", content=(Text("base"),), extra={"sections": {"a": "one", "b": "two", "c": "three"}}),
        Message.user("hi"),
        Message(role="system", extra={"sections": {"a": "uno", "b": None}}),
    )
    assert made["system"] == "base\n\nuno\n\nthree"


def test_results_follow_their_calls_for_anthropic():
    _, asked, answered, done = anthropic(*TWO_CALLS)
    assert asked["content"][1:] == [
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a.py", "n": 1}},
        {"type": "tool_use", "id": "c2", "name": "ls", "input": {}},
    ]
    out, listed = ([{"type": "text", "text": text}] for text in ("import x", "a.py"))
    assert answered["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": out, "is_error": True},
        {"type": "tool_result", "tool_use_id": "c2", "content": listed},
    ]
    assert done["role"] == "assistant"


def test_results_come_before_the_next_prompt_for_anthropic():
    made = anthropic(Message.assistant([READ]), Message.user("wait"), Message.tool(READ, "out"))
    assert [block["type"] for block in made[-1]["content"]] == ["tool_result", "text"]


def test_unknown_result_is_an_error_for_anthropic():
    assert anthropic(Message.assistant([READ]))[-1]["content"][0]["is_error"] is True


def test_signatures_are_sent_to_their_own_model():
    own = said_by("anthropic", "claude", SIGNED, Thinking("", "blob", True), Thinking("broken off"), Text("ok"))
    (_, turn) = anthropic(own, model="anthropic/claude")
    assert turn["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig=="},
        {"type": "redacted_thinking", "data": "blob"},
        {"type": "text", "text": "broken off"},
        {"type": "text", "text": "ok"},
    ]
