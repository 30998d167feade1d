"""Whether an entry stands in a session whose view number is a later release's: then its words are not ours to judge."""

from __future__ import annotations

from collections.abc import Mapping

from gitsession.git.types import Oid
from gitsession.model import entries as kinds
from gitsession.model.headline import VIEW
from gitsession.sessions import content
from gitsession.sessions.node import Node, load
from gitsession.validation.reader import GitReader
from gitsession.verify.session_check import starts


class Views:
    """Answers are remembered, so that a line of such entries is asked about once."""

    def __init__(self, read: GitReader) -> None:
        self._read = read
        self._later: set[Oid] = set()

    def is_known_later(self, node: Node) -> bool:
        """Whether that was found out for the entry before it, and it begins no session."""
        found = node.parent in self._later and not starts(node)
        if found:
            self._later.add(node.oid)
        return found

    def is_later(self, node: Node, new: Mapping[Oid, tuple[Oid, ...]]) -> bool:
        """``new``: entries that are judged, with their parents."""
        at = node
        while not starts(at) and at.parent is not None and at.parent in new:
            at = load(self._read, at.parent)
        above = [at.oid] if starts(at) else self._read.starts(at.parent or at.oid)
        start = next((found for found in (load(self._read, oid) for oid in above) if starts(found)), None)
        entry = content.entry_of(self._read, start) if start is not None else None
        stated = entry.view if isinstance(entry, kinds.Session | kinds.Fork) else None
        is_later = stated is not None and stated > VIEW
        if is_later:
            self._later.add(node.oid)
        return is_later
