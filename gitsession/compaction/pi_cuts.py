"""Cuts of a history into a part that is summarized and a part that is kept (rules 18 to 22), as pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gitsession.compaction.visible_entries import ShownEntry
from gitsession.context.profiles import Profile, total
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Entry, Message, Reset


@dataclass(frozen=True, slots=True)
class Cut:
    """Indexes of entries. ``first_kept``: first entry that is kept. ``turn``: start of the turn that the cut splits."""

    first_kept: int = 0
    turn: int | None = None


Cutter: TypeAlias = Callable[[Sequence[ShownEntry], int, Profile], Cut]


def by_what_is_shown(places: Sequence[ShownEntry], keep: int, profile: Profile) -> Cut:
    """Cut like pi since 0.80.10: at the newest entry that reaches ``keep`` tokens, or the next valid entry after it.

    If there is no such entry because the results of one call exceed ``keep``, the call is kept with its results.
    """
    cuts = [at for at, place in enumerate(places) if _shows(place, profile.can_cut)]
    if not cuts:
        return Cut()
    at, size = len(places), 0
    while at and size < keep:
        at -= 1
        size += _size(places[at], profile)
    reached = size >= keep and at < len(places)
    first = cuts[0] if not reached else next((cut for cut in cuts if cut >= at), cuts[-1])
    if reached and _is_left_out(places, first + 1):
        first += 1
    while first and places[first - 1].node.kind != Compaction.kind and not places[first - 1].items:
        first -= 1
    return _with_turn(places, first, lambda place: _shows(place, profile.starts_turn))


def by_messages(places: Sequence[ShownEntry], keep: int, profile: Profile) -> Cut:
    """Cut like pi up to 0.80.9: only messages count, and other entries stay with the message after them.

    If the results of the last call exceed ``keep``, nothing is compacted.
    """
    cuts = [at for at, place in enumerate(places) if _is_cut_before_080(place, profile)]
    if not cuts:
        return Cut()
    first, size = cuts[0], 0
    for at in range(len(places) - 1, -1, -1):
        if places[at].node.kind == Message.kind:
            size += _size(places[at], profile)
            if size >= keep:
                first = next((cut for cut in cuts if cut >= at), cuts[0])
                break
    while first and places[first - 1].node.kind not in (Compaction.kind, Message.kind):
        first -= 1
    if _says(places[first], "user"):
        return Cut(first)
    start = _last(places, first, lambda place: _is_words(place) or _says(place, "user", "shell"))
    return Cut(first, start)


def by_groups(places: Sequence[ShownEntry], keep: int, profile: Profile) -> Cut:
    """Cut like omp: keep the newest groups that fit into ``keep`` tokens, and at least one.

    A group is an answer with its tool results.
    """
    cuts = [at for at, place in enumerate(places) if _shows(place, profile.can_cut)]
    if not cuts:
        return Cut()
    first, size, end = cuts[-1], 0, len(places)
    for cut in reversed(cuts):
        size += sum(_size(place, profile) for place in places[cut:end])
        if size > keep:
            break
        first, end = cut, cut
    split = _with_turn(places, first, lambda place: _shows(place, profile.starts_turn))
    while first and places[first - 1].node.kind not in (Compaction.kind, Reset.kind) and not places[first - 1].items:
        first -= 1
    return Cut(first, split.turn)


def _with_turn(places: Sequence[ShownEntry], first: int, starts: Callable[[ShownEntry], bool]) -> Cut:
    return Cut(first) if starts(places[first]) else Cut(first, _last(places, first, starts))


def _last(places: Sequence[ShownEntry], until: int, fits: Callable[[ShownEntry], bool]) -> int | None:
    return next((at for at in range(until, -1, -1) if fits(places[at])), None)


def _is_left_out(places: Sequence[ShownEntry], start: int) -> bool:
    """Return whether edits removed all items from ``start`` on, including an answer. They are then kept together."""
    rest = places[start:]
    answers = [place for place in rest if place.node.kind == Message.kind and place.node.role == "assistant"]
    return bool(answers) and not any(place.items or place.node.kind == Compaction.kind for place in rest)


def _shows(place: ShownEntry, fits: Callable[[Entry], bool]) -> bool:
    return place.node.kind != Compaction.kind and any(fits(item.entry) for item in place.items)


def _size(place: ShownEntry, profile: Profile) -> int:
    return total(profile, place.items)


def _is_words(place: ShownEntry) -> bool:
    return place.node.kind in (BranchSummary.kind, CustomMessage.kind)


def _is_cut_before_080(place: ShownEntry, profile: Profile) -> bool:
    return _is_words(place) or (place.node.kind == Message.kind and _shows(place, profile.can_cut))


def _says(place: ShownEntry, *roles: str) -> bool:
    said = (item.entry for item in place.items)
    return any(isinstance(entry, Message) and entry.role in roles and "role" not in entry.extra for entry in said)
