"""Requests for Anthropic's Messages API. The caller must add ``max_tokens``.

User and assistant messages alternate, and the first one is from the user. Tool results are at the beginning of the
message after their calls. All system messages are added to the system prompt, because not every model accepts them
among the messages. The API has no developer role, so developer messages are sent as user messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gitsession.context.providers.conversation import CallWithResult, ProviderApi, Turn, model_of, prompt, tools, turns
from gitsession.context.providers.wire import PDF, joined_text, known, sendable, to_base64
from gitsession.context.value import Context
from gitsession.model.blocks import File, Image, Text, Thinking

API = ProviderApi(
    providers=frozenset(["anthropic"]),
    apis=frozenset(["anthropic-messages"]),
    call_id_chars_max=64,
    tool_name_chars_max=128,
    replays=True,
)
NOT_SHOWN = "(earlier messages are not shown)"
FOLLOWS = "(what it returned follows)"


def request(context: Context, *, system: str | None = None) -> dict[str, Any]:
    """Return ``messages``, and also ``model``, ``system`` and ``tools`` if they are known."""
    all_turns = turns(context, API)
    later = [joined_text(turn.blocks) for turn in all_turns if turn.role == "system"]
    model, head = model_of(context, API), "\n\n".join(part for part in [prompt(context, system), *later] if part)
    defined = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        for tool in tools(context, API)
    ]
    return {**known(model=model, system=head, tools=defined), "messages": _messages(all_turns)}


def _messages(all_turns: Iterable[Turn]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []

    def put(role: str, content: list[dict[str, Any]]) -> None:
        if not content:
            return
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += content
        else:
            messages.append({"role": role, "content": content})

    for turn in all_turns:
        if turn.role in ("user", "developer"):
            put("user", _blocks(turn.blocks))
        elif turn.role == "assistant":
            content_blocks = _turn_content(turn)
            # A provider's compaction replaces everything before it, so it can be the first message.
            if content_blocks and not messages and not turn.replay:
                put("user", [_text(NOT_SHOWN)])
            put("assistant", content_blocks)
            put("user", [_result(call) for call in turn.calls])
            put("user", [block for call in turn.calls for block in _attached_media(call)])
    return messages


def _turn_content(turn: Turn) -> list[dict[str, Any]]:
    blocks = [*map(sendable, turn.replay), *_blocks(turn.blocks)]
    while blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
        blocks.pop()  # a message must not end with reasoning, as in an answer that was cut off
    return blocks


def _blocks(blocks: Iterable[Text | Image | File | Thinking | CallWithResult]) -> list[dict[str, Any]]:
    return [spelt for block in blocks if (spelt := _block(block)) is not None]


def _block(block: Text | Image | File | Thinking | CallWithResult) -> dict[str, Any] | None:
    match block:
        case Text():
            return _text(block.text)
        case Thinking(redacted=True):
            return {"type": "redacted_thinking", "data": block.signature} if block.signature else None
        case Thinking():
            if block.signature and block.signature.strip():
                return {"type": "thinking", "thinking": block.text, "signature": block.signature}
            return _text(block.text) if block.text.strip() else None  # the stream ended before the signature arrived
        case Image():
            return {"type": "image", "source": _source(block.data, block.mime)}
        case File():
            title = {"title": block.name} if block.name else {}  # the API rejects an empty title
            return {"type": "document", "source": _source(block.data or b"", PDF), **title}
        case CallWithResult():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": sendable(block.given.arguments)}


def _result(call: CallWithResult) -> dict[str, Any]:
    failed = {"is_error": True} if call.is_error else {}
    content = _blocks(block for block in call.result if not call.is_error or isinstance(block, Text))
    return {"type": "tool_result", "tool_use_id": call.id, "content": content or [_text(FOLLOWS)], **failed}


def _attached_media(call: CallWithResult) -> list[dict[str, Any]]:
    """Return the images and documents of a failed result. They follow the result, which can contain only text."""
    return _blocks(block for block in call.result if call.is_error and not isinstance(block, Text))


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _source(data: bytes, mime: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": mime, "data": to_base64(data)}
