"""Text for a terminal: removal of control characters, color, and adaptation to the size of the terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gitsession.model.headline import clean

_FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))

_COLUMNS, _LINES = 100, 24
"""Number of columns and lines if the size of the terminal is unknown."""


def paint(text: str, **style: Any) -> str:
    """Return ``text`` without control characters, and with a style if color is enabled."""
    safe = clean(text)
    if not style or not wants_color():
        return safe
    from click import style as styled  # slow to import, and not required for the status line of an agent

    return styled(safe, **style)


def wants_color() -> bool:
    """Return whether color is enabled: standard output is a terminal, and ``NO_COLOR`` is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


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


def on_a_line(text: str) -> str:
    """Return ``text`` without control characters and line ends, so that it cannot imitate other lines of output."""
    return clean(text).replace("\n", " ")


def shell_command(arguments: Iterable[str]) -> str:
    """Return a command line that a shell parses as ``arguments``, and that cannot control a terminal.

    A word that contains control characters is quoted as ``$'...'`` (bash, ksh, zsh).
    """
    import shlex  # few commands print a command line

    return " ".join(shlex.quote(word) if on_a_line(word) == word else _escaped(word) for word in arguments)


def _escaped(word: str) -> str:
    try:
        data = os.fsencode(word)
    except UnicodeEncodeError:
        data = word.encode("utf-8", "replace")  # a word with a lone surrogate is not a file name
    safe = (chr(byte) if 0x20 <= byte < 0x7F and byte not in b"'\\" else f"\\x{byte:02x}" for byte in data)
    return f"$'{''.join(safe)}'"


def shorten(text: str, width: int) -> str:
    """Return ``text`` on one line of at most ``width`` columns. An emoji or flag is not split."""
    return cut(" ".join(clean(text).split()), width)


def cut(line: str, width: int) -> str:
    """Return the beginning of a line, with at most ``width`` columns. An emoji or flag is not split."""
    if columns(line) <= width:
        return line
    if _is_narrow(line):
        return line[: max(width - 1, 0)] + "…"
    from rich.cells import set_cell_size

    kept = set_cell_size(line, max(width - 1, 0)).rstrip()
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
    """Return ``text`` padded with spaces to ``width`` columns."""
    return text + " " * (width - columns(text))


def width() -> int:
    """Return the number of columns of the terminal, or the value of ``$COLUMNS``."""
    return terminal_size()[0]


def terminal_size() -> tuple[int, int]:
    """Return the number of columns and lines of the terminal."""
    columns, lines = os.environ.get("COLUMNS", ""), os.environ.get("LINES", "")
    try:
        size = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1)
    except (OSError, ValueError):
        size = os.terminal_size((_COLUMNS, _LINES))
    # A terminal whose size was never set, for example one that `script` creates, reports 0.
    return (
        int(columns) if columns.isdigit() else size.columns or _COLUMNS,
        int(lines) if lines.isdigit() else size.lines or _LINES,
    )


def count(number: int, one: str, many: str = "") -> str:
    """Return text such as ``1 entry`` or ``1,018 entries``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def short_number(number: int, *, zero: str = "-") -> str:
    """Return a number as short text, such as ``812``, ``6.1k``, ``61k`` or ``1.2M``; ``zero`` if it is 0."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number // (size // 10) / 10}{unit}" if number < 10 * size else f"{number // size}{unit}"
    return str(number) if number else zero


def changed_lines(added: int, removed: int) -> str:
    """Return numbers of added and removed lines as short text, such as ``+61k -812``."""
    return f"+{short_number(added, zero='0')} -{short_number(removed, zero='0')}"


def short_duration(seconds: int) -> str:
    """Return a duration as hours and minutes, such as ``4h07``; ``-`` if it is shorter than a minute."""
    return f"{seconds // 3600}h{seconds % 3600 // 60:02}" if seconds >= 60 else "-"


def first(lines: Sequence[str], most: int, rest: str, *, indent: str = "") -> Iterator[str]:
    """Yield at most ``most`` of ``lines``, indented. If there are more, also yield a line with their number.

    ``rest``: text at the end of that line, after the number.
    """
    yield from (indent + line for line in lines[:most])
    if len(lines) > most:
        yield f"{indent}... and {len(lines) - most:,} more{rest}"
