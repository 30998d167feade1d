"""Comparison of requests with the released pi for 150 contexts. It requires ``$LAB`` with the program.

Two differences are intended. pi sends results without a call, which the APIs reject. If a result follows the next
prompt, pi sends an error in its place, and gitsession sends the result.
"""

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from goldens import GOLDEN, cases
from places import ROOT
from showing import golden_context

from gitsession.context.providers import anthropic, openai_chat, openai_responses
from gitsession.context.providers import pi as as_pi

LAB = Path(os.environ.get("LAB", "/nonexistent"))
NODE = LAB / "node22/node_modules/.bin/node"
DRIVER = ROOT / "tests/support/pi_requests.mjs"

pytestmark = pytest.mark.skipif(not (NODE.exists() and GOLDEN.exists()), reason="the released pi is not at hand")


@pytest.fixture(scope="module")
def pairs():
    """Return the contexts, each with the request of pi for it."""
    contexts = [golden_context(case, "pi") for case in cases()]
    given = json.dumps([as_pi.request(context) for context in contexts]).encode()
    done = subprocess.run([NODE, DRIVER], input=given, capture_output=True, check=True, timeout=200)
    return list(zip(contexts, json.loads(done.stdout), strict=True))


def of_anthropic(messages):
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else [{"type": "text", "text": "?"}]:
            if block["type"] == "tool_result":
                yield "result", block["tool_use_id"]
            elif block["type"] == "tool_use":
                yield "call", block["id"], block["name"], block["input"]
            elif message["role"] == "assistant":
                yield "assistant", block
            elif block.get("text") != anthropic.NOT_SHOWN:
                yield "user", block["type"]


def of_chat(messages):
    for message in messages:
        if message["role"] == "tool":
            yield "result", message["tool_call_id"]
        else:
            yield message["role"], message["content"] if message["role"] == "assistant" else ""
            for call in message.get("tool_calls", ()):
                yield "call", call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])


def of_responses(items):
    for item in items:
        if item.get("type") == "function_call_output":
            yield "result", item["call_id"]
        elif item.get("type") == "function_call":
            yield "call", item["call_id"], item["name"], json.loads(item["arguments"])
        elif item.get("role") == "assistant":
            yield "assistant", item["content"] if isinstance(item["content"], str) else item["content"][0]["text"]
        else:
            yield item.get("role"), item.get("type", "message") == "message"


APIS = {
    "anthropic": (of_anthropic, lambda context: anthropic.request(context)["messages"]),
    "openai-chat": (of_chat, lambda context: openai_chat.request(context)["messages"]),
    "openai-responses": (of_responses, lambda context: openai_responses.request(context)["input"]),
}


def without_orphans(sequence):
    """Return ``sequence`` without results that have no call since the last other message.

    The ids are numbered in order.
    """
    pending, order = Counter(), {}
    for kind, *what in sequence:
        if kind == "call":
            pending[what[0]] += 1
            order.setdefault(what[0], len(order))
            yield kind, *what[1:]
        elif kind != "result":
            yield kind, *what
            if kind == "user":
                pending.clear()
        elif pending[what[0]]:
            pending[what[0]] -= 1
            yield (kind,)


@pytest.mark.parametrize("api", APIS)
def test_pi_would_send_the_same(pairs, api):
    read, ours = APIS[api]
    assert len(pairs) == 150
    for context, theirs in pairs:
        assert list(without_orphans(read(ours(context)))) == list(without_orphans(read(theirs[api])))
