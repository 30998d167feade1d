"""The order of members, which opencode does not keep itself: it writes a message in one, and takes it in in another.

A message that went through ``opencode export`` and ``opencode import`` says the same with its members elsewhere. So in
a record they stand sorted, in the objects whose members are opencode's own; what a tool was asked and what it gave back
is data, and stays as it is. The order that each kind of object had is kept once for a session. FROZEN with view 1:
which objects are sorted, and how.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gitsession.formats.opencode.json_text import Member, elements, joined, members

INFO, PART = "info", "part"

_WITHIN = {
    INFO: ("time", "tokens", "path", "model"),
    PART: ("time", "tokens", "state"),
    "info.tokens": ("cache",),
    "part.tokens": ("cache",),
    "part.state": ("time",),
}
"""The members that are objects of opencode's own, too."""


class Order(NamedTuple):
    """The order of an object's members. ``level``: which object it is; ``keys``: as they stand in the text."""

    level: str
    keys: tuple[str, ...]


def ordered(found: Sequence[Member], level: str, orders: list[Order]) -> str:
    """The object of the members ``found``, sorted; ``orders`` gets the order in which they stood, and those within."""
    orders.append(Order(level, tuple([member.key for member in found])))
    within = _WITHIN.get(level, ())
    kept = [
        Member(member.key, ordered(members(member.raw), f"{level}.{member.key[1:-1]}", orders), None)
        if member.key[1:-1] in within and member.raw.startswith("{")
        else member
        for member in found
    ]
    return joined(sorted(kept, key=lambda member: member.key))


class Orders:
    """The first order that the members of each kind of object had in a session."""

    def __init__(self, found: Iterable[Order]) -> None:
        self._known: dict[tuple[str, frozenset[str]], Order] = {}
        for order in found:
            if len(set(order.keys)) == len(order.keys):
                self._known.setdefault((order.level, frozenset(order.keys)), order)

    @classmethod
    def of(cls, raw: str) -> Orders:
        """The inverse of ``text``."""
        found = []
        for listed, _ in elements(raw):
            (_, level), *keys = elements(listed)
            found.append(Order(level, tuple([key for key, _ in keys])))
        return cls(found)

    @property
    def text(self) -> str:
        """A list of lists: level, and keys in their order; "" for an empty one. What is sorted anyway is left out."""
        told = [order for order in self._known.values() if list(order.keys) != sorted(order.keys)]
        rows = (",".join((f'"{order.level}"', *order.keys)) for order in told)
        return f"[{','.join(f'[{row}]' for row in rows)}]" if told else ""

    def has(self, order: Order) -> bool:
        """Whether members in this order come back in it."""
        return self._known.get((order.level, frozenset(order.keys))) == order

    def restored(self, raw: str, level: str) -> str:
        """An object of a record, its members in their order."""
        found = members(raw)
        within = _WITHIN.get(level, ())
        by_key = {
            member.key: Member(member.key, self.restored(member.raw, f"{level}.{member.key[1:-1]}"), None)
            if member.key[1:-1] in within and member.raw.startswith("{")
            else member
            for member in found
        }
        order = self._known.get((level, frozenset(by_key)))
        return joined([by_key[key] for key in order.keys] if order is not None else by_key.values())
