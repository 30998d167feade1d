"""The first phase of a compaction: old results of tools are left out, by opencode's rules (P2). A policy, so only where
somebody asks for it (P1).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gitsession.context.policies import Policy, PolicyInput
from gitsession.context.profiles.estimates import texts, units
from gitsession.context.rewriting import cleared
from gitsession.context.value import Item
from gitsession.model.blocks import Text
from gitsession.model.entries import CLEARED, Compaction, Message

PROTECTED_TOKENS = 40_000
LEAST_TOKENS = 20_000
TURNS = 2


def old_results(
    *, protect: int = PROTECTED_TOKENS, least: int = LEAST_TOKENS, exclude_tools: Collection[str] = ("skill",)
) -> Policy:
    """Leave out what tools gave back before the last two turns, but for the newest ``protect`` tokens of it.

    ``least``: tokens; if fewer would be won, nothing is left out. ``Session.prune(old_results())`` makes it last.
    """

    def policy(items: Sequence[Item], about: PolicyInput) -> Sequence[Item]:
        turns = total = won = 0
        going: set[int] = set()
        for at in range(len(items) - 1, -1, -1):
            entry = items[at].entry
            if isinstance(entry, Compaction) or items[at].content == (Text(CLEARED),):
                break
            if not isinstance(entry, Message):
                continue
            turns += entry.role == "user"
            if turns < TURNS or entry.role != "tool" or entry.tool_name in exclude_tools:
                continue
            size = (sum(units(text) for text in texts(entry.content, calls=False)) + 2) // 4
            total += size
            if total > protect:
                won += size
                going.add(at)
        if won <= least:
            return items
        return [cleared(item) if at in going else item for at, item in enumerate(items)]

    return policy
