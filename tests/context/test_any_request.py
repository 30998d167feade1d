"""Tests that any sequence of entries becomes a request that is valid by each provider's types and rules."""

import pytest
from asking import APIS, ids_of, request
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import MAPS, PLAIN, TEXT, entries_of

from gitsession.context.profiles import PROFILES
from gitsession.model.blocks import File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Instructions, Message

IDS = st.sampled_from(["c1", "c2", "call_1|fc_1", "", "ä"])
CALLS = st.builds(ToolCall, IDS, TEXT, MAPS, st.none() | TEXT)


BLOCKS = st.one_of(
    st.builds(Text, TEXT, st.none() | TEXT),
    st.builds(Thinking, TEXT, st.none() | TEXT, st.booleans()),
    CALLS,
    st.builds(Image, st.binary(max_size=9), st.sampled_from(["image/png", "image/bmp", ""])),
    st.builds(File, TEXT, st.sampled_from([None, "application/pdf", "image/gif"]), st.none() | st.binary(max_size=9)),
    st.builds(OtherBlock, PLAIN),
)


CONTENTS = st.lists(BLOCKS, max_size=4).map(tuple)
STOPS = st.sampled_from([None, "stop", "error"])


SHOWN = st.one_of(
    st.builds(
        Message,
        role=st.just("assistant"),
        content=CONTENTS,
        provider=st.sampled_from(["anthropic", "openai", None]),
        model=st.just("m"),
        stop=STOPS,
    ),
    st.builds(Message, role=st.just("tool"), content=CONTENTS, tool_call_id=st.none() | IDS, is_error=st.booleans()),
    st.builds(Message, role=st.sampled_from(["user", "system", "developer", "custom"]), content=CONTENTS),
    *(entries_of(kind) for kind in (Message, CustomMessage, Compaction, BranchSummary)),
)


REASONING = Message.assistant((Thinking("0"),), provider="anthropic", model="m")


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=60)
@example(entries=[REASONING], model="anthropic/m", instructions=None, system=None, profile="opencode")
@given(
    entries=st.lists(SHOWN, max_size=8),
    model=st.sampled_from([None, "anthropic/m", "openai/m", "m"]),
    instructions=st.none() | entries_of(Instructions),
    system=st.none() | TEXT,
    profile=st.sampled_from([*PROFILES]),
)
def test_any_sequence_of_entries_is_a_valid_request(api, entries, model, instructions, system, profile):
    made = request(api, *entries, model=model, instructions=instructions, system=system, profile=profile)
    calls, results = ids_of(api, made)
    assert len(set(calls)) == len(calls)
    assert sorted(calls) == sorted(results)
    {"anthropic": _takes_turns, "openai-chat": _answers_at_once, "openai-responses": _follows_reasoning}[api](made)


def _takes_turns(made):
    roles = [message["role"] for message in made["messages"]]
    assert roles == [("user", "assistant")[number % 2] for number in range(len(roles))]
    pending = set()
    for message in made["messages"]:
        types = [block["type"] for block in message["content"]]
        assert types
        assert {block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"} == pending
        assert types == sorted(types, key=lambda type_: type_ != "tool_result")
        pending = {block["id"] for block in message["content"] if block["type"] == "tool_use"}
    assert not pending


def _answers_at_once(made):
    pending = []
    for message in made["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == pending.pop(0)
        else:
            assert not pending
            pending = [call["id"] for call in message.get("tool_calls", ())]
    assert not pending


def _follows_reasoning(made):
    types = [item["type"] for item in made["input"]]
    assert "reasoning" not in types[-1:]
