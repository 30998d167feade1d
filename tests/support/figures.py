"""How far a promise is tested: the figure of every run, and the deep one of minutes (``GITSESSION_DEEP=1``)."""

from __future__ import annotations

import os

DEEP = bool(os.environ.get("GITSESSION_DEEP"))


def figure(every_run: int, deep: int) -> int:
    """How many rounds, inputs or seconds."""
    return deep if DEEP else every_run
