"""The text of entries as people read them: titles of tool calls, outcomes, and changes of files.

Entries are read from the store when a line with them is painted, and a limited number of them stays in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from gitsession.api import Session
from gitsession.browse.text import ROLE_STYLES, Part, one_line
from gitsession.errors import GitSessionError
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Entry, Message, Opaque
from gitsession.model.results import result_in
from gitsession.model.tool_actions import ToolAction, ToolOutcome, action_of, outcome_of
from gitsession.sessions.node import Node

_CACHED_ENTRIES, _CACHED_LINES = 512, 4096
_CALL_DISTANCE_MAX = 64
"""Maximum number of entries between a tool call and its result."""


class ShownCall(NamedTuple):
    """A tool call. ``outcome`` and ``result`` are ``None`` if the message of the call does not contain the result."""

    action: ToolAction
    outcome: ToolOutcome | None = None
    result: Message | None = None


class EntryTexts:
    """The texts of the entries of one session.

    Args:
        session: The session.
        folder: The working directory of the session. Paths in it are shown relative to it.
        node_at: A function that returns an entry by its object id; ``None`` if it is not loaded.
    """

    def __init__(self, session: Session, folder: str, node_at: Callable[[str], Node | None]) -> None:
        self._session = session
        self._folder = folder
        self._node_at = node_at
        self.read = lru_cache(_CACHED_ENTRIES)(self._read)
        self.line = lru_cache(_CACHED_LINES)(self._line)

    def _read(self, node: Node) -> Entry:
        try:
            return self._session.read(node)
        except (GitSessionError, OSError) as error:
            return Opaque(at_ms=node.author_seconds * 1000, problem=str(error))

    def _line(self, node: Node) -> tuple[list[Part], list[Part]]:
        """Return the line of an entry in a tree, such as ``bash: pytest -q`` and ``[exit 1, 49 lines]``.

        If the line is too long, its first part is cut, so that the outcome is shown.
        """
        head, colon, rest = one_line(node.subject).partition(": ")
        if node.role in ("tool", "shell"):
            title, *outcome = call_parts(self.result(node))
            return [title], outcome
        if node.role == "assistant" and "(+" in node.subject[-12:]:
            entry = self.read(node)
            calls = calls_in(entry, self._folder) if isinstance(entry, Message) else []
            if calls and (not colon or any(call.outcome for call in calls)):
                *shown, last = [part for call in calls for part in (("  ", ""), *call_parts(call))][1:]
                return [("assistant: ", "assistant"), *shown], [last]
        style = ROLE_STYLES.get(node.role, "dim" if node.role == "session" else "")
        return [(head + colon, style), (rest, "")], []

    def result(self, node: Node) -> ShownCall:
        """Return a tool result or a shell command with the call that it answers."""
        entry = self.read(node)
        if not isinstance(entry, Message):
            return ShownCall(ToolAction(one_line(node.subject), "other", ""))
        if entry.role == "shell":
            return ShownCall(ToolAction("!", "run", one_line(entry.command or "")), outcome_of(entry), entry)
        call = self._call_of(node, entry.tool_call_id)
        action = action_of(call, self._folder) if call else ToolAction(one_line(entry.tool_name or "tool"), "other", "")
        return ShownCall(action, outcome_of(entry), entry)

    def _call_of(self, node: Node, call_id: str | None) -> ToolCall | None:
        at = self._node_at(node.parent or "")
        for _ in range(_CALL_DISTANCE_MAX):
            if at is None or not call_id or at.role == "user":
                return None
            if at.role == "assistant":
                entry = self.read(at)
                for block in entry.content if isinstance(entry, Message) else ():
                    if isinstance(block, ToolCall) and block.id == call_id:
                        return block
            at = self._node_at(at.parent or "")
        return None


def calls_in(entry: Message, folder: str) -> list[ShownCall]:
    """Return the tool calls of a message, each with its result if the message contains it (opencode)."""
    results = {found.tool_call_id: found for block in entry.content if (found := result_in(block)) is not None}
    return [
        ShownCall(action_of(block, folder), outcome_of(found) if (found := results.get(block.id)) else None, found)
        for block in entry.content
        if isinstance(block, ToolCall)
    ]


def call_parts(call: ShownCall) -> list[Part]:
    """Return the title of a call and its outcome, such as ``edit auth.py +3 -1  [error, 1 line]``."""
    parts: list[Part] = [(call.action.title, "tool")]
    if call.outcome is not None:
        parts.append((f"  [{call.outcome.text}]", "error" if call.outcome.failed else "dim"))
    return parts


def text_of(entry: Entry) -> str:
    """Return the text of an entry, for the clipboard and the search."""
    if isinstance(entry, Message) and entry.role == "shell":
        return f"$ {entry.command or ''}\n{entry.output or ''}"
    for name in ("text", "summary", "title"):
        found = getattr(entry, name, None)
        if isinstance(found, str):
            return found
    return ""
