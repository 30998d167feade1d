"""What is said of sessions that their agent will soon delete."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.cli.output import count

if TYPE_CHECKING:
    from gitsession.discovery.expiry import ExpiryForecast
    from gitsession.index.catalogue import Catalogue


def look(catalogue: Catalogue | None) -> ExpiryForecast:
    """``catalogue``: of the store; ``None`` where there is none."""
    from gitsession.discovery import expiry as sweep

    def is_imported(path: Path, stat: os.stat_result) -> bool:
        return catalogue is not None and catalogue.seen(path, stat) is not None

    return sweep.look(Path.home(), os.environ, time.time_ns() // 1_000_000, is_imported)


def words(sweep: ExpiryForecast) -> str:
    from gitsession.discovery.expiry import SOON_DAYS

    after = f"Claude Code deletes sessions that nobody wrote to for {count(sweep.days, 'day')}"
    if not sweep.soon:
        return f"{after}: none of {sweep.files:,} within {SOON_DAYS} days"
    told = f"{after}: {sweep.soon:,} of {sweep.files:,} within {SOON_DAYS} days"
    told += f", {sweep.overdue:,} of them when it next starts" if sweep.overdue else ""
    if not sweep.not_imported:
        return f"{told}; all of them are kept here"
    return f"{told}; {sweep.not_imported:,} not imported as they are now: `gitsession import --all` keeps them"
