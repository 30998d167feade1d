"""Requests for OpenAI's Responses API: a flat list of items, and a separate field for the system prompt.

A call is an item. Its result is another item, after all calls of the turn. Reasoning of the same model is sent as the
original item with its encrypted content. Ids of items are sent only if the API assigned them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gitsession.context.providers.conversation import CallWithResult, ProviderApi, Turn, model_of, prompt, tools, turns
from gitsession.context.providers.wire import PDF, data_url, known, legal, read_json, sendable, to_json
from gitsession.context.value import Context
from gitsession.model.blocks import File, Image, Text, Thinking

_ITEM_ID_CHARS_MAX = 64


def _call_id(id_: str) -> str:
    """Return the part ``call`` of an id in pi's format ``call|item``."""
    return id_.partition("|")[0]


API = ProviderApi(
    providers=frozenset(["openai", "openai-codex", "azure-openai-responses"]),
    apis=frozenset(["openai-responses", "openai-codex-responses", "azure-openai-responses"]),
    call_id_chars_max=64,
    tool_name_chars_max=64,
    call_id=_call_id,
    replays=True,
)


def request(context: Context, *, system: str | None = None) -> dict[str, Any]:
    """Return ``input``, and also ``model``, ``instructions`` and ``tools`` if they are known."""
    defined = [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.schema,
            "strict": False,
        }
        for tool in tools(context, API)
    ]
    fields = known(model=model_of(context, API), instructions=prompt(context, system), tools=defined)
    return {**fields, "input": list(_named_once(item for turn in turns(context, API) for item in _items(turn)))}


def _named_once(items: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Yield the items without repeated ids, which the API rejects.

    Reasoning with a repeated id is left out, because reasoning requires an id. Other items are sent without the id.
    """
    taken: set[str] = set()
    for item in items:
        id_ = item.get("id")
        if id_ in taken:
            if item["type"] == "reasoning":
                continue
            item = {name: value for name, value in item.items() if name != "id"}
            if isinstance(item.get("content"), list):
                item = _message(Text(item["content"][0]["text"]))
        elif id_ is not None:
            taken.add(id_)
        yield item


def _items(turn: Turn) -> Iterable[dict[str, Any]]:
    if turn.role == "assistant":
        yield from map(sendable, turn.replay)
        yield from _turn_items(turn)
        for call in turn.calls:
            yield {"type": "function_call_output", "call_id": call.id, "output": _output(call)}
    else:
        content = [_part(block) for block in turn.blocks if isinstance(block, Text | Image | File)]
        yield {"type": "message", "role": turn.role, "content": content}


def _turn_items(turn: Turn) -> list[dict[str, Any]]:
    items = []
    for block in turn.blocks:
        match block:
            case Text():
                items.append(_message(block))
            case CallWithResult():
                items.append(_call(block, turn.own))
            case Thinking():
                reasoning = _reasoning(block)
                items += [reasoning] if reasoning else []
    while items and items[-1]["type"] == "reasoning":
        items.pop()  # the API rejects reasoning that no other item follows
    return items


def _message(block: Text) -> dict[str, Any]:
    id_, phase = _text_signature(block.signature)
    if not id_:
        return {"type": "message", "role": "assistant", "content": block.text}
    content = [{"type": "output_text", "text": block.text, "annotations": []}]
    message = {"type": "message", "role": "assistant", "id": id_, "status": "completed", "content": content}
    return message | ({"phase": phase} if phase else {})


def _text_signature(signature: str | None) -> tuple[str, str]:
    """Return the id and the phase of an item from the signature that pi stores with its text.

    In older files, the signature is the id.
    """
    fields = read_json(signature, "{")
    id_, phase = (fields.get("id"), fields.get("phase")) if fields else (signature, None)
    if not isinstance(id_, str) or not id_.startswith("msg_") or legal(id_, _ITEM_ID_CHARS_MAX) != id_:
        return "", ""
    return id_, phase if phase in ("commentary", "final_answer") else ""


def _reasoning(block: Thinking) -> dict[str, Any] | None:
    item: dict[str, Any] | None = read_json(block.signature, "{")
    if item and item.get("type") == "reasoning" and isinstance(item.get("id"), str):
        summary = item.get("summary")
        is_valid = isinstance(summary, list) and all(isinstance(part, dict) for part in summary)
        return item if is_valid else {**item, "summary": []}
    return None


def _call(call: CallWithResult, own: bool) -> dict[str, Any]:
    item_id = call.given.id.partition("|")[2] if own else ""
    known = item_id.startswith("fc_") and legal(item_id, _ITEM_ID_CHARS_MAX) == item_id
    return {
        "type": "function_call",
        **({"id": item_id} if known else {}),
        "call_id": call.id,
        "name": call.name,
        "arguments": to_json(call.given.arguments),
    }


def _output(call: CallWithResult) -> str | list[dict[str, Any]]:
    if all(isinstance(block, Text) for block in call.result):
        return "\n".join(block.text for block in call.result if isinstance(block, Text))
    return [_part(block) for block in call.result]


def _part(block: Text | Image | File) -> dict[str, Any]:
    match block:
        case Text():
            return {"type": "input_text", "text": block.text}
        case Image():
            return {"type": "input_image", "detail": "auto", "image_url": data_url(block.data, block.mime)}
        case File():
            return {"type": "input_file", "filename": block.name, "file_data": data_url(block.data or b"", PDF)}
