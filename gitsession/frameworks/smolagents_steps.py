"""Conversion of the steps of an agent's memory in smolagents to entries and back.

A step, as JSON, is an *item*. The entries of a step have the part that gitsession understands. The last entry of the
step has the difference between the item and the item that the entries determine. FROZEN: a step that is stored depends
on the functions that derive its item.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any

import PIL.Image
import smolagents.utils
from smolagents.agent_types import AgentImage
from smolagents.memory import ActionStep, MemoryStep, PlanningStep, TaskStep
from smolagents.memory import ToolCall as SmolToolCall
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole
from smolagents.monitoring import Timing, TokenUsage
from smolagents.utils import AgentError, make_json_serializable

from gitsession.errors import Malformed
from gitsession.frameworks.stored_items import difference, patched, storable
from gitsession.model.blocks import Block, Image, Text, ToolCall
from gitsession.model.entries import CustomMessage, Entry, Message

AGENT = "smolagents"
"""The name of the agent of the sessions, and of the field with the rest of a step."""

ERROR = "smolagents:error"
OBSERVATION = "smolagents:observation"
_CODE_TOOL = "python_interpreter"
_MAX_STEPS = "AgentMaxStepsError"

Item = dict[str, Any]


class Images:
    """The images of a memory as PNG files in base64, so that each image is converted once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[PIL.Image.Image, str]] = {}

    def encode(self, image: PIL.Image.Image) -> str:
        """Return an image as a PNG file. A color space that PNG does not have is converted to RGB."""
        known = self._known.get(id(image))
        if known is None:
            raw = image.to_raw() if isinstance(image, AgentImage) else image
            file = BytesIO()
            try:
                raw.save(file, "PNG")
            except (OSError, ValueError):
                file = BytesIO()
                raw.convert("RGB").save(file, "PNG")
            known = self._known[id(image)] = image, base64.b64encode(file.getvalue()).decode()
        return known[1]

    def decode(self, text: str) -> PIL.Image.Image:
        """Return the image of a PNG file. Raises ``ValueError`` if it is damaged."""
        try:
            with PIL.Image.open(BytesIO(base64.b64decode(text, validate=True)), formats=["PNG"]) as file:
                image = file.copy()
        except (OSError, SyntaxError, PIL.Image.DecompressionBombError) as error:
            raise ValueError(f"damaged image: {error}") from error
        self._known[id(image)] = image, text
        return image


# ---- items and entries


def entries_of(item: Item, inputs: Any) -> list[Entry]:
    """Return the entries for a step. ``inputs``: the messages that the model received, as ``references`` returns."""
    kind = item["type"]
    entries: list[Any] = [storable(entry) for entry in _ENTRIES[kind](item)]
    rest = {"step": kind, "entries": len(entries), "change": difference(_DERIVED[kind](entries), item)}
    rest |= {} if inputs is None else {"inputs": inputs}
    return [*entries[:-1], dataclasses.replace(entries[-1], extra={AGENT: json.dumps(rest)})]


def stored_item(entries: Sequence[Entry], at: int) -> tuple[Item, Any] | None:
    """Return the item and the ``inputs`` of the step that ``entries[at]`` completes.

    Returns ``None`` if it does not complete a step. Raises ``Malformed`` if the step is damaged.
    """
    stated = entries[at].extra.get(AGENT)
    if not isinstance(stated, str):
        return None
    try:
        rest = json.loads(stated)
        count, change = int(rest["entries"]), rest["change"]
        derived = _DERIVED[rest["step"]](entries[max(at + 1 - count, 0) : at + 1])
        return derived if change is None else patched(derived, change), rest.get("inputs")
    except DAMAGE as error:
        raise damaged(error) from error


DAMAGE = (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError)
"""The errors that stored data causes if it is not what this adapter has written."""


def damaged(error: Exception) -> Malformed:
    """Return the error for a step that cannot be read."""
    return Malformed(
        f"cannot read a step of the agent's memory: {type(error).__name__}: {error}",
        hint="continue after an earlier entry, with GitSessionMemory.restore",
    )


def _task_entries(item: Item) -> list[Any]:
    texts: list[Block] = [Text(item["task"])] if isinstance(item["task"], str) else []
    return [Message.user([*texts, *_image_blocks(item["task_images"])])]


def _task(entries: Sequence[Any]) -> Item:
    [message] = entries
    return {"type": "task", "task": _text(message), "task_images": _images_in(message)}


def _planning_entries(item: Item) -> list[Any]:
    return [Message.assistant(item["plan"], model=item["model"], usage=item["token_usage"])]


def _planning(entries: Sequence[Any]) -> Item:
    [message] = entries
    text = _text(message)
    answer = {"role": "assistant", "content": text, "token_usage": message.usage}
    return {
        "type": "planning",
        "plan": text,
        "timing": None,
        "model_output_message": answer,
        "token_usage": message.usage,
        "model": message.model,
    }


def _action_entries(item: Item) -> list[Any]:
    """Return an answer, and a result if there is an observation, an image or an error."""
    error, calls, shown = item["error"], item["tool_calls"] or _requested(item), item["model_output"]
    if shown is None and error is not None and error["type"] == _MAX_STEPS:
        shown = item["action_output"]["json"] if item["action_output"] else None  # the model's answer to the user
    blocks: list[Block] = [Text(shown)] if isinstance(shown, str) else []
    blocks += [ToolCall(str(call["id"]), str(call["name"]), _arguments(call)) for call in calls]
    entries: list[Any] = []
    if blocks:
        entries = [Message.assistant(blocks, model=item["model"], usage=item["token_usage"])]
    texts = [item["observations"]] if isinstance(item["observations"], str) else []
    texts += [error["message"]] if error is not None else []
    seen = (*map(Text, texts), *_image_blocks(item["observations_images"]))
    if calls and (seen or item["observations"] is not None):
        id, name = str(calls[-1]["id"]), str(calls[-1]["name"])
        entries.append(Message(role="tool", content=seen, tool_call_id=id, tool_name=name, is_error=error is not None))
    elif seen:
        entries.append(CustomMessage(custom_type=ERROR if error is not None else OBSERVATION, content=seen))
    return entries or [Message.assistant((), model=item["model"], usage=item["token_usage"])]


def _action(entries: Sequence[Any]) -> Item:
    answer = next((entry for entry in entries if isinstance(entry, Message) and entry.role == "assistant"), None)
    seen = next((entry for entry in entries if entry is not answer), None)
    blocks = answer.content if answer is not None else ()
    calls = [_call(block) for block in blocks if isinstance(block, ToolCall)]
    code = calls[0]["arguments"] if calls and isinstance(calls[0]["arguments"], str) else None
    texts = [block.text for block in seen.content if isinstance(block, Text)] if seen is not None else []
    failed = seen is not None and (seen.is_error if isinstance(seen, Message) else seen.custom_type == ERROR)
    kind = "AgentExecutionError" if calls else "AgentParsingError"
    error = {"type": kind, "message": texts.pop()} if failed and texts else None
    text, usage = _text(answer), answer.usage if answer is not None else None
    message: Item = {"role": "assistant", "content": text, "token_usage": usage}
    if calls and code is None:
        message["tool_calls"] = [
            {"function": {"name": call["name"], "arguments": call["arguments"]}, "id": call["id"], "type": "function"}
            for call in calls
        ]
    return {
        "type": "action",
        "step_number": 1,
        "timing": None,
        "tool_calls": calls or None,
        "error": error,
        "model_output_message": message if blocks else None,
        "model_output": text,
        "code_action": code,
        "observations": "\n".join(texts) if texts else None,
        "observations_images": _images_in(seen),
        "action_output": None,
        "token_usage": usage,
        "is_final_answer": False,
        "model": answer.model if answer is not None else None,
    }


def _requested(item: Item) -> list[Item]:
    """Return the calls in the model's answer. A step has them as its own only if all of them have succeeded."""
    answer = item["model_output_message"] or {}
    return [{**call["function"], "id": call["id"]} for call in answer.get("tool_calls") or ()]


def _arguments(call: Item) -> Mapping[str, Any]:
    """Return the arguments of a call. Those that are no object, such as Python code, become the only field of one."""
    arguments = call["arguments"]
    return arguments if isinstance(arguments, dict) else {_field(call["name"]): arguments}


def _call(block: ToolCall) -> Item:
    arguments, field = block.arguments, _field(block.name)
    whole = block.name == _CODE_TOOL and arguments.keys() == {field}
    return {"name": block.name, "arguments": arguments[field] if whole else dict(arguments), "id": block.id}


def _field(name: str) -> str:
    return "code" if name == _CODE_TOOL else "input"


def _text(message: Any) -> str | None:
    texts = [block.text for block in message.content if isinstance(block, Text)] if message is not None else []
    return "\n".join(texts) if texts else None


def _image_blocks(images: Sequence[str] | None) -> list[Block]:
    return [Image(base64.b64decode(image), "image/png") for image in images or ()]


def _images_in(message: Any) -> list[str] | None:
    blocks = message.content if message is not None else ()
    return [base64.b64encode(block.data).decode() for block in blocks if isinstance(block, Image)] or None


_ENTRIES: Mapping[str, Callable[[Item], list[Any]]] = {
    "task": _task_entries,
    "planning": _planning_entries,
    "action": _action_entries,
}
_DERIVED: Mapping[str, Callable[[Sequence[Any]], Item]] = {"task": _task, "planning": _planning, "action": _action}


# ---- steps and items


def item_of(step: MemoryStep, images: Images, model: str | None) -> Item:
    """Return a step as JSON, without the messages that the model received. Raises ``Malformed`` for unknown steps."""
    if isinstance(step, TaskStep):
        return {"type": "task", "task": exact(step.task), "task_images": _encoded(step.task_images, images)}
    if isinstance(step, PlanningStep):
        return {
            "type": "planning",
            "plan": exact(step.plan),
            "timing": _timing(step.timing),
            "model_output_message": _message(step.model_output_message, images),
            "token_usage": _usage(step.token_usage),
            "model": model,
        }
    if not isinstance(step, ActionStep):
        raise Malformed(f"cannot store a step of the type {type(step).__name__!r}", hint="remove it from the memory")
    calls, output = step.tool_calls, step.action_output
    return {
        "type": "action",
        "step_number": step.step_number,
        "timing": _timing(step.timing),
        "tool_calls": None
        if calls is None
        else [{"name": exact(call.name), "arguments": exact(call.arguments), "id": exact(call.id)} for call in calls],
        "error": None if step.error is None else {"type": type(step.error).__name__, "message": str(step.error)},
        "model_output_message": _message(step.model_output_message, images),
        "model_output": exact(step.model_output),
        "code_action": exact(step.code_action),
        "observations": exact(step.observations),
        "observations_images": _encoded(step.observations_images, images),
        "action_output": None if output is None else _value(output, images),
        "token_usage": _usage(step.token_usage),
        "is_final_answer": step.is_final_answer,
        "model": model,
    }


def step_of(item: Item, inputs: list[ChatMessage] | None, images: Images) -> MemoryStep:
    """Return the step of an item."""
    match item["type"]:
        case "task":
            return TaskStep(task=item["task"], task_images=_decoded(item["task_images"], images))
        case "planning":
            return PlanningStep(
                model_input_messages=inputs,
                model_output_message=_to_message(item["model_output_message"], images),
                plan=item["plan"],
                timing=_to_timing(item["timing"]),
                token_usage=_to_usage(item["token_usage"]),
            )
    calls, output = item["tool_calls"], item["action_output"]
    return ActionStep(
        step_number=item["step_number"],
        timing=_to_timing(item["timing"]),
        model_input_messages=inputs,
        tool_calls=None if calls is None else [SmolToolCall(**call) for call in calls],
        error=_to_error(item["error"]),
        model_output_message=_to_message(item["model_output_message"], images),
        model_output=item["model_output"],
        code_action=item["code_action"],
        observations=item["observations"],
        observations_images=_decoded(item["observations_images"], images),
        action_output=None if output is None else _to_value(output, images),
        token_usage=_to_usage(item["token_usage"]),
        is_final_answer=item["is_final_answer"],
    )


def keys_of(messages: Sequence[ChatMessage], images: Images) -> list[str]:
    """Return a text for each message. Equal messages have equal texts."""
    return [json.dumps(_message(message, images)) for message in messages]


def references(messages: Sequence[ChatMessage] | None, earlier: Sequence[str], images: Images) -> Any:
    """Return messages as JSON: ``[start, stop]`` for those among the earlier ones, and an object for any other."""
    if messages is None:
        return None
    places = {key: at for at, key in reversed(list(enumerate(earlier)))}
    found: list[Any] = []
    for message, key in zip(messages, keys_of(messages, images), strict=True):
        last = found[-1] if found and isinstance(found[-1], list) else None
        if last is not None and last[1] < len(earlier) and earlier[last[1]] == key:
            last[1] += 1
        elif key in places:
            found.append([places[key], places[key] + 1])
        else:
            found.append(_message(message, images))
    return found


def referenced(inputs: Any, earlier: Sequence[ChatMessage], images: Images) -> list[ChatMessage] | None:
    """Return the messages of which ``references`` returned ``inputs``."""
    if inputs is None:
        return None
    found: list[ChatMessage] = []
    for each in inputs:
        if isinstance(each, list):
            found += earlier[slice(*each)]
        else:
            found.append(_to_message(each, images))
    return found


def exact(value: Any) -> Any:
    """Return a value as it is after it was stored as JSON. If JSON cannot represent it, return what the model reads."""
    convert: Callable[[Any], Any]
    for convert in (lambda each: each, make_json_serializable):
        try:
            found = convert(value)
            if (stored := json.loads(json.dumps(found))) == found:  # NaN is not
                return stored
        except (TypeError, ValueError, RecursionError):
            continue
    return str(value)


def _value(value: Any, images: Images) -> Item:
    if isinstance(value, PIL.Image.Image):
        return {"image": images.encode(value)}
    try:
        text = json.dumps(value)
        found = json.loads(text)
        return {"json": found if found == json.loads(text) else str(value)}  # NaN does not equal itself
    except (TypeError, ValueError, RecursionError):
        return {"json": str(value)}


def _to_value(item: Item, images: Images) -> Any:
    return images.decode(item["image"]) if "image" in item else item["json"]


def _message(message: ChatMessage | None, images: Images) -> Item | None:
    if message is None:
        return None
    content = message.content
    item: Item = {"role": str(getattr(message.role, "value", message.role)), "content": exact(content)}
    if isinstance(content, list):
        item["content"] = [_part(part, images) for part in content]
    if message.tool_calls is not None:
        item["tool_calls"] = [_from_call(call) for call in message.tool_calls]
    return {**item, "token_usage": _usage(message.token_usage)}


def _part(part: Any, images: Images) -> Any:
    if isinstance(part, dict) and isinstance(part.get("image"), PIL.Image.Image):
        return {**exact({**part, "image": None}), "image": {"png": images.encode(part["image"])}}
    return exact(part)


def _to_message(item: Item | None, images: Images) -> Any:
    if item is None:
        return None
    content = item["content"]
    if isinstance(content, list):
        content = [_to_part(part, images) for part in content]
    role = MessageRole(item["role"]) if item["role"] in MessageRole.roles() else item["role"]
    calls, usage = item.get("tool_calls"), _to_usage(item["token_usage"])
    calls = None if calls is None else [_to_call(call) for call in calls]
    return ChatMessage(role=role, content=content, tool_calls=calls, token_usage=usage)


def _to_call(item: Item) -> ChatMessageToolCall:
    return ChatMessageToolCall(**{**item, "function": ChatMessageToolCallFunction(**item["function"])})


def _to_part(part: Any, images: Images) -> Any:
    image = part.get("image") if isinstance(part, dict) else None
    return {**part, "image": images.decode(image["png"])} if isinstance(image, dict) and "png" in image else part


def _from_call(call: ChatMessageToolCall) -> Item:
    called = call.function
    function = {"name": called.name, "arguments": exact(called.arguments)}
    function |= {} if called.description is None else {"description": called.description}
    return {"function": function, "id": exact(call.id), "type": call.type}


def _encoded(values: Sequence[PIL.Image.Image] | None, images: Images) -> list[str] | None:
    return None if values is None else [images.encode(each) for each in values]


def _decoded(texts: Sequence[str] | None, images: Images) -> list[PIL.Image.Image] | None:
    return None if texts is None else [images.decode(text) for text in texts]


def _timing(timing: Timing) -> list[float | None] | None:
    return None if timing is None else [timing.start_time, timing.end_time]


def _to_timing(item: Sequence[float] | None) -> Timing | None:
    return None if item is None else Timing(*item)


def _usage(usage: TokenUsage | None) -> Item | None:
    return None if usage is None else {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}


def _to_usage(item: Item | None) -> TokenUsage | None:
    return None if item is None else TokenUsage(**item)


def _to_error(item: Item | None) -> AgentError | None:
    """Return an error without its constructor, which would print the error again."""
    if item is None:
        return None
    found = getattr(smolagents.utils, item["type"], None)
    kind = found if isinstance(found, type) and issubclass(found, AgentError) else AgentError
    error: Any = kind.__new__(kind, item["message"])
    error.message = item["message"]
    return error
