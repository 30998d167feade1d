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


def shown(text: bytes) -> str:
    command = [sys.executable, "-m", "gitsession", "status-line"]
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


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"session_id": 1}', b'{"session_id": "another"}', b'{"context_window": []}', b"\xff"]
)
def test_any_input_prints_one_line(text: bytes) -> None:
    assert shown(text) == "no stored session\n"
