"""Tests of ``gitsession stats``: every event counts once, in the group in which it belongs."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from builders import joined
from claude_code import SESSION, assistant, call, result, user
from commands import Run, document

from gitsession.index.catalogue import _prepare
from gitsession.index.derived import connect
from gitsession.index.statistics import statistics

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
    lines = [assistant("x", None, call("c1", "Write", file_path="a", content="1\n")), user("y", "x", [failed])]
    (here / f"{OTHER}.jsonl").write_bytes(joined(*lines).replace(SESSION.encode(), OTHER.encode()))
    run("import", f"{OTHER}.jsonl")
    row = groups(run, "--by", "agent")["claude"]
    assert (row["calls"], row["failures"], row["added"]) == (3, 1, 3)


@pytest.mark.parametrize("at_ms", [-1, 0, 253_402_300_800_000, 2**63 - 1])
@pytest.mark.parametrize("by", ["day", "week", "month"])
def test_events_without_a_valid_time_are_in_a_group(at_ms: int, by: str) -> None:
    db = connect(":memory:", _prepare, ())
    db.execute("INSERT INTO answers VALUES ('s', 'a', 3, 1, 2, 0, 0, 0, ?, NULL, 'o')", (at_ms,))
    db.execute("INSERT INTO answers VALUES ('s', 'b', 3, 1, 2, 0, 0, 0, 1000000000000, NULL, 'o')")
    names = "sid, start, agent, created_ms, updated_ms, entries, active, tokens, superseded, view, delegated, copied"
    db.execute(
        f"INSERT INTO sessions ({names}, counted, waiting, cost, changed) "
        "VALUES ('s', 'o', 'pi', 0, 0, 1, 'main', 3, '[]', 1, 0, 0, 3, 0, 0, 0)"
    )
    unknown, known = statistics(db, ["s"], by)
    assert (unknown.key, unknown.tokens, known.key[:7]) == ("", 3, "2001-09")


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
