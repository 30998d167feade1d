"""The sessions of a store as a model may read them: secrets are withheld, and archived sessions stay archived."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence

from gitsession.api import Session, Store
from gitsession.api.opened import folder_of
from gitsession.errors import GitSessionError
from gitsession.index.catalogue import Row
from gitsession.mcp import quoting
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Message
from gitsession.redaction.guard import Guard
from gitsession.sessions.node import Node
from gitsession.web.reading import EntryReader, ReadEntry, withheld_in


class SessionReader:
    """A reader of a store. ``refresh``: a function that ingests what agents wrote since the last call."""

    def __init__(self, store: Store, refresh: Callable[[], None] = lambda: None) -> None:
        self.store = store
        self._refresh = refresh
        self._refreshing = threading.Lock()

    def refresh(self) -> None:
        """Ingest what agents wrote, unless another thread is doing that."""
        if self._refreshing.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._refreshing.release()

    @functools.cached_property
    def guard(self) -> Guard:
        """The rules that detect secrets."""
        return self.store.secrets.guard()

    def row(self, address: str) -> Row:
        """Return the session that an address names. Unlike ``Store.session``, restore no archived session."""
        here = folder_of(None) if address in ("@", "-") else None
        return self.store.catalogue().find(address, here)

    def session(self, address: str) -> Session:
        """Return a handle to the session that an address names."""
        return self.store.session(self.row(address).sid)

    def line(self, text: str | None, size: int = 200) -> str:
        """Return a text that may be cut on one quoted line, without secrets."""
        return quoting.quote_line(self.guard.excerpt(text or ""), size)

    def quoted(self, text: str, size: int) -> str:
        """Return the beginning of a text without secrets, quoted."""
        return quoting.quote(quoting.cut(self.guard.words(text), size))

    def entries(self, session: Session, nodes: Sequence[Node]) -> Iterator[tuple[ReadEntry, str]]:
        """Yield entries, which are in the order of their history, with their whole text without secrets."""
        folder = self.row(session.id).project or ""
        calls: dict[str, ToolCall] = {}
        for found in EntryReader(self.store.objects, session.id, self.guard).read(nodes):
            if isinstance(found.entry, Message):
                calls |= {block.id: block for block in found.entry.content if isinstance(block, ToolCall)}
            yield found, self.guard.words(quoting.text_of(found.entry, folder, calls.get))

    def entry(self, session: Session, node: Node) -> tuple[ReadEntry, str]:
        """Return one entry, and its text. A result is named after its call, if that is in the entry before it."""
        before: list[Node] = []
        with contextlib.suppress(GitSessionError):  # it is lost
            before = [] if node.parent is None else [session.resolve(node.parent)]
        return list(self.entries(session, [*before, node]))[-1]

    def withheld(self, sid: str, oid: str) -> tuple[str, ...]:
        """Return the rules that find secrets in an entry, so that no part of its text is shown."""
        return withheld_in(self.store.objects, self.guard, sid, oid)
