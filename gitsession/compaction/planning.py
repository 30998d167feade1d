"""A plan out of a cut, and the one that says why there is nothing to do: what every strategy ends with."""

from __future__ import annotations

from gitsession.compaction.files import carried_by, touched
from gitsession.compaction.pi_cuts import Cut
from gitsession.compaction.plan import Plan
from gitsession.compaction.visible_entries import CompactionView, ShownEntry, carried, conversation
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile, total


def nothing(strategy: str, line: ContextHistory, profile: Profile, why: str) -> Plan:
    return Plan(strategy=strategy, profile=profile.NAME, leaf=line.leaf, nothing=why)


def cut_plan(
    strategy: str, line: ContextHistory, profile: Profile, seen: CompactionView, places: tuple[ShownEntry, ...],
    cut: Cut
) -> Plan:
    """The plan of a cut: what is before it is summarised, what is behind it stays."""
    end = cut.first_kept if cut.turn is None else cut.turn
    history = conversation(places[:end])
    prefix = () if cut.turn is None else conversation(places[cut.turn : cut.first_kept])
    if not history and not prefix:
        return nothing(strategy, line, profile, "all of it would be kept")
    return Plan(
        strategy=strategy,
        profile=profile.NAME,
        leaf=line.leaf,
        first_kept=places[cut.first_kept].node if cut.first_kept < len(places) else None,
        history=history,
        prefix=prefix,
        kept=conversation(places[cut.first_kept :]),
        previous=seen.summary,
        carried=carried(seen.previous),
        system=seen.system,
        files=touched((item.entry for item in (*history, *prefix)), carried_by(seen.previous)),
        tokens_before=seen.tokens,
        replaced=total(profile, (*history, *prefix)) + (profile.estimate(seen.previous) if seen.previous else 0),
    )
