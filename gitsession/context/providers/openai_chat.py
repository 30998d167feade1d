"""Requests for OpenAI's Chat Completions API and for compatible servers.

Results are messages with the role ``tool`` directly after the message with their calls. Such messages can contain only
text, so images and documents follow in a user message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gitsession.context.providers.conversation import CallWithResult, ProviderApi, Turn, model_of, prompt, tools, turns
from gitsession.context.providers.wire import PDF, data_url, joined_text, known, read_json, to_json
from gitsession.context.value import Context
from gitsession.model.blocks import File, Image, Text, Thinking

API = ProviderApi(
    providers=frozenset(["cerebras", "deepseek", "groq", "mistral", "openai", "openrouter", "xai", "zai"]),
    apis=frozenset(["openai-completions"]),
    call_id_chars_max=40,
    tool_name_chars_max=64,
    plain=frozenset(["opencode"]),
)
FOLLOWS = "(what it returned follows)"
FROM_TOOLS = "What the tools returned:"

JOINING = ("pi", "pi-0.73", "omp", "opencode")
"""Profiles of agents that send another model's reasoning as text, with no blank line between reasoning and answer."""

_PLAIN_FIELD = "reasoning_content"
"""Field in which the agents of ``API.plain`` send reasoning without a signature."""

_REASONING_FIELDS = ("reasoning", "reasoning_content", "reasoning_text")
"""Fields in which servers return reasoning and expect it later. pi stores the name of the field as the signature."""


def request(context: Context, *, system: str | None = None) -> dict[str, Any]:
    """Return ``messages``, and also ``model`` and ``tools`` if they are known."""
    messages: list[dict[str, Any]] = []
    head = prompt(context, system)
    if head:
        messages.append({"role": "system", "content": head})
    for turn in turns(context, API):
        messages += _messages(turn, context.profile)
    functions = (
        {"name": tool.name, "description": tool.description, "parameters": tool.schema} for tool in tools(context, API)
    )
    defined = [{"type": "function", "function": function} for function in functions]
    return {**known(model=model_of(context, API), tools=defined), "messages": messages}


def _messages(turn: Turn, profile: str) -> Iterable[dict[str, Any]]:
    if turn.role == "assistant":
        yield from _assistant(turn, profile)
    elif turn.role == "user":
        parts = [_part(block) for block in turn.blocks if isinstance(block, Text | Image | File)]
        alone = len(parts) == 1 and parts[0]["type"] == "text"
        yield {"role": "user", "content": parts[0]["text"] if alone else parts}
    else:
        yield {"role": turn.role, "content": joined_text(turn.blocks)}


def _assistant(turn: Turn, profile: str) -> Iterable[dict[str, Any]]:
    text, calls = joined_text(turn.blocks, between="" if turn.own or profile in JOINING else "\n\n"), turn.calls
    thinking = [block for block in turn.blocks if isinstance(block, Thinking)]
    plain = "".join(block.text for block in thinking if not block.signature) if profile in API.plain else ""
    if not text and not calls and not plain:
        return
    yield {
        "role": "assistant",
        "content": text or (None if calls else ""),
        **({_PLAIN_FIELD: plain} if plain else _reasoning(thinking)),
        **({"tool_calls": [_call(call) for call in calls]} if calls else {}),
    }
    for call in calls:
        yield {"role": "tool", "tool_call_id": call.id, "content": joined_text(call.result) or FOLLOWS}
    seen = [_part(block) for call in calls for block in call.result if isinstance(block, Image | File)]
    if seen:
        yield {"role": "user", "content": [{"type": "text", "text": FROM_TOOLS}, *seen]}


def _reasoning(thinking: list[Thinking]) -> dict[str, Any]:
    """Return the field with the reasoning: the server's own field, or the details that the server returned."""
    for block in thinking:
        details = read_json(block.signature, "[")
        if details and all(isinstance(detail, dict) for detail in details):
            return {"reasoning_details": details}
    field = thinking[0].signature if thinking else None
    return {field: "\n".join(block.text for block in thinking)} if field in _REASONING_FIELDS else {}


def _part(block: Text | Image | File) -> dict[str, Any]:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Image():
            return {"type": "image_url", "image_url": {"url": data_url(block.data, block.mime)}}
        case File():
            return {"type": "file", "file": {"filename": block.name, "file_data": data_url(block.data or b"", PDF)}}


def _call(call: CallWithResult) -> dict[str, Any]:
    function = {"name": call.name, "arguments": to_json(call.given.arguments)}
    return {"id": call.id, "type": "function", "function": function}
