"""Writer of exports for ``opencode import``.

An export contains only the history of the leaf, because opencode does not support branches. Messages that opencode
wrote are preserved. Other entries become new messages in opencode's format. The ids of new messages are derived from a
time, the session id and the key of the entry, so the same session always results in the same export.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gitsession.dataclass import dataclass
from gitsession.formats.base.jsonl import LineFailure, parse
from gitsession.formats.base.outgoing import Outgoing, OutgoingEntry, OutgoingLine, WrittenFile, describe_kind
from gitsession.formats.opencode import split_file
from gitsession.formats.opencode.files import session_id
from gitsession.formats.opencode.json_text import quoted
from gitsession.formats.opencode.read_entry import Json, id_in, in_full, make_id, mark_pruned, part_of, tokens_of
from gitsession.model.blocks import Block, Text
from gitsession.model.entries import (
    BranchSummary,
    Compaction,
    CustomMessage,
    Entry,
    Message,
    ModelChange,
    Prune,
    Reset,
    Title,
    kind_of,
)
from gitsession.model.results import unfold

VERSION = "1.18.33"
"""The version of opencode whose message format this module writes."""

UNKNOWN = ("unknown", "unknown")
_SILENTLY_OMITTED = ("title", "model_change", "usage", "label", "checkpoint")
"""The kinds of entries that are omitted without a note.

These entries are represented elsewhere in the file, or are not part of the conversation.
"""


@dataclass(frozen=True, slots=True)
class Export(WrittenFile):
    """A written export. ``header``: the session description, encoded like the first record on ``meta``."""

    header: bytes = b""

    @property
    def data(self) -> bytes:
        return split_file.join(self.header, [line.data for line in self.lines], b"")


def write(out: Outgoing) -> Export:
    """Write a session in the format of ``opencode export``."""
    return _Writer(out).run()


@dataclass(slots=True)
class _NewMessage:
    """A message to write. ``key``: the key of the last entry in the message.

    ``raw``: the record of a message that opencode wrote; ``None`` for a new message. ``is_request``: whether the
    message is a compaction request.
    """

    key: str
    info: Json
    parts: list[Json]
    raw: bytes | None = None
    id: str | None = None
    is_request: bool = False


class _Writer:
    def __init__(self, out: Outgoing) -> None:
        self.out = out
        self.notes: Counter[str] = Counter()
        self.messages: list[_NewMessage] = []
        self.ids: dict[str, str] = {}  # key -> the id of the first message of the entry
        self.calls: dict[str, Json] = {}  # id of a call without a result so far -> the part of the call
        self.by_key: dict[str, list[Json]] = {}  # key -> the tool parts of the entry, which a prune can mark
        self.model: tuple[str, str] = UNKNOWN
        self.user = ""
        self.at_ms = 0
        self.title = out.title.title if out.title is not None else None
        self.full_records = {id: raw for line in out.head for id, raw in in_full(line)}
        head = next((line for line in out.head if line.startswith(b'{"info":')), None)
        self.header = head or self._header()
        self.session = id_in(self.header) or session_id(out.session.source_id)

    def run(self) -> Export:
        path = self.out.history()
        omitted = sum(not entry.is_name for entry in self.out.entries) - len(path)
        if omitted > 0:
            self.notes["left out: entries of other branches"] += omitted
        for entry in self._since_reset(path):
            if entry.line is not None:
                self._write_unchanged(entry, entry.line)
            else:
                self._write_entry(entry.key, entry.entry)
        if labels := self.out.all_labels():
            self.notes["left out: labels"] += len(labels)
        return Export(tuple(self._lines()), self.notes, self._titled())

    def _since_reset(self, path: Sequence[OutgoingEntry]) -> Sequence[OutgoingEntry]:
        """Return the entries of ``path`` after the last reset, because opencode does not support resets.

        If entries that opencode wrote precede the reset, return all entries of ``path``.
        """
        at = max((at for at, each in enumerate(path) if isinstance(each.entry, Reset)), default=-1)
        if at < 0 or any(each.line is not None for each in path[:at]):
            return path
        before = sum(isinstance(each.entry, Message | CustomMessage | Compaction) for each in path[:at])
        if before:
            self.notes["left out: entries before the last reset"] += before
        return path[at + 1 :]

    # ---- messages

    def _write_unchanged(self, outgoing: OutgoingEntry, line: bytes) -> None:
        """Write a record that opencode wrote.

        A record of marks is not written. Instead, each mark is added to the message that contains the marked result.
        """
        self.calls.clear()
        if isinstance(outgoing.entry, Prune):
            self._write_entry(outgoing.key, outgoing.entry)
            return
        if isinstance(outgoing.entry, Message):
            self._update_model(outgoing.entry)
            self.user = outgoing.id or self.user if outgoing.entry.role == "user" else self.user
        self.at_ms = max(self.at_ms, outgoing.entry.at_ms)
        raw = self.full_records.get(outgoing.id or "", line)
        self.ids.setdefault(outgoing.key, outgoing.id or "")
        self.messages.append(_NewMessage(outgoing.key, {}, [], raw, outgoing.id))

    def _update_model(self, entry: Message) -> None:
        if entry.role == "assistant" and entry.provider and entry.model:
            self.model = (entry.provider, entry.model)

    def _write_entry(self, key: str, entry: Entry) -> None:
        match entry:
            case Message():
                for part in unfold(entry):
                    self._message(key, part)
            case CustomMessage():
                self._user(key, entry.at_ms, entry.content, synthetic=True)
            case BranchSummary():
                self._user(key, entry.at_ms, (Text(entry.summary),), synthetic=True)
            case Compaction():
                self._compaction(key, entry)
            case ModelChange(role="default"):
                self.model = (entry.provider, entry.model)
            case Title():
                self.title = entry.title
            case Prune():
                self._prune(entry)
            case _ if kind_of(entry) not in _SILENTLY_OMITTED:
                self.notes[f"left out: {describe_kind(entry)}"] += 1

    def _message(self, key: str, entry: Message) -> None:
        if entry.role == "user":
            self._user(key, entry.at_ms, entry.content)
        elif entry.role == "assistant":
            self._update_model(entry)
            self._assistant(key, entry)
        elif entry.role == "tool":
            self._result(key, entry)
        elif entry.role == "shell":
            words = f"$ {entry.command or ''}\n{entry.output or ''}"
            self._user(key, entry.at_ms, (Text(words),), synthetic=True)
        elif entry.role in ("developer", "custom"):
            self._user(key, entry.at_ms, entry.content, synthetic=True)
        else:
            self.notes[f"left out: {entry.role} messages"] += 1

    def _user(self, key: str, at_ms: int, content: Iterable[Block], *, synthetic: bool = False) -> None:
        parts = [part for block in content if (part := part_of(block, self.notes)) is not None]
        if synthetic:
            parts = [{**part, **({"synthetic": True} if part["type"] == "text" else {})} for part in parts]
        if parts:
            self.user = self._append(key, self._request(), parts, at_ms)

    def _assistant(self, key: str, entry: Message) -> None:
        if entry.failed and not entry.content:
            return
        content = [part for block in entry.content if (part := part_of(block, self.notes)) is not None]
        has_calls = any(part["type"] == "tool" for part in content)
        if not content:
            return
        usage = entry.usage or {}
        counts = {
            name: tokens_of(usage.get(name)) for name in ("input", "output", "reasoning", "cacheRead", "cacheWrite")
        }
        cache = {"read": counts.pop("cacheRead"), "write": counts.pop("cacheWrite")}
        finish = "tool-calls" if has_calls else "stop"
        tokens = {**counts, "cache": cache}
        info = {**self._answer(), "finish": finish, "tokens": tokens}
        last = {"type": "step-finish", "reason": finish, "cost": 0, "tokens": tokens}
        self._append(key, info, [{"type": "step-start"}, *content, last], entry.at_ms)
        for part in self.messages[-1].parts:
            if part["type"] == "tool":
                self.calls[part["callID"]] = part
                self.by_key.setdefault(key, []).append(part)

    def _request(self) -> Json:
        provider, model = self.model
        return {"role": "user", "agent": "build", "model": {"providerID": provider, "modelID": model}}

    def _answer(self) -> Json:
        provider, model = self.model
        cwd = self.out.session.cwd or "/"
        return {
            "role": "assistant", "parentID": self.user, "modelID": model, "providerID": provider, "mode": "build",
            "agent": "build", "path": {"cwd": cwd, "root": cwd}, "cost": 0,
        }  # fmt: skip

    def _result(self, key: str, entry: Message) -> None:
        """Write a tool result to the part of its call. A result without a call is omitted."""
        part = self.calls.pop(entry.tool_call_id or "", None)
        if part is None:
            self.notes["left out: results whose call is not in the history"] += 1
            return
        state = part["state"]
        start = state["time"]["start"]
        text = "\n".join(block.text for block in entry.content if isinstance(block, Text))
        time = {"start": start, "end": max(start, entry.at_ms)}
        if entry.is_error:
            omitted = sum(not isinstance(block, Text) for block in entry.content)
            if omitted:
                self.notes["left out: images and files of failed results"] += omitted
            part["state"] = {"status": "error", "input": state["input"], "error": text, "time": time}
        else:
            ids = {name: part[name] for name in ("sessionID", "messageID")}
            files = [{**found, "id": part["id"], **ids} for block in entry.content
                     if (found := part_of(block, self.notes)) is not None and found["type"] == "file"]  # fmt: skip
            part["state"] = {
                "status": "completed", "input": state["input"], "output": text, "title": part["tool"], "metadata": {},
                "time": time, **({"attachments": files} if files else {}),
            }  # fmt: skip
        self.by_key.setdefault(key, []).append(part)
        for message in self.messages[-1:]:
            message.key = key  # entries below the result follow this message
            self.ids.setdefault(key, message.id or "")

    def _compaction(self, key: str, entry: Compaction) -> None:
        """Write a compaction request and its summary.

        The first message that the compaction keeps is the first message of the entry ``entry.first_kept``.
        """
        first = self.ids.get(entry.first_kept or "")
        tail = {"tail_start_id": first} if first else {}
        part = {"type": "compaction", "auto": False, **tail}
        prompt_id = self._append(key, self._request(), [part], entry.at_ms, name="asked")
        self.messages[-1].is_request = True
        tokens = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        fields = {"mode": "compaction", "agent": "compaction", "summary": True, "parentID": prompt_id, "finish": "stop"}
        text_part = {"type": "text", "text": entry.summary}
        self._append(key, {**self._answer(), **fields, "tokens": tokens}, [text_part], entry.at_ms)

    def _prune(self, entry: Prune) -> None:
        for message in self.messages:
            if message.raw is not None:
                message.raw = mark_pruned(message.raw, set(entry.targets), message.key, entry.at_ms)
        for target in entry.targets:
            for part in self.by_key.get(target, []):
                if part["state"]["status"] == "completed":
                    part["state"]["time"]["compacted"] = entry.at_ms

    # ---- lines

    def _append(self, key: str, info: Json, parts: Sequence[Json], at_ms: int, *, name: str = "") -> str:
        self.at_ms = max(at_ms, self.at_ms + 1)
        id = make_id("msg", self.at_ms, 0, self.session, key, name)
        time: Json = {"created": self.at_ms}
        if info["role"] == "assistant":
            time["completed"] = self.at_ms
        full_info = {**info, "time": time, "id": id, "sessionID": self.session}
        full_parts = []
        for at, part in enumerate(parts, 1):
            if part["type"] == "tool":
                part["state"]["time"] = {"start": self.at_ms, "end": self.at_ms}
            part_ids = {"id": make_id("prt", self.at_ms, at, self.session, key, name), "sessionID": self.session}
            full_parts.append({**part, **part_ids, "messageID": id})
        self.ids.setdefault(key, id)
        self.messages.append(_NewMessage(key, full_info, full_parts, None, id))
        return id

    def _lines(self) -> Iterable[OutgoingLine]:
        request: _NewMessage | None = None
        for message in self.messages:
            if message.raw is not None:
                yield OutgoingLine(message.raw, message.key, message.id)
            elif message.is_request:
                request = message
            elif request is not None:
                both = [{"info": each.info, "parts": each.parts} for each in (request, message)]
                yield OutgoingLine(quoted({"messages": both}).encode(), message.key, message.id)
                request = None
            else:
                yield OutgoingLine(
                    quoted({"info": message.info, "parts": message.parts}).encode(), message.key, message.id
                )

    def _header(self) -> bytes:
        session = self.out.session
        id = session_id(session.source_id)
        info = {
            "id": id, "slug": id.replace("_", "-").lower(), "projectID": "global", "directory": session.cwd or "/",
            "title": session.title or "Untitled", "version": VERSION,
            "time": {"created": session.at_ms, "updated": session.at_ms},
        }  # fmt: skip
        return quoted({"info": info}).encode()

    def _titled(self) -> bytes:
        """Return the header with the current title of the session."""
        found = parse(self.header)
        if isinstance(found, LineFailure) or not self.title:
            return self.header
        return quoted({**found, "info": {**found["info"], "title": self.title}}).encode()
