"""Text on one line, for the command line and the terminal browser: its width in columns, times and counts."""

from __future__ import annotations

import time

from gitsession.model.headline import clean

_FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))


def on_a_line(text: str) -> str:
    """Return ``text`` without control characters and line ends, so that it cannot imitate other lines of output."""
    return clean(text).replace("\n", " ")


def shorten(text: str, width: int) -> str:
    """Return ``text`` on one line of at most ``width`` columns. An emoji or flag is not split."""
    return cut(" ".join(clean(text).split()), width)


def cut(line: str, width: int) -> str:
    """Return the beginning of a line, with at most ``width`` columns. An emoji or flag is not split."""
    if columns(line) <= width:
        return line
    if width <= 0:
        return ""
    if _is_narrow(line):
        return line[: width - 1] + "…"
    from rich.cells import set_cell_size

    kept = set_cell_size(line, width - 1).rstrip()
    letters = len(kept) - len(kept.rstrip(_FLAG_LETTERS))  # two letters form one flag, and rich splits between them
    return kept[: len(kept) - letters % 2] + "…"


def columns(text: str) -> int:
    """Return the width of ``text`` in columns. Chinese characters, flags and joined emoji take two columns."""
    if _is_narrow(text):
        return len(text)
    from rich.cells import cell_len  # slow to import, and rarely required

    return cell_len(text)


def _is_narrow(text: str) -> bool:
    """Return whether each character is known to take one column: Latin letters, and the mark of a shortened text."""
    return text.isascii() or max(text.replace("…", ""), default="") < "\u0300"


def pad(text: str, width: int) -> str:
    """Return a line of exactly ``width`` columns: ``text``, cut or padded with spaces."""
    kept = cut(text, width)
    return kept + " " * (width - columns(kept))


def clock(at_ms: int) -> str:
    """Return a Unix time in ms as text, in local time with minutes."""
    if at_ms <= 0:
        return "-"
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ms / 1000))
    except (OverflowError, ValueError, OSError):
        return "-"


_UNITS = ((60, 60, "min"), (24, 3600, "hour"), (14, 86_400, "day"), (10, 7 * 86_400, "week"))


def ago(at_ms: int, now_ms: int) -> str:
    """Return a Unix time in ms relative to ``now_ms``, such as ``3 hours ago``; as a date after ten weeks."""
    seconds = (now_ms - at_ms) // 1000
    if -60 < seconds < 60:
        return "just now"
    for most, size, unit in _UNITS if seconds > 0 else ():
        number = seconds // size
        if number < most:
            return f"{number} {unit}{'s' if number != 1 and unit != 'min' else ''} ago"
    return clock(at_ms)[: len("2026-02-01")]


def count(number: int, one: str, many: str = "") -> str:
    """Return text such as ``1 entry`` or ``1,018 entries``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
