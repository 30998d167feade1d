"""Summarise what stands before an entry the user chose; from it on all stays (W2)."""

from __future__ import annotations

from gitsession.compaction.pi_cuts import Cut
from gitsession.compaction.plan import CompactionRequest, Plan, cut_plan, nothing
from gitsession.compaction.visible_entries import sight
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile
from gitsession.errors import Refused
from gitsession.model.entries import Message

NAME = "up-to"


def plan(line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
    """Raises ``Refused`` where the entry is not in sight, or is a tool's result, which must stay with its call."""
    seen = sight(line, profile)
    if ask.at is None:
        return nothing(NAME, line, profile, "no entry was named up to which")
    if ask.at.kind == Message.kind and ask.at.role == "tool":
        raise Refused("a tool's result stays with its call", hint="name the call, or an entry behind the result")
    at = next((at for at, place in enumerate(seen.places) if place.node.oid == ask.at.oid), None)
    if at is None:
        raise Refused(
            f"{ask.at.oid[:12]} is not in the context of this branch", hint="`gitsession context` shows what is"
        )
    return cut_plan(NAME, line, profile, seen, seen.places, Cut(at))
