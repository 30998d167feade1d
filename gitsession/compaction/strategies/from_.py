"""Summarise from an entry the user chose to the leaf; what is before it stays, and the work goes on there (W2).

What was said stays on its branch, as it was; the summary begins another one, before the chosen entry.
"""

from __future__ import annotations

import itertools

from gitsession.compaction.branch_summary import left
from gitsession.compaction.plan import CompactionRequest, Plan, nothing
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile
from gitsession.errors import Refused

NAME = "from"


def plan(line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
    """Raises ``Refused`` where the entry is not on the line, or is its root."""
    if ask.at is None:
        return nothing(NAME, line, profile, "no entry was named to begin from")
    chosen = ask.at.oid
    back = line.back()
    nodes = list(itertools.takewhile(lambda node: node.oid != chosen, back))
    onto = next(back, None)
    if onto is None:
        raise Refused(f"{chosen[:12]} is not on this branch, or is where it begins", hint="name an entry behind it")
    return left(NAME, line, profile, [*nodes, ask.at][::-1], onto)
