"""Tests of the report about sessions that their agent will soon delete and that are stored nowhere else."""

from __future__ import annotations

import os
import re
from pathlib import Path

import claude_code
import pytest
from builders import joined
from commands import Run, document, here, run

from gitsession.discovery import expiry
from gitsession.discovery.expiry import ExpiryForecast, retention_days

__all__ = ["here", "run"]

DAY_MS = 86_400_000
NOW_MS = 1_000 * DAY_MS

SETTINGS = {
    "nothing": (b"", 30),
    "no word of it": (b'{"theme":"dark"}', 30),
    "a week": (b'{\n  "cleanupPeriodDays": 7\n}\n', 7),
    "years": (b'{"cleanupPeriodDays":99999}', 99999),
    "none, which the program does not take": (b'{"cleanupPeriodDays":0}', 30),
    "for ever": (b'{"cleanupPeriodDays":1e400}', 1_000_000),
    "words": (b'{"cleanupPeriodDays":"7"}', 30),
    "yes": (b'{"cleanupPeriodDays":true}', 30),
    "no JSON": (b"{", 30),
    "a list": (b"[]", 30),
}


@pytest.mark.parametrize(("settings", "days"), SETTINGS.values(), ids=SETTINGS)
def test_retention_in_days_is_read_from_the_settings(settings: bytes, days: int) -> None:
    assert retention_days(settings) == days


def reckoned(*ages_days: float, days: int = 30) -> ExpiryForecast:
    return expiry.forecast([(int(NOW_MS - age * DAY_MS), False) for age in ages_days], days, NOW_MS)


def test_sessions_that_expire_within_a_week_include_overdue_ones() -> None:
    found = reckoned(0, 22.9, 23, 29, 30, 400)
    assert (found.files, found.soon, found.overdue) == (6, 4, 2)


def test_short_retention_makes_all_sessions_expire_soon() -> None:
    assert (reckoned(0, 1, days=3).soon, reckoned(0, 1, days=3).overdue) == (2, 0)


def test_a_clock_that_was_set_back_deletes_nothing() -> None:
    assert reckoned(-1, -400).soon == 0


def test_no_sessions_no_sweep() -> None:
    assert reckoned() == ExpiryForecast(30, 0, 0, 0, 0)


def test_those_that_are_nowhere_else_are_counted() -> None:
    files = [(0, True), (0, False), (NOW_MS, False)]
    assert expiry.forecast(files, 30, NOW_MS).not_imported == 1


@pytest.fixture
def sessions(here: Path) -> list[Path]:
    """Create three session files of Claude Code: from today, 25 days ago and a year ago."""
    folder = Path.home() / ".claude/projects/-work"
    folder.mkdir(parents=True)
    found = []
    for number, age in enumerate((0, 25, 365)):
        path = folder / f"{number}{claude_code.SESSION[1:]}.jsonl"
        path.write_bytes(joined(*claude_code.talk("a", "b")))
        written = path.stat().st_mtime - age * 86_400
        os.utime(path, (written, written))
        found.append(path)
    return found


def test_doctor_reports_expiring_sessions(run: Run, sessions: list[Path]) -> None:
    told = run("doctor", code=3)
    assert "without new messages for 30 days: 2 of 3 within 7 days, 1 of them when it next starts; 2 not" in told
    run("import", str(sessions[2]))
    assert re.search(r"^--  sweep .*; 1 not imported", run("doctor"), re.MULTILINE)
    facts = document(run("doctor", "--json"))
    assert facts["notes"] == ["sweep"]
    assert "; 1 not imported in their present state: run `gitsession import --all`" in facts["facts"]["sweep"]
    assert facts["problems"] == []
    run("import", "--all")
    assert document(run("doctor", "--json"))["notes"] == []


def test_doctor_uses_the_settings(run: Run, sessions: list[Path]) -> None:
    (Path.home() / ".claude/settings.json").write_text('{"cleanupPeriodDays": 1000}')
    run("init")
    assert "for 1,000 days: none of 3 within 7 days" in run("doctor")


def test_doctor_has_no_expiry_without_claude_code(run: Run, here: Path) -> None:
    run("init")
    assert "sweep" not in document(run("doctor", "--json"))["facts"]


def test_first_import_reports_the_saved_sessions(run: Run, sessions: list[Path]) -> None:
    told = document(run("import", "--all", "--dry-run", "--json"))["sweep"]
    assert told == {"days": 30, "files": 3, "soon": 2, "overdue": 1, "not_imported": 2}
    assert "2 of 3 within 7 days, 1 of them when it next starts; all of them are" in run("import", "--all")
    assert "within" not in run("import", "--all", code=0)
    assert document(run("import", "--all", "--json"))["sweep"]["not_imported"] == 0
    sessions[1].write_bytes(sessions[1].read_bytes() + claude_code.user("c", "b") + b"\n")
    assert "sweep" not in document(run("import", str(sessions[0]), "--json"))


def test_expiring_sessions_are_reported_without_a_store(run: Run, sessions: list[Path]) -> None:
    assert "2 of 3 within 7 days, 1 of them when it next starts; 2 not imported" in run()
    for path in sessions[1:]:
        path.unlink()
    assert "within" not in run()
