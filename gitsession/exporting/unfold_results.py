"""Entries in which the results of tools stand beside the calls, for agents that keep each for itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gitsession.formats import Leaving
from gitsession.model.entries import Message, Prune
from gitsession.model.results import unfold


def unfolded(entries: Sequence[Leaving], leaf: str | None) -> tuple[tuple[Leaving, ...], str | None]:
    """The same with an entry for each message (``model.results``), and the leaf, as they hang below each other.

    Who names such an entry means its first message. An entry that the agent itself wrote is not taken apart.
    """
    found: list[Leaving] = []
    ends: dict[str, str] = {}
    results: dict[str, str] = {}  # an agent's own name for a result -> its key
    for each in entries:
        below = ends.get(each.below, each.below) if each.below is not None else None
        each = dataclasses.replace(each, below=below)
        parts = unfold(each.entry) if isinstance(each.entry, Message) and each.line is None else ()
        if isinstance(each.entry, Prune) and each.line is None:
            targets = tuple(results.get(target, target) for target in each.entry.targets)
            each = dataclasses.replace(each, entry=dataclasses.replace(each.entry, targets=targets))
        if len(parts) < 2:
            found.append(each)
            continue
        below = each.below
        for number, part in enumerate(parts):
            key = f"{each.key}+{number}" if number else each.key  # "/" stands between what ids are made of
            id, short = (each.id, each.short) if not number else (None, "")
            found.append(dataclasses.replace(each, key=key, below=below, entry=part, id=id, short=short))
            name = part.extra.get("part")
            if isinstance(name, str):
                results[name] = key
            below = key
        ends[each.key] = below or each.key
    return tuple(found), ends.get(leaf, leaf) if leaf is not None else None
