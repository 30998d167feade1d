"""Attachments: files that an agent keeps beside a session file, and that are stored on ``meta``."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from gitsession.formats import FORMATS, Referring, WithSideFiles, with_capability
from gitsession.model.entries import Attachment, Entry, Fork, Opaque, SessionHeader
from gitsession.sessions import graph
from gitsession.sessions.content import entry_of, payload_of
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.meta import Meta, meta_of
from gitsession.sessions.node import Node
from gitsession.sessions.session_facts import beginning
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
        entry = self.newest(name)
        if entry is not None:
            return entry.data
        self.missing.add(name)
        return None

    def newest(self, name: str) -> Attachment | None:
        """Return the newest attachment with this name, or ``None`` if there is none."""
        node = next(iter(self.nodes.get(name, ())), None)
        entry = entry_of(self._store, node) if node is not None else None
        return entry if isinstance(entry, Attachment) else None

    def lines(self, name: str) -> list[bytes]:
        """Return the lines of a shared file, each of which is an attachment, in the order in which they were stored."""
        entries = (entry_of(self._store, node) for node in reversed(self.nodes.get(name, ())))
        return [entry.data for entry in entries if isinstance(entry, Attachment)]

    def content(self, name: str) -> bytes:
        """Return the content of a side file: its newest state, or the stored lines of a shared file."""
        return b"".join(self.lines(name)) if self.is_shared(name) else self.get(name) or b""

    def is_shared(self, name: str) -> bool:
        """Return whether a side file contains the lines of several sessions, only some of which are stored."""
        format = with_capability(self._agent, WithSideFiles)
        return format is not None and name in format.SHARED

    @functools.cached_property
    def _agent(self) -> str:
        start = entry_of(self._store, beginning(self._store, self._sid))
        return start.agent or "" if isinstance(start, Fork | SessionHeader) else ""

    @functools.cached_property
    def nodes(self) -> dict[str, list[Node]]:
        """The attachments by name. If there are several with the same name, the newest is the first."""
        found: dict[str, list[Node]] = {}
        for sid in self._sessions():
            for name, node in attachments_in(self._store, meta_of(self._store, sid)):
                found.setdefault(name, []).append(node)
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


def attachments_in(store: ObjectStore, meta: Meta) -> Iterator[tuple[str, Node]]:
    """Yield the name and the node of each attachment on ``meta``, the newest first. Purged attachments are left out."""
    for node in meta.nodes:
        entry = entry_of(store, node) if node.kind == Attachment.kind else None
        if isinstance(entry, Attachment):
            yield entry.name, node


def newest_attachment(store: ObjectStore, meta: Meta, name: str) -> Node | None:
    """Return the newest attachment with this name on ``meta``, or ``None`` if there is none."""
    return next((node for found, node in attachments_in(store, meta) if found == name), None)
