"""Writer of rollouts that codex can continue. A rollout contains one branch, the history of the leaf.

If codex wrote a file of the session, and the history of the leaf contains the last entry of that file, the lines of the
file are written unchanged. They are followed by lines for the later entries of the history. Otherwise, only the history
of the leaf is written, because codex's files cannot represent branches. In both cases, the lines of codex's own records
are unchanged.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from gitsession.formats.base.fields import object_in, to_iso
from gitsession.formats.base.jsonl import LF, LineFailure, Object, parse, record_line
from gitsession.formats.base.outgoing import (
    Outgoing,
    OutgoingEntry,
    OutgoingLine,
    WrittenFile,
    describe_kind,
    file_text,
)
from gitsession.formats.codex.read_entry import REPLACEMENT
from gitsession.formats.codex.split_file import EVENT, ITEM, META, ROLLED_BACK, header_at, item_in, thread_id
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, Custom, CustomMessage, Entry, Message, Reset, Title

SUMMARY_PREFIX = (
    "Another language model started to solve this problem and produced a summary of its thinking process. You also "
    "have access to the state of the tools that were used by that language model. Use this to build on the work that "
    "has already been done and avoid duplicating work. Here is the summary produced by the other language model, use "
    "the information in this summary to assist with your own analysis:"
)
"""The text that codex writes before a summary. This text distinguishes a summary from other user messages."""

_OWN = frozenset(
    {"web_search_call", "image_generation_call", "compaction", "compaction_summary", "context_compaction",
     "function_call", "local_shell_call", "tool_search_call", "custom_tool_call"}
)  # fmt: skip
"""The types of codex's response items that ``read_entry`` can return as unchanged blocks."""


def items_of(entry: Entry) -> list[Object]:
    """Return the response items for ``entry``, or an empty list if no model receives the entry."""
    match entry:
        case Message(role="assistant"):
            return [item for block in entry.content for item in _items_of_block(block, entry)]
        case Message(role="tool"):
            call_id = _call_id(entry.tool_call_id or "")
            return [{"type": "function_call_output", "call_id": call_id, "output": _output(entry)}]
        case Message(role="shell"):
            return [_message("user", [_text("user", _shell(entry))])]
        case Message(role="developer" | "system"):
            return _message_items("developer", entry)
        case Message() | CustomMessage():
            return _message_items("user", entry)
        case Compaction() | BranchSummary():
            return [_message("user", [_text("user", f"{SUMMARY_PREFIX}\n{entry.summary}")])] if entry.summary else []
    return []


def call_output(call: Object, output: str) -> Object | None:
    """Return an output item for the response item ``call``, or ``None`` if ``call`` needs no output."""
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


def _message_items(role: str, entry: Message | CustomMessage) -> list[Object]:
    content = [part for block in entry.content for part in _parts(role, block)]
    return [_message(role, content)] if content else []


def _items_of_block(block: Block, entry: Message) -> Iterable[Object]:
    """Yield the response items for a block.

    Reasoning is included only if codex wrote it as a response item, because the reasoning of other models cannot be
    decrypted.
    """
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
    """Return the id of a call in a form that the API accepts.

    pi appends ``|`` and the id of the response item to the id of the call. This suffix is removed. An id that is too
    long is replaced with a hash.
    """
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
            return [_text(role, file_text(block))]
        case Image():
            return [_text(role, f"[image {block.mime}]")]
    return []


def _text(role: str, text: str) -> Object:
    return {"type": "output_text" if role == "assistant" else "input_text", "text": text}


def _shell(entry: Message) -> str:
    """Return the text that codex inserts for a shell command that the user ran."""
    code = "" if entry.exit_code is None else f"Exit code: {entry.exit_code}\n"
    result = f"{code}Output:\n{entry.output or ''}"
    command = f"<command>\n{entry.command or ''}\n</command>"
    return f"<user_shell_command>\n{command}\n<result>\n{result}\n</result>\n</user_shell_command>"


def write(out: Outgoing) -> WrittenFile:
    """Write a session as a rollout."""
    return _Writer(out).run()


class _Writer:
    def __init__(self, out: Outgoing) -> None:
        self.out = out
        self.lines: list[OutgoingLine] = []
        self.notes: Counter[str] = Counter()
        self.path = self.out.history()
        head = parse(out.head[0]) if out.head else None
        self.header = head if isinstance(head, dict) else None
        self.ordinal: int | None = None
        if self.header is not None and object_in(self.header, "payload").get("history_mode") == "paginated":
            self.ordinal = 0

    def run(self) -> WrittenFile:
        self._head()
        own_entries = [entry for entry in self.out.entries if entry.line is not None and not entry.is_name]
        on_path = {entry.key for entry in self.path}
        if own_entries and own_entries[-1].key in on_path:
            for entry in own_entries:
                self._write_unchanged(entry)
            if self.out.tail:
                self.lines.append(OutgoingLine(self.out.tail))
                self._update_ordinal(record_line(self.out.tail))
            rest = [entry for entry in self.path if entry.line is None]
        else:
            rest = self.path
        omitted = len(self.out.entries) - len({entry.key for entry in (*own_entries, *rest)} | on_path)
        if omitted:
            self.notes["left out: entries of other branches"] += omitted
        for entry in rest:
            self._write_outgoing(entry)
        if self.out.labels:
            self.notes["left out: labels"] += len(self.out.labels)
        if self.out.title is not None:
            self._write_entry(self.out.title, None)
        return WrittenFile(tuple(self.lines), self.notes)

    # ---- lines

    def _head(self) -> None:
        if self.header is not None:
            for line in self.out.head:
                self.lines.append(OutgoingLine(line))
            self._update_ordinal(self.out.head[-1])
            return
        session = self.out.session
        payload = {
            "id": thread_id(session.source_id),
            "timestamp": to_iso(session.at_ms),
            "cwd": session.cwd or "/",
            "originator": "gitsession",
            "cli_version": "0.0.0",
            "source": "cli",
        }
        self._append(META, payload, session.at_ms, None)

    def _write_outgoing(self, outgoing: OutgoingEntry) -> None:
        if outgoing.line is None:
            self._write_entry(outgoing.entry, outgoing.key)
        elif not (isinstance(outgoing.entry, Custom) and outgoing.entry.custom_type == ROLLED_BACK):
            # A rollback is not written. Its turns are not in the file, so codex would remove other turns.
            self._write_unchanged(outgoing)

    def _write_unchanged(self, outgoing: OutgoingEntry) -> None:
        """Write a record unchanged, with its accompanying lines."""
        assert outgoing.line is not None
        self.lines.append(OutgoingLine(outgoing.line, outgoing.key, outgoing.id))
        self._update_ordinal(record_line(outgoing.line))

    def _write_entry(self, entry: Entry, key: str | None) -> None:
        match entry:
            case Compaction():
                self._append("compacted", self._compacted(entry, key), entry.at_ms, key)
            case Reset():
                self._append("compacted", {"message": "", REPLACEMENT: []}, entry.at_ms, key)
            case Title():
                self._append(EVENT, {"type": "thread_name_updated", "thread_name": entry.title or ""}, entry.at_ms, key)
            case Message(role="tool", tool_call_id=None):
                self.notes["left out: results without a call id"] += 1
            case Message() | CustomMessage() | BranchSummary():
                items = items_of(entry)
                for item in items:
                    self._write_item(item, entry.at_ms, key)
                self._count_thoughts(entry, items)
            case _:
                self.notes[f"left out: {describe_kind(entry)}"] += 1

    def _count_thoughts(self, entry: Entry, items: list[Object]) -> None:
        """Add the number of omitted blocks of reasoning to the notes.

        The reasoning of other models is omitted, because it is encrypted.
        """
        thoughts = sum(isinstance(block, Thinking) for block in getattr(entry, "content", ()))
        left = thoughts - sum(item.get("type") == "reasoning" for item in items)
        if left > 0:
            self.notes["left out: another model's reasoning"] += left

    def _write_item(self, item: Object, at_ms: int, key: str | None) -> None:
        """Write a response item.

        In a legacy file, a message of the user or of the model is followed by the event with which codex displays the
        message.
        """
        self._append(ITEM, item, at_ms, key)
        text = "\n".join(part["text"] for part in item.get("content") or () if isinstance(part.get("text"), str))
        if item.get("type") != "message" or self.ordinal is not None:
            return
        if item.get("role") == "user":
            images = [part["image_url"] for part in item["content"] if part.get("type") == "input_image"]
            self._append(EVENT, {"type": "user_message", "message": text, "images": images}, at_ms, None)
        elif item.get("role") == "assistant":
            self._append(EVENT, {"type": "agent_message", "message": text}, at_ms, None)

    def _compacted(self, entry: Compaction, key: str | None) -> Object:
        """Return the payload of a compaction, which contains the summary and the kept entries as response items."""
        replacement = entry.preserve.get(REPLACEMENT) if isinstance(entry.preserve, dict) else None
        if isinstance(replacement, list):
            return {"message": entry.summary, REPLACEMENT: replacement}
        kept_items = [item for outgoing in self._kept_entries(entry, key) for item in _items(outgoing)]
        return {"message": f"{SUMMARY_PREFIX}\n{entry.summary}", REPLACEMENT: [*items_of(entry), *kept_items]}

    def _kept_entries(self, entry: Compaction, key: str | None) -> Sequence[OutgoingEntry]:
        keys = [outgoing.key for outgoing in self.path]
        if entry.first_kept not in keys or key not in keys:
            return ()
        return self.path[keys.index(entry.first_kept) : keys.index(key)]

    def _append(self, kind: str, payload: Object, at_ms: int, key: str | None) -> None:
        ordinal = {} if self.ordinal is None else {"ordinal": self.ordinal}
        line = {"timestamp": to_iso(at_ms), **ordinal, "type": kind, "payload": payload}
        if self.ordinal is not None:
            self.ordinal += 1
        self.lines.append(OutgoingLine(_dumps(line), key))

    def _update_ordinal(self, line: bytes) -> None:
        """Set the ordinal of the next line to the one after that of ``line``, if the lines have ordinals."""
        parsed = parse(line.rpartition(LF)[2])
        number = None if isinstance(parsed, LineFailure) else parsed.get("ordinal")
        if self.ordinal is not None:
            self.ordinal = number + 1 if type(number) is int else self.ordinal + 1


def _items(outgoing: OutgoingEntry) -> list[Object]:
    """Return the response items of an entry that a compaction keeps.

    If codex wrote the entry, return the response item in its line. Otherwise, return the items from ``items_of``.
    """
    if outgoing.line is None:
        return [] if isinstance(outgoing.entry, Compaction) else items_of(outgoing.entry)
    parsed = parse(record_line(outgoing.line))
    item = {} if isinstance(parsed, LineFailure) else item_in(parsed)
    return [item] if item else []


def _dumps(value: Object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def relocate(data: bytes, id: str, cwd: str) -> bytes:
    """Return ``data`` with a header that contains the thread id of the session ``id`` and the folder ``cwd``."""
    lines = data.split(LF)
    at = header_at(lines)
    header = None if at is None else parse(lines[at])
    if at is None or not isinstance(header, dict):
        return data
    old_payload = object_in(header, "payload")
    own = thread_id(id)
    ids = {name: own for name in ("id", "session_id") if name == "id" or old_payload.get(name) == old_payload.get("id")}
    new_payload = {**old_payload, **{name: new for name, new in ids.items() if name in old_payload}, "cwd": cwd}
    if new_payload != old_payload:
        lines[at] = _dumps({**header, "payload": new_payload})
    return LF.join(lines)
