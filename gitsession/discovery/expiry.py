"""Forecast of the number of session files that an agent will delete soon."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gitsession.dataclass import dataclass
from gitsession.discovery import discover
from gitsession.formats import ROOTS
from gitsession.formats.base import jsonl
from gitsession.formats.claude.agent import claude

SOON_DAYS = 7

SETTINGS = "settings.json"
"""The name of Claude Code's settings file in ``SearchRoot.home``."""

DAYS = 30
DAYS_MIN = 1
DAYS_MAX = 1_000_000
"""The maximum number of days. It is so large that files are effectively never deleted."""

_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class ExpiryForecast:
    """A forecast of deletions.

    ``days``: the number of days after which the agent deletes an unchanged file. ``files``: the number of files.
    ``soon``: the number of files that the agent will delete within ``SOON_DAYS`` days. ``overdue``: the number of these
    files that may be deleted now. ``not_imported``: the number of these files whose current content is not in the
    store.
    """

    days: int
    files: int
    soon: int
    overdue: int
    not_imported: int


def forecast(files: Iterable[tuple[int, bool]], days: int, now_ms: int) -> ExpiryForecast:
    """Return the forecast for ``files``.

    ``files``: for each file, the Unix time in ms of its last change, and whether it is imported. ``now_ms``: the
    current Unix time in ms.
    """
    remaining = [(written_ms + days * _DAY_MS - now_ms, is_imported) for written_ms, is_imported in files]
    soon = [(left_ms, is_imported) for left_ms, is_imported in remaining if left_ms <= SOON_DAYS * _DAY_MS]
    overdue = sum(left_ms <= 0 for left_ms, _ in soon)
    return ExpiryForecast(days, len(remaining), len(soon), overdue, sum(not is_imported for _, is_imported in soon))


def forecast_here(
    home: Path, environment: Mapping[str, str], now_ms: int, is_imported: Callable[[Path, os.stat_result], bool]
) -> ExpiryForecast:
    """Return the forecast for the Claude Code sessions on this machine.

    No other supported agent deletes sessions.
    """
    base = discover.base_of(ROOTS[claude.AGENT][0], home, environment)
    found = []
    for path, _ in discover.find_all(home, environment, agent=claude.AGENT):
        try:
            stat = path.stat()
        except OSError:
            continue  # deleted in the meantime
        found.append((stat.st_mtime_ns // 1_000_000, is_imported(path.absolute(), stat)))
    try:
        settings = (base / SETTINGS).read_bytes()
    except OSError:
        settings = b""
    return forecast(found, retention_days(settings), now_ms)


def retention_days(settings: bytes) -> int:
    """Return the number of days after which Claude Code deletes an unchanged session.

    ``settings``: the content of the settings file. If the file sets no valid number of days, the result is ``DAYS``.
    """
    found = jsonl.parse(settings)
    stated = found.get("cleanupPeriodDays") if isinstance(found, dict) else None
    if not isinstance(stated, int | float) or isinstance(stated, bool) or stated < DAYS_MIN:
        return DAYS
    return int(min(stated, DAYS_MAX))
