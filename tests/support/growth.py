"""Test helpers that count function calls, to check that work grows linearly with the input."""

from __future__ import annotations

import sys
from collections.abc import Callable

FEW, MANY = 100, 400


def calls_of(what: Callable[[], object]) -> int:
    """Return the number of function calls that ``what`` makes."""
    count = 0

    def one(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(one)
    try:
        what()
    finally:
        sys.setprofile(None)
    return count


def assert_in_step(work: Callable[[int], int]) -> None:
    """Fail unless four times the input takes less than six times the work.

    With quadratic growth, it would take sixteen times the work.
    """
    few, many = work(FEW), work(MANY)
    assert many < 6 * few, (few, many)
