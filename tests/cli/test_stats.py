"""Tests of ``gitsession stats``: every event counts once, in the group in which it belongs."""

from __future__ import annotations

import builtins
import csv
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from builders import joined
from claude_code import SESSION, assistant, call, result, user
from commands import Run, document

from gitsession.cli.commands import stats
from gitsession.cli.stats_chart import BARS_MAX, WIDTH, _ticks, chart
from gitsession.index.catalogue import _prepare
from gitsession.index.derived import connect
from gitsession.index.statistics import GROUPS, Statistics, StatisticsReport, add_up, statistics

DAY_SECONDS = 86_400
OTHER = "21111111-2222-4333-8444-555555555555"


@pytest.fixture(autouse=True)
def imported(run: Run, here: Path) -> None:
    """Import a session with two answers in three lines, one day apart. Each answer has 10 and 5 tokens."""
    writing = call("c1", "Write", file_path="/work/a.txt", content="1\n2\n3\n")
    lines = [
        user("a", None, at=0),
        assistant("b", "a", {"type": "text", "text": "I'll write"}, answer="msg_1", at=60),
        assistant("c", "b", writing, answer="msg_1", at=120),
        result("d", "c", "c1", at=180),
        assistant("e", "d", call("c2", "Bash", command="ls"), at=DAY_SECONDS - 1),
    ]
    (here / f"{SESSION}.jsonl").write_bytes(joined(*lines))
    run("import", f"{SESSION}.jsonl")


def groups(run: Run, *words: str) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in document(run("stats", "--json", *words))["groups"]}


def test_events_are_counted_by_agent(run: Run) -> None:
    [row] = groups(run, "--by", "agent").values()
    assert {name: value for name, value in row.items() if value} == {
        "key": "claude", "sessions": 1, "prompts": 1, "answers": 2, "input_tokens": 20, "output_tokens": 10,
        "tokens": 30, "calls": 2, "active_seconds": 180, "added": 3,
    }  # fmt: skip


def test_a_failed_call_changes_no_lines(run: Run, here: Path) -> None:
    failed = {"tool_use_id": "c1", "type": "tool_result", "content": "no space", "is_error": True}
    import_other(
        run, here, assistant("x", None, call("c1", "Write", file_path="a", content="1\n")), user("y", "x", [failed])
    )
    row = groups(run, "--by", "agent")["claude"]
    assert (row["calls"], row["failures"], row["added"]) == (3, 1, 3)


MIDNIGHT_MS = 1_769_904_000_000  # 2026-02-01, a Sunday
MINUTE_MS = 60_000


def active(times: dict[str, list[int]], by: str, **period: int) -> dict[str, int]:
    """Return the active seconds of each group, and in total, for sessions with entries at these times in ms."""
    db = connect(":memory:", _prepare, ())
    for sid, found in times.items():
        names = (
            "sid, start, agent, created_ms, updated_ms, entries, active, tokens, superseded, view, delegated, copied"
        )
        db.execute(
            f"INSERT INTO sessions ({names}, counted, waiting, cost, changed, lines_added, lines_removed, done, todos, "
            "marked) "
            "VALUES (?, 'o', 'pi', 0, 0, 1, 'main', 0, '[]', 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '')", (sid,),
        )  # fmt: skip
        for number, at_ms in enumerate(found):
            db.execute(
                "INSERT INTO entries (sid, oid, chain, digest, kind, in_file, inner, depth, at_ms, tokens) "
                "VALUES (?, ?, '', '', 'message', 1, 1, 0, ?, 0)", (sid, f"{number}", at_ms),
            )  # fmt: skip
    report = statistics(db, times, by, **period)
    return {row.key: row.active_seconds for row in (*report.groups, report.total) if row.active_seconds}


def test_time_belongs_to_the_day_in_which_it_is() -> None:
    times = {"s": [MIDNIGHT_MS - 5 * MINUTE_MS, MIDNIGHT_MS + MINUTE_MS]}
    assert active(times, "day") == {"2026-01-31": 300, "2026-02-01": 60, "total": 360}
    assert active(times, "month") == {"2026-01": 300, "2026-02": 60, "total": 360}
    assert active(times, "week") == {"2026-01-26": 360, "total": 360}
    assert active(times, "agent", since_ms=MIDNIGHT_MS) == {}


def test_a_pause_does_not_count() -> None:
    times = [MIDNIGHT_MS + minutes * MINUTE_MS for minutes in (0, 9, 18, 28, 28, 28, 60, 61)]
    assert active({"s": times, "t": []}, "session") == {"s": 19 * 60, "total": 19 * 60}
    assert active({"a": times[3:5], "b": [times[7]], "c": times[6:]}, "session") == {"c": 60, "total": 60}


def test_active_time_is_the_union_of_all_sessions() -> None:
    """The expected number of minutes is counted one by one."""
    chance = random.Random(1)
    times = {f"s{number}": sorted(chance.sample(range(2000), 40)) for number in range(4)}
    covered = {minute for found in times.values() for a, b in pairwise(found) if b - a < 10 for minute in range(a, b)}
    in_ms = {sid: [MIDNIGHT_MS + minute * MINUTE_MS for minute in found] for sid, found in times.items()}
    assert active(in_ms, "agent") == {"pi": len(covered) * 60, "total": len(covered) * 60}
    assert active(in_ms, "day")["total"] == active(in_ms, "session")["total"] == len(covered) * 60


@pytest.mark.parametrize("by", ["day", "week", "month", "session"])
def test_active_time_of_events_without_a_valid_time(by: str) -> None:
    for at_ms in (-(2**63), -1000, 253_402_300_799_000, 2**63 - 2000):
        assert active({"s": [at_ms, at_ms + 1000]}, by)["total"] == 1


@pytest.mark.parametrize("at_ms", [-1, 0, 253_402_300_800_000, 2**63 - 1])
@pytest.mark.parametrize("by", ["day", "week", "month"])
def test_events_without_a_valid_time_are_in_a_group(at_ms: int, by: str) -> None:
    db = connect(":memory:", _prepare, ())
    db.execute("INSERT INTO answers VALUES ('s', 'a', 3, 1, 2, 0, 0, 0, ?, NULL, 'o')", (at_ms,))
    db.execute("INSERT INTO answers VALUES ('s', 'b', 3, 1, 2, 0, 0, 0, 1000000000000, NULL, 'o')")
    names = "sid, start, agent, created_ms, updated_ms, entries, active, tokens, superseded, view, delegated, copied"
    db.execute(
        f"INSERT INTO sessions ({names}, counted, waiting, cost, changed, lines_added, lines_removed, done, todos, "
        "marked) "
        "VALUES ('s', 'o', 'pi', 0, 0, 1, 'main', 3, '[]', 1, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, '')"
    )
    unknown, known = statistics(db, ["s"], by).groups
    assert (unknown.key, unknown.tokens, known.key[:7]) == ("", 3, "2001-09")


def import_other(run: Run, here: Path, *lines: bytes) -> None:
    """Import lines as a second session."""
    (here / f"{OTHER}.jsonl").write_bytes(joined(*lines).replace(SESSION.encode(), OTHER.encode()))
    run("import", f"{OTHER}.jsonl")


def test_time_in_which_several_sessions_are_active_counts_once(run: Run, here: Path) -> None:
    """The first session is active from 0 to 180 s, and the second one from 100 to 300 s."""
    import_other(run, here, user("x", None, at=100), assistant("y", "x", at=200), assistant("z", "y", at=300))
    for by in ("agent", "project", "month"):
        assert [row["active_seconds"] for row in groups(run, "--by", by).values()] == [300], by
    assert sorted(row["active_seconds"] for row in groups(run, "--by", "session").values()) == [180, 200]
    total = document(run("stats", "--by", "session", "--json"))["total"]
    assert (total["active_seconds"], total["sessions"], total["tokens"]) == (300, 2, 60)


def test_entries_that_were_copied_without_a_mark_count_once(run: Run, here: Path) -> None:
    """Claude Code forks a compacted session in this way: the ids and the times of the entries remain."""
    copied = (here / f"{SESSION}.jsonl").read_bytes().splitlines()
    own = [
        assistant("x", "e", call("c3", "Bash", command="ls"), at=DAY_SECONDS - 1),
        user("y", "x", at=DAY_SECONDS - 1),
    ]
    import_other(run, here, *copied[1:], *own)
    [row] = groups(run, "--by", "agent").values()
    counted = {name: row[name] for name in ("sessions", "prompts", "answers", "tokens", "calls", "added")}
    assert counted == {"sessions": 2, "prompts": 2, "answers": 3, "tokens": 45, "calls": 3, "added": 3}
    assert row["active_seconds"] == 180


def test_each_group_has_its_events(run: Run) -> None:
    assert groups(run, "--by", "tool").keys() == {"Write", "Bash"}
    assert groups(run, "--by", "model")["anthropic/claude-opus-4-8"]["tokens"] == 30
    assert [row["key"] for row in document(run("stats", "--by", "month", "--json"))["groups"]] == ["2026-02"]
    assert groups(run, "--by", "week").keys() <= {"2026-01-26", "2026-02-02"}
    assert groups(run, "--by", "project").keys() == {"/work"}
    assert len(groups(run, "--by", "session")) == 1


def test_filters(run: Run) -> None:
    assert groups(run, "--by", "agent", "--model", "OPUS")["claude"]["answers"] == 2
    assert "answers" not in {name for name, value in groups(run, "--model", "gpt").popitem()[1].items() if value}
    run("stats", "--since", "2026-03-01", code=1)
    run("stats", "--until", "2026-01-01", code=1)
    assert "no sessions of agent 'pi'" in run("stats", "--agent", "pi", code=1, err=True)


def test_prices_of_the_user_apply_to_answers_without_a_recorded_cost(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, prices = here / "config", here / "prices.json"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    config.write_text(f'[gitsession]\n\tprices = "{prices}"\n')
    prices.write_text(json.dumps({"claude": {"input": 1}, "claude-opus": {"input": 1_000_000, "output": 100_000}}))
    assert groups(run, "--by", "agent")["claude"]["cost"] == 21
    amounts = ('"x"', "null", "-1", "NaN", "1e999", "1" + "0" * 400)
    for text in ("{", "[]", '{"a": 1}', *(f'{{"a": {{"input": {amount}}}}}' for amount in amounts)):
        prices.write_text(text)
        assert "cannot read the prices" in run("stats", code=75, err=True)
    prices.unlink()
    missing = run("stats", code=75, err=True)
    assert f"cannot read the prices in '{prices}': No such file or directory\n" in missing
    assert "git config" in missing


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("by", ["day", "model", "tool", "project"])
def test_no_line_is_wider_than_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int, by: str) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run("stats", "--by", by).splitlines()
    assert max(map(len, lines)) <= max(columns, 70)
    assert lines[-1].startswith("total")


def test_comma_separated_values(run: Run) -> None:
    head, row = csv.reader(run("stats", "--by", "agent", "--csv").splitlines())
    assert dict(zip(head, row, strict=True))["input_tokens"] == "20"


# ---- the chart


def texts(image: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(image).iter() if element.tag.endswith("text")]


@pytest.mark.parametrize("by", GROUPS)
def test_the_chart_is_an_image_that_runs_nothing_and_names_each_group(run: Run, by: str) -> None:
    image = run("stats", "--by", by, "--svg")
    names = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(image).iter()}
    assert names <= {"svg", "title", "style", "rect", "text", "line", "g"}
    assert "prefers-color-scheme: dark" in image
    found = texts(image)
    assert any(by in text for text in found)
    for key in groups(run, "--by", by):
        assert key in found or by == "day", found


def test_the_names_in_the_chart_are_escaped(run: Run, here: Path) -> None:
    name = '<script>&"\x1b[31m\uffff'
    import_other(run, here, assistant("x", None, call("c1", name)))
    assert '<script>&"[31m' in texts(run("stats", "--by", "tool", "--svg"))


def test_further_groups_are_added_up() -> None:
    rows = [Statistics(f"group {number}", sessions=1, input_tokens=100 - number) for number in range(BARS_MAX + 3)]
    found = texts(chart("session", StatisticsReport(rows, add_up("total", rows))))
    assert "3 others" in found
    assert f"group {BARS_MAX}" not in found
    assert "177" in found


@pytest.mark.parametrize("most", [0, 1, 2, 5, 6, 9, 10, 11, 25, 26, 99, 100, 101, 123_456, 2**40])
def test_the_axis_has_few_round_numbers_and_contains_the_highest_column(most: int) -> None:
    ticks = _ticks(most)
    assert ticks[0] == 0
    assert ticks[-2] < max(most, 1) <= ticks[-1]
    assert 2 <= len(ticks) <= 7
    assert len({after - before for before, after in pairwise(ticks)}) == 1


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("day", ["", "2026-02-27", "2026-03-01"]),
        ("week", ["2025-12-29", "2026-01-05", "2026-01-19"]),
        ("month", ["1970-01", "2026-12", "9999-12"]),
        ("day", [""]),
    ],
)
def test_columns_are_at_their_times(by: str, keys: list[str]) -> None:
    rows = [Statistics(key, prompts=1, sessions=1) for key in keys]
    image = ElementTree.fromstring(chart(by, StatisticsReport(rows, add_up("total", rows))))
    starts = [
        float(rect.get("x", ""))
        for group in image.iter()
        if group.tag.endswith("}g")
        for rect in group.iter()
        if rect.tag.endswith("rect")
    ]
    assert len(starts) == len([key for key in keys if key]) or keys == [""]
    if len(starts) == 3:
        assert starts[1] - starts[0] != pytest.approx(starts[2] - starts[1])
    assert all(0 < start < WIDTH for start in starts)


def test_one_format_is_printed(run: Run) -> None:
    for words in (("--csv", "--svg"), ("--svg", "--json"), ("--csv", "--json")):
        assert "cannot be combined" in run("stats", *words, code=2, err=True)
    assert "no events found" in run("stats", "--svg", "--since", "2030-01-01", code=1, err=True)


def test_each_cell_of_a_large_table_is_measured_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar that measured all cells would make the table quadratic: 10,000 sessions took minutes."""
    groups = [Statistics(f"s{number}", sessions=1, output_tokens=number) for number in range(300)]
    report = StatisticsReport(groups, add_up("total", groups))
    measured: list[str] = []
    monkeypatch.setattr(stats, "len", lambda text: measured.append(text) or builtins.len(text), raising=False)
    assert len(list(stats._table("session", report))) == 302
    assert len(measured) < 302 * 40
