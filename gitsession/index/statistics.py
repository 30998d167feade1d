"""Statistics of sessions from the catalog: prompts, tokens, cost, tool calls, changed lines, and active time.

Each answer, call and prompt counts once: entries that an agent copied from another session count only there.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from itertools import chain
from typing import NamedTuple

from gitsession.index.activity import FAILED
from gitsession.index.derived import TIME_MAX, TIME_MIN, storable

PAUSE_SECONDS = 600
"""Time between two entries from which on the user is considered absent, in seconds."""

_LAST_MS = 253_402_300_799_999 - 2 * 86_400_000
"""The last time that belongs to a day: two days before the last one of the year 9999, as Unix time in ms."""

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
TIMES = ("day", "week", "month")
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
        active_seconds: The time with activity, in seconds. Pauses of ``PAUSE_SECONDS`` or more do not count. Time in
            which several sessions of the group were active counts once.
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
WHERE at_ms BETWEEN :since AND :until AND (:model = '' OR instr(lower(model), :model))
    AND (sid, oid) NOT IN copies GROUP BY 1, 2, 3, cost > 0"""
_PROMPTS = """
SELECT {key}, s.sid, count(*) FROM entries e JOIN chosen s USING (sid)
WHERE words IS NOT NULL AND at_ms BETWEEN :since AND :until AND coalesce(line, s.copied + 1) > s.copied
    AND (sid, oid) NOT IN copies GROUP BY 1, 2"""
_CALLS = f"""
SELECT {{key}}, s.sid, count(*), total({FAILED.format("c")})
FROM calls c JOIN entries e USING (sid, oid) JOIN chosen s USING (sid)
WHERE NOT c.copied AND at_ms BETWEEN :since AND :until AND (sid, oid) NOT IN copies GROUP BY 1, 2"""
_CHANGES = f"""
SELECT {{key}}, s.sid, sum(added), sum(removed) FROM changes c JOIN entries e USING (sid, oid) JOIN chosen s USING (sid)
WHERE NOT c.copied AND at_ms BETWEEN :since AND :until AND (sid, oid) NOT IN copies
    AND NOT {FAILED.format("c")} GROUP BY 1, 2"""
_ACTIVE = """
SELECT sid, at_ms, begins FROM (
    SELECT sid, at_ms, coalesce(at_ms - lag(at_ms) OVER times >= :pause, 1) AS begins,
        coalesce(lead(at_ms) OVER times - at_ms >= :pause, 1) AS ends
    FROM entries JOIN chosen s USING (sid)
    WHERE at_ms BETWEEN :since AND :until AND coalesce(line, s.copied + 1) > s.copied AND (sid, oid) NOT IN copies
    WINDOW times AS (PARTITION BY sid ORDER BY at_ms))
WHERE begins != ends ORDER BY sid, at_ms, begins DESC"""
"""The first and the last entry before each pause, in turn."""


class StatisticsReport(NamedTuple):
    """The statistics of sessions.

    Attributes:
        groups: The statistics of each group, ordered by their key.
        total: The statistics of all groups together. A session, or time, that is in several groups counts once.
    """

    groups: list[Statistics]
    total: Statistics


def statistics(
    db: sqlite3.Connection, sids: Iterable[str], by: str, *, since_ms: int | None = None, until_ms: int | None = None,
    model: str = "", prices: Mapping[str, Price] | None = None,
) -> StatisticsReport:  # fmt: skip
    """Return the statistics of sessions, in groups and in total.

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
    active: dict[str, list[_Interval]] = {}
    if by not in ("tool", "model"):
        for key, sid, prompts in rows(_PROMPTS):
            add(key, sid, prompts=prompts)
        for key, sid, added, removed in rows(_CHANGES):
            add(key, sid, added=added, removed=removed)
        keys = {} if by in TIMES else dict(db.execute(f"SELECT sid, {_KEYS[by]} FROM chosen s"))
        for sid, interval in _intervals(rows(_ACTIVE)):
            for key, part in _split(interval, by) if by in TIMES else [(keys[sid], interval)]:
                active.setdefault(key, []).append(part)
                add(key, sid)
    if by != "model":
        for key, sid, calls, failures in rows(_CALLS):
            add(key, sid, calls=calls, failures=int(failures))
    groups = [
        group._replace(sessions=len(seen[key]), active_seconds=_covered_ms(active.get(key, [])) // 1000)
        for key, group in sorted(found.items())
    ]
    groups = [group for group in groups if any(group[2:])]
    total = add_up("total", groups)._replace(
        sessions=len(set().union(*seen.values())),
        active_seconds=_covered_ms(chain.from_iterable(active.values())) // 1000,
    )
    return StatisticsReport(groups, total)


def add_up(key: str, groups: Sequence[Statistics]) -> Statistics:
    """Return the sums of the columns of ``groups`` as one group with the key ``key``."""
    return Statistics(key, *(sum(column) for column in list(zip(*groups, strict=True))[1:]))


_Interval = tuple[int, int]
"""A period with activity, as two Unix times in ms."""


def _intervals(rows: Iterable[tuple[str, int, int]]) -> Iterator[tuple[str, _Interval]]:
    """Yield the periods without a pause in ``rows`` of the query ``_ACTIVE``, each with its session."""
    first_ms = 0
    for sid, at_ms, begins in rows:
        if begins:
            first_ms = at_ms
        else:
            yield sid, (first_ms, at_ms)


def _split(interval: _Interval, by: str) -> Iterator[tuple[str, _Interval]]:
    """Yield the parts of a period that are on different days, each with the key of its day, week, or month."""
    begins, ends = interval
    if not 0 < begins <= ends <= _LAST_MS:
        yield "", interval
        return
    while begins < ends:
        local = time.localtime(begins / 1000)
        day = date(local.tm_year, local.tm_mon, local.tm_mday)
        next_day = time.mktime((local.tm_year, local.tm_mon, local.tm_mday + 1, 0, 0, 0, 0, 0, -1))
        until = min(max(int(next_day * 1000), begins + 1), ends)
        if by == "week":
            day -= timedelta(days=local.tm_wday)
        yield day.isoformat()[: len("2026-02") if by == "month" else None], (begins, until)
        begins = until


def _covered_ms(intervals: Iterable[_Interval]) -> int:
    """Return the length of the union of periods, in ms."""
    covered, reached = 0, TIME_MIN
    for begins, ends in sorted(intervals):
        covered += max(ends - max(begins, reached), 0)
        reached = max(reached, ends)
    return covered


_SHARED = """
SELECT DISTINCT group_concat(sid) FROM answers WHERE instr(answer, ':') = 0 AND oid != ''
GROUP BY answer, at_ms HAVING count(*) > 1"""
"""The sessions that share an answer with an id. The other answers are named after their entries."""
_COPY = """
INSERT OR IGNORE INTO copies SELECT copy.sid, copy.oid
FROM entries copy JOIN entries e INDEXED BY entries_source
ON e.sid = ? AND e.source_id = copy.source_id AND e.at_ms = copy.at_ms WHERE copy.sid = ?"""


def _select(db: sqlite3.Connection, sids: Iterable[str]) -> None:
    """Write the selected sessions to a temporary table, and the entries that are copies to another one.

    An entry is a copy if an older session has an entry with the same id and time. Claude Code copies entries without a
    mark if it forks a session that was compacted.
    """
    db.execute("CREATE TEMP TABLE IF NOT EXISTS copies (sid, oid, PRIMARY KEY (sid, oid)) WITHOUT ROWID")
    db.execute("DELETE FROM copies")
    created = "SELECT created_ms, sid FROM sessions WHERE sid = ?"
    pairs: set[tuple[str, str]] = set()
    for (shared,) in db.execute(_SHARED).fetchall():
        (_, oldest), *others = sorted(db.execute(created, (sid,)).fetchone() for sid in shared.split(","))
        pairs.update((oldest, sid) for _, sid in others)
    db.executemany(_COPY, pairs)
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
