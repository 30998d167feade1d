"""Text for a terminal: removal of control characters, color, and adaptation to the size of the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gitsession.line_text import count, on_a_line
from gitsession.model.headline import clean

_COLUMNS, _LINES = 100, 24
"""Number of columns and lines if the size of the terminal is unknown."""

DIFF_COLORS = {"+": "green", "-": "red", "@": "cyan"}
"""The color of a line of a diff, by its first character."""


def paint(text: str, **style: Any) -> str:
    """Return ``text`` without control characters, and with a style if color is enabled."""
    safe = clean(text)
    if not style or not wants_color():
        return safe
    from click import style as styled  # slow to import, and not required for the status line of an agent

    return styled(safe, **style)


def wants_color() -> bool:
    """Return whether color is enabled: standard output is a terminal with colors, and ``NO_COLOR`` is not set."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


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


def archived_text(sessions: int, *, has_remotes: bool) -> str:
    """Return the message that sessions were archived."""
    return f"archived {count(sessions, 'session')}" + (
        "; run `gitsession sync` to update the archive of the remotes" if has_remotes else ""
    )


def first(lines: Sequence[str], most: int, rest: str, *, indent: str = "") -> Iterator[str]:
    """Yield at most ``most`` of ``lines``, indented. If there are more, also yield a line with their number.

    ``rest``: text at the end of that line, after the number.
    """
    yield from (indent + line for line in lines[:most])
    if len(lines) > most:
        yield f"{indent}... and {len(lines) - most:,} more{rest}"
