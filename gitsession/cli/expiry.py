"""Forecast of the session files that agents will delete."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gitsession.discovery import expiry
from gitsession.discovery.expiry import SOON_DAYS, ExpiryForecast
from gitsession.index.catalogue import Catalogue
from gitsession.line_text import count


def forecast_expiry(catalogue: Catalogue | None) -> ExpiryForecast:
    """Return the forecast of the session files that agents will delete.

    ``catalogue``: the catalog of the store, or ``None`` if there is no store.
    """

    def is_imported(path: Path, stat: os.stat_result) -> bool:
        return catalogue is not None and catalogue.seen(path, stat) is not None

    return expiry.forecast_here(Path.home(), os.environ, time.time_ns() // 1_000_000, is_imported)


def expiry_text(sweep: ExpiryForecast) -> str:
    after = f"Claude Code deletes sessions without new messages for {count(sweep.days, 'day')}"
    if not sweep.soon:
        return f"{after}: none of {sweep.files:,} within {SOON_DAYS} days"
    text = f"{after}: {sweep.soon:,} of {sweep.files:,} within {SOON_DAYS} days"
    text += f", {sweep.overdue:,} of them when it next starts" if sweep.overdue else ""
    if not sweep.not_imported:
        return f"{text}; all of them are in this store"
    return f"{text}; {sweep.not_imported:,} not imported in their present state: run `gitsession import --all`"
