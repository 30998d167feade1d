"""Entries of any agent in codex's words: the response items that say them, for its files and for what it sends.

What codex wrote itself keeps its fields, as far as its view has kept them in ``extra``.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from gitsession.formats.base.jsonl import Object, parse
from gitsession.formats.base.portable import file_words
from gitsession.formats.codex.items import PASSED_THROUGH
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Entry, Message

SUMMARY_PREFIX = (
    "Another language model started to solve this problem and produced a summary of its thinking process. You also "
    "have access to the state of the tools that were used by that language model. Use this to build on the work that "
    "has already been done and avoid duplicating work. Here is the summary produced by the other language model, use "
    "the information in this summary to assist with your own analysis:"
)
"""What codex writes before a summary, and by which it tells one from the user's words: its own words, not ours."""

_OWN = frozenset(
    {"web_search_call", "image_generation_call", "compaction", "compaction_summary", "context_compaction",
     "function_call", "local_shell_call", "tool_search_call", "custom_tool_call"}
)  # fmt: skip
"""Items of codex that a view keeps as they are."""


def items_of(entry: Entry) -> list[Object]:
    """The response items that say ``entry`` to the model; none for what no model sees."""
    match entry:
        case Message(role="assistant"):
            return [item for block in entry.content for item in _uttered(block, entry)]
        case Message(role="tool"):
            call_id = _call_id(entry.tool_call_id or "")
            return [{"type": "function_call_output", "call_id": call_id, "output": _output(entry)}]
        case Message(role="shell"):
            return [_message("user", [_text("user", _shell(entry))])]
        case Message(role="developer" | "system"):
            return _said("developer", entry)
        case Message() | CustomMessage():
            return _said("user", entry)
        case Compaction() | BranchSummary():
            return [_message("user", [_text("user", f"{SUMMARY_PREFIX}\n{entry.summary}")])] if entry.summary else []
    return []


def sent(item: Object) -> Object:
    """What of ``item`` goes to a provider."""
    return {name: value for name, value in item.items() if name != PASSED_THROUGH}


def call_output(call: Object, output: str) -> Object | None:
    """What stands in place of a result that ``call`` never had; ``None`` for an item that has none."""
    name, id_ = call.get("type"), call.get("call_id")
    if not isinstance(id_, str):
        return None
    if name == "tool_search_call":
        return {"type": "tool_search_output", "call_id": id_, "status": "completed", "execution": "client", "tools": []}
    kind = _OUTPUTS.get(str(name))
    return {"type": kind, "call_id": id_, "output": output} if kind else None


_OUTPUTS = {
    "function_call": "function_call_output",
    "local_shell_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
}

OUTPUTS = frozenset({*_OUTPUTS.values(), "tool_search_output"})


def _message(role: str, content: list[Object], **fields: Any) -> Object:
    return {"type": "message", "role": role, "content": content, **fields}


def _said(role: str, entry: Message | CustomMessage) -> list[Object]:
    content = [part for block in entry.content for part in _parts(role, block)]
    return [_message(role, content)] if content else []


def _uttered(block: Block, entry: Message) -> Iterable[Object]:
    """Reasoning only where it is codex's own item: nobody else can read what is encrypted there."""
    match block:
        case ToolCall():
            arguments = json.dumps(dict(block.arguments), ensure_ascii=False, default=str)
            name, call_id = _ILLEGAL.sub("_", block.name)[:_CHARS_MAX] or "_", _call_id(block.id)
            yield {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id}
        case Thinking():
            item = parse((block.signature or "").encode("utf-8", "surrogatepass"))
            if isinstance(item, dict) and item.get("type") == "reasoning" and entry.provider is None:
                yield item
        case OtherBlock(value=dict(value)) if str(value.get("type")) in _OWN:
            yield value
        case _:
            parts = _parts("assistant", block)
            if parts:
                yield _message("assistant", parts)


def _call_id(id_: str) -> str:
    """The id of a call as the API takes it. pi joins it to that of its item by a bar."""
    id_ = id_.partition("|")[0] or id_
    is_long = len(id_) > _CHARS_MAX
    return f"call_{sha256(id_.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}" if is_long else id_


_CHARS_MAX = 64
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


def _output(entry: Message) -> str | list[Object]:
    if all(isinstance(block, Text) for block in entry.content):
        return "\n".join(block.text for block in entry.content if isinstance(block, Text))
    return [part for block in entry.content for part in _parts("user", block)]


def _parts(role: str, block: Block) -> list[Object]:
    match block:
        case Text():
            return [_text(role, block.text)]
        case Image() if role != "assistant":
            url = f"data:{block.mime};base64,{base64.b64encode(block.data).decode()}"
            return [{"type": "input_image", "image_url": url}]
        case File(url=str(url)) if role != "assistant" and url.startswith(("http://", "https://")):
            return [{"type": "input_image", "image_url": url}]
        case File():
            return [_text(role, file_words(block))]
        case Image():
            return [_text(role, f"[image {block.mime}]")]
    return []


def _text(role: str, text: str) -> Object:
    return {"type": "output_text" if role == "assistant" else "input_text", "text": text}


def _shell(entry: Message) -> str:
    """A command that the user ran, as codex tells of one."""
    code = "" if entry.exit_code is None else f"Exit code: {entry.exit_code}\n"
    result = f"{code}Output:\n{entry.output or ''}"
    command = f"<command>\n{entry.command or ''}\n</command>"
    return f"<user_shell_command>\n{command}\n<result>\n{result}\n</result>\n</user_shell_command>"
