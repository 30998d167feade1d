"""The promises of docs/reliability.md at the figures that no test run has the time for: `python -m benchmarks.deep`.

Each module here (but ``__main__``) is about some promises and has

    PROMISES = ("P7", "P8")               what it tries to break
    def faults(seed) -> Iterator[Fault]    without end, or until all there are have been injected

A ``Fault`` is called, injects, judges, and returns how many faults that were (``None``: one); what it raises is a fault
that was not survived. Adding a promise is adding a file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

Fault: TypeAlias = Callable[[], int | None]

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "tests" / each) for each in ("support", "")]
