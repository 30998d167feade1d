"""LangChain: the message history of a chat, for ``RunnableWithMessageHistory``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, messages_from_dict

from gitsession.context.providers.wire import to_base64
from gitsession.formats.base.blocks import content_reader, image, redacted
from gitsession.frameworks.keyed_sessions import session_folder, since_reset
from gitsession.frameworks.stored_items import item_of, to_json, with_item
from gitsession.model.blocks import Block, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Message, Reset

if TYPE_CHECKING:
    from gitsession.api.session import Session
    from gitsession.api.store import Store

AGENT = "langchain"
_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}
_TYPES = {"user": "human", "assistant": "ai", "tool": "tool", "system": "system", "developer": "system"}
_CHUNK = "MessageChunk"


class GitSessionChatMessageHistory(BaseChatMessageHistory):
    """The messages of one chat, stored in a session. ``clear`` resets the context, and deletes nothing.

    The history is on the branch that is active when the object is created, and stays on it. Create an object for each
    run, as ``RunnableWithMessageHistory`` does, to follow a switch to another branch.

    The async methods run in threads.
    """

    def __init__(self, session_id: str, store: Store, *, cwd: str | None = None) -> None:
        """Find the session of a chat, or create it.

        Args:
            session_id: The program's own id of the chat.
            store: The open store.
            cwd: The working directory of a new session. Defaults to that of the process.

        Raises:
            InvalidName: The id is empty.
        """
        self.session: Session = store.keyed_session(session_id, agent=AGENT, cwd=session_folder(cwd))

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages since the last ``clear``, the oldest first."""
        entries = since_reset(self.session.contents())
        return [to_langchain(entry) for entry in entries if isinstance(entry, Message)][::-1]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages, all or none. They are durable on return.

        Raises ``Malformed`` if JSON cannot represent a message.
        """
        self.session.append_all([from_langchain(message) for message in messages])

    def clear(self) -> None:
        """Append a ``reset`` entry, after which the history is empty."""
        self.session.append(Reset())


def from_langchain(message: BaseMessage) -> Message:
    """Return a message of LangChain as an entry. Raises ``Malformed`` if JSON cannot represent the message."""
    fields = type(message).model_fields
    defaults = {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
    item = {name: value for name, value in message.model_dump().items() if value != defaults.get(name)}
    item = to_json({**item, "type": message.type, "content": message.content})
    return with_item(_from_item(item), item, _derive, AGENT)


def to_langchain(message: Message) -> BaseMessage:
    """Return an entry as a message of LangChain."""
    item = item_of(message, _derive, AGENT)
    [found] = messages_from_dict([{"type": item["type"], "data": item}])
    return found


def _from_item(item: Mapping[str, Any]) -> Message:
    type_ = item["type"]
    role = _ROLES.get(type_.removesuffix(_CHUNK).lower() if type_.endswith(_CHUNK) else type_, "custom")
    content = _read_content(item["content"]) or ()
    if role == "tool":
        call, failed = item.get("tool_call_id"), item.get("status") == "error"
        return Message(role=role, content=content, tool_call_id=call, tool_name=item.get("name"), is_error=failed)
    if role != "assistant":
        return Message(role=role, content=content)
    calls = [ToolCall(call["id"] or "", call["name"], call["args"]) for call in item.get("tool_calls", ())]
    ids = {call.id for call in calls}
    content = tuple([block for block in content if not _is_call(block, ids)])
    metadata = item.get("response_metadata", {})
    return Message(
        role=role,
        content=(*content, *calls),
        provider=_text(metadata, "model_provider"),
        model=_text(metadata, "model_name", "model"),
        stop=_text(metadata, "finish_reason", "stop_reason"),
        usage=item.get("usage_metadata"),
    )


def _derive(message: Message) -> dict[str, Any]:
    """Return the fields of a message that differ from their defaults. FROZEN."""
    shown = [block for block in message.content if not isinstance(block, ToolCall)]
    calls = [block for block in message.content if isinstance(block, ToolCall)]
    texts = [block.text for block in shown if isinstance(block, Text)]
    item: dict[str, Any] = {
        "type": _TYPES.get(message.role, "human"),
        "content": texts[0] if len(texts) == len(shown) == 1 else [_write_block(block) for block in shown] or "",
    }
    if message.role == "tool":
        item["tool_call_id"] = message.tool_call_id or ""
        item |= {"name": message.tool_name} if message.tool_name else {}
        return item | ({"status": "error"} if message.is_error else {})
    if message.role == "shell":
        item["content"] = f"$ {message.command}\n{message.output or ''}"
    if calls:
        item["tool_calls"] = [
            {"name": call.name, "args": call.arguments, "id": call.id, "type": "tool_call"} for call in calls
        ]
    return item | ({"usage_metadata": message.usage} if _is_usage(message.usage) else {})


def _is_usage(usage: Mapping[str, Any] | None) -> bool:
    return usage is not None and {"input_tokens", "output_tokens", "total_tokens"} <= usage.keys()


def _is_call(block: Block, ids: set[str]) -> bool:
    """Return whether a block of the content repeats a tool call of the message."""
    value = block.value if isinstance(block, OtherBlock) else None
    return isinstance(value, dict) and value.get("type") in ("tool_call", "tool_use") and value.get("id") in ids


def _text(fields: Mapping[str, Any], *names: str) -> str | None:
    return next((value for value in map(fields.get, names) if isinstance(value, str)), None)


# ---- blocks: those of LangChain, and those of OpenAI and Anthropic that their packages return


def _read_text(block: dict[str, Any]) -> Block | None:
    return Text(block["text"]) if isinstance(block.get("text"), str) else None


def _read_thinking(block: dict[str, Any]) -> Block | None:
    text, signature = block.get("reasoning", block.get("thinking")), block.get("signature")
    return Thinking(text, signature if isinstance(signature, str) else None) if isinstance(text, str) else None


def _read_image(block: dict[str, Any]) -> Block | None:
    return image(block.get("base64"), block.get("mime_type"))


def _read_image_url(block: dict[str, Any]) -> Block | None:
    place = block.get("image_url")
    url = place.get("url") if isinstance(place, dict) else place
    head, _, data = url.partition(";base64,") if isinstance(url, str) else ("", "", "")
    return image(data, head.removeprefix("data:")) if head.startswith("data:") else None


_read_parts = content_reader(
    {
        "text": _read_text,
        "reasoning": _read_thinking,
        "thinking": _read_thinking,
        "redacted_thinking": redacted,
        "image": _read_image,
        "image_url": _read_image_url,
    }
)


def _read_content(content: Any) -> tuple[Block, ...]:
    if content == "":
        return ()
    blocks = _read_parts(content) or ()
    return tuple([Text(b.value) if isinstance(b, OtherBlock) and isinstance(b.value, str) else b for b in blocks])


def _write_block(block: Block) -> Any:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Thinking(redacted=True):
            return {"type": "redacted_thinking", "data": block.signature}
        case Thinking(signature=None):
            return {"type": "reasoning", "reasoning": block.text}
        case Thinking():
            return {"type": "thinking", "thinking": block.text, "signature": block.signature}
        case Image():
            return {"type": "image", "base64": to_base64(block.data), "mime_type": block.mime}
        case OtherBlock():
            return block.value
    return {"type": "text", "text": f"[file {block.name}]"}
