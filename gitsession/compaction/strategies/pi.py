"""pi's compaction, and omp's: keep the newest tokens, summarise what is before, a split turn apart (rules 18 to 28)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from gitsession.compaction import pi_cuts
from gitsession.compaction.pi_cuts import Cutter
from gitsession.compaction.plan import CompactionRequest, Plan, cut_plan
from gitsession.compaction.visible_entries import CompactionView, ShownEntry, conversation, raw, sight
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile, total
from gitsession.model.entries import Message
from gitsession.model.usage import total_tokens


@dataclass(frozen=True, slots=True)
class _Generation:
    cut: Cutter
    shown_only: bool = False
    """Whether entries that show nothing stay out of the range."""
    raw: bool = False
    """Whether what counts is what entries say by themselves, though the context leaves some of it out."""
    scaled: bool = False
    """Whether what is kept shrinks where the provider counts more than the agent does (rule 17)."""


_GENERATIONS = {
    "pi": _Generation(pi_cuts.by_what_is_shown),
    "pi-0.73": _Generation(pi_cuts.by_messages),
    "omp": _Generation(pi_cuts.by_groups, shown_only=True, raw=True, scaled=True),
}


def plan(line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
    how = _GENERATIONS.get(profile.NAME, _GENERATIONS["pi"])
    seen = sight(line, profile)
    places = _places(line, seen, how)
    keep = profile.SETTINGS.keep_recent if ask.keep_tokens is None else ask.keep_tokens
    cut = how.cut(places, _scaled(line, places, keep, profile) if how.scaled else keep, profile)
    return cut_plan("pi", line, profile, seen, places, cut)


def _places(line: ContextHistory, seen: CompactionView, how: _Generation) -> tuple[ShownEntry, ...]:
    places = seen.places
    if how.raw:
        places = raw(line, (place.node for place in places))
    return tuple(place for place in places if place.items) if how.shown_only else places


def _scaled(line: ContextHistory, places: tuple[ShownEntry, ...], keep: int, profile: Profile) -> int:
    ours = total(profile, conversation(places))
    theirs = next(filter(None, map(_prompt_tokens, map(line.entry, itertools.islice(line.back(), None)))), 0)
    return max(keep * ours // theirs, 1) if theirs > ours > 0 else keep


def _prompt_tokens(entry: object) -> int:
    if not isinstance(entry, Message) or entry.role != "assistant" or entry.failed or entry.usage is None:
        return 0
    stated = [entry.usage.get(name) for name in ("input", "cacheRead", "cacheWrite")]
    return sum(count for count in stated if isinstance(count, int)) or total_tokens(entry.usage)
