"""The entries that a compaction can summarize, from the first entry that the previous compaction kept."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping

from gitsession.context.history import ContextHistory
from gitsession.context.instruction_texts import active_skills
from gitsession.context.profiles import Profile
from gitsession.context.profiles.visible_items import changed, changes, is_message, reach, show
from gitsession.context.tokens import tokens
from gitsession.context.value import Item
from gitsession.dataclass import dataclass
from gitsession.git.types import Oid
from gitsession.model.entries import Compaction, Fork, Opaque, Reset, SessionHeader, Tombstone
from gitsession.sessions.indexed_entry import Spot
from gitsession.sessions.node import Node

UNREADABLE = sys.maxsize
"""Value for the number of successive summaries if the previous summary cannot be read. It is higher than any limit."""

CARRIED = "carried"
"""Key in the field ``preserve`` of gitsession's compactions.

Its value is the number of earlier summaries that the compaction continues.
"""

_NO_ENTRIES = (SessionHeader.kind, Opaque.kind, Fork.kind, Tombstone.kind)
"""Kinds of entries that do not exist in agents' sessions."""


@dataclass(frozen=True, slots=True)
class ShownEntry:
    """An entry with the items that the context shows for it: none, one, or several."""

    node: Node
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionView:
    """The part of a context that a compaction can summarize.

    Attributes:
        previous: Newest compaction; ``None`` if there is none.
        entries: Entries after the summary of ``previous``, oldest first.
        system: All system messages, in order.
        tokens: Size of the whole context in tokens.
        skills: Names of the active skills.
    """

    previous: Compaction | None
    entries: tuple[ShownEntry, ...]
    system: tuple[Item, ...]
    tokens: int
    skills: tuple[str, ...] = ()


def compaction_view(line: ContextHistory, profile: Profile) -> CompactionView:
    """Return the part of a history's context that a compaction can summarize, with the items that ``profile`` shows."""
    visible = reach(line)
    selection = profile.select(line)
    count = tokens(profile, selection.items, fresh=selection.fresh, model=selection.state.model)
    by_oid = {oid: tuple(items) for oid, items in itertools.groupby(selection.items, lambda item: item.oid)}
    previous = line.entry(visible.compaction) if visible.compaction else None
    kept, after = _agent_entries(visible.kept), _agent_entries(_entries_after(line, visible.compaction))
    return CompactionView(
        previous if isinstance(previous, Compaction) else None,
        tuple(ShownEntry(node, by_oid.get(node.oid, ())) for node in [*kept, *after]),
        tuple(item for item in selection.items if is_message(item.entry, "system")),
        count.used,
        active_skills(line, profile.NAME, selection.items, selection.state.instructions),
    )


def _entries_after(line: ContextHistory, compaction: Spot | None) -> list[Node]:
    """Return all entries after ``compaction`` or the newest reset, including entries that a context leaves out."""
    found: list[Node] = []
    for node in line.back():
        if compaction is not None and node.oid == compaction.oid:
            break
        if node.kind == Reset.kind and isinstance(line.entry(node), Reset):
            break
        found.append(node)
    return found[::-1]


def unedited_entries(line: ContextHistory, nodes: Iterable[Node]) -> tuple[ShownEntry, ...]:
    """Return ``nodes`` with the items that each entry shows by itself. Edits and omissions are not applied."""
    return tuple(ShownEntry(node, tuple(show(line, node))) for node in _agent_entries(nodes))


def carried(previous: Compaction | None) -> int:
    """Return the number of successive summaries that a summary after ``previous`` continues.

    Each of them is based on the one before. If the text of ``previous`` cannot be read, as in a provider's compaction,
    return ``UNREADABLE``.
    """
    if previous is None:
        return 0
    if not previous.summary.strip():
        return UNREADABLE
    count = previous.preserve.get(CARRIED) if isinstance(previous.preserve, Mapping) else None
    return min(count + 1, UNREADABLE) if isinstance(count, int) and count >= 0 else 1


def originals(line: ContextHistory, until: Oid | None) -> tuple[Item, ...]:
    """Return all items before ``until``, compacted or not, with edits and prunes applied.

    If ``until`` is ``None``, return the items up to the end of the history. The history is read back to the
    newest reset or to the root. So the run time grows with the length of the history, unlike in the other functions.
    """
    nodes = list(itertools.takewhile(lambda node: node.kind != Reset.kind, line.back()))[::-1]
    applied = changes(line, nodes, edits=True)
    nodes = list(itertools.takewhile(lambda node: node.oid != until, nodes))
    return conversation(ShownEntry(node, tuple(changed(show(line, node), node, applied))) for node in nodes)


def conversation(entries: Iterable[ShownEntry]) -> tuple[Item, ...]:
    """Return the items of ``entries`` without system messages, which are not part of the conversation."""
    return tuple(item for entry in entries for item in entry.items if not is_message(item.entry, "system"))


def _agent_entries(nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if node.kind not in _NO_ENTRIES]
