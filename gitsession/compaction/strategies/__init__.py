"""What is summarised and what stays: one module for each agent's way, one table. Each only reads.

A module is loaded when it is asked for.
"""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import Protocol, cast

from gitsession.compaction.plan import CompactionRequest, Plan, nothing, touched
from gitsession.compaction.visible_entries import UNREADABLE, originals
from gitsession.context import profiles
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile
from gitsession.errors import NotFound
from gitsession.model.entries import Compaction

STRATEGIES = {
    "pi": "pi",
    "opencode": "opencode",
    "codex": "codex",
    "aider": "aider",
    "from": "from_",
    "up-to": "up_to",
}
"""What ``--strategy`` takes, and the module of this folder that knows it. The first is the default."""

BY_ENTRY = ("from", "up-to")
"""Those that go by an entry the user chose."""

DEFAULT = "pi"
NO_WISHES = CompactionRequest()


class Strategy(Protocol):
    """What a module of this folder offers."""

    def plan(self, line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
        """What would be done at the end of ``line``. Raises what a context raises where the line is damaged."""


def plan(
    line: ContextHistory, strategy: str = DEFAULT, *, profile: str = profiles.DEFAULT,
    ask: CompactionRequest = NO_WISHES
) -> Plan:
    """What a compaction would do. Raises ``NotFound`` for another name than those of the tables."""
    if strategy not in STRATEGIES:
        raise NotFound(f"there is no strategy {strategy!r}", hint=f"known are {', '.join(STRATEGIES)}")
    last = next(line.back(), None)
    if last is not None and last.kind == Compaction.kind and strategy != "from":  # that one begins another branch
        return nothing(strategy, line, profiles.profile(profile), "the last entry is a compaction")
    module = cast(Strategy, import_module(f"{__name__}.{STRATEGIES[strategy]}"))
    made = module.plan(line, profiles.profile(profile), ask)
    enough = made.carried == UNREADABLE or 0 < ask.reground_every <= made.carried
    return _regrounded(made, line) if enough else made


def _regrounded(made: Plan, line: ContextHistory) -> Plan:
    """Against drift: what the next summary stands for, from the entries themselves, which are all still there."""
    until = made.prefix[0].oid if made.prefix else made.first_kept.oid if made.first_kept else None
    history = originals(line, until)
    files = touched(item.entry for item in (*history, *made.prefix))
    return dataclasses.replace(made, history=history, previous="", carried=0, files=files)
