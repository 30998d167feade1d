"""Times as agents write them, to milliseconds since 1970, UTC.

Own arithmetic, not ``datetime.fromisoformat``: a start time is part of a session's name, and what that function accepts
differs between Python releases. FROZEN with view 1, as ``pi.headline`` is: an entry's time is part of its oid.
"""

from __future__ import annotations

import re
from datetime import date

INT_MAX = 2**53
"""Beyond it JavaScript's numbers are no longer whole: no agent means such a time."""


def to_ms(value: object) -> int | None:
    """Milliseconds for an ISO 8601 text (UTC where it names no zone) or a number of them; ``None`` for the rest."""
    if type(value) is int:
        return value if 0 <= value < INT_MAX else None
    if not isinstance(value, str):
        return None
    found = _ISO.fullmatch(value)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, off_hour, off_minute = found.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        return None
    seconds = ((days * 24 + int(hour)) * 60 + int(minute)) * 60 + int(second or 0)
    if sign:
        away = (int(off_hour) * 60 + int(off_minute)) * 60
        seconds += away if sign == "-" else -away
    return seconds * 1000 + int(fraction[:3].ljust(3, "0") if fraction else 0)


def to_iso(at_ms: int) -> str:
    """The inverse, in UTC with milliseconds; a time that four digits of a year cannot say is the nearest that can."""
    seconds, ms = divmod(min(max(at_ms, 0), _LAST), 1000)
    days, seconds = divmod(seconds, 86_400)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}Z"
    return f"{date.fromordinal(_EPOCH + days).isoformat()}T{clock}"


_EPOCH = date(1970, 1, 1).toordinal()
_LAST = (date.max.toordinal() - _EPOCH + 1) * 86_400_000 - 1
_ISO = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:\.([0-9]+))?)?"
    r"(?:Z|([+-])([0-9]{2}):?([0-5][0-9]))?"
)
