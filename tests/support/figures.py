"""Sizes of the tests: one for every run and one for deep runs of several minutes (``GITSESSION_DEEP=1``)."""

from __future__ import annotations

import os

DEEP = bool(os.environ.get("GITSESSION_DEEP"))


def figure(every_run: int, deep: int) -> int:
    """Return the number of rounds, inputs or seconds for this run."""
    return deep if DEEP else every_run
