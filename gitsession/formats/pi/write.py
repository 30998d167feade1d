"""Writer of session files for pi and omp.

The line of each entry contains the id of the parent entry. The agent continues at the last line of the file. Lines that
the agent wrote, or that the agent's file already contains, are written unchanged. In a file of version 1, entries have
no ids. Such a file is converted to version 3 with ids, as the agent does when it opens the file.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import NamedTuple

from gitsession.formats.base import jsonl
from gitsession.formats.base.fields import to_iso, to_ms
from gitsession.formats.base.jsonl import LineFailure, Object, dumps
from gitsession.formats.base.outgoing import Outgoing, OutgoingEntry, OutgoingLine, WrittenFile
from gitsession.formats.pi.messages import Json
from gitsession.formats.pi.write_entries import PiEntryContext, TypedFields, lines_of
from gitsession.model.entries import TYPE_PREFIX, Custom, Entry, Message, ModelChange, Reset, ThinkingChange, Title

VERSION = 3
SLOT_BYTES = 256
"""The size of omp's title slot in bytes, including the newline. omp overwrites the title slot in place."""

LEAF = f"{TYPE_PREFIX}leaf"
"""The type of the ``custom`` entry that is written below the leaf if the leaf is not the last line of the file."""


def write(out: Outgoing, *, omp: bool) -> WrittenFile:
    """Write a session as a file of pi or, if ``omp`` is true, of omp."""
    return _Writer(out, omp).run()


class _Writer:
    def __init__(self, out: Outgoing, omp: bool) -> None:
        self.out = out
        self.omp = omp
        self.lines: list[OutgoingLine] = []
        self.notes: Counter[str] = Counter()
        self.used_ids = {entry.id for entry in out.entries if entry.id}
        self.begins: dict[str, str] = {}  # key -> the id of the entry's first line, for references to the entry
        self.ends: dict[str, str] = {}  # key -> the id of the entry's last line, the parent of its children
        self.states: dict[str | None, _State] = {None: _State()}
        self.head = [parsed for line in out.head if not isinstance(parsed := jsonl.parse(line), LineFailure)]
        self.migrates = not any(_has_ids(line) for line in self.head)
        self.previous: str | None = None

    def run(self) -> WrittenFile:
        self._assign_ids()
        for line in self._head():
            self.lines.append(OutgoingLine(line))
        for entry in self.out.entries:
            self._write_entry(entry)
        self._write_labels_and_title()
        return WrittenFile(tuple(self.lines), self.notes)

    # ---- ids

    def _assign_ids(self) -> None:
        """Assign ids to all entries before the first line is written, because an entry may refer to a later entry.

        A session of another agent may contain an id twice. In a file of pi, two entries with the same id can form a
        cycle, and pi 0.73 hangs if it reads such a file.
        """
        used = {entry.id for entry in self.out.entries if entry.line is not None}
        for entry in self.out.entries:
            keeps_id = entry.line is not None and not self.migrates
            id = entry.id if entry.line is not None or entry.id not in used else None
            used.add(id)
            id = id or (None if keeps_id else self._unused_id(entry.key, wish=entry.short))
            if id is not None:
                self.begins.setdefault(entry.key, id)

    def _unused_id(self, *parts: object, wish: str = "") -> str:
        """Return ``wish`` if no entry uses this id. Otherwise, return an unused id of eight hexadecimal digits.

        The digits are derived from ``parts``, so the id is the same in every export.
        """
        for attempt in range(2**16):
            seed = "/".join(map(str, (*parts, attempt)))
            found = (not attempt and wish) or sha256(seed.encode("utf-8", "backslashreplace")).hexdigest()[:8]
            if found not in self.used_ids:
                self.used_ids.add(found)
                return found
        raise AssertionError("no free id")

    # ---- lines

    def _head(self) -> list[bytes]:
        session, title = self.out.session, self.out.title
        lines = list(self.out.head)
        at = next((at for at, line in enumerate(lines) if _type_of(line) == "session"), None)
        if at is None:  # gitsession created the session, or the header is missing from the agent's file
            head = {"type": "session", "version": VERSION, "id": session.source_id, "timestamp": to_iso(session.at_ms)}
            if self.omp and not lines:
                title = title or Title(title=self.out.name(), at_ms=session.at_ms)
            lines.append(dumps({**head, "cwd": session.cwd or "", **session.extra}))
        elif self.migrates:
            lines[at] = dumps({**self.head[at], "version": VERSION})
        if self.omp and title is not None:
            lines[: _type_of(lines[0]) == "title"] = [_slot(title)]
        return lines

    def _write_entry(self, outgoing: OutgoingEntry) -> None:
        before = self.states[outgoing.parent] if outgoing.parent in self.states else _State()
        self.states[outgoing.key] = before.after(outgoing.entry)
        parent = self.ends.get(outgoing.parent) if outgoing.parent is not None else None
        if outgoing.line is not None:
            self._write_unchanged(outgoing, outgoing.line, parent)
            return
        id = self.begins[outgoing.key]
        context = PiEntryContext(self.omp, self.begins, self.notes, id, before.model, before.thinking)
        parent = None if isinstance(outgoing.entry, Reset) and not self.omp else parent
        for number, typed_fields in enumerate(lines_of(outgoing.entry, context)):
            id = self._unused_id(outgoing.key, "part", number) if number else id
            self._append_line(typed_fields, id, parent, outgoing.entry.at_ms, outgoing.key)
            parent = id
        self.ends[outgoing.key] = id

    def _write_unchanged(self, outgoing: OutgoingEntry, line: bytes, parent: str | None) -> None:
        """Write a line of the agent's file. If the file has version 1, add an id and a parent id to the line."""
        id = self.begins.get(outgoing.key) if outgoing.id is None else outgoing.id
        found = jsonl.parse(line)
        if self.migrates and outgoing.id is None and not isinstance(found, LineFailure):
            line = dumps(self._migrated(found, outgoing, id, parent))
        self.lines.append(OutgoingLine(line, None if outgoing.is_name else outgoing.key, id))
        end = id or parent
        if end is not None:
            self.ends[outgoing.key] = end
            if outgoing.is_name and outgoing.parent is not None:
                self.ends[outgoing.parent] = end

    def _migrated(self, line: Object, outgoing: OutgoingEntry, id: str | None, parent: str | None) -> Json:
        message = line.get("message")
        if isinstance(message, dict) and message.get("role") == "hookMessage":
            line = {**line, "message": {**message, "role": "custom"}}
        index = line.pop("firstKeptEntryIndex", None)
        first = getattr(outgoing.entry, "first_kept", None)
        field = {"firstKeptEntryId": self.begins.get(first, first)} if index is not None and first is not None else {}
        return {**line, "id": id, "parentId": parent, **field}

    def _append_line(self, typed_fields: TypedFields, id: str, parent: str | None, at_ms: int, key: str | None) -> None:
        type, fields = typed_fields
        base = {"type": type, "id": id, "parentId": parent, "timestamp": to_iso(at_ms)}
        # Fields of a later format version must not replace the fields that every line requires.
        rest = {name: value for name, value in fields.items() if name not in base or name == "timestamp"}
        if to_ms(rest.get("timestamp")) is None:
            rest.pop("timestamp", None)
        self.lines.append(OutgoingLine(dumps({**base, **rest}), key, id))

    # ---- after the leaf

    def _write_labels_and_title(self) -> None:
        """Write lines for the labels and the title that no entry sets.

        These lines are written below the leaf. If there are no such lines, and the leaf is not the last line of the
        file, an entry of type ``LEAF`` is written below the leaf.
        """
        at = None if self.out.leaf is None else self.ends.get(self.out.leaf)
        last = next((line.id for line in reversed(self.lines) if line.id), None)
        additions: list[tuple[Entry, tuple[object, ...]]] = [
            (label, ("label", label.target, label.label or "", label.at_ms)) for label in self.out.labels
        ]
        if self.out.title is not None and not self.omp:
            additions.append((self.out.title, ("title", self.out.title.title or "", self.out.title.at_ms)))
        if not additions and at != last and self.out.leaf is not None:
            self.notes["added: a mark at the leaf, so that it is the last line"] += 1
            additions.append((Custom(custom_type=LEAF, at_ms=self._leaf_ms()), ("leaf", self.out.leaf)))
        for entry, parts in additions:
            id = self._unused_id(*parts)
            context = PiEntryContext(self.omp, self.begins, self.notes, id)
            for typed_fields in lines_of(entry, context):
                self._append_line(typed_fields, id, at, entry.at_ms, None)
            at = id

    def _leaf_ms(self) -> int:
        return next(entry.entry.at_ms for entry in self.out.entries if entry.key == self.out.leaf)


class _State(NamedTuple):
    """The model and the thinking level after an entry."""

    model: tuple[str, str] | None = None
    thinking: str | None = None

    def after(self, entry: Entry) -> _State:
        match entry:
            case Message(role="assistant", provider=str(provider), model=str(model)):
                return _State((provider, model), self.thinking)
            case ModelChange(role="default"):
                return _State((entry.provider, entry.model), self.thinking)
            case ThinkingChange():
                return _State(self.model, entry.level)
        return self


def _has_ids(header: Object) -> bool:
    """Return whether the entries of a file with the header ``header`` have ids, as in version 2 and later.

    Like pi, treat a version that is a string as later than version 1.
    """
    version = header.get("version", 1)
    return header.get("type") == "session" and not (type(version) in (int, float) and version < 2)


def _type_of(line: bytes) -> object:
    found = jsonl.parse(line)
    return None if isinstance(found, LineFailure) else found.get("type")


def _slot(title: Title) -> bytes:
    """Return omp's title slot without the newline. A title that is too long for the title slot is truncated."""
    text = title.title or ""
    fields: Json = {"type": "title", "v": 1, "title": text, "source": "user", "updatedAt": to_iso(title.at_ms)}
    while True:
        line = dumps({**fields, "title": text, "pad": ""})
        if len(line) < SLOT_BYTES:
            return line[:-2] + b" " * (SLOT_BYTES - 1 - len(line)) + line[-2:]
        text = text[:-1]
