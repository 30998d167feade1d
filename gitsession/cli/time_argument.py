"""A time as a user says it."""

from __future__ import annotations

import time

import click

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class Since(click.ParamType[int]):
    """A date, or how long ago: 2026-11-21, 30m, 12h, 3d, 2w. Gives ms since 1970."""

    name = "when"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value[-1:] in _UNITS and value[:-1].isdigit() and len(value) < 10:
            return int((time.time() - int(value[:-1]) * _UNITS[value[-1]]) * 1000)
        try:
            return int(time.mktime(time.strptime(value, "%Y-%m-%d")) * 1000)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is neither a date (2026-11-21) nor a time ago (30m, 12h, 3d, 2w)", param, ctx)
