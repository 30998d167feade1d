"""Tests that a message keeps its other fields, even unknown ones, if a policy or a rule removes a part."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import bring, entry, pi_file, said
from showing import called, result

from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.context.policies import IMAGE, Policy, clear_thinking, clear_tool_uses, drop_images, model_facing
from gitsession.context.providers import provider
from gitsession.model.entries import CLEARED
from gitsession.sessions.entry_addresses import resolve
from gitsession.store.memory import MemoryStore

PICTURE = {"type": "image", "data": "eA==", "mimeType": "image/png", "alt": "a cat"}
THOUGHT = {"type": "thinking", "thinking": "hm", "thinkingSignature": "s", "depth": 2}
CALL = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}, "intent": "look"}
WORDS = {"type": "text", "text": "b", "mood": "calm"}


def messages(*lines: bytes, by: Policy, agent: str = "pi", profile: str = "pi") -> list[dict[str, Any]]:
    """Return the ``--as pi`` messages of an imported session under a policy."""
    store = MemoryStore()
    sid = bring(store, pi_file(*lines), agent=agent).session
    line = ContextHistory(store, resolve(store, sid, "leaf").oid)
    made: list[dict[str, Any]] = provider("pi").request(build.context(line, profile, [by]))["messages"]
    return made


def answer(id: str, parent: str, *content: Any) -> bytes:
    message = {"role": "assistant", "content": list(content), "api": "x", "later": {"a": [1]}}
    return entry("message", id, parent, message=message, beside="the entry's own")


def test_an_answer_without_its_thoughts_keeps_its_unknown_fields() -> None:
    [_, made] = messages(said("u", None, "a"), answer("a", "u", THOUGHT, WORDS), by=clear_thinking(keep=0))
    assert made == {"role": "assistant", "content": [WORDS], "api": "x", "later": {"a": [1]}}


def test_answer_without_its_calls_keeps_its_text() -> None:
    lines = said("u", None, "a"), answer("a", "u", WORDS, CALL), result("r", "a", "c1")
    [_, made] = messages(*lines, by=model_facing("user", "assistant"))
    assert made["content"] == [WORDS]
    assert made["later"] == {"a": [1]}


def test_call_without_its_arguments_keeps_its_other_fields() -> None:
    lines = said("u", None, "a"), answer("a", "u", WORDS, CALL), result("r", "a", "c1")
    [_, made, cleared] = messages(*lines, by=clear_tool_uses(trigger_tool_uses=0, keep=0, clear_tool_inputs=True))
    assert made["content"] == [WORDS, {**CALL, "arguments": {}}]
    assert cleared["content"] == [{"type": "text", "text": CLEARED}]


def test_cleared_result_keeps_its_other_fields() -> None:
    message = {"role": "toolResult", "toolCallId": "c1", "toolName": "bash", "isError": False, "later": 1}
    given = {"content": [{"type": "text", "text": "out"}], "details": {"rows": 9}}
    lines = said("u", None, "a"), called("a", "u", "c1"), entry("message", "r", "a", message=message | given)
    [_, _, made] = messages(*lines, by=clear_tool_uses(trigger_tool_uses=0, keep=0))
    assert made == message | {"content": [{"type": "text", "text": CLEARED}]}


@pytest.mark.parametrize("agent", ["pi", "omp"])
def test_text_in_place_of_an_image_keeps_the_rest(agent: str) -> None:
    message = {"role": "user", "content": [WORDS, PICTURE], "later": 1}
    [made] = messages(entry("message", "u", None, message=message), by=drop_images(), agent=agent)
    assert made == message | {"content": [WORDS, {"type": "text", "text": IMAGE}]}


def test_image_of_an_extension_is_removed_too() -> None:
    line = entry("custom_message", "c", "u", customType="x", content=[WORDS, PICTURE], display=True)
    [_, made] = messages(said("u", None, "a"), line, by=drop_images())
    assert made["content"] == [WORDS, {"type": "text", "text": IMAGE}]


def test_policy_applies_to_an_edited_message() -> None:
    change = entry("context_edit", "e", "a", targetId="a", replacement={"content": [THOUGHT, WORDS]})
    [_, made] = messages(said("u", None, "a"), answer("a", "u", WORDS), change, by=clear_thinking(keep=0))
    assert json.loads(json.dumps(made)) == made
    assert (made["content"], made["later"]) == ([WORDS], {"a": [1]})
