"""Long runs that test the promises of docs/explanation/reliability.md: `python -m benchmarks.deep`.

Each module here except ``__main__`` and ``large_store`` tests some promises and has

    PROMISES = ("P7", "P8")               the promises that it tries to break
    def faults(seed) -> Iterator[Fault]    without end, or until all faults that exist have been injected

A ``Fault`` is a callable that injects faults, checks the result, and returns the number of faults (``None``: one). If
it raises, the fault was not survived. To test another promise, add a file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

Fault: TypeAlias = Callable[[], int | None]

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "tests" / each) for each in ("support", "")]
