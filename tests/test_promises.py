"""No promise without a test that tries to break it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from promises import PROMISES

TESTS = Path(__file__).parent


def marks_in(source: str) -> Iterator[str]:
    """What is said in every ``pytest.mark.promise(...)``, wherever it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.promise":
            yield from (word.value for word in node.args if isinstance(word, ast.Constant))


MARKED = {promise for path in TESTS.glob("test_*.py") for promise in marks_in(path.read_text("utf-8"))}


@pytest.mark.parametrize("promise", PROMISES)
def test_somebody_tries_to_break_it(promise):
    assert promise in MARKED


def test_no_mark_is_of_a_promise_that_nobody_made():
    assert set(PROMISES) >= MARKED


def test_marks_are_found_on_functions_and_on_classes_made_by_others():
    assert list(marks_in('@pytest.mark.promise("P1", "P2")\ndef test(): ...')) == ["P1", "P2"]
    assert list(marks_in('TestIt = pytest.mark.promise("P3")(Machine.TestCase)')) == ["P3"]
    assert list(marks_in('@pytest.mark.timeout(5)\ndef test(): "P4"')) == []
