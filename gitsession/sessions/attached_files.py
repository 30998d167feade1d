"""Attachments: files that an agent keeps beside a session file, and that are stored on ``meta``."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from gitsession.formats import FORMATS, Referring, with_capability
from gitsession.model.entries import Attachment, Entry, Fork, Opaque, SessionHeader
from gitsession.sessions import graph
from gitsession.sessions.content import entry_of, payload_of
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.meta import meta_of
from gitsession.sessions.node import Node
from gitsession.store import refs
from gitsession.store.interface import ObjectStore


class SessionAttachments:
    """The attachments of session ``sid`` and of the sessions from which it was forked, read on first use.

    ``substitute``: the text that replaces the name of an image that is not stored; if it is "", the name is not
    replaced. ``missing``: the requested names that are not stored.
    """

    def __init__(self, store: ObjectStore, sid: str, substitute: str = "") -> None:
        self._substitute = substitute
        self._store = store
        self._sid = sid
        self.missing: set[str] = set()

    def resolve(self, agent: str, payload: bytes) -> bytes:
        """Return a payload of ``agent`` in which the names of attachments are replaced with their content."""
        format = with_capability(agent, Referring)
        return payload if format is None else format.resolve(payload, self.get, self._substitute)

    def view(self, node: Node, entry: Entry) -> Entry:
        """Return ``entry``, the content of ``node``, with the names of attachments replaced by their content."""
        if node.source is None or isinstance(entry, Opaque) or with_capability(node.source.agent, Referring) is None:
            return entry
        payload = payload_of(self._store, node)
        resolved = self.resolve(node.source.agent, payload)
        return entry if resolved is payload else FORMATS[node.source.agent].read(resolved)

    def get(self, name: str) -> bytes | None:
        """Return the content of an attachment, or ``None`` if the session has no attachment with this name."""
        node = self._nodes.get(name)
        entry = entry_of(self._store, node) if node is not None else None
        if isinstance(entry, Attachment):
            return entry.data
        self.missing.add(name)
        return None

    @functools.cached_property
    def _nodes(self) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for sid in self._sessions():
            for node in meta_of(self._store, sid).nodes:
                entry = entry_of(self._store, node) if node.kind == Attachment.kind else None
                if isinstance(entry, Attachment):
                    found.setdefault(entry.name, node)
        return found

    def _sessions(self) -> Iterator[str]:
        """Yield the session and, for a fork, the sessions whose entries it shares."""
        yield self._sid
        try:
            tree = graph.tree(self._store, self._sid)
        except DAMAGE:
            return
        for node in tree.nodes.values():
            if node.source is not None or node.kind not in (Fork.kind, SessionHeader.kind):
                continue
            entry = entry_of(self._store, node)
            if isinstance(entry, Fork) and entry.session != self._sid:
                yield entry.session
            elif isinstance(entry, SessionHeader) and entry.source_id is not None:
                sids = refs.imported_sids(entry.agent, entry.source_id, entry.at_ms)
                yield from (sid for sid in sids if sid != self._sid)
