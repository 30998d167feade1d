"""Aider's way: the newest half stays, the head ends with an answer (S2). Unlike there, no part of the head is lost."""

from __future__ import annotations

from gitsession.compaction.pi_cuts import Cut
from gitsession.compaction.plan import CompactionRequest, Plan, cut_plan, nothing
from gitsession.compaction.visible_entries import ShownEntry, sight
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile, total
from gitsession.context.value import Item
from gitsession.model.entries import Message

NAME = "aider"
LEAST, MOST = 1_024, 8_192
"""The bounds of how much is kept of what is done, in tokens (S1)."""

FEW = 4
"""Of so few messages all are summarised."""


def plan(line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
    seen = sight(line, profile)
    limit = _limit(ask)
    said = sum(len(place.items) for place in seen.places)
    if total(profile, seen.items) <= limit:
        return nothing(NAME, line, profile, "all of it would be kept")
    first = len(seen.places) if said <= FEW else head(seen.places, limit // 2, profile)
    return cut_plan(NAME, line, profile, seen, seen.places, Cut(first))


def head(places: tuple[ShownEntry, ...], half: int, profile: Profile) -> int:
    """Where the tail begins: under ``half`` tokens of it, and behind an answer; the end where there is no such."""
    first, size = len(places), 0
    while first:
        size += total(profile, places[first - 1].items)
        if size >= half:
            break
        first -= 1
    ends = _ends_of_answers(places)
    while first and not ends[first]:
        first -= 1
    return first or len(places)


def _limit(ask: CompactionRequest) -> int:
    if ask.keep_tokens is not None:
        return ask.keep_tokens
    return MOST if ask.window is None else min(max(ask.window // 16, LEAST), MOST)


def _ends_of_answers(places: tuple[ShownEntry, ...]) -> list[bool]:
    """For each place: whether what is before ends with an answer, and what is there does not begin with its results."""
    ends = [False] * (len(places) + 1)
    answered = False
    for at, place in enumerate(places, 1):
        answered = _is(place.items[-1], "assistant") if place.items else answered
        ends[at] = answered
    followed = False
    for at in range(len(places) - 1, -1, -1):
        followed = _is(places[at].items[0], "tool") if places[at].items else followed
        ends[at] = ends[at] and not followed
    return ends


def _is(item: Item, role: str) -> bool:
    return isinstance(item.entry, Message) and item.entry.role == role
