"""Division of a history into a part that is summarized and a part that is kept (rules 18 to 22), without I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from gitsession.compaction.visible_entries import ShownEntry
from gitsession.context.profiles import Profile, total
from gitsession.dataclass import dataclass
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Entry, Message, Reset


@dataclass(frozen=True, slots=True)
class Cut:
    """A division of a list of entries.

    Attributes:
        first_kept: Index of the first entry that is kept.
        turn: Index of the start of the turn that the cut splits; ``None`` if it splits no turn.
    """

    first_kept: int = 0
    turn: int | None = None


Cutter: TypeAlias = Callable[[Sequence[ShownEntry], int, Profile], Cut]


def by_shown_items(entries: Sequence[ShownEntry], keep: int, profile: Profile) -> Cut:
    """Cut like pi since 0.80.10: keep at least ``keep`` tokens, or fewer if no cut is valid at that position.

    The cut is at the newest entry from which at least ``keep`` tokens follow, or at the next entry where a cut is
    valid. If no later cut is valid, because the results of one call exceed ``keep``, the call is kept with its results.
    """
    cuts = [at for at, entry in enumerate(entries) if _has_item(entry, profile.can_cut)]
    if not cuts:
        return Cut()
    at, size = len(entries), 0
    while at and size < keep:
        at -= 1
        size += total(profile, entries[at].items)
    reached = size >= keep and at < len(entries)
    first = cuts[0] if not reached else next((cut for cut in cuts if cut >= at), cuts[-1])
    if reached and _are_all_omitted(entries, first + 1):
        first += 1
    while first and entries[first - 1].node.kind != Compaction.kind and not entries[first - 1].items:
        first -= 1
    return _with_turn(entries, first, lambda entry: _has_item(entry, profile.starts_turn))


def by_messages(entries: Sequence[ShownEntry], keep: int, profile: Profile) -> Cut:
    """Cut like pi up to 0.80.9: count only the tokens of messages, and keep other entries with the message after them.

    If the results of the last call exceed ``keep``, nothing is compacted.
    """
    cuts = [at for at, entry in enumerate(entries) if _is_cut_before_080(entry, profile)]
    if not cuts:
        return Cut()
    first, size = cuts[0], 0
    for at in range(len(entries) - 1, -1, -1):
        if entries[at].node.kind == Message.kind:
            size += total(profile, entries[at].items)
            if size >= keep:
                first = next((cut for cut in cuts if cut >= at), cuts[0])
                break
    while first and entries[first - 1].node.kind not in (Compaction.kind, Message.kind):
        first -= 1
    if _has_role(entries[first], "user"):
        return Cut(first)
    start = _last_match(entries, first, lambda entry: _is_summary_or_custom(entry) or _has_role(entry, "user", "shell"))
    return Cut(first, start)


def by_groups(entries: Sequence[ShownEntry], keep: int, profile: Profile) -> Cut:
    """Cut like omp: keep the newest groups that fit into ``keep`` tokens, and at least one group.

    A group is an answer with its tool results.
    """
    cuts = [at for at, entry in enumerate(entries) if _has_item(entry, profile.can_cut)]
    if not cuts:
        return Cut()
    first, size, end = cuts[-1], 0, len(entries)
    for cut in reversed(cuts):
        size += sum(total(profile, entry.items) for entry in entries[cut:end])
        if size > keep:
            break
        first, end = cut, cut
    split = _with_turn(entries, first, lambda entry: _has_item(entry, profile.starts_turn))
    while first and entries[first - 1].node.kind not in (Compaction.kind, Reset.kind) and not entries[first - 1].items:
        first -= 1
    return Cut(first, split.turn)


def _with_turn(entries: Sequence[ShownEntry], first: int, starts: Callable[[ShownEntry], bool]) -> Cut:
    return Cut(first) if starts(entries[first]) else Cut(first, _last_match(entries, first, starts))


def _last_match(entries: Sequence[ShownEntry], until: int, matches: Callable[[ShownEntry], bool]) -> int | None:
    return next((at for at in range(until, -1, -1) if matches(entries[at])), None)


def _are_all_omitted(entries: Sequence[ShownEntry], start: int) -> bool:
    """Return whether the entries from ``start`` on include an answer, and edits removed all items of these entries."""
    rest = entries[start:]
    answers = [entry for entry in rest if entry.node.kind == Message.kind and entry.node.role == "assistant"]
    return bool(answers) and not any(entry.items or entry.node.kind == Compaction.kind for entry in rest)


def _has_item(entry: ShownEntry, matches: Callable[[Entry], bool]) -> bool:
    return entry.node.kind != Compaction.kind and any(matches(item.entry) for item in entry.items)


def _is_summary_or_custom(entry: ShownEntry) -> bool:
    return entry.node.kind in (BranchSummary.kind, CustomMessage.kind)


def _is_cut_before_080(entry: ShownEntry, profile: Profile) -> bool:
    return _is_summary_or_custom(entry) or (entry.node.kind == Message.kind and _has_item(entry, profile.can_cut))


def _has_role(entry: ShownEntry, *roles: str) -> bool:
    shown = (item.entry for item in entry.items)
    return any(
        isinstance(message, Message) and message.role in roles and "role" not in message.extra for message in shown
    )
