"""Work counted in calls of functions: it grows with the input, not with its square."""

from __future__ import annotations

import sys
from collections.abc import Callable

FEW, MANY = 100, 400


def calls_of(what: Callable[[], object]) -> int:
    """How many functions are called until ``what`` is done."""
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
    """Four times as much takes about four times as long: with squares it would be sixteen."""
    few, many = work(FEW), work(MANY)
    assert many < 6 * few, (few, many)
