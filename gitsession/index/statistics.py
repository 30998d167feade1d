"""Statistics of sessions from the catalog: prompts, tokens, cost, tool calls, changed lines, and active time.

Each answer, call and prompt counts once: entries that an agent copied from another session count only there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from gitsession.index.activity import FAILED
from gitsession.index.derived import TIME_MAX, TIME_MIN, storable

PAUSE_SECONDS = 600
"""Time between two entries from which on the user is considered absent, in seconds."""

_TIME = "coalesce(CASE WHEN at_ms > 0 THEN strftime('{}', at_ms / 1000, 'unixepoch', 'localtime') END, '')"
_KEYS = {
    "day": _TIME.format("%Y-%m-%d"),
    "week": _TIME.format("%Y-%m-%d").replace("'localtime'", "'localtime', 'weekday 0', '-6 days'"),
    "month": _TIME.format("%Y-%m"),
    "agent": "s.agent",
    "project": "coalesce(s.project, '')",
    "session": "s.sid",
    "model": "coalesce(model, '')",
    "tool": "c.tool",
}
GROUPS = tuple(_KEYS)
"""The groups of ``statistics``.

The key of a week is the date of its Monday; that of an unknown time, project, or model is "".
"""


class Price(NamedTuple):
    """The price of a model by the kind of tokens, in US dollars per million tokens."""

    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cache_read_tokens: float = 0.0
    cache_write_tokens: float = 0.0


class Statistics(NamedTuple):
    """The statistics of one group.

    Attributes:
        key: The day, week, month, agent, project, session, model, or tool.
        sessions: The number of sessions with a counted event.
        prompts: The number of prompts.
        answers: The number of answers of a model.
        input_tokens: The tokens of prompts that were not in a cache.
        output_tokens: The tokens of answers.
        cache_read_tokens: The tokens of prompts that were read from a cache.
        cache_write_tokens: The tokens of prompts that were written to a cache.
        cost: The cost in US dollars: recorded by the agent, or computed from prices.
        calls: The number of tool calls.
        failures: The number of tool calls that failed.
        active_seconds: The time with activity, in seconds. Pauses of ``PAUSE_SECONDS`` or more do not count.
        added: The number of lines that changes added to files. Changes by tool calls that failed do not count.
        removed: The number of lines that changes removed from files, with the same exception.
    """

    key: str
    sessions: int = 0
    prompts: int = 0
    answers: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float = 0.0
    calls: int = 0
    failures: int = 0
    active_seconds: int = 0
    added: int = 0
    removed: int = 0

    @property
    def tokens(self) -> int:
        """The number of all tokens."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens


_ANSWERS = """
SELECT {key}, s.sid, model, count(*), sum(input), sum(output), sum(cache_read), sum(cache_write), total(cost),
    total(cost) > 0
FROM answers JOIN chosen s USING (sid)
WHERE at_ms BETWEEN :since AND :until AND (:model = '' OR instr(lower(model), :model)) GROUP BY 1, 2, 3, cost > 0"""
_PROMPTS = """
SELECT {key}, s.sid, count(*) FROM entries e JOIN chosen s USING (sid)
WHERE words IS NOT NULL AND at_ms BETWEEN :since AND :until AND coalesce(line, s.copied + 1) > s.copied GROUP BY 1, 2"""
_CALLS = f"""
SELECT {{key}}, s.sid, count(*), total({FAILED.format("c")})
FROM calls c JOIN entries e USING (sid, oid) JOIN chosen s USING (sid)
WHERE NOT c.copied AND at_ms BETWEEN :since AND :until GROUP BY 1, 2"""
_CHANGES = f"""
SELECT {{key}}, s.sid, sum(added), sum(removed) FROM changes c JOIN entries e USING (sid, oid) JOIN chosen s USING (sid)
WHERE NOT c.copied AND at_ms BETWEEN :since AND :until AND NOT {FAILED.format("c")} GROUP BY 1, 2"""
_ACTIVE = """
SELECT {key}, s.sid, sum(gap) / 1000 FROM (
    SELECT sid, at_ms, line, at_ms - lag(at_ms) OVER (PARTITION BY sid ORDER BY at_ms) AS gap FROM entries) e
JOIN chosen s USING (sid)
WHERE gap < :pause AND at_ms BETWEEN :since AND :until AND coalesce(line, s.copied + 1) > s.copied GROUP BY 1, 2"""


def statistics(
    db: sqlite3.Connection, sids: Iterable[str], by: str, *, since_ms: int | None = None, until_ms: int | None = None,
    model: str = "", prices: Mapping[str, Price] | None = None,
) -> list[Statistics]:  # fmt: skip
    """Return the statistics of sessions, in groups, ordered by their key.

    Args:
        db: The database of the catalog.
        sids: The ids of the sessions.
        by: One of ``GROUPS``. A model has no prompts, calls, or times, and a tool has only calls.
        since_ms: If given, only events at or after this time are counted, Unix time in ms.
        until_ms: If given, only events before this time are counted, Unix time in ms.
        model: A part of the names of the models whose answers are counted; "" for all.
        prices: The prices by a part of the name of the model, for answers without a recorded cost.
    """
    _select(db, sids)
    values = {
        "since": TIME_MIN if since_ms is None else since_ms,
        "until": TIME_MAX if until_ms is None else until_ms - 1,
        "model": storable(model.lower()),
        "pause": PAUSE_SECONDS * 1000,
    }
    found: dict[str, Statistics] = {}
    seen: dict[str, set[str]] = {}

    def add(key: str, sid: str, **amounts: float) -> None:
        old = found.get(key) or Statistics(key)
        seen.setdefault(key, set()).add(sid)
        found[key] = old._replace(**{name: getattr(old, name) + amount for name, amount in amounts.items()})

    def rows(query: str) -> sqlite3.Cursor:
        return db.execute(query.format(key=_KEYS[by]), values)

    if by != "tool":
        for key, sid, name, answers, given, output, read, written, cost, is_recorded in rows(_ANSWERS):
            counts = (given, output, read, written)
            total = cost if is_recorded else _price(prices or {}, name or "", counts)
            add(key, sid, answers=answers, cost=total, **dict(zip(Price._fields, counts, strict=True)))
    if by not in ("tool", "model"):
        for key, sid, prompts in rows(_PROMPTS):
            add(key, sid, prompts=prompts)
        for key, sid, added, removed in rows(_CHANGES):
            add(key, sid, added=added, removed=removed)
        for key, sid, seconds in rows(_ACTIVE):
            add(key, sid, active_seconds=seconds)
    if by != "model":
        for key, sid, calls, failures in rows(_CALLS):
            add(key, sid, calls=calls, failures=int(failures))
    return [found[key]._replace(sessions=len(seen[key])) for key in sorted(found) if any(found[key][1:])]


def _select(db: sqlite3.Connection, sids: Iterable[str]) -> None:
    """Write the selected sessions to a temporary table."""
    db.execute("CREATE TEMP TABLE IF NOT EXISTS chosen (sid TEXT PRIMARY KEY, agent, project, copied)")
    db.execute("DELETE FROM chosen")
    insert = "INSERT INTO chosen SELECT sid, agent, project, copied FROM sessions WHERE sid = ?"
    db.executemany(insert, [(sid,) for sid in sids])


def _price(prices: Mapping[str, Price], model: str, counts: Collection[int]) -> float:
    """Return the cost of tokens by the price of the longest name that is part of ``model``; 0 if there is none."""
    name = max((name for name in prices if name.lower() in model.lower()), key=len, default=None)
    if name is None:
        return 0.0
    return sum(count * price for count, price in zip(counts, prices[name], strict=True)) / 1_000_000
