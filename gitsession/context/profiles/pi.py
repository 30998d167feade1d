"""pi 1.5, the default profile: rules 6 to 12, 14 to 16, 18 and 21, all of which 0.87 follows too."""

from __future__ import annotations

from collections.abc import Sequence

from gitsession.context.history import ContextHistory
from gitsession.context.profiles import CompactionSettings, Selection, pi_family
from gitsession.context.profiles.estimates import by_characters
from gitsession.context.profiles.pi_family import can_cut, starts_turn
from gitsession.context.value import Item, Shown

__all__ = ["NAME", "OWN_COUNT", "SETTINGS", "can_cut", "estimate", "llm_role", "select", "starts_turn", "usage"]

NAME = "pi"
SETTINGS = CompactionSettings()
OWN_COUNT = True


def select(line: ContextHistory) -> Selection:
    return pi_family.select(line, since_087=True)


def estimate(entry: Shown) -> int:
    return by_characters(entry, images_of_users=True)


def usage(items: Sequence[Item], fresh: int) -> tuple[int, int] | None:
    return pi_family.usage(items, fresh, least=1)


def llm_role(entry: Shown) -> str | None:
    return pi_family.llm_role(entry, custom="user", system=True)
