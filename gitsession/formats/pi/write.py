"""A session into a file that pi or omp opens: the leaf is its last line, each entry names its parent by an id.

Lines that stand in the file already, and those that the agent wrote itself, are kept as they are. A file of version 1
has no ids to name, so it is written as the agent itself writes it when it opens one: version 3, with ids.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

from gitsession.formats.base import jsonl
from gitsession.formats.base.fields import to_iso, to_ms
from gitsession.formats.base.jsonl import LineFailure, Object, dumps
from gitsession.formats.base.outgoing import Outgoing, OutgoingEntry, OutgoingLine, WrittenFile
from gitsession.formats.pi.messages import Words
from gitsession.formats.pi.write_entries import OURS, PiEntryContext, Spelled, spell
from gitsession.model.entries import Custom, Entry, Message, ModelChange, Reset, ThinkingChange, Title

VERSION = 3
SLOT_BYTES = 256
"""omp's title slot, with its line end: it is written over in place."""

LEAF = f"{OURS}leaf"
"""The type of the ``custom`` entry that makes an older entry the leaf."""


def write(out: Outgoing, *, omp: bool) -> WrittenFile:
    """``Format.write`` for both agents."""
    return _Writer(out, omp).run()


class _Writer:
    def __init__(self, out: Outgoing, omp: bool) -> None:
        self.out = out
        self.omp = omp
        self.lines: list[OutgoingLine] = []
        self.notes: Counter[str] = Counter()
        self.taken = {entry.id for entry in out.entries if entry.id}
        self.begins: dict[str, str] = {}  # key -> the id of the first line that says it, for who names the entry
        self.ends: dict[str, str] = {}  # key -> the id of the last one, below which children hang
        self.states: dict[str | None, _State] = {None: _State()}
        self.head = [parsed for line in out.head if not isinstance(parsed := jsonl.parse(line), LineFailure)]
        self.migrates = not any(_has_ids(line) for line in self.head)
        self.previous: str | None = None

    def run(self) -> WrittenFile:
        self._name_all()
        for line in self._head():
            self.lines.append(OutgoingLine(line))
        for entry in self.out.entries:
            self._entry(entry)
        self._at_the_leaf()
        return WrittenFile(tuple(self.lines), self.notes)

    # ---- ids

    def _name_all(self) -> None:
        """Every id before the first line: an entry may name one that comes later.

        Another agent may use an id twice: two entries with one id make a circle, in which pi 0.73 hangs.
        """
        used = {entry.id for entry in self.out.entries if entry.line is not None}
        for entry in self.out.entries:
            kept = entry.line is not None and not self.migrates
            id = entry.id if entry.line is not None or entry.id not in used else None
            used.add(id)
            id = id or (None if kept else self._free(entry.key, wish=entry.short))
            if id is not None:
                self.begins.setdefault(entry.key, id)

    def _free(self, *parts: object, wish: str = "") -> str:
        """Eight digits that follow from what they name, so that the same entry has the same in every export."""
        for attempt in range(2**16):
            seed = "/".join(map(str, (*parts, attempt)))
            found = (not attempt and wish) or sha256(seed.encode("utf-8", "backslashreplace")).hexdigest()[:8]
            if found not in self.taken:
                self.taken.add(found)
                return found
        raise AssertionError("ids do not end")

    # ---- lines

    def _head(self) -> list[bytes]:
        session, title = self.out.session, self.out.title
        lines = list(self.out.head)
        at = next((at for at, line in enumerate(lines) if _type_of(line) == "session"), None)
        if at is None:  # one begun here, or a file that has lost its header
            said = {"type": "session", "version": VERSION, "id": session.source_id, "timestamp": to_iso(session.at_ms)}
            if self.omp and not lines:
                title = title or Title(title=self.out.name(), at_ms=session.at_ms)
            lines.append(dumps({**said, "cwd": session.cwd or "", **session.extra}))
        elif self.migrates:
            lines[at] = dumps({**self.head[at], "version": VERSION})
        if self.omp and title is not None:
            lines[: _type_of(lines[0]) == "title"] = [_slot(title)]
        return lines

    def _entry(self, leaving: OutgoingEntry) -> None:
        before = self.states[leaving.below] if leaving.below in self.states else _State()
        self.states[leaving.key] = before.after(leaving.entry)
        parent = self.ends.get(leaving.below) if leaving.below is not None else None
        if leaving.line is not None:
            self._kept(leaving, leaving.line, parent)
            return
        id = self.begins[leaving.key]
        to = PiEntryContext(self.omp, self.begins, self.notes, id, before.model, before.thinking)
        parent = None if isinstance(leaving.entry, Reset) and not self.omp else parent
        for number, spelled in enumerate(spell(leaving.entry, to)):
            id = self._free(leaving.key, "part", number) if number else id
            self._put(spelled, id, parent, leaving.entry.at_ms, leaving.key)
            parent = id
        self.ends[leaving.key] = id

    def _kept(self, leaving: OutgoingEntry, line: bytes, parent: str | None) -> None:
        """A line as it is; in a file of version 1 with what the agent adds when it opens one."""
        id = self.begins.get(leaving.key) if leaving.id is None else leaving.id
        found = jsonl.parse(line)
        if self.migrates and leaving.id is None and not isinstance(found, LineFailure):
            line = dumps(self._migrated(found, leaving, id, parent))
        self.lines.append(OutgoingLine(line, None if leaving.is_name else leaving.key, id))
        end = id or parent
        if end is not None:
            self.ends[leaving.key] = end
            if leaving.is_name and leaving.below is not None:
                self.ends[leaving.below] = end

    def _migrated(self, line: Object, leaving: OutgoingEntry, id: str | None, parent: str | None) -> Words:
        message = line.get("message")
        if isinstance(message, dict) and message.get("role") == "hookMessage":
            line = {**line, "message": {**message, "role": "custom"}}
        index = line.pop("firstKeptEntryIndex", None)
        kept = getattr(leaving.entry, "first_kept", None)
        named = {"firstKeptEntryId": self.begins.get(kept, kept)} if index is not None and kept is not None else {}
        return {**line, "id": id, "parentId": parent, **named}

    def _put(self, spelled: Spelled, id: str, parent: str | None, at_ms: int, key: str | None) -> None:
        type, fields = spelled
        base = {"type": type, "id": id, "parentId": parent, "timestamp": to_iso(at_ms)}
        # A later version's field must not take the place of what makes the line an entry.
        rest = {name: value for name, value in fields.items() if name not in base or name == "timestamp"}
        if to_ms(rest.get("timestamp")) is None:
            rest.pop("timestamp", None)
        self.lines.append(OutgoingLine(dumps({**base, **rest}), key, id))

    # ---- behind the leaf

    def _at_the_leaf(self) -> None:
        """Names that the entries do not say, below the leaf; where the last line is not the leaf, a mark there."""
        at = None if self.out.leaf is None else self.ends.get(self.out.leaf)
        last = next((line.id for line in reversed(self.lines) if line.id), None)
        said: list[tuple[Entry, tuple[object, ...]]] = [
            (label, ("label", label.target, label.label or "", label.at_ms)) for label in self.out.labels
        ]
        if self.out.title is not None and not self.omp:
            said.append((self.out.title, ("title", self.out.title.title or "", self.out.title.at_ms)))
        if not said and at != last and self.out.leaf is not None:
            self.notes["mark at the leaf, so that it is the last line"] += 1
            said.append((Custom(custom_type=LEAF, at_ms=self._leaf_ms()), ("leaf", self.out.leaf)))
        for entry, parts in said:
            id = self._free(*parts)
            to = PiEntryContext(self.omp, self.begins, self.notes, id)
            for spelled in spell(entry, to):
                self._put(spelled, id, at, entry.at_ms, None)
            at = id

    def _leaf_ms(self) -> int:
        return next(entry.entry.at_ms for entry in self.out.entries if entry.key == self.out.leaf)


class _State:
    """What is in force at an entry."""

    def __init__(self, model: tuple[str, str] | None = None, thinking: str | None = None) -> None:
        self.model = model
        self.thinking = thinking

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
    """Whether the file of this header names its entries: since version 2, and pi takes any number for a later one."""
    version = header.get("version", 1)
    return header.get("type") == "session" and not (type(version) in (int, float) and version < 2)


def _type_of(line: bytes) -> object:
    found = jsonl.parse(line)
    return None if isinstance(found, LineFailure) else found.get("type")


def _slot(title: Title) -> bytes:
    """omp's title slot, without its line end: cut where the title is too long for it."""
    words = title.title or ""
    said: Words = {"type": "title", "v": 1, "title": words, "source": "user", "updatedAt": to_iso(title.at_ms)}
    while True:
        line = dumps({**said, "title": words, "pad": ""})
        if len(line) < SLOT_BYTES:
            return line[:-2] + b" " * (SLOT_BYTES - 1 - len(line)) + line[-2:]
        words = words[:-1]
