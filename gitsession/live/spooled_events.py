"""Events in the spool: their parsing, the entries to which they belong, and the running tool calls."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gitsession.checkpoints.attribution import AFTER, BEFORE
from gitsession.codec.cbor import valid_text
from gitsession.dataclass import dataclass
from gitsession.durable import read_regular
from gitsession.errors import Corrupt, Malformed, MissingObject
from gitsession.git.objects import FILE_MODES, SUBMODULE_MODE, oid_of
from gitsession.git.types import Oid
from gitsession.live import events, spool
from gitsession.live.spool_snapshot import BYTES_MAX
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Message
from gitsession.sessions import graph
from gitsession.sessions.content import entry_of
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore
from gitsession.workspace import names
from gitsession.workspace.read_file import PathContent
from gitsession.workspace.trees import TreeEntry

_HEAD_BYTES_MAX = 64 << 20
_MODES = (*FILE_MODES, SUBMODULE_MODE)
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class SpooledSnapshot:
    """A snapshot in the spool, as differences from an earlier snapshot.

    Attributes:
        workspace: Path of the workspace.
        before: Name of the earlier snapshot; ``None`` if this snapshot contains all files.
        base: One-element tuple with the tree of the earlier snapshot; ``None`` if that tree was unknown.
        name: Name of this snapshot.
        changes: Changed paths, with their new content.
        skipped: Paths that were left out, each with the reason.
        appeared: Paths that are captured for the first time but existed before.
    """

    workspace: str
    before: str | None
    base: tuple[Oid | None] | None
    name: str
    changes: tuple[PathContent, ...]
    skipped: tuple[tuple[str, str], ...]
    appeared: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """An agent's event.

    ``session`` is the agent's id of the session. ``file`` is the session's file; "" if the agent did not name it. If
    the hook failed to take a snapshot, ``snapshot`` is ``None`` and ``skip_reason`` is the error. ``workspace`` is ""
    if the hook did not determine it.
    """

    spooled: str
    name: str
    agent: str
    at_ms: int
    session: str
    file: str
    other_file: str
    workspace: str
    call: str | None
    is_subagent: bool
    prompt: str
    reason: str | None
    snapshot: SpooledSnapshot | None
    skip_reason: str

    @property
    def key(self) -> str:
        """A key that identifies the session of the event."""
        return f"{self.agent}\n{self.session or self.file}"


def read(store: Path, name: str) -> Event | None:
    """Read an event of the spool. Return ``None`` if its file is missing. Raises ``Malformed`` and ``OSError``."""
    data = read_regular(spool.path(str(store), name))
    return None if data is None else parse(name, data)


def parse(name: str, data: bytes) -> Event:
    """Parse the file content of an event. Raises ``Malformed``."""
    end = data.find(b"\n")
    if end < 0 or end > _HEAD_BYTES_MAX:
        raise Malformed("the first line is incomplete or too long", where=name)
    head = _object(data[:end], name)
    if head.get("v") != spool.VERSION:
        version = head.get("v")
        raise Malformed(f"unsupported version {version!r}, expected {spool.VERSION}", where=name)
    contents = data[end + 1 :]
    fields = head.get("data")
    if fields is None and "look" not in head:
        fields = _object(contents, name)
        contents = b""
    if not isinstance(fields, dict):
        raise Malformed("the event is not a JSON object", where=name)
    raw_snapshot = head.get("look")
    at_ms = head.get("at_ms")
    if not isinstance(at_ms, int) or not 0 <= at_ms < 1 << 53:
        raise Malformed("missing or invalid timestamp", where=name)
    return Event(
        spooled=name,
        name=_text(head, "event"),
        agent=_text(head, "agent"),
        at_ms=at_ms,
        session=_text(fields, "session_id"),
        file=_path(fields, "transcript_path"),
        other_file=_path(fields, "agent_transcript_path"),
        workspace=_path(head, "workspace"),
        call=_text(fields, "tool_use_id") or None,
        is_subagent=bool(_text(fields, "agent_id")),
        prompt=_text(fields, "prompt"),
        reason=_text(fields, "reason") or None,
        snapshot=None if raw_snapshot is None else _snapshot(raw_snapshot, contents, name),
        skip_reason=_text(head, "gave_up"),
    )


def _object(data: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"invalid JSON: {error}"[:200], where=name) from None
    if not isinstance(value, dict):
        raise Malformed("not a JSON object", where=name)
    return value


def _text(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key)
    return valid_text(value.replace("\0", "")) if isinstance(value, str) else ""


def _path(fields: dict[str, Any], key: str) -> str:
    """Return the path in the field ``key``, decoded as by ``os.fsdecode``; "" if the value is not a valid path."""
    value = fields.get(key)
    try:
        return value if isinstance(value, str) and b"\0" not in os.fsencode(value) else ""
    except UnicodeEncodeError:
        return ""


def _snapshot(fields: Any, contents: bytes, name: str) -> SpooledSnapshot:
    try:
        before, base = fields["before"], fields.get("base")
        snapshot = SpooledSnapshot(
            workspace=_path(fields, "workspace"),
            before=None if before is None else str(before),
            base=None if base is None else (None if base[0] is None else _oid(base[0]),),
            name=str(fields["name"]),
            changes=tuple(_changes(fields["changes"], contents)),
            skipped=tuple((str(path), str(reason)) for path, reason in fields["skipped"]),
            appeared=tuple(str(path) for path in fields["appeared"]),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise Malformed(f"invalid snapshot: {error}"[:200], where=name) from None
    if not os.path.isabs(snapshot.workspace):
        raise Malformed("the snapshot's workspace is not an absolute path", where=name)
    return snapshot


def _changes(rows: Any, contents: bytes) -> Iterator[PathContent]:
    at = 0
    for path, mode, oid, size in rows:
        reason = names.path_refusal(str(path))
        if reason:
            raise ValueError(f"{path!r}: {reason}")
        if mode is None:
            yield PathContent(str(path), None)
            continue
        if mode not in _MODES or not isinstance(size, int) or not 0 <= size <= BYTES_MAX:
            raise ValueError(f"{path!r}: mode {mode!r}, {size!r} bytes")
        data = contents[at : at + size]
        at += size
        if mode != SUBMODULE_MODE and oid_of("blob", data) != oid:
            raise ValueError(f"{path!r}: the content does not match its oid")
        yield PathContent(str(path), TreeEntry(mode, _oid(oid)), data)
    if at != len(contents):
        raise ValueError(f"{len(contents) - at} trailing bytes")


def _oid(value: Any) -> Oid:
    if not isinstance(value, str) or len(value) != 40 or not set(value) <= _HEX:
        raise ValueError(f"not an oid: {value!r}"[:80])
    return value


# The entry of an event is found by the id of the tool call, by the text of the prompt, or by the time.

ENTRIES_MAX = 20_000
_EARLIER_SECONDS = 3600
_PROMPT_CHARS = 200


class Targets:
    """The newest entries of a session. ``since_ms``: Unix time in ms of the earliest event whose entry is looked up."""

    def __init__(self, store: ObjectStore, sid: str, since_ms: int) -> None:
        self._store = store
        self._nodes: list[Node] = []
        self._calls: dict[str, Node] = {}
        self._prompts: list[tuple[int, str, Node]] = []
        seen: set[Oid] = set()
        since = since_ms // 1000 - _EARLIER_SECONDS
        for leaf in graph.branches(store, sid).values():
            for node in graph.history(store, leaf):
                if node.oid in seen or len(seen) >= ENTRIES_MAX:
                    break
                seen.add(node.oid)
                self._nodes.append(node)
                if node.author_seconds < since and node.kind == Message.kind:
                    break
        self._nodes.sort(key=lambda node: node.author_seconds, reverse=True)
        for node in self._nodes:
            self._note(node)

    def call(self, id: str | None) -> Node | None:
        """Return the entry that contains the tool call ``id``."""
        return self._calls.get(id or "")

    def prompt(self, event: Event) -> Node | None:
        """Return the entry with the prompt of ``event``.

        If several entries have this prompt, return the nearest in time.
        """
        prefix = event.prompt.strip()[:_PROMPT_CHARS]
        matches = [
            (abs(at - event.at_ms), node) for at, text, node in self._prompts if prefix and text.startswith(prefix)
        ]
        return min(matches, key=lambda match: match[0])[1] if matches else None

    def as_of(self, at_ms: int) -> Node | None:
        """Return the newest entry that was written by ``at_ms``.

        If all entries are later, return the earliest one. If there are no entries, return ``None``.
        """
        return next((node for node in self._nodes if self._is_written_by(node, at_ms)), None) or (
            self._nodes[-1] if self._nodes else None
        )

    def has_later_entry(self, at_ms: int) -> bool:
        """Return whether the agent has written an entry later than ``at_ms``.

        If so, the agent writes no more entries for events before ``at_ms``.
        """
        return bool(self._nodes) and self._nodes[0].author_seconds * 1000 > at_ms

    def of(self, event: Event) -> Node | None:
        """Return the entry to which ``event`` belongs; ``None`` if it does not exist (yet)."""
        if event.name == events.PROMPT:
            return self.prompt(event)
        if event.call:
            return self.call(event.call)
        return self.as_of(event.at_ms)

    def _is_written_by(self, node: Node, at_ms: int) -> bool:
        """Return whether an entry was written at or before ``at_ms``.

        The time of a commit has a resolution of one second. If ``at_ms`` is in the same second, the entry is read.
        """
        if node.author_seconds != at_ms // 1000:
            return node.author_seconds * 1000 <= at_ms
        try:
            return entry_of(self._store, node).at_ms <= at_ms
        except (Corrupt, Malformed, MissingObject):
            return False

    def _note(self, node: Node) -> None:
        if node.role not in ("assistant", "user"):
            return
        try:
            entry = entry_of(self._store, node)
        except (Corrupt, Malformed, MissingObject):
            return
        if not isinstance(entry, Message):
            return
        for block in entry.content:
            if isinstance(block, ToolCall):
                self._calls.setdefault(block.id, node)
        if entry.role == "user":
            self._prompts.append((entry.at_ms, entry.text.strip()[:_PROMPT_CHARS], node))


# The running tool calls of each session: calls with a `before` event and no `after` event. They are saved in the spool.
#
# Some agents do not report the end of every call. So the first snapshot after the beginning of a call counts as the
# end of the call if the snapshot is taken because another call begins or the turn ends: its differences are attributed
# to the call. The differences in later snapshots are attributed to the call only if the agent reports the end of the
# call. Otherwise, the call may have ended long before, and the differences may be changes by the user. Ingesting an
# event twice has the same result as ingesting it once.

FILE = "calls.json"
SESSIONS_MAX = 200
_UNNAMED = "?"


class Calls:
    """The running tool calls of each session, oldest first, each with the first call that began later ("" if none)."""

    def __init__(self, store: Path) -> None:
        """Load the running calls that the last ingestion saved. If they cannot be read, there are none."""
        self._store = store
        self._running = {
            key: {str(call): str(later) for call, later in calls.items()}
            for key, calls in load_state(store, FILE).items()
            if isinstance(calls, dict)
        }

    def attribute(self, event: Event) -> tuple[str, str | None]:
        """Return the phase of the snapshot of ``event``, and the call to which the differences are attributed."""
        running, name = self._running.get(event.key, {}), event.call or _UNNAMED
        if event.snapshot is None or event.snapshot.before is None:
            return BEFORE, event.call  # a first snapshot has no differences
        if event.name in events.AFTER_TOOL:
            return (AFTER, event.call) if name in running else (BEFORE, event.call)
        if event.name in (events.BEFORE_TOOL, events.TURN_END):
            unseen = [call for call, later in running.items() if call != name and later in ("", name)]
            if unseen:
                return AFTER, unseen[-1]
        return BEFORE, event.call

    def note(self, event: Event) -> None:
        """Update the running calls after an event was ingested."""
        name = event.call or _UNNAMED
        running = {call: later for call, later in self._running.pop(event.key, {}).items() if call != name}
        if event.name == events.BEFORE_TOOL and event.snapshot is not None:
            running = {call: later or name for call, later in running.items()} | {name: ""}
        if running and event.name not in (events.PROMPT, events.TURN_END, events.SESSION_END):
            self._running[event.key] = running  # moved to the end, so the least active session is first

    def forget(self, event: Event) -> None:
        """Discard the running calls of the event's session."""
        self._running.pop(event.key, None)

    def save(self) -> None:
        """Save the running calls. Raises ``OSError``."""
        save_state(self._store, FILE, dict(list(self._running.items())[-SESSIONS_MAX:]))


def load_state(store: Path, name: str) -> dict[str, Any]:
    """Return the JSON object in the file ``name`` of the spool. If the file cannot be read, return an empty object."""
    try:
        value = json.loads(read_regular(f"{spool.folder(str(store))}/{name}") or b"{}")
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def save_state(store: Path, name: str, value: Mapping[str, Any]) -> None:
    """Write a JSON object to the file ``name`` of the spool, atomically. Raises ``OSError``."""
    path = f"{spool.folder(str(store))}/{name}"
    with open(f"{path}.new", "w") as file:
        json.dump(value, file)
    os.replace(f"{path}.new", path)
