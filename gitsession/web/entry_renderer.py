"""Rendering of consecutive entries of a session as HTML."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

from markupsafe import Markup

from gitsession.git.types import Oid
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Message
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.node import Node, load
from gitsession.store.interface import ObjectStore
from gitsession.web.entries import Around, EntryView, view_of
from gitsession.web.page import template
from gitsession.web.reading import EntryReader, ReadEntry
from gitsession.web.transcript import Transcript

_CALL_DISTANCE = 16
"""Number of entries before a part in which the tool calls of its first results are searched for."""

_CALLS_MAX = 1000
"""Maximum number of tool calls that are remembered until their results are shown."""


class EntryRenderer:
    """A renderer of the entries of one session. Threads can share it.

    ``on_read``: a function that receives each entry before it is rendered.
    """

    def __init__(
        self,
        store: ObjectStore,
        transcript: Transcript,
        reader: EntryReader,
        folder: str,
        on_read: Callable[[ReadEntry], None] = lambda _: None,
    ) -> None:
        self._store, self._transcript, self._reader, self._folder = store, transcript, reader, folder
        self._on_read = on_read
        self._calls: dict[str, ToolCall] = {}
        self._rendering = threading.Lock()
        self.left_out = 0

    def html_of(self, nodes: Sequence[Node]) -> Markup:
        """Return consecutive entries as HTML."""
        with self._rendering:
            self._remember_calls_before(nodes[0])
            return Markup(template("entries.html").render(entries=self._views(nodes)))

    def _views(self, nodes: Sequence[Node]) -> Iterator[EntryView]:
        """Yield the views of entries. Entries without a readable form are left out, and counted in ``left_out``."""
        for read in self._reader.read(nodes):
            self._on_read(read)
            self._remember(read)
            view = view_of(read.node, read.entry, self._around(read.node.oid), self._calls.get)
            if view is None:
                self.left_out += 1
            else:
                yield view

    def _around(self, oid: Oid) -> Around:
        found = self._transcript
        begins = tuple((each.name, each.first_id) for each in found.begins.get(oid, ()) if each.shown)
        return Around(found.labels.get(oid, ""), found.tips.get(oid, ()), begins, self._folder)

    def _remember(self, read: ReadEntry) -> None:
        if isinstance(read.entry, Message):
            self._calls |= {block.id: block for block in read.entry.content if isinstance(block, ToolCall)}
            while len(self._calls) > _CALLS_MAX:
                del self._calls[next(iter(self._calls))]

    def _remember_calls_before(self, node: Node) -> None:
        """Remember the tool calls before the result ``node``, which may be in another part."""
        before: list[Node] = []
        with contextlib.suppress(*DAMAGE):
            while node.role == "tool" and node.parent is not None and len(before) < _CALL_DISTANCE:
                before.append(load(self._store, node.parent))
                node = before[-1]._replace(role="tool")
        for read in self._reader.read(before):
            self._remember(read)
