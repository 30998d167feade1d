"""Requests built from a few entries, validated against the types that the provider publishes."""

import published

from gitsession.context.providers import PROVIDERS, provider
from gitsession.context.value import Context, Item, State, Tokens
from gitsession.git.types import Oid
from gitsession.model.blocks import Text, Thinking, ToolCall
from gitsession.model.entries import Message

APIS = sorted(set(PROVIDERS) - {"codex", "pi"})
PNG = b"\x89PNG\r\n\x1a\n...."
READ = ToolCall("c1", "read", {"path": "a.py", "n": 1})
LS = ToolCall("c2", "ls", {})
SIGNED = Thinking("hm", "sig==")
TWO_CALLS = (
    Message.user("look"),
    Message.assistant([Text("I look"), READ, LS]),
    Message.tool(LS, "a.py"),
    Message.tool(READ, "import x", is_error=True),
    Message.assistant("done"),
)


def context(*entries, profile="pi", **state):
    items = tuple(Item(Oid(f"{number:040x}"), entry) for number, entry in enumerate(entries))
    return Context(profile, items, State(**state), Tokens(0))


def request(api, *entries, system=None, valid=True, **state):
    made = provider(api).request(context(*entries, **state), system=system)
    if valid:
        published.check(api, _without_reasoning(made) if api == "openai-chat" else made)
    return made


def _without_reasoning(made):
    """Return a request without the field in which opencode sends reasoning: OpenAI's own types do not have it."""
    shown = [{name: value for name, value in each.items() if name != "reasoning_content"} for each in made["messages"]]
    return {**made, "messages": shown}


def anthropic(*entries, **more):
    return request("anthropic", *entries, **more)["messages"]


def chat(*entries, **more):
    return request("openai-chat", *entries, **more)["messages"]


def responses(*entries, **more):
    return request("openai-responses", *entries, **more)["input"]


def said_by(provider_, model, *blocks, **more):
    return Message.assistant(blocks, provider=provider_, model=model, **more)


def texts_in(made):
    """Return all texts of a request, in order, whatever their key is."""
    if isinstance(made, dict):
        return [text for value in made.values() for text in texts_in(value)]
    if isinstance(made, list):
        return [text for value in made for text in texts_in(value)]
    return [made] if isinstance(made, str) else []


def ids_of(api, made):
    """Return the ids of the calls and the ids of the results of a request, each in order."""
    if api == "anthropic":
        blocks = [block for message in made["messages"] for block in message["content"]]
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        return calls, [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    if api == "openai-chat":
        calls = [call["id"] for message in made["messages"] for call in message.get("tool_calls", ())]
        return calls, [message["tool_call_id"] for message in made["messages"] if message["role"] == "tool"]
    calls = [item["call_id"] for item in made["input"] if item["type"] == "function_call"]
    return calls, [item["call_id"] for item in made["input"] if item["type"] == "function_call_output"]
