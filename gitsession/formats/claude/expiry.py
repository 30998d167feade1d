"""How long Claude Code leaves a session where it is: at each start it deletes what nobody wrote to for so long."""

from __future__ import annotations

from gitsession.formats.base import jsonl

SETTINGS = "settings.json"
"""Below ``Root.home``."""

DAYS = 30
DAYS_MIN = 1
DAYS_MAX = 1_000_000
"""As good as for ever."""


def days_kept(settings: bytes) -> int:
    """What its settings say; where they say nothing that it takes, what holds by default."""
    found = jsonl.parse(settings)
    stated = found.get("cleanupPeriodDays") if isinstance(found, dict) else None
    if not isinstance(stated, int | float) or isinstance(stated, bool) or stated < DAYS_MIN:
        return DAYS
    return int(min(stated, DAYS_MAX))
