"""Flush 64 entries of one session, in a store of few sessions and in a store of many.

Refs are loose. A flush moves one ref and writes one pack, so the number of other sessions must
not matter.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import fsyncs
from benchmarks.data import messages
from benchmarks.figures import Line, Table
from benchmarks.measure import Duel, seconds
from benchmarks.workshop import Workshop
from gitsession import Message, Session, Store

TITLE = "Flush"

BAR = 1.3
ENTRIES = 64


def measure(shop: Workshop) -> Iterator[Line | Table]:
    few, many = shop.pick((2, 4), (10, 1000), (10, 10_000))
    rounds = shop.pick(2, 10, 20)
    found = Duel()
    with _opened(shop, few) as small, _opened(shop, many) as big:
        held = [(store, store.new_session(agent="bench")) for store in (big, small)]
        for _, session in held:
            session.append(Message.user("begin"))
        for _ in range(shop.runs):
            times: tuple[list[float], list[float]] = ([], [])
            sides = list(zip(held, times, strict=True))
            for number in range(rounds + 1):
                for (store, session), took in sides if number % 2 else reversed(sides):
                    _append(session, number)
                    took.append(seconds(lambda _, store=store: store.flush()))
            found.add(times[0][1:], times[1][1:])
    yield found.line(f"flush of {ENTRIES} entries, {many:,} sessions", f"{few} sessions", BAR)
    counted = [(sessions, fsyncs.of_flush(sessions)) for sessions in (1, 2, 8)]
    told = [[str(n), "not counted: no compiler" if count is None else f"{count:.0f}"] for n, count in counted]
    yield Table("Fsyncs of a flush", ["sessions that it moves on", "fsyncs"], told)


def _opened(shop: Workshop, sessions: int) -> Store:
    return Store.open(shop.copy(shop.many_sessions(sessions)))


def _append(session: Session, number: int) -> None:
    for offset in range(ENTRIES):
        session.append(messages()[(number * ENTRIES + offset) % len(messages())].message)
