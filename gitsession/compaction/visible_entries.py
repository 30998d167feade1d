"""The entries that a compaction can summarize, starting at the first one that the previous compaction kept."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile
from gitsession.context.profiles.visible_items import changed, changes, reach, show
from gitsession.context.tokens import tokens
from gitsession.context.value import Item
from gitsession.git.types import Oid
from gitsession.model.entries import Compaction, Fork, Message, Opaque, Reset, SessionHeader, Tombstone
from gitsession.sessions.indexed_entry import Spot
from gitsession.sessions.node import Node

UNREADABLE = sys.maxsize
"""Count of summaries if the previous one cannot be read; more than any limit."""

CARRIED = "carried"
"""Key in ``preserve`` of gitsession's compactions, with the number of earlier summaries that each continues."""

_NO_ENTRIES = (SessionHeader.kind, Opaque.kind, Fork.kind, Tombstone.kind)
"""Kinds of entries that no agent has as entries of its own."""


@dataclass(frozen=True, slots=True)
class ShownEntry:
    """An entry and the items that it shows: none, one or more."""

    node: Node
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionView:
    """The part of a context that a compaction can summarize.

    ``previous``: the newest compaction. ``places``: the entries shown after its summary, oldest first. ``system``: all
    system messages, in order. ``tokens``: the size of the whole context.
    """

    previous: Compaction | None
    places: tuple[ShownEntry, ...]
    system: tuple[Item, ...]
    tokens: int

    @property
    def summary(self) -> str:
        return self.previous.summary if self.previous else ""

    @property
    def items(self) -> tuple[Item, ...]:
        """Items that are shown after the summary, without system messages."""
        return conversation(self.places)


def sight(line: ContextHistory, profile: Profile) -> CompactionView:
    """Return the entries of a history with what ``profile`` shows of each."""
    seen = reach(line)
    selection = profile.select(line)
    count = tokens(profile, selection.items, fresh=selection.fresh)
    by_oid = {oid: tuple(items) for oid, items in itertools.groupby(selection.items, lambda item: item.oid)}
    previous = line.entry(seen.compaction) if seen.compaction else None
    kept, after = _entries(seen.kept), _entries(_behind(line, seen.compaction))
    return CompactionView(
        previous if isinstance(previous, Compaction) else None,
        tuple(ShownEntry(node, by_oid.get(node.oid, ())) for node in [*kept, *after]),
        tuple(item for item in selection.items if is_system(item)),
        count.used,
    )


def _behind(line: ContextHistory, compaction: Spot | None) -> list[Node]:
    """Return every entry after ``compaction`` or the newest reset, including those that a context may skip."""
    found: list[Node] = []
    for node in line.back():
        if compaction is not None and node.oid == compaction.oid:
            break
        if node.kind == Reset.kind and isinstance(line.entry(node), Reset):
            break
        found.append(node)
    return found[::-1]


def raw(line: ContextHistory, nodes: Iterable[Node]) -> tuple[ShownEntry, ...]:
    """Return entries with the items that each shows by itself, without edits and omissions."""
    return tuple(ShownEntry(node, tuple(show(line, node))) for node in _entries(nodes))


def carried(previous: Compaction | None) -> int:
    """Return how many summaries in a row the next one would continue, each based on the one before.

    If the text of the previous one cannot be read, as with compactions of a provider, it is ``UNREADABLE``.
    """
    if previous is None:
        return 0
    if not previous.summary.strip():
        return UNREADABLE
    kept = previous.preserve.get(CARRIED) if isinstance(previous.preserve, Mapping) else None
    return min(kept + 1, UNREADABLE) if isinstance(kept, int) and kept >= 0 else 1


def originals(line: ContextHistory, until: Oid | None) -> tuple[Item, ...]:
    """Return all items before ``until``, compacted or not, with edits and prunes applied.

    ``None`` is the end of the history. The walk goes back to the newest reset or to the root: this is the only function
    of the module whose cost grows with the history.
    """
    nodes = list(itertools.takewhile(lambda node: node.kind != Reset.kind, line.back()))[::-1]
    how = changes(line, nodes, edits=True)
    nodes = list(itertools.takewhile(lambda node: node.oid != until, nodes))
    return conversation(ShownEntry(node, tuple(changed(show(line, node), node, how))) for node in nodes)


def conversation(places: Iterable[ShownEntry]) -> tuple[Item, ...]:
    """Return the items that ``places`` show, without system messages, which are no part of the conversation."""
    return tuple(item for place in places for item in place.items if not is_system(item))


def is_system(item: Item) -> bool:
    return isinstance(item.entry, Message) and item.entry.role == "system"


def _entries(nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if node.kind not in _NO_ENTRIES]
