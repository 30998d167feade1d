"""What is summarised and what stays: one module for each agent's way, one table. Each only reads.

A module is loaded when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from gitsession.compaction.value import Ask, Plan
from gitsession.context import profiles
from gitsession.context.line import Line
from gitsession.context.profiles import Profile

STRATEGIES = {"pi": "pi"}
"""What ``--strategy`` takes, and the module of this folder that knows it. The first is the default."""

DEFAULT = "pi"
NO_WISHES = Ask()


class Strategy(Protocol):
    """What a module of this folder offers."""

    def plan(self, line: Line, profile: Profile, ask: Ask) -> Plan:
        """What would be done at the end of ``line``. Raises what a context raises where the line is damaged."""


def plan(line: Line, strategy: str = DEFAULT, *, profile: str = profiles.DEFAULT, ask: Ask = NO_WISHES) -> Plan:
    """What a compaction would do. Raises ``KeyError`` for another name than those of the tables."""
    module = cast(Strategy, import_module(f"{__name__}.{STRATEGIES[strategy]}"))
    return module.plan(line, profiles.profile(profile), ask)
