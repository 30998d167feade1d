"""Tests of ``gitsession status-line``: the line, its input from Claude Code, and bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from builders import joined
from claude_code import SESSION, assistant, user
from commands import Run, document


@pytest.fixture(autouse=True)
def imported(run: Run, here: Path) -> None:
    (here / f"{SESSION}.jsonl").write_bytes(joined(user("a", None, "Fix the login"), assistant("b", "a")))
    run("import", f"{SESSION}.jsonl")
    run("ls")


def shown(text: bytes, *words: str) -> str:
    command = [sys.executable, "-m", "gitsession", "status-line", *words]
    return subprocess.run(command, input=text, capture_output=True, check=True, timeout=60).stdout.decode()


def test_the_line_of_a_session(run: Run) -> None:
    line = run("status-line", f"claude:{SESSION}", "--window", "150")
    assert line.startswith("15 tokens (10 % of 150) · ")
    assert line.endswith(" main · Fix the login\n")
    found = document(run("status-line", f"claude:{SESSION}", "--json"))
    assert (found["used"], found["window"], found["percent"]) == (15, None, None)
    assert found["model"] == "anthropic/claude-opus-4-8"


def test_claude_code_names_the_session_and_the_window() -> None:
    given = {"session_id": SESSION, "context_window": {"context_window_size": 1000}}
    assert shown(json.dumps(given).encode()).startswith("15 tokens (1.5 % of 1,000)")


USAGE = {"input_tokens": 5, "output_tokens": 20, "cache_creation_input_tokens": 25, "cache_read_input_tokens": 50}
GIVEN = {
    "session_id": SESSION, "transcript_path": "/nowhere", "model": {"id": "claude-opus-4-8", "display_name": "Opus"},
    "cost": {"total_cost_usd": 1.5}, "context_window": {"context_window_size": 1000, "current_usage": USAGE},
}  # fmt: skip


def test_the_values_of_claude_code_are_newer_than_the_stored_ones() -> None:
    line = shown(json.dumps(GIVEN).encode())
    assert line.startswith("Opus · 100 tokens (10 % of 1,000) · $1.50 · ")
    assert line.endswith(" main · Fix the login\n")
    assert json.loads(shown(json.dumps(GIVEN).encode(), "--json"))["model"] == "claude-opus-4-8"


def test_a_session_that_is_not_stored_has_the_values_of_claude_code() -> None:
    line = shown(json.dumps({**GIVEN, "session_id": "another"}).encode())
    assert line == "Opus · 100 tokens (10 % of 1,000) · $1.50 · no stored session\n"


def test_a_session_with_another_id_is_found_by_its_file(here: Path) -> None:
    given = {"session_id": "another", "transcript_path": str(here / f"{SESSION}.jsonl")}
    assert shown(json.dumps(given).encode()).endswith(" main · Fix the login\n")


@pytest.mark.parametrize("given", [GIVEN, {**GIVEN, "session_id": "another"}, {"session_id": SESSION}])
def test_the_fast_start_prints_the_same_line(given: dict[str, object], here: Path) -> None:
    text = json.dumps(given).encode()
    assert shown(text) == shown(text, "--window", "1000").replace(" (1.5 % of 1,000)", "")
    for store in (["--store", str(here / "no store")], [f"--store={here}/no store"]):
        done = subprocess.run(
            [sys.executable, "-m", "gitsession", *store, "status-line"], input=text, capture_output=True, check=False
        )
        assert done.returncode == 3
        assert b"it does not exist" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b'{"session_id": 1}',
        b'{"session_id": "another"}',
        b'{"context_window": []}',
        b"\xff",
        b'{"session_id": "\\ud800", "transcript_path": "\\ud800"}',
        b'{"session_id": "x", "model": {"display_name": 1}, "cost": {"total_cost_usd": 1e999}, "context_window": '
        b'{"current_usage": {"input_tokens": "1"}, "context_window_size": true}}',
    ],
)
def test_any_input_prints_one_line(text: bytes) -> None:
    assert shown(text) == "no stored session\n"
