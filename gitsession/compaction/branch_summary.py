"""The summary of an abandoned branch: its entries since the common ancestor, within a budget (rules 30 and 31)."""

from __future__ import annotations

from collections.abc import Sequence

from gitsession.compaction.plan import NO_FILES, Plan, TouchedFiles, carried_by, nothing, touched
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile, total
from gitsession.context.profiles.visible_items import show
from gitsession.context.value import Item
from gitsession.model.entries import BranchSummary, Compaction, Message
from gitsession.sessions.node import Node

NEARLY_FULL = 0.9
"""Share of the budget below which a summary is added even if it does not fit, because it replaces many entries."""

NAME = "branch"


def leaving(
    line: ContextHistory, to: ContextHistory, onto: Node, profile: Profile, *, window: int | None = None
) -> Plan:
    """Plan a summary of the entries of ``line`` that are not in ``to``, appended after ``onto``, the leaf of ``to``.

    ``window``: context window of the model, in tokens.
    """
    budget = None if window is None else max(window - profile.SETTINGS.reserve, 0)
    return left(NAME, line, profile, since_common(line, to), onto, budget=budget)


def since_common(line: ContextHistory, to: ContextHistory) -> list[Node]:
    """Return the entries of ``line`` after the newest entry that is also in ``to``, oldest first.

    Both histories are read in parallel, so the cost depends on the length of the two branches and not of the whole
    history.
    """
    ours: list[Node] = []
    seen_there: set[str] = set()
    positions: dict[str, int] = {}
    here, there = line.back(), to.back()
    while True:
        mine, theirs = next(here, None), next(there, None)
        if mine is None and theirs is None:
            return ours[::-1]
        if theirs is not None:
            seen_there.add(theirs.oid)
            if theirs.oid in positions:
                return ours[: positions[theirs.oid]][::-1]
        if mine is not None:
            if mine.oid in seen_there:
                return ours[::-1]
            positions[mine.oid] = len(ours)
            ours.append(mine)


def left(
    strategy: str, line: ContextHistory, profile: Profile, nodes: Sequence[Node], onto: Node, *,
    budget: int | None = None
) -> Plan:
    """Return the plan of a summary of ``nodes`` that is appended after ``onto``.

    Tool results are left out, because the tool calls are sufficient.
    """
    taken, visited = _within(line, profile, nodes, budget)
    if not taken:
        return nothing(strategy, line, profile, "the entries have no messages that can be summarized")
    files = touched((item.entry for item in visited), _nested(line, nodes))
    size = total(profile, (item for node in nodes for item in _shown(line, node)))
    return Plan(
        strategy=strategy,
        profile=profile.NAME,
        leaf=line.leaf,
        history=tuple(taken),
        onto=onto,
        files=files,
        tokens_before=size,
        replaced=size,
    )


def _within(
    line: ContextHistory, profile: Profile, nodes: Sequence[Node], budget: int | None
) -> tuple[list[Item], list[Item]]:
    """Return the newest items that fit, and all items that were read, including the first one that did not fit."""
    taken: list[Item] = []
    visited: list[Item] = []
    used = 0
    for node in reversed(nodes):
        for item in _shown(line, node):
            if isinstance(item.entry, Message) and item.entry.role in ("tool", "system"):
                continue
            visited.append(item)
            size = profile.estimate(item.entry)
            if budget is not None and used + size > budget:
                if isinstance(item.entry, Compaction | BranchSummary) and used < budget * NEARLY_FULL:
                    taken.append(item)
                return taken[::-1], visited[::-1]
            taken.append(item)
            used += size
    return taken[::-1], visited[::-1]


def _shown(line: ContextHistory, node: Node) -> list[Item]:
    """Return the items that an entry shows. For a compaction, this is its summary."""
    if node.kind == Compaction.kind:
        entry = line.entry(node)
        return [Item(node.oid, entry)] if isinstance(entry, Compaction) and entry.summary else []
    return show(line, node)


def _nested(line: ContextHistory, nodes: Sequence[Node]) -> TouchedFiles:
    """Return the files that earlier branch summaries in ``nodes`` list, including summaries outside the budget."""
    read: set[str] = set()
    modified: set[str] = set()
    for node in nodes:
        entry = line.entry(node) if node.kind == BranchSummary.kind else None
        files = carried_by(entry) if isinstance(entry, BranchSummary) else NO_FILES
        read.update(files.read)
        modified.update(files.modified)
    return TouchedFiles(tuple(sorted(read)), tuple(sorted(modified)))
