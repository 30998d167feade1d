"""Writer of exports for ``opencode import``: the history of the leaf, because opencode has no branches.

Messages that opencode wrote are kept. Other entries are written in opencode's format. Their ids have opencode's form.
They are derived from a time, the session and the key of the entry, so the same session always results in the same
export.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gitsession.formats.base.jsonl import LineFailure, parse
from gitsession.formats.base.outgoing import Outgoing, OutgoingEntry, OutgoingLine, WrittenFile, called
from gitsession.formats.opencode import split_file
from gitsession.formats.opencode.files import session_id
from gitsession.formats.opencode.json_text import quoted
from gitsession.formats.opencode.read_entry import Words, id_in, in_full, made_id, marked, part_of, whole
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
"""The release of opencode whose message format is written."""

UNKNOWN = ("unknown", "unknown")
_SILENT = ("title", "model_change", "usage", "label", "checkpoint", "permission")
"""Kinds that are represented elsewhere in the file, or that are not part of the conversation."""


@dataclass(frozen=True, slots=True)
class Export(WrittenFile):
    """A written export. ``header``: the description of the session, in the form of the first record on ``meta``."""

    header: bytes = b""

    @property
    def data(self) -> bytes:
        return split_file.join(self.header, [line.data for line in self.lines], b"")


def write(out: Outgoing) -> Export:
    """Write a session in the format of ``opencode export``."""
    return _Writer(out).run()


@dataclass(slots=True)
class _Made:
    """A message to write. ``key``: the key of the last entry in the message."""

    key: str
    info: Words
    parts: list[Words]
    kept: bytes | None = None
    id: str | None = None
    with_next: bool = False


class _Writer:
    def __init__(self, out: Outgoing) -> None:
        self.out = out
        self.notes: Counter[str] = Counter()
        self.made: list[_Made] = []
        self.ids: dict[str, str] = {}  # key -> the id of the first message of the entry
        self.calls: dict[str, Words] = {}  # id of a call -> the part of the call, if it has no result yet
        self.by_key: dict[str, list[Words]] = {}  # key -> the tool parts, which a prune can mark
        self.model: tuple[str, str] = UNKNOWN
        self.user = ""
        self.at_ms = 0
        self.title = out.title.title if out.title is not None else None
        self.full = {id: said for line in out.head for id, said in in_full(line)}
        head = next((line for line in out.head if line.startswith(b'{"info":')), None)
        self.header = head or self._header()
        self.session = id_in(self.header) or session_id(out.session.source_id)

    def run(self) -> Export:
        path = self.out.history()
        gone = sum(not entry.is_name for entry in self.out.entries) - len(path)
        if gone > 0:
            self.notes["left out: entries of other branches"] += gone
        for entry in self._since_reset(path):
            if entry.line is not None:
                self._keep(entry, entry.line)
            else:
                self._say(entry.key, entry.entry)
        if labels := self.out.all_labels():
            self.notes["left out: labels"] += len(labels)
        return Export(tuple(self._lines()), self.notes, self._titled())

    def _since_reset(self, path: Sequence[OutgoingEntry]) -> Sequence[OutgoingEntry]:
        """Return the entries after the last reset, because opencode has no resets.

        If messages that opencode wrote precede the reset, return all entries.
        """
        at = max((at for at, each in enumerate(path) if isinstance(each.entry, Reset)), default=-1)
        if at < 0 or any(each.line is not None for each in path[:at]):
            return path
        before = sum(isinstance(each.entry, Message | CustomMessage | Compaction) for each in path[:at])
        if before:
            self.notes["left out: entries before the last reset"] += before
        return path[at + 1 :]

    # ---- messages

    def _keep(self, leaving: OutgoingEntry, line: bytes) -> None:
        """Write a record unchanged. A record of marks is written into the messages with the marked results."""
        self.calls.clear()
        if isinstance(leaving.entry, Prune):
            self._say(leaving.key, leaving.entry)
            return
        if isinstance(leaving.entry, Message):
            self._hear(leaving.entry)
            self.user = leaving.id or self.user if leaving.entry.role == "user" else self.user
        self.at_ms = max(self.at_ms, leaving.entry.at_ms)
        kept = self.full.get(leaving.id or "", line)
        self.ids.setdefault(leaving.key, leaving.id or "")
        self.made.append(_Made(leaving.key, {}, [], kept, leaving.id))

    def _hear(self, entry: Message) -> None:
        if entry.role == "assistant" and entry.provider and entry.model:
            self.model = (entry.provider, entry.model)

    def _say(self, key: str, entry: Entry) -> None:
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
            case _ if kind_of(entry) not in _SILENT:
                self.notes[f"left out: {called(entry)}"] += 1

    def _message(self, key: str, entry: Message) -> None:
        if entry.role == "user":
            self._user(key, entry.at_ms, entry.content)
        elif entry.role == "assistant":
            self._hear(entry)
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
        provider, model = self.model
        info = {"role": "user", "agent": "build", "model": {"providerID": provider, "modelID": model}}
        parts = [part for block in content if (part := part_of(block, self.notes)) is not None]
        if synthetic:
            parts = [{**part, **({"synthetic": True} if part["type"] == "text" else {})} for part in parts]
        if parts:
            self.user = self._put(key, info, parts, at_ms)

    def _assistant(self, key: str, entry: Message) -> None:
        if entry.failed and not entry.content:
            return
        content = [part for block in entry.content if (part := part_of(block, self.notes)) is not None]
        has_calls = any(part["type"] == "tool" for part in content)
        if not content:
            return
        usage = entry.usage or {}
        counts = {name: whole(usage.get(name)) for name in ("input", "output", "reasoning", "cacheRead", "cacheWrite")}
        cache = {"read": counts.pop("cacheRead"), "write": counts.pop("cacheWrite")}
        finish = "tool-calls" if has_calls else "stop"
        tokens = {**counts, "cache": cache}
        info = {**self._answer(), "finish": finish, "tokens": tokens}
        last = {"type": "step-finish", "reason": finish, "cost": 0, "tokens": tokens}
        self._put(key, info, [{"type": "step-start"}, *content, last], entry.at_ms)
        for part in self.made[-1].parts:
            if part["type"] == "tool":
                self.calls[part["callID"]] = part
                self.by_key.setdefault(key, []).append(part)

    def _answer(self) -> Words:
        provider, model = self.model
        where = self.out.session.cwd or "/"
        return {
            "role": "assistant", "parentID": self.user, "modelID": model, "providerID": provider, "mode": "build",
            "agent": "build", "path": {"cwd": where, "root": where}, "cost": 0,
        }  # fmt: skip

    def _result(self, key: str, entry: Message) -> None:
        """Write a result into the part of its call. A result without a call is omitted."""
        part = self.calls.pop(entry.tool_call_id or "", None)
        if part is None:
            self.notes["left out: results whose call is not in the history"] += 1
            return
        state = part["state"]
        start = state["time"]["start"]
        text = "\n".join(block.text for block in entry.content if isinstance(block, Text))
        time = {"start": start, "end": max(start, entry.at_ms)}
        if entry.is_error:
            seen = sum(not isinstance(block, Text) for block in entry.content)
            if seen:
                self.notes["left out: images and files of failed results"] += seen
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
        for made in self.made[-1:]:
            made.key = key  # children of the result follow this message
            self.ids.setdefault(key, made.id or "")

    def _compaction(self, key: str, entry: Compaction) -> None:
        """Write a compaction request and its summary. The kept part begins at the first message of an entry."""
        first = self.ids.get(entry.first_kept or "")
        kept = {"tail_start_id": first} if first else {}
        provider, model = self.model
        info = {"role": "user", "agent": "build", "model": {"providerID": provider, "modelID": model}}
        part = {"type": "compaction", "auto": False, **kept}
        asked = self._put(key, info, [part], entry.at_ms, name="asked")
        self.made[-1].with_next = True
        tokens = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        said = {"mode": "compaction", "agent": "compaction", "summary": True, "parentID": asked, "finish": "stop"}
        words = {"type": "text", "text": entry.summary}
        self._put(key, {**self._answer(), **said, "tokens": tokens}, [words], entry.at_ms)

    def _prune(self, entry: Prune) -> None:
        for made in self.made:
            if made.kept is not None:
                made.kept = marked(made.kept, set(entry.targets), made.key, entry.at_ms)
        for target in entry.targets:
            for part in self.by_key.get(target, []):
                if part["state"]["status"] == "completed":
                    part["state"]["time"]["compacted"] = entry.at_ms

    # ---- lines

    def _put(self, key: str, info: Words, parts: Sequence[Words], at_ms: int, *, name: str = "") -> str:
        self.at_ms = max(at_ms, self.at_ms + 1)
        id = made_id("msg", self.at_ms, 0, self.session, key, name)
        time: Words = {"created": self.at_ms}
        if info["role"] == "assistant":
            time["completed"] = self.at_ms
        about = {**info, "time": time, "id": id, "sessionID": self.session}
        own = []
        for at, part in enumerate(parts, 1):
            if part["type"] == "tool":
                part["state"]["time"] = {"start": self.at_ms, "end": self.at_ms}
            about_part = {"id": made_id("prt", self.at_ms, at, self.session, key, name), "sessionID": self.session}
            own.append({**part, **about_part, "messageID": id})
        self.ids.setdefault(key, id)
        self.made.append(_Made(key, about, own, None, id))
        return id

    def _lines(self) -> Iterable[OutgoingLine]:
        request: _Made | None = None
        for made in self.made:
            if made.kept is not None:
                yield OutgoingLine(made.kept, made.key, made.id)
            elif made.with_next:
                request = made
            elif request is not None:
                both = [{"info": each.info, "parts": each.parts} for each in (request, made)]
                yield OutgoingLine(quoted({"messages": both}).encode(), made.key, made.id)
                request = None
            else:
                yield OutgoingLine(quoted({"info": made.info, "parts": made.parts}).encode(), made.key, made.id)

    def _header(self) -> bytes:
        session = self.out.session
        id = session_id(session.source_id)
        said = {
            "id": id, "slug": id.replace("_", "-").lower(), "projectID": "global", "directory": session.cwd or "/",
            "title": session.title or "Untitled", "version": VERSION,
            "time": {"created": session.at_ms, "updated": session.at_ms},
        }  # fmt: skip
        return quoted({"info": said}).encode()

    def _titled(self) -> bytes:
        """Return the header with the current title of the session."""
        found = parse(self.header)
        if isinstance(found, LineFailure) or not self.title:
            return self.header
        return quoted({**found, "info": {**found["info"], "title": self.title}}).encode()
