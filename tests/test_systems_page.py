"""Tests of docs/reference/systems.md: its tests and rules exist, and each system has rows."""

from __future__ import annotations

import ast
import re

import pytest
from places import ROOT, TESTS

PAGE = (ROOT / "docs" / "reference" / "systems.md").read_text("utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGE)
RULES = {
    rule for found in re.findall(r" \(rules? ([^)]+)\) \|", PAGE) for rule in re.findall(r"[a-z]+-\d+|[A-Z]?\d+", found)
}


def names_of(file: str) -> set[str]:
    body = ast.parse((TESTS / file).read_text("utf-8")).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_each_named_test_exists(file: str) -> None:
    assert {name for named, name in NAMED if named == file} <= names_of(file)


@pytest.mark.parametrize(
    "system", ["All systems", "pi", "omp", "librecode", "codex", "opencode", "Claude Code", "Aider", "OpenOxide"]
)
def test_each_system_has_rows_with_tests(system: str) -> None:
    section = PAGE.partition(f"\n## {system}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 8
    assert all("::test_" in row or "not supported" in row for row in rows)


def test_each_rule_is_named_by_a_test_or_a_page() -> None:
    tests = "\n".join(path.read_text("utf-8") for path in TESTS.rglob("test_*.py"))
    pages = "\n".join(p.read_text("utf-8") for p in (ROOT / "docs").rglob("*.md") if p.name != "systems.md")
    words = set(re.findall(r"[a-z]+-\d+|[A-Z]\d+", tests + pages))
    for name in re.findall(r"def test_(?:rules?_)?((?:[a-z]?\d+_(?:and_)?)+)", tests):
        words |= {word.upper() for word in name.split("_")}
    assert RULES
    assert words >= RULES
