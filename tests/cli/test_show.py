"""Tests of ``gitsession show`` with tool calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import joined
from claude_code import SESSION, assistant, call, user
from commands import Run, document


def shown(run: Run, here: Path, *blocks: Any) -> list[str]:
    """Return the lines of the content of an answer."""
    (here / f"{SESSION}.jsonl").write_bytes(joined(user("a", None), assistant("b", "a", *blocks)))
    run("import", f"{SESSION}.jsonl")
    [row] = document(run("ls", "--json"))["sessions"]
    return run("show", row["session"]).partition("\n\n")[2].splitlines()


@pytest.mark.parametrize(
    "arguments",
    [
        {"description": "List files", "command": "ls\ndate"},
        {"workdir": "/w", "cmd": "ls\ndate"},
        {"workdir": "/w", "command": ["bash", "-lc", "ls\ndate"]},
    ],
    ids=["description first", "folder first", "list"],
)
def test_the_whole_command_is_shown(run: Run, here: Path, arguments: dict[str, Any]) -> None:
    assert shown(run, here, call("c", "Bash", **arguments)) == ["    -> Bash: ls", "    date"]


def test_names_cannot_imitate_other_lines(run: Run, here: Path) -> None:
    lines = shown(
        run,
        here,
        call("c", "Write", file_path="a\nb\x1b[31m", content="1\n"),
        call("d", "x\ny\x1b[31m", other=1),
        {"type": "un\nknown\x1b[31m"},
    )
    assert all(line.startswith("    ") and "\x1b" not in line for line in lines)
