"""A session into a file that Claude Code resumes: a line for each block, linked by ids, and the leaf named at the end.

Lines that the program wrote itself are kept as they are, and what was made here follows. Ids follow from what they
name, so the same session is the same file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from gitsession.formats.base import jsonl
from gitsession.formats.base.groups import LF, spoken
from gitsession.formats.base.jsonl import LineFailure
from gitsession.formats.base.outgoing import Outgoing, OutgoingEntry, OutgoingLine, WrittenFile
from gitsession.formats.base.times import to_iso
from gitsession.formats.base.uuids import uuid_from
from gitsession.formats.claude.paths import session_uuid
from gitsession.formats.claude.records import is_sidechain
from gitsession.formats.claude.write_entries import ClaudeEntryContext, spell
from gitsession.formats.claude.write_messages import Words, call_id
from gitsession.formats.pi.write_messages import dumps
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Compaction, Entry, Message, Reset

VERSION = "2.1.197"
"""The release whose lines these are like."""

PROMPT_CHARS_MAX = 200
_WHERE = ("cwd", "sessionId", "version", "gitBranch", "isSidechain", "agentId")


def write(out: Outgoing) -> WrittenFile:
    """``Format.write``."""
    return _Writer(out).run()


def of_its_own(data: bytes) -> bytes:
    """What a sub-agent said, as a session that the program goes on with; the file of any other session as it is."""
    if b'"isSidechain":true' not in data or b'"isSidechain":false' in data:
        return data
    lines = data.split(LF)
    for at, line in enumerate(lines):
        said = jsonl.parse(line)
        if isinstance(said, dict) and is_sidechain(said):
            said.pop("agentId", None)
            lines[at] = dumps({**said, "isSidechain": False})
    return LF.join(lines)


class _Writer:
    def __init__(self, out: Outgoing) -> None:
        self.out = out
        self.lines: list[OutgoingLine] = []
        self.notes: Counter[str] = Counter()
        self.uuids: dict[str, list[str]] = {}  # key -> the lines of it that a compaction can keep
        self.ends: dict[str | None, str | None] = {None: None}  # key -> the line that what is below it hangs below
        self.below = {entry.key: entry.below for entry in out.entries}
        self.called: set[str] = set()
        self.parents: set[str] = set()
        self.prompt = ""
        self.where: Words = {
            "cwd": out.session.cwd or "/",
            "sessionId": session_uuid(out.session.source_id or ""),
            "version": VERSION,
            "gitBranch": "",
            "isSidechain": False,
        }

    def run(self) -> WrittenFile:
        for entry in self.out.entries:
            if entry.line is not None:
                self._kept(entry, entry.line)
        self.lines += [OutgoingLine(self.out.tail)] if self.out.tail else []
        for entry in self.out.entries:
            if entry.line is None:
                self._entry(entry)
        self._at_the_leaf()
        return WrittenFile(tuple(self.lines), self.notes)

    def _kept(self, leaving: OutgoingEntry, line: bytes) -> None:
        self.lines.append(OutgoingLine(line, None if leaving.is_name else leaving.key, leaving.id))
        said = jsonl.parse(spoken(line))
        if isinstance(said, LineFailure):
            said = {}
        self.where |= {name: said[name] for name in _WHERE if isinstance(said.get(name), str | bool)}
        self._hear(leaving.entry)
        end = leaving.id or self._end_of(leaving.below)
        self.ends[leaving.key] = end
        can_be_kept = not isinstance(leaving.entry, Compaction)
        self.uuids[leaving.key] = [leaving.id] if leaving.id is not None and can_be_kept else []
        if leaving.is_name and leaving.below is not None:
            self.ends[leaving.below] = end

    def _hear(self, entry: Entry) -> None:
        """What an entry says that later lines go by."""
        if isinstance(entry, Message):
            self.called.update(call_id(block.id) for block in entry.content if isinstance(block, ToolCall))
            if entry.role == "user" and entry.extra.get("isMeta") is not True:
                self.prompt = entry.text or self.prompt

    def _entry(self, leaving: OutgoingEntry) -> None:
        parent = self._end_of(leaving.below)
        if isinstance(leaving.entry, Reset):
            self.ends[leaving.key], self.uuids[leaving.key] = None, []
            return
        self._hear(leaving.entry)
        to = ClaudeEntryContext(f"msg_{uuid_from(leaving.key).replace('-', '')}", self.called, self.notes)
        bodies = spell(leaving.entry, to)
        ids = [uuid_from(leaving.key, *([number] if number else [])) for number in range(len(bodies))]
        if isinstance(leaving.entry, Compaction):
            self._compaction(leaving, leaving.entry, bodies, ids, parent)
            return
        self.uuids[leaving.key] = []
        for body, id in zip(bodies, ids, strict=True):
            if "message" not in body:
                self.lines.append(OutgoingLine(dumps({**body, "sessionId": self.where["sessionId"]}), leaving.key))
                continue
            self.lines.append(OutgoingLine(self._line(body, id, parent, leaving.entry.at_ms), leaving.key, id))
            self.uuids[leaving.key].append(id)
            parent = id
        self.ends[leaving.key] = parent

    def _compaction(
        self, leaving: OutgoingEntry, entry: Compaction, bodies: list[Words], ids: list[str], parent: str | None
    ) -> None:
        """Two lines that are one record. What is kept is listed, so that the program puts it behind the summary."""
        boundary, summary = bodies
        kept = self._since(leaving.below, entry.first_kept)
        if kept:
            anchor = {"anchorUuid": ids[1]}
            boundary["compactMetadata"] |= {
                "preservedSegment": {"headUuid": kept[0], **anchor, "tailUuid": kept[-1]},
                "preservedMessages": {**anchor, "uuids": kept, "allUuids": kept},
            }
        cut = {**boundary, **({"logicalParentUuid": parent} if parent else {})}
        pair = [self._line(cut, ids[0], None, entry.at_ms), self._line(summary, ids[1], ids[0], entry.at_ms)]
        if parent is not None:
            self.parents.add(parent)
        self.lines.append(OutgoingLine(LF.join(pair), leaving.key, ids[1]))
        # A later compaction that keeps what is around this one says its summary once more.
        self.uuids[leaving.key], self.ends[leaving.key] = [], ids[1]

    def _since(self, key: str | None, first: str | None) -> list[str]:
        """The lines from the entry ``first`` on to the entry ``key``; none where ``first`` is not on that line."""
        found: list[str] = []
        while key is not None and first is not None:
            found = [*self.uuids.get(key, []), *found]
            if key == first:
                return found
            key = self.below.get(key)
        return []

    def _end_of(self, key: str | None) -> str | None:
        return self.ends.get(key)

    def _line(self, body: Mapping[str, Any], id: str, parent: str | None, at_ms: int) -> bytes:
        if parent is not None:
            self.parents.add(parent)
        said = {"uuid": id, "timestamp": to_iso(at_ms), "userType": "external", "entrypoint": "cli"}
        return dumps({"parentUuid": parent, **body, **said, **self.where})

    def _at_the_leaf(self) -> None:
        """Title, and where to go on. A leaf that other lines hang below must be chosen expressly."""
        where = {"sessionId": self.where["sessionId"]}
        if self.out.title is not None and self.out.title.title:
            self.lines.append(
                OutgoingLine(dumps({"type": "custom-title", "customTitle": self.out.title.title, **where}))
            )
        if self.out.labels:
            self.notes["labels, for which Claude Code has no word, which are left out"] += len(self.out.labels)
        leaf = self._end_of(self.out.leaf)
        if leaf is None:
            if self.out.leaf is not None:
                self.notes["reset at the end, behind which Claude Code goes on with what stands before it"] += 1
            return
        chosen = {"explicit": True} if leaf in self.parents else {}
        prompt = self.prompt[:PROMPT_CHARS_MAX]
        said = {"type": "last-prompt", "lastPrompt": prompt, "leafUuid": leaf, **chosen, **where}
        self.lines.append(OutgoingLine(dumps(said)))
