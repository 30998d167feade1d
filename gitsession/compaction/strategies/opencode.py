"""opencode's compaction: the last two turns stay if there is room for them, all else is summarised (K2 to K4)."""

from __future__ import annotations

from gitsession.compaction.pi_cuts import Cut
from gitsession.compaction.plan import CompactionRequest, Plan, cut_plan
from gitsession.compaction.visible_entries import ShownEntry, sight
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile, total
from gitsession.model.entries import Message

NAME = "opencode"
TAIL_TURNS = 2
TAIL_LEAST, TAIL_MOST, TAIL_SHARE = 2_000, 8_000, 0.25
"""The room for the tail in tokens: a quarter of what can be used, within these bounds."""

RESERVED = 20_000
"""What must stay free of the window (O1)."""


def plan(line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
    seen = sight(line, profile)
    return cut_plan(NAME, line, profile, seen, seen.places, Cut(tail(seen.places, room(ask), profile)))


def room(ask: CompactionRequest) -> int:
    """For the tail, in tokens. Where nobody said how large the window is, as much as there ever is."""
    if ask.keep_tokens is not None:
        return ask.keep_tokens
    if ask.window is None:
        return TAIL_MOST
    return min(TAIL_MOST, max(TAIL_LEAST, int(TAIL_SHARE * max(ask.window - RESERVED, 0))))


def tail(places: tuple[ShownEntry, ...], budget: int, profile: Profile) -> int:
    """Where the tail begins (K2): at a turn, or inside the one that does not fit; the end where nothing does."""
    first = len(places)
    starts = [at for at, place in enumerate(places) if _is_user(place)][-TAIL_TURNS:]
    for start in reversed(starts):
        sizes = [total(profile, place.items) for place in places[start:first]]
        if sum(sizes) <= budget:
            budget -= sum(sizes)
            first = start
            continue
        rest = sum(sizes)
        for at, before in enumerate(sizes[:-1], start + 1):
            rest -= before  # what is from here to ``first``
            if rest <= budget and any(profile.can_cut(item.entry) for item in places[at].items):
                return at
        break
    return first


def _is_user(place: ShownEntry) -> bool:
    return any(isinstance(item.entry, Message) and item.entry.role == "user" for item in place.items)
