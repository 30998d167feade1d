"""What of a line a compaction has to do with: entries and what each shows, from the last compaction's first kept on."""

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
"""More than are ever carried on."""

CARRIED = "carried"
"""Where a compaction of ours says, in ``preserve``, how many before it it carries on."""

_NO_ENTRIES = (SessionHeader.kind, Opaque.kind, Fork.kind, Tombstone.kind)
"""What stands on a line of ours and is no entry of an agent's."""


@dataclass(frozen=True, slots=True)
class ShownEntry:
    """An entry, and what it shows: nothing, one item, or more."""

    node: Node
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionView:
    """``places``: what is shown behind the summary of ``previous``, the newest compaction, the oldest first.

    ``system``: what the agent was told, all of it in order.
    ``tokens``: of the whole context.
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
        """All that is shown behind the summary, but for system messages."""
        return conversation(self.places)


def sight(line: ContextHistory, profile: Profile) -> CompactionView:
    """What ``profile`` shows of a line, entry by entry."""
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
    """Every entry after ``compaction``, or after the newest reset: also those that a context may pass over."""
    found: list[Node] = []
    for node in line.back():
        if compaction is not None and node.oid == compaction.oid:
            break
        if node.kind == Reset.kind and isinstance(line.entry(node), Reset):
            break
        found.append(node)
    return found[::-1]


def raw(line: ContextHistory, nodes: Iterable[Node]) -> tuple[ShownEntry, ...]:
    """Entries, each with what it shows by itself: nothing edited, nothing left out."""
    return tuple(ShownEntry(node, tuple(show(line, node))) for node in _entries(nodes))


def carried(previous: Compaction | None) -> int:
    """How many summaries in a row the next one would carry on, each from the one before.

    One of which we cannot read a word, as providers keep them, is more than is ever carried on.
    """
    if previous is None:
        return 0
    if not previous.summary.strip():
        return UNREADABLE
    kept = previous.preserve.get(CARRIED) if isinstance(previous.preserve, Mapping) else None
    return min(kept + 1, UNREADABLE) if isinstance(kept, int) and kept >= 0 else 1


def originals(line: ContextHistory, until: Oid | None) -> tuple[Item, ...]:
    """All that was said before ``until`` (``None``: to the leaf), compacted or not, as edits and prunes left it.

    Goes back to the newest reset, or to the root: this is the one thing here whose cost follows the history.
    """
    nodes = list(itertools.takewhile(lambda node: node.kind != Reset.kind, line.back()))[::-1]
    how = changes(line, nodes, edits=True)
    nodes = list(itertools.takewhile(lambda node: node.oid != until, nodes))
    return conversation(ShownEntry(node, tuple(changed(show(line, node), node, how))) for node in nodes)


def conversation(places: Iterable[ShownEntry]) -> tuple[Item, ...]:
    """What places show, but for system messages: those are no conversation."""
    return tuple(item for place in places for item in place.items if not is_system(item))


def is_system(item: Item) -> bool:
    return isinstance(item.entry, Message) and item.entry.role == "system"


def _entries(nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if node.kind not in _NO_ENTRIES]
