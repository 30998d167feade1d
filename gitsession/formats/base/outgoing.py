"""A session on its way into an agent's file: what is to be said, and the lines that say it. Values only.

An entry is named by its *key*; where it refers to another one that goes along, it says that one's key. What an agent
calls it (an id of eight digits, a number) is the business of the agent's module.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from gitsession.model.entries import Custom, Entry, Label, SessionHeader, Title, kind_of

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
    ``tail``: those behind its last entry, which wait for the next (``formats.base.groups``).
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
