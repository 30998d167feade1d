"""Tests of the promises: each has a test that tries to break it, and the names in the tables exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from places import ROOT, TESTS
from promises import PROMISES

from benchmarks.deep.__main__ import found
from benchmarks.mutants import BREAKS, Break


def marks_in(source: str) -> Iterator[str]:
    """Yield the arguments of every ``pytest.mark.promise(...)``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.promise":
            yield from (word.value for word in node.args if isinstance(word, ast.Constant))


FILES = TESTS.rglob("test_*.py")
MARKED_IN = {path.relative_to(ROOT).as_posix(): set(marks_in(path.read_text("utf-8"))) for path in FILES}
MARKED = set().union(*MARKED_IN.values())


def rows_of(page: str) -> Iterator[tuple[str, str]]:
    """Yield each promise of the table in docs/explanation/reliability.md, with each test file of its row."""
    for promises, files in re.findall(r"^\| (P[^|]*) \| ([^|]*) \|", page, re.MULTILINE):
        for first, last in re.findall(r"P(\d+)(?:–P(\d+))?", promises):
            for number in range(int(first), int(last or first) + 1):
                yield from ((f"P{number}", name) for name in re.findall(r"`(tests/[\w/]+\.py)`", files))


@pytest.mark.parametrize("promise", PROMISES)
def test_every_promise_has_a_test(promise):
    assert promise in MARKED


def test_every_mark_names_an_existing_promise():
    assert set(PROMISES) >= MARKED


def test_the_page_names_for_each_promise_files_that_try_to_break_it():
    rows = list(rows_of((ROOT / "docs/explanation/reliability.md").read_text("utf-8")))
    assert {promise for promise, _ in rows} == set(PROMISES)
    for promise in PROMISES:
        assert any(promise in MARKED_IN[name] for named, name in rows if named == promise), promise
    assert {name for promise, name in rows if promise in MARKED_IN[name]} == {name for _, name in rows}


def test_every_deep_module_names_its_promises():
    for module in found():
        assert set(PROMISES) >= set(module.PROMISES), module


@pytest.mark.parametrize("each", BREAKS, ids=lambda each: each.name)
def test_mutated_code_and_its_tests_exist(each: Break):
    text = (ROOT / "gitsession" / each.file).read_text("utf-8")
    for old, new in each.edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    for test in each.tests:
        file, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / file).read_text("utf-8")


def test_marks_are_found_on_functions_and_on_classes_made_by_others():
    assert list(marks_in('@pytest.mark.promise("P1", "P2")\ndef test(): ...')) == ["P1", "P2"]
    assert list(marks_in('TestIt = pytest.mark.promise("P3")(Machine.TestCase)')) == ["P3"]
    assert list(marks_in('@pytest.mark.timeout(5)\ndef test(): "P4"')) == []
