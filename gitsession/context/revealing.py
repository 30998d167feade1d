"""A context with what was hidden in it: the last thing that is done to it, and only on the machine that has it.

What is in sight, and what is left out of it, follows from the redacted form: the same on any clone, and so its digest.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from gitsession.context import fold, profiles
from gitsession.context.line import Line
from gitsession.context.policies import Policy
from gitsession.context.rewriting import with_blocks
from gitsession.context.value import Context, Item
from gitsession.git.types import Oid
from gitsession.model.blocks import Block, Thinking
from gitsession.redaction.original import OPENS


def context(
    line: Line, profile: str = profiles.DEFAULT, policies: Sequence[Policy] = (), *, window: int | None = None
) -> Context:
    """``fold.context``, with what this machine knows of what is hidden."""
    redacted = fold.context(line, profile, policies, window=window)
    if not line.hiding:
        return redacted
    exact_line, shown = line.shown()
    exact = fold.context(exact_line, profile, policies, window=window)
    items = tuple(_without_broken_seals(item, shown.hidden) for item in _in_place_of(redacted.items, exact.items))
    hidden = sum(shown.hidden.get(oid, 0) for oid in {item.oid for item in items})
    return dataclasses.replace(redacted, items=items, state=exact.state, hidden=hidden, redacted=redacted)


def _in_place_of(redacted: Sequence[Item], exact: Sequence[Item]) -> list[Item]:
    """For each of ``redacted`` the one that says the same and hides nothing: the same of those of its entry."""
    found = {_place(seen, item): item for seen, item in _counted(exact)}
    return [found.get(_place(seen, item), item) for seen, item in _counted(redacted)]


def _counted(items: Sequence[Item]) -> list[tuple[int, Item]]:
    """Each with how many of its entry stood before it."""
    seen: Counter[Oid] = Counter()
    counted = []
    for item in items:
        counted.append((seen[item.oid], item))
        seen[item.oid] += 1
    return counted


def _place(seen: int, item: Item) -> tuple[Oid, int, str]:
    return item.oid, seen, item.entry.kind


def _without_broken_seals(item: Item, hidden: dict[Oid, int]) -> Item:
    """A model signs what it thought, and takes nothing else back: what is hidden of it does not go out at all."""
    if item.oid not in hidden or not any(_is_broken(block) for block in item.content):
        return item
    return with_blocks(item, [None if _is_broken(block) else block for block in item.content])


def _is_broken(block: Block) -> bool:
    return isinstance(block, Thinking) and block.signature is not None and OPENS in block.text
