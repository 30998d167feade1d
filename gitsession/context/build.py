"""Construction of a context from a history."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from gitsession.context import profiles
from gitsession.context.history import ContextHistory
from gitsession.context.policies import Policy, PolicyInput
from gitsession.context.profiles import Selection
from gitsession.context.rewriting import with_blocks
from gitsession.context.tokens import tokens, with_instructions
from gitsession.context.value import Context, InstructionText, Item
from gitsession.git.types import Oid
from gitsession.model.blocks import Block, Thinking
from gitsession.redaction.original import OPENS


def context(
    line: ContextHistory, profile: str = profiles.DEFAULT, policies: Sequence[Policy] = (), *, window: int | None = None
) -> Context:
    """Return the context at the end of a history.

    Args:
        line: The history.
        profile: Name of the profile by whose rules the context is built, in ``PROFILES``.
        policies: Policies that are applied in this order. Stored data does not change.
        window: Context window of the model, in tokens.
    """
    rules = profiles.profile(profile)
    selection = rules.select(line)
    items, model = selection.items, selection.state.model
    texts = _texts(line, rules.NAME, selection)
    count = tokens(rules, items, fresh=selection.fresh, current=selection.current, window=window, model=model)
    count = with_instructions(count, rules, items, texts, selection.fresh, model)
    for policy in policies:
        items = tuple(policy(items, PolicyInput(rules, count.used, model)))
        if items != selection.items:  # the provider counted another context
            count = tokens(rules, items, fresh=len(items), window=window, model=model)
            count = with_instructions(count, rules, items, texts, len(items), model)
    if texts and items != selection.items:
        texts = _moved(texts, selection.items, items)
    return Context(rules.NAME, items, selection.state, count, instruction_texts=texts)


def _texts(line: ContextHistory, profile: str, selection: Selection) -> tuple[InstructionText, ...]:
    recorded = selection.state.instructions
    if recorded is None or recorded.files is None:
        return ()
    from gitsession.context.instruction_texts import instruction_texts  # only for sessions with recorded files

    return instruction_texts(line, profile, selection.items, recorded)


def _moved(
    texts: Sequence[InstructionText], before: Sequence[Item], after: Sequence[Item]
) -> tuple[InstructionText, ...]:
    """Return the texts at their places among ``after``, the items that policies left of ``before``."""
    places = {position: at for at, position in enumerate(_positions(before))}
    left = sorted(places.get(position, 0) for position in _positions(after))
    return tuple(dataclasses.replace(text, at=bisect_left(left, text.at)) for text in texts)


def revealed(
    line: ContextHistory, profile: str = profiles.DEFAULT, policies: Sequence[Policy] = (), *, window: int | None = None
) -> Context:
    """Return the same context as ``context``, with the originals of redacted parts that are on this machine.

    The items are selected before the originals are inserted. So the selection and the digest are the same in every
    clone.
    """
    redacted = context(line, profile, policies, window=window)
    if not line.redacted_entries:
        return redacted
    exact_line, shown = line.revealed()
    exact = context(exact_line, profile, policies, window=window)
    items = tuple(
        _without_broken_signatures(item, shown.hidden) for item in _replace_items(redacted.items, exact.items)
    )
    hidden = sum(shown.hidden.get(oid, 0) for oid in {item.oid for item in items})
    texts = exact.instruction_texts if len(exact.items) == len(items) else redacted.instruction_texts
    return dataclasses.replace(
        redacted, items=items, state=exact.state, hidden=hidden, redacted=redacted, instruction_texts=texts
    )


def _replace_items(redacted: Sequence[Item], exact: Sequence[Item]) -> list[Item]:
    """Return the items of ``redacted``, each replaced by the item of ``exact`` at the same position of its entry."""
    by_position = dict(zip(_positions(exact), exact, strict=True))
    return [by_position.get(position, item) for position, item in zip(_positions(redacted), redacted, strict=True)]


def _positions(items: Sequence[Item]) -> Iterator[tuple[Oid, int, str]]:
    """Yield a key for each item: its entry, the number of earlier items of this entry, and the kind of its content."""
    seen: Counter[Oid] = Counter()
    for item in items:
        yield item.oid, seen[item.oid], item.entry.kind
        seen[item.oid] += 1


def _without_broken_signatures(item: Item, hidden: dict[Oid, int]) -> Item:
    """Return ``item`` without signed thinking that contains placeholders.

    A provider accepts signed thinking only as the model wrote it, so a redacted block cannot be sent.
    """
    if item.oid not in hidden or not any(_is_broken(block) for block in item.content):
        return item
    return with_blocks(item, [None if _is_broken(block) else block for block in item.content])


def _is_broken(block: Block) -> bool:
    return isinstance(block, Thinking) and block.signature is not None and OPENS in block.text
