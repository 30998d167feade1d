"""The summary of a branch that is left: what was said since the way parted, within a budget (rules 30 and 31)."""

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
"""Up to this share of the budget a summary is taken though it does not fit: it stands for much."""

NAME = "branch"


def leaving(
    line: ContextHistory, to: ContextHistory, onto: Node, profile: Profile, *, window: int | None = None
) -> Plan:
    """What is said on the way from ``line`` to ``onto``, at which ``to`` ends. ``window``: of the model, in tokens."""
    budget = None if window is None else max(window - profile.SETTINGS.reserve, 0)
    return left(NAME, line, profile, since_common(line, to), onto, budget=budget)


def since_common(line: ContextHistory, to: ContextHistory) -> list[Node]:
    """The entries of ``line`` behind the newest that ``to`` has too, the oldest first.

    Both are walked in step, so the cost follows what is left and what is gone to, not the history.
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
    """The plan of a summary of ``nodes``, to stand behind ``onto``. Results of tools are left out: calls say enough."""
    taken, visited = _within(line, profile, nodes, budget)
    if not taken:
        return nothing(strategy, line, profile, "nothing was said there")
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
    """The newest that fit, and all that were looked at, the one that did not fit included."""
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
    """What an entry says; a compaction its summary, since what it stands for is not looked at again."""
    if node.kind == Compaction.kind:
        entry = line.entry(node)
        return [Item(node.oid, entry)] if isinstance(entry, Compaction) and entry.summary else []
    return show(line, node)


def _nested(line: ContextHistory, nodes: Sequence[Node]) -> TouchedFiles:
    """What earlier branch summaries on the way hand on, those outside the budget included."""
    read: set[str] = set()
    modified: set[str] = set()
    for node in nodes:
        entry = line.entry(node) if node.kind == BranchSummary.kind else None
        files = carried_by(entry) if isinstance(entry, BranchSummary) else NO_FILES
        read.update(files.read)
        modified.update(files.modified)
    return TouchedFiles(tuple(sorted(read)), tuple(sorted(modified)))
