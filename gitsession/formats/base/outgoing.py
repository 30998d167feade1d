"""Values for the export of a session: the entries to write, and the lines of the written file.

Each entry has a *key*. References between exported entries use keys. The agent's module assigns the ids in the file.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Protocol, TypeVar

from gitsession.dataclass import dataclass
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text
from gitsession.model.entries import Custom, CustomMessage, Entry, Label, Message, SessionHeader, Title, kind_of

_RECORDS = {
    "aider:output": "lines that Aider printed",
    "aider:restored": "lines that Aider printed",
    "aider:command": "commands to Aider",
}
"""Descriptions of records that a format cannot represent, by type of record."""


def describe_kind(entry: Entry) -> str:
    """Return a description of the kind of ``entry``, for notes about omitted entries."""
    if isinstance(entry, Custom):
        return _RECORDS.get(entry.custom_type, "records that no model receives")
    return f"{kind_of(entry).replace('_', ' ')[:40]} entries"


@dataclass(frozen=True, kw_only=True, slots=True)
class OutgoingEntry:
    """An entry to export. ``parent``: the key of the parent; ``None`` for the first entry.

    ``short``: the preferred id (eight digits) for an entry to which the agent assigned no id. ``line``: the bytes of
    the entry, if the agent wrote the entry or the agent's file already contains it; otherwise ``None``. ``id``: the
    agent's own id for the entry. ``is_name``: whether the line only sets a name or the leaf. Such a line becomes the
    parent of the entries that follow its own parent later in the file. ``begun``: the sessions that began at the entry,
    for people.
    """

    key: str
    parent: str | None
    entry: Entry
    short: str = ""
    line: bytes | None = None
    id: str | None = None
    is_name: bool = False
    begun: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Outgoing:
    """A session to export.

    ``entries``: the entries in the order of the file, parents before children. ``leaf``: the key of the entry from
    which the agent continues. ``session``: the id, start time, folder and title of the session, for a header. ``head``:
    the header lines that the agent wrote. ``tail``: the tail of the agent's file (``formats.base.jsonl``). ``labels``:
    the labels that no entry sets, with the keys of the labeled entries. ``title``: the title, if no entry sets it.
    ``begun``: the sessions that began at an unknown entry of this one.
    """

    session: SessionHeader
    entries: tuple[OutgoingEntry, ...]
    leaf: str | None
    head: tuple[bytes, ...] = ()
    tail: bytes = b""
    labels: tuple[Label, ...] = ()
    title: Title | None = None
    begun: tuple[str, ...] = ()

    def history(self) -> list[OutgoingEntry]:
        """Return the entries from the root to the leaf. A cycle is followed once."""
        by_key = {entry.key: entry for entry in self.entries}
        found: list[OutgoingEntry] = []
        key = self.leaf
        while key is not None and key in by_key and len(found) <= len(by_key):
            found.append(by_key[key])
            key = by_key[key].parent
        return found[::-1]

    def all_labels(self) -> dict[str, str]:
        """Return the current label of each labeled entry, by key. Labels that entries set are included."""
        label_entries = [each.entry for each in self.entries if isinstance(each.entry, Label)]
        found = {label.target: (label.label or "").strip() for label in (*label_entries, *self.labels)}
        return {key: text for key, text in found.items() if text}

    def name(self) -> str | None:
        """Return the current title of the session: ``title``, or the title that the newest title entry sets."""
        title_entries = [each.entry for each in self.entries if isinstance(each.entry, Title)]
        return next((title.title for title in (self.title, *reversed(title_entries)) if title is not None), None)


@dataclass(frozen=True, slots=True)
class OutgoingLine:
    """One line of an exported file.

    ``key``: the key of the entry, or ``None`` for a line that sets a name or the leaf. ``id``: the agent's id for the
    entry, or ``None`` if the entry has no such id.
    """

    data: bytes
    key: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A written file.

    ``notes``: descriptions of the items that the agent's format cannot represent exactly, with counts.
    """

    lines: tuple[OutgoingLine, ...]
    notes: Counter[str] = field(default_factory=Counter)

    @property
    def data(self) -> bytes:
        return b"".join(line.data + b"\n" for line in self.lines)


class Target(Protocol):
    """The format of an export. ``AGENT``: its name."""

    AGENT: str


class Writer(Target, Protocol):
    """A writer of sessions: the format of an agent, or a module for another format."""

    def write(self, out: Outgoing) -> WrittenFile: ...


PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
PDF = "application/pdf"

_FILES: Mapping[str, tuple[str, ...] | None] = {"claude": (*PICTURES, PDF), "opencode": None}
"""Agents whose messages can contain files, with the accepted MIME types; ``None`` for any type."""

_OPAQUE = ("encrypted_content", "signature", "data", "result", "b64_json")
"""Fields that only the program for which they were written can read."""

_ABOUT = ("type", "id", "status", "tool_use_id")
_CHARS_MAX = 20_000

AnyMessage = TypeVar("AnyMessage", bound=Message | CustomMessage)


def portable(entry: AnyMessage, agent: str, notes: Counter[str]) -> AnyMessage:
    """Return ``entry`` with text in place of each block that a message of ``agent`` cannot contain."""
    if entry.extra.get("role") == "fileMention" and agent == "omp":
        return entry
    is_answer = isinstance(entry, Message) and entry.role == "assistant"
    content = tuple(_block(block, agent, is_answer, notes) for block in entry.content)
    return entry if content == entry.content else dataclasses.replace(entry, content=content)


def file_text(file: File) -> str:
    """Return the content of ``file`` if it is a text file, otherwise its name and type."""
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
            notes["replaced with their type: images that its model does not accept"] += 1
            return Text(f"[image {block.mime}]")
        case File() if not _holds(agent, block) or is_answer:
            text = file_text(block)
            how = "replaced with their name" if text.startswith("[") else "written as text"
            notes[f"{how}: files"] += 1
            return Text(text)
        case OtherBlock():
            return Text(_block_text(block.value, notes))
    return block


def _holds(agent: str, file: File) -> bool:
    if agent == "codex":
        return (file.url or "").startswith(("http://", "https://"))
    types = _FILES.get(agent, ())
    return types is None or (bool(file.data) and file.mime in types)


def _block_text(value: Any, notes: Counter[str]) -> str:
    """Return the text of a block of an unknown type, without the fields in ``_OPAQUE``."""
    name = value.get("type") if isinstance(value, Mapping) else None
    name = name if isinstance(name, str) and name else "block"
    readable = _readable(value)
    if isinstance(readable, dict) and not readable.keys() - set(_ABOUT):
        notes[f"replaced with their type: blocks of type {name[:40]}, which only their own provider can read"] += 1
        return f"[{name}: only its own provider can read it]"
    notes[f"written as text: blocks of type {name[:40]}"] += 1
    if isinstance(readable, dict):
        readable.pop("type", None)
    text = json.dumps(readable, ensure_ascii=False, default=str)
    return f"[{name}] {text if len(text) <= _CHARS_MAX else text[:_CHARS_MAX] + '…'}"


def _readable(value: Any) -> Any:
    if isinstance(value, Mapping):
        fields = {str(key): item for key, item in value.items() if not (key in _OPAQUE and isinstance(item, str))}
        return {key: _readable(item) for key, item in fields.items()}
    if isinstance(value, list | tuple):
        return [_readable(item) for item in value]
    return value
