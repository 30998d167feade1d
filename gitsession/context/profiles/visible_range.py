"""How far back a model sees: the newest compaction and what it kept, or the newest reset, or the root. Shared."""

from __future__ import annotations

from dataclasses import dataclass

from gitsession.context.history import ContextHistory, answers_to
from gitsession.model.entries import Compaction, Opaque, Reset
from gitsession.sessions.indexed_entry import Spot
from gitsession.sessions.node import Node


@dataclass(frozen=True, slots=True)
class VisibleRange:
    """What of a line is in sight. ``kept``: before ``compaction``; ``after``: behind it. Both the oldest first."""

    compaction: Spot | None
    kept: list[Node]
    after: list[Spot]


def reach(line: ContextHistory) -> VisibleRange:
    """Walk back to the newest compaction or reset, and to what that compaction kept (rules 8 to 10, and 13)."""
    after: list[Spot] = []
    for node in line.showing():
        if node.kind == Reset.kind and isinstance(line.entry(node), Reset):
            return VisibleRange(None, [], after[::-1])
        if node.kind == Compaction.kind:
            entry = line.entry(node)
            if isinstance(entry, Compaction):
                return VisibleRange(node, kept(line, node, entry), after[::-1])
        after.append(node)
    return VisibleRange(None, [], after[::-1])


def kept(line: ContextHistory, at: Spot, compaction: Compaction) -> list[Node]:
    """The nodes before the compaction from the first that it kept. Not found: nothing was kept.

    Where two entries of one line answer to the name, the later one is meant, as everywhere.
    """
    name, number = compaction.first_kept, compaction.extra.get("firstKeptEntryIndex")
    if name is None:
        return _kept_by_number(line, at, number) if isinstance(number, int) else []
    if not line.may_hold(name, at):
        return []
    found: list[Node] = []
    for node in line.back(at):  # any kind can be named
        found.append(node)
        if answers_to(node, name):
            return found[::-1]
    return []


def _kept_by_number(line: ContextHistory, at: Spot, number: int) -> list[Node]:
    """pi's first files have no ids: an entry is named by its index among the lines that parse; the header is 0."""
    nodes = list(line.back(at))[::-1]
    parsed = [place for place, node in enumerate(nodes) if node.source is not None and node.kind != Opaque.kind]
    return nodes[parsed[number - 1] :] if 0 < number <= len(parsed) else []
