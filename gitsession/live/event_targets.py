"""Which entry of a session an event belongs to: by the tool call's id, by the prompt's words, by the time."""

from __future__ import annotations

from gitsession.errors import Corrupt, Malformed, MissingObject
from gitsession.git.types import Oid
from gitsession.live import events
from gitsession.live.spooled_events import Event
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Message
from gitsession.sessions import graph
from gitsession.sessions.content import entry_of
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore

ENTRIES_MAX = 20_000
_EARLIER_SECONDS = 3600
_WORDS = 200


class Targets:
    """The newest entries of a session, as they are now. ``since_ms``: the time of the first event that asks."""

    def __init__(self, store: ObjectStore, sid: str, since_ms: int) -> None:
        self._store = store
        self._nodes: list[Node] = []
        self._calls: dict[str, Node] = {}
        self._prompts: list[tuple[int, str, Node]] = []
        seen: set[Oid] = set()
        since = since_ms // 1000 - _EARLIER_SECONDS
        for leaf in graph.branches(store, sid).values():
            for node in graph.line(store, leaf):
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
        """The entry that makes a tool call."""
        return self._calls.get(id or "")

    def prompt(self, event: Event) -> Node | None:
        """The entry of the user's words, the nearest in time that says them."""
        words = event.prompt.strip()[:_WORDS]
        found = [(abs(at - event.at_ms), node) for at, said, node in self._prompts if words and said.startswith(words)]
        return min(found, key=lambda each: each[0])[1] if found else None

    def as_of(self, at_ms: int) -> Node | None:
        """The newest entry of that time; before the first one, the first."""
        return next((node for node in self._nodes if self._is_by_then(node, at_ms)), None) or (
            self._nodes[-1] if self._nodes else None
        )

    def goes_beyond(self, at_ms: int) -> bool:
        """Whether the agent has written since: what it has not written by then does not come."""
        return bool(self._nodes) and self._nodes[0].author_seconds * 1000 > at_ms

    def of(self, event: Event) -> Node | None:
        """The entry that an event belongs to, ``None`` where it is not there (yet)."""
        if event.name == events.PROMPT:
            return self.prompt(event)
        if event.call:
            return self.call(event.call)
        return self.as_of(event.at_ms)

    def _is_by_then(self, node: Node, at_ms: int) -> bool:
        """A commit has its seconds only; the entry is asked where they do not tell."""
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
            self._prompts.append((entry.at_ms, entry.text.strip()[:_WORDS], node))
