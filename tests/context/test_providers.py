"""Tests of contexts as requests: rules for all providers, and their equivalent differences."""

import base64
import json
import re

import pytest
from asking import (
    APIS,
    LS,
    PNG,
    READ,
    SIGNED,
    TWO_CALLS,
    anthropic,
    chat,
    ids_of,
    request,
    responses,
    said_by,
    texts_in,
)

from gitsession.context import providers
from gitsession.context.providers.conversation import NO_OUTPUT, NO_RESULT
from gitsession.errors import NotFound
from gitsession.model.blocks import File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Instructions, Message

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}


# A simple conversation


@pytest.mark.parametrize("api", APIS)
def test_empty_conversation_is_an_empty_list(api):
    assert list(request(api).values()) == [[]]


@pytest.mark.parametrize("api", APIS)
def test_blank_text_and_empty_messages_are_left_out(api):
    made = request(api, Message.user("hi"), Message.assistant(" \n"), Message.user([]), Message.user([Text("")]))
    assert made == request(api, Message.user("hi"))


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_failed_answer_is_left_out_with_its_results(api, stop):
    failed = Message.assistant([Text("half"), READ], stop=stop)
    made = request(api, Message.user("hi"), failed, Message.tool(READ, "out"))
    assert made == request(api, Message.user("hi"))


# Text before the conversation


@pytest.mark.parametrize("api", APIS)
def test_system_prompt_is_in_the_field_of_the_api(api):
    made = request(api, Message.user("hi"), instructions=Instructions(system_prompt="be good"))
    assert {
        "anthropic": lambda: made["system"],
        "openai-chat": lambda: made["messages"][0]["content"],
        "openai-responses": lambda: made["instructions"],
    }[api]() == "be good"


@pytest.mark.parametrize("api", APIS)
def test_another_system_prompt_replaces_it(api):
    entries = [Message(role="system", content=(Text("be kind"),)), Message.user("hi")]
    stated = texts_in(request(api, *entries, instructions=Instructions(system_prompt="be good")))
    assert "be good\n\nbe kind" in stated
    replaced = texts_in(request(api, *entries, instructions=Instructions(system_prompt="be good"), system="be brief"))
    assert "be brief" in replaced
    assert not [text for text in replaced if "be good" in text or "be kind" in text]


def test_later_system_message_keeps_its_position_for_openai():
    entries = [Message.user("hi"), Message(role="developer", content=(Text("now be brief"),)), Message.user("more")]
    assert [message["role"] for message in chat(*entries)] == ["user", "developer", "user"]
    assert [item["role"] for item in responses(*entries)] == ["user", "developer", "user"]


@pytest.mark.parametrize("api", APIS)
def test_system_messages_of_an_agent_that_leaves_them_out_are_left_out(api):
    system = Message(role="system", content=(Text("be good"),), extra={"sections": {"a": "b"}})
    assert request(api, system, Message.user("hi"), system, profile="pi-0.73") == request(api, Message.user("hi"))


TOOLS_AS_STATED = {
    "pi": {"name": "read", "description": "reads", "parameters": SCHEMA},
    "anthropic": {"name": "read", "description": "reads", "input_schema": SCHEMA},
    "mcp": {"name": "read", "description": "reads", "inputSchema": SCHEMA},
    "chat": {"type": "function", "function": {"name": "read", "description": "reads", "parameters": SCHEMA}},
}


@pytest.mark.parametrize("stated", TOOLS_AS_STATED.values(), ids=TOOLS_AS_STATED)
def test_tools_are_passed_on_however_their_definition_is_spelt(stated):
    known = Instructions(tools=[stated, "only a name", {"name": "no schema"}])
    tool = {"name": "read", "description": "reads"}
    assert request("anthropic", instructions=known)["tools"] == [{**tool, "input_schema": SCHEMA}]
    function = {**tool, "parameters": SCHEMA}
    assert request("openai-chat", instructions=known)["tools"] == [{"type": "function", "function": function}]
    (made,) = request("openai-responses", instructions=known)["tools"]
    assert made == {"type": "function", **function, "strict": False}


def test_inactive_tool_is_not_sent():
    known = Instructions(tools=[TOOLS_AS_STATED["pi"]])
    assert "tools" not in request("anthropic", instructions=known, tools=("write",))


def test_system_messages_add_and_remove_tools():
    added = Message(role="system", extra={"toolsAdded": [{**TOOLS_AS_STATED["pi"], "name": name} for name in "ab"]})
    removed = Message(role="system", extra={"toolsRemoved": [{"name": "a"}, {"name": ["?"]}, 7]})
    assert [tool["name"] for tool in request("anthropic", added, removed)["tools"]] == ["b"]


MODELS = {
    "anthropic": "anthropic/claude",
    "openai-chat": "openai/gpt",
    "openai-responses": "openai/gpt",
}


@pytest.mark.parametrize("api", APIS)
def test_model_is_named_for_its_own_provider(api):
    assert request(api, model=MODELS[api])["model"] == MODELS[api].partition("/")[2]
    assert "model" not in request(api, model="elsewhere/x")


def test_unknown_provider_is_recognized_by_its_messages():
    here = said_by("my-proxy", "x", Text("a"), extra={"api": "anthropic-messages"})
    assert request("anthropic", here, model="my-proxy/x")["model"] == "x"
    assert "model" not in request("openai-chat", here, model="my-proxy/x")


# Tools


@pytest.mark.parametrize("api", APIS)
def test_call_without_a_result_gets_one_that_reports_it(api):
    assert NO_RESULT in texts_in(request(api, Message.assistant([READ]), Message.user("more")))


@pytest.mark.parametrize("api", APIS)
def test_a_result_without_a_call_is_left_out(api):
    orphans = [Message.tool(READ, "out"), Message(role="tool", content=(Text("out"),)), Message.user("hi")]
    assert request(api, *orphans) == request(api, Message.user("hi"))


@pytest.mark.parametrize("api", APIS)
def test_the_first_of_two_results_counts(api):
    twice = [Message.assistant([READ]), Message.tool(READ, "first"), Message.tool(READ, "second")]
    assert request(api, *twice) == request(api, *twice[:2])


@pytest.mark.parametrize("api", APIS)
def test_empty_result_has_a_text(api):
    assert NO_OUTPUT in texts_in(request(api, Message.assistant([READ]), Message.tool(READ, "")))


@pytest.mark.parametrize("api", APIS)
def test_an_id_used_twice_is_two_ids(api):
    asked = Message.assistant([READ])
    entries = [asked, Message.tool(READ, "one"), asked, Message.tool(READ, "two")]
    calls, results = ids_of(api, request(api, *entries))
    assert calls == results == ["c1", "c1_2"]
    made = [text for text in texts_in(request(api, *entries)) if text in ("one", "two")]
    assert made == ["one", "two"]


ODD_IDS = {
    "empty": "",
    "too long": "x" * 500,
    "signs": "call:1/ä",
    "pi's for the Responses API": "call_1|fc_2",
    "half a character": "\ud83d",
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("odd", ODD_IDS.values(), ids=ODD_IDS)
def test_ids_and_names_are_valid_for_the_api(api, odd):
    call = ToolCall(odd, odd, {})
    made = request(api, Message.assistant([call]), Message.tool(call, "out"))
    calls, results = ids_of(api, made)
    assert calls == results
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}" if api == "openai-chat" else r"[a-zA-Z0-9_-]{1,64}", calls[0])


@pytest.mark.parametrize("api", APIS)
def test_longer_conversation_starts_with_the_shorter_one(api):
    entries = [*TWO_CALLS, Message.assistant([READ]), Message.tool(READ, "again"), Message.assistant("and done")]
    key = "input" if api == "openai-responses" else "messages"
    shorter, longer = request(api, *entries[:-3])[key], request(api, *entries)[key]
    whole = shorter if api != "anthropic" else shorter[:-1]  # its last turn may continue
    assert longer[: len(whole)] == whole


# Reasoning


@pytest.mark.parametrize("api", APIS)
def test_another_model_receives_reasoning_as_text_without_redacted_parts(api):
    other = said_by("anthropic", "claude", SIGNED, Thinking("secret", "blob", True), Text("ok", "textsig"))
    made = request(api, other, model="openai/gpt")
    stated = json.dumps(made)
    assert "hm" in stated
    assert "ok" in stated
    assert not [hidden for hidden in ("sig==", "blob", "secret", "textsig") if hidden in stated]


def test_a_turn_does_not_end_in_reasoning():
    cut = said_by("anthropic", "claude", SIGNED)
    assert anthropic(Message.user("hi"), cut, model="anthropic/claude") == anthropic(Message.user("hi"))
    item = Thinking("hm", json.dumps({"type": "reasoning", "id": "rs_1", "summary": []}))
    assert responses(said_by("openai", "gpt", item), model="openai/gpt") == []


BAD_SIGNATURES = ["{", "{}", '{"type":"reasoning"}', '{"type":"x","id":"rs"}', "7", "[", "[7]", "msg_" + "x" * 99]


@pytest.mark.parametrize("signature", BAD_SIGNATURES)
@pytest.mark.parametrize("api", APIS)
def test_invalid_signature_is_harmless(api, signature):
    own = said_by("openai", "gpt", Thinking("hm", signature), Text("ok", signature))
    assert "ok" in texts_in(request(api, own, model="openai/gpt"))


# Images and files


def test_a_picture_is_base64_with_its_type():
    picture, coded = Message.user([Image(PNG, "image/png")]), base64.b64encode(PNG).decode()
    source = {"type": "base64", "media_type": "image/png", "data": coded}
    assert anthropic(picture)[0]["content"] == [{"type": "image", "source": source}]
    url = f"data:image/png;base64,{coded}"
    assert chat(picture)[0]["content"] == [{"type": "image_url", "image_url": {"url": url}}]
    assert responses(picture)[0]["content"] == [{"type": "input_image", "detail": "auto", "image_url": url}]


def test_a_picture_in_a_result_is_in_the_result_or_right_behind_all_of_them():
    shot = [Message.assistant([READ, LS]), Message.tool(READ, [Image(PNG, "image/png")]), Message.tool(LS, "a.py")]
    assert anthropic(*shot)[-1]["content"][0]["content"][0]["type"] == "image"
    assert responses(*shot)[2]["output"][0]["type"] == "input_image"
    assert [message["role"] for message in chat(*shot)] == ["assistant", "tool", "tool", "user"]


@pytest.mark.parametrize("api", APIS)
def test_unsupported_blocks_become_text(api):
    blocks = [
        Image(b"BM", "image/bmp"),
        Image(b"", "image/png"),
        OtherBlock({"type": "image", "data": "blob:sha256:00"}),
        OtherBlock({"type": "telepathy"}),
        OtherBlock(None),
        File("a.bin", "application/x", b"\xff\x00"),
        File("b.txt", url="https://example.org/b"),
    ]
    made = texts_in(request(api, Message.user(blocks)))
    assert [text for text in made if text.startswith("[")] == [
        "[image image/bmp]",
        "[image image/png]",
        "[image]",
        "[file a.bin application/x 2 bytes]",
        "[file b.txt https://example.org/b]",
    ]


@pytest.mark.parametrize("api", APIS)
def test_a_file_of_text_is_read_out_and_a_document_sent(api):
    files = [File("a.md", data=b"# A"), File("b.pdf", "application/pdf", b"%PDF")]
    made = json.dumps(request(api, Message.user(files)))
    assert '<file name=\\"a.md\\">\\n# A\\n</file>' in made
    assert base64.b64encode(b"%PDF").decode() in made


@pytest.mark.parametrize("api", APIS)
def test_a_model_is_not_made_to_show_pictures(api):
    made = request(api, Message.assistant([Image(PNG, "image/png"), File("b.pdf", "application/pdf", b"%PDF")]))
    assert "[file application/pdf]" in json.dumps(made)


# Text from others than the user


@pytest.mark.parametrize("api", APIS)
def test_summaries_and_shell_commands_are_user_messages(api):
    made = " ".join(
        texts_in(
            request(
                api,
                Compaction(summary="we fixed it"),
                BranchSummary(summary="that failed"),
                CustomMessage(custom_type="x", content=(Text("by the way"),)),
                Message(role="custom", content=(Text("a note"),)),
                Message(role="shell", command="ls -l", output="a.py", exit_code=2),
            )
        )
    )
    for words in ("we fixed it", "that failed", "by the way", "a note", "ls -l", "a.py", "2."):
        assert words in made


@pytest.mark.parametrize("api", APIS)
def test_empty_summaries_and_hidden_messages_are_left_out(api):
    hidden = Message(role="shell", command="ls", output="x", extra={"excludeFromContext": True})
    assert request(api, Compaction(summary=""), BranchSummary(summary=" "), hidden) == request(api)


def test_unknown_provider_is_rejected_with_the_choices():
    with pytest.raises(NotFound, match="unknown provider 'openai'") as caught:
        providers.provider("openai")
    assert caught.value.hint == "choose one of pi, codex, anthropic, openai-chat, openai-responses"
