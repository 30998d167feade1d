"""The plan of a summary of an abandoned branch (rules 30 and 31).

The summary covers the entries of the branch after the common ancestor that fit into a token budget.
"""

from __future__ import annotations

from collections.abc import Sequence

from gitsession.compaction.plan import Plan, empty_plan, listed_files, touched_files
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile, total
from gitsession.context.profiles.visible_items import show
from gitsession.context.value import Item
from gitsession.model.entries import BranchSummary, Compaction, Message
from gitsession.sessions.node import Node

NEARLY_FULL = 0.9
"""Share of the budget below which an earlier summary is included even if it does not fit.

The limit applies to the used part of the budget. An earlier summary replaces many entries.
"""

NAME = "branch"


def plan_branch_summary(
    line: ContextHistory, to: ContextHistory, onto: Node, profile: Profile, *, window: int | None = None
) -> Plan:
    """Plan a summary of the entries of ``line`` that are not in ``to``.

    The summary is appended after ``onto``, the leaf of ``to``. ``window``: context window of the summarizing model, in
    tokens.
    """
    budget = None if window is None else max(window - profile.SETTINGS.reserve, 0)
    return summary_plan(NAME, line, profile, entries_since_common_ancestor(line, to), onto, budget=budget)


def entries_since_common_ancestor(line: ContextHistory, to: ContextHistory) -> list[Node]:
    """Return the entries of ``line`` after the newest entry that is also in ``to``, oldest first.

    Both histories are read in parallel. So the run time depends on the length of the two branches, not on the length of
    the whole history.
    """
    entries: list[Node] = []
    other_oids: set[str] = set()
    positions: dict[str, int] = {}
    own_history, other_history = line.back(), to.back()
    while True:
        own, other = next(own_history, None), next(other_history, None)
        if own is None and other is None:
            return entries[::-1]
        if other is not None:
            other_oids.add(other.oid)
            if other.oid in positions:
                return entries[: positions[other.oid]][::-1]
        if own is not None:
            if own.oid in other_oids:
                return entries[::-1]
            positions[own.oid] = len(entries)
            entries.append(own)


def summary_plan(
    strategy: str,
    line: ContextHistory,
    profile: Profile,
    nodes: Sequence[Node],
    onto: Node,
    *,
    budget: int | None = None,
) -> Plan:
    """Return the plan of a summary of ``nodes`` that is appended after ``onto``.

    Tool results are left out, because the tool calls are sufficient for a summary.
    """
    selected, visited = _fit_budget(line, profile, nodes, budget)
    if not selected:
        return empty_plan(strategy, line, profile, "the entries have no messages that can be summarized")
    # The files that earlier branch summaries list are included even if the summaries exceed the budget.
    listed = [listed_files(line.entry(node)) for node in nodes if node.kind == BranchSummary.kind]
    files = touched_files((item.entry for item in visited), listed)
    size = total(profile, (item for node in nodes for item in _items_of(line, node)))
    return Plan(
        strategy=strategy,
        profile=profile.NAME,
        leaf=line.leaf,
        history=tuple(selected),
        onto=onto,
        files=files,
        tokens_before=size,
        replaced=size,
    )


def _fit_budget(
    line: ContextHistory, profile: Profile, nodes: Sequence[Node], budget: int | None
) -> tuple[list[Item], list[Item]]:
    """Return the newest items that fit into ``budget``, and all visited items, including one that does not fit."""
    selected: list[Item] = []
    visited: list[Item] = []
    used = 0
    for node in reversed(nodes):
        for item in _items_of(line, node):
            if isinstance(item.entry, Message) and item.entry.role in ("tool", "system"):
                continue
            visited.append(item)
            size = profile.estimate(item.entry)
            if budget is not None and used + size > budget:
                if isinstance(item.entry, Compaction | BranchSummary) and used < budget * NEARLY_FULL:
                    selected.append(item)
                return selected[::-1], visited[::-1]
            selected.append(item)
            used += size
    return selected[::-1], visited[::-1]


def _items_of(line: ContextHistory, node: Node) -> list[Item]:
    """Return the items that an entry shows. A compaction shows its summary."""
    if node.kind == Compaction.kind:
        entry = line.entry(node)
        return [Item(node.oid, entry)] if isinstance(entry, Compaction) and entry.summary else []
    return show(line, node)
