"""A session on its way into an agent's file: what is to be said, and the lines that say it. Values only.

An entry is named by its *key*; where it refers to another one that goes along, it says that one's key. What an agent
calls it (an id of eight digits, a number) is the business of the agent's module.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from gitsession.model.blocks import Block, File, Image, OtherBlock, Text
from gitsession.model.entries import Custom, CustomMessage, Entry, Label, Message, SessionHeader, Title, kind_of

_RECORDS = {
    "aider:output": "lines that Aider printed",
    "aider:restored": "lines that Aider printed",
    "aider:command": "commands to Aider",
}
"""What people call records of which a form has no word, by their type."""


def called(entry: Entry) -> str:
    """What people call entries such as this one, where they hear that some were left out."""
    if isinstance(entry, Custom):
        return _RECORDS.get(entry.custom_type, "records that no model is shown")
    return f"{kind_of(entry).replace('_', ' ')[:40]} entries"


@dataclass(frozen=True, kw_only=True, slots=True)
class OutgoingEntry:
    """One entry. ``below``: the key of the one it hangs below, ``None`` for the root.

    ``short``: what it is called where the agent has no name for it, eight digits, if they are free.
    ``line``: its bytes where the agent itself wrote them, or they stand in its file already. ``id``: the agent's own.
    ``is_name``: no entry, but a line that names one, or the leaf: what comes below its parent hangs below it.
    """

    key: str
    below: str | None
    entry: Entry
    short: str = ""
    line: bytes | None = None
    id: str | None = None
    is_name: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Outgoing:
    """``entries``: parents before children, as they are to stand in the file. ``leaf``: the key to go on from.

    ``session``: id, start, folder and name of the session, for a header. ``head``: the header lines the agent wrote.
    ``tail``: those behind its last entry, which wait for the next (``formats.base.jsonl``).
    ``labels``: by key, and ``title``: those that the entries do not say.
    """

    session: SessionHeader
    entries: tuple[OutgoingEntry, ...]
    leaf: str | None
    head: tuple[bytes, ...] = ()
    tail: bytes = b""
    labels: tuple[Label, ...] = ()
    title: Title | None = None

    def line(self) -> list[OutgoingEntry]:
        """The entries from the first to the leaf; a circle is gone round once."""
        by_key = {entry.key: entry for entry in self.entries}
        found: list[OutgoingEntry] = []
        key = self.leaf
        while key is not None and key in by_key and len(found) <= len(by_key):
            found.append(by_key[key])
            key = by_key[key].below
        return found[::-1]

    def all_labels(self) -> dict[str, str]:
        """Every label in force, by key of its entry: those that entries say, too."""
        said = [each.entry for each in self.entries if isinstance(each.entry, Label)]
        found = {label.target: (label.label or "").strip() for label in (*said, *self.labels)}
        return {key: text for key, text in found.items() if text}

    def name(self) -> str | None:
        """The title in force, also where an entry says it."""
        said = [each.entry for each in self.entries if isinstance(each.entry, Title)]
        return next((title.title for title in (self.title, *reversed(said)) if title is not None), None)


@dataclass(frozen=True, slots=True)
class OutgoingLine:
    """One line of the file. ``key``: of the entry it is, ``None`` where it is a name or a mark at the leaf.

    ``id``: the agent's name for it, ``None`` where it has none.
    """

    data: bytes
    key: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file. ``notes``: what the agent's form cannot say as we do, and how often."""

    lines: tuple[OutgoingLine, ...]
    notes: Counter[str] = field(default_factory=Counter)

    @property
    def data(self) -> bytes:
        return b"".join(line.data + b"\n" for line in self.lines)


class Writer(Protocol):
    """What writes sessions: the module of an agent's format, and forms that are no agent's."""

    AGENT: str

    def write(self, out: Outgoing) -> WrittenFile: ...


PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
PDF = "application/pdf"

_FILES: Mapping[str, tuple[str, ...] | None] = {"claude": (*PICTURES, PDF), "opencode": None}
"""Agents whose messages can hold files, and of which types; ``None`` for any."""

_OPAQUE = ("encrypted_content", "signature", "data", "result", "b64_json")
"""Fields that no one can read but the program that they are for."""

_ABOUT = ("type", "id", "status", "tool_use_id")
_CHARS_MAX = 20_000

Spoken = TypeVar("Spoken", bound=Message | CustomMessage)


def portable(entry: Spoken, agent: str, notes: Counter[str]) -> Spoken:
    """Return ``entry`` with text in place of each block that a message of ``agent`` cannot hold."""
    if entry.extra.get("role") == "fileMention" and agent == "omp":
        return entry
    is_answer = isinstance(entry, Message) and entry.role == "assistant"
    content = tuple(_block(block, agent, is_answer, notes) for block in entry.content)
    return entry if content == entry.content else dataclasses.replace(entry, content=content)


def file_words(file: File) -> str:
    """Return a file of text in full, and of any other file its name and type."""
    try:
        content = file.data.decode() if file.data and file.mime != PDF else None
    except UnicodeDecodeError:
        content = None
    if content is not None:
        return f'<file name="{file.name}">\n{content}\n</file>'
    return f"[{' '.join(filter(None, ('file', file.name or file.url, file.mime)))}]"


def _block(block: Block, agent: str, is_answer: bool, notes: Counter[str]) -> Block:
    match block:
        case Image() if is_answer or not block.data or block.mime not in PICTURES:
            notes["pictures that its model cannot be shown, of which only the type is said"] += 1
            return Text(f"[image {block.mime}]")
        case File() if not _holds(agent, block) or is_answer:
            words = file_words(block)
            how = "of which only the name is said" if words.startswith("[") else "told as text"
            notes[f"files, {how}"] += 1
            return Text(words)
        case OtherBlock():
            return Text(_words(block.value, notes))
    return block


def _holds(agent: str, file: File) -> bool:
    if agent == "codex":
        return (file.url or "").startswith(("http://", "https://"))
    types = _FILES.get(agent, ())
    return types is None or (bool(file.data) and file.mime in types)


def _words(value: Any, notes: Counter[str]) -> str:
    """Return what a block of an unknown type says, without what only its own program can read."""
    name = value.get("type") if isinstance(value, Mapping) else None
    name = name if isinstance(name, str) and name else "block"
    said = _readable(value)
    if isinstance(said, dict) and not said.keys() - set(_ABOUT):
        notes[f"blocks of type {name[:40]}, which only their own provider can read"] += 1
        return f"[{name}: only its own provider can read it]"
    notes[f"blocks of type {name[:40]}, told in words"] += 1
    if isinstance(said, dict):
        said.pop("type", None)
    text = json.dumps(said, ensure_ascii=False, default=str)
    return f"[{name}] {text if len(text) <= _CHARS_MAX else text[:_CHARS_MAX] + '…'}"


def _readable(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {str(key): item for key, item in value.items() if not (key in _OPAQUE and isinstance(item, str))}
        return {key: _readable(item) for key, item in kept.items()}
    if isinstance(value, list | tuple):
        return [_readable(item) for item in value]
    return value
