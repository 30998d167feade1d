"""Tests of ``gitsession log --graph``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builders import pi_file, said, talk
from commands import Run

PARTS = re.compile(r"^([*x|/ ]*?)(?:[0-9a-f]{8}  .{16}  (.*))?$")


def drawn(text: str) -> list[str]:
    """Return the lines of a graph without ids and times."""
    return ["".join(part or "" for part in PARTS.fullmatch(line).groups()) for line in text.splitlines()]  # type: ignore[union-attr]


@pytest.fixture
def branched(run: Run, here: Path) -> Run:
    lines = [*talk("a", "b"), said("c", "b", at=3), said("x", "b", at=4), said("d", "c", role="assistant", at=5)]
    (here / "s.jsonl").write_bytes(pi_file(*lines, cwd=str(here)))
    run("import", "s.jsonl")
    return run


def test_all_branches_are_drawn(branched: Run) -> None:
    assert drawn(branched("log", "--graph", "@")) == [
        "* assistant: words of d  [*main]",
        "* user: words of c",
        "| * user: words of x  [zoou7vrm]",
        "|/",
        "* assistant: words of b",
        "* user: words of a",
        "* session: pi",
    ]


def test_graph_of_an_entry_is_its_history(branched: Run) -> None:
    assert drawn(branched("log", "--graph", "@@x"))[1:] == [
        "* assistant: words of b", "* user: words of a", "* session: pi",
    ]  # fmt: skip


def test_number_counts_entries(branched: Run) -> None:
    assert len(drawn(branched("log", "--graph", "@", "-n", "4"))) == 5


@pytest.mark.parametrize("other", [["--json"], ["-f"], ["--", "a.py"]])
def test_graph_excludes_other_forms(branched: Run, other: list[str]) -> None:
    assert "--graph cannot be combined with" in branched("log", "--graph", "@", *other, code=2, err=True)
