"""Words for a terminal: clean, in colour where a person watches, as long and as wide as there is room for."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from gitsession.model.headline import clean

_FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))

_COLUMNS, _LINES = 100, 24
"""Columns, if the size of the terminal is unknown."""


def paint(text: str, **style: Any) -> str:
    """``text``, safe, and in colour where colour is wanted."""
    safe = clean(text)
    return click.style(safe, **style) if style and wants_color() else safe


def wants_color() -> bool:
    """Return whether standard output is a terminal, and nobody has asked for plain text."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def clock(at_ms: int) -> str:
    """A time as people read it: local, to the minute."""
    if at_ms <= 0:
        return "-"
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ms / 1000))
    except (OverflowError, ValueError, OSError):
        return "-"


def on_a_line(text: str) -> str:
    """Return ``text``, safe and without line ends, with which a name could pass for a line of ours."""
    return clean(text).replace("\n", " ")


def shell_words(words: Iterable[str]) -> str:
    """Return a command line that a shell reads back as ``words``, and that cannot drive a terminal.

    A word with characters that would not be printed is quoted as ``$'...'`` (bash, ksh, zsh).
    """
    return " ".join(shlex.quote(word) if on_a_line(word) == word else _escaped(word) for word in words)


def _escaped(word: str) -> str:
    try:
        data = os.fsencode(word)
    except UnicodeEncodeError:
        data = word.encode("utf-8", "replace")  # half a character, which no file name and no argument can hold
    safe = (chr(byte) if 0x20 <= byte < 0x7F and byte not in b"'\\" else f"\\x{byte:02x}" for byte in data)
    return f"$'{''.join(safe)}'"


def shorten(text: str, width: int) -> str:
    """Return ``text`` on one line of at most ``width`` columns, with no joined characters cut apart."""
    safe = " ".join(clean(text).split())
    if columns(safe) <= width:
        return safe
    if safe.isascii():
        return safe[: max(width - 1, 0)] + "…"
    from rich.cells import set_cell_size

    cut = set_cell_size(safe, max(width - 1, 0)).rstrip()
    letters = len(cut) - len(cut.rstrip(_FLAG_LETTERS))  # two make a flag, and rich cuts between them
    return cut[: len(cut) - letters % 2] + "…"


def columns(text: str) -> int:
    """Return how many columns ``text`` takes: one of Chinese takes two, as do a flag and emoji that are joined."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # only here: a list of plain titles must start fast

    return cell_len(text)


def pad(text: str, width: int) -> str:
    """Return ``text`` with spaces behind it, ``width`` columns in all."""
    return text + " " * (width - columns(text))


def width() -> int:
    """Return the number of columns: the terminal's, or ``$COLUMNS``."""
    return terminal_size()[0]


def terminal_size() -> tuple[int, int]:
    """Return how many columns and lines there are."""
    columns, lines = os.environ.get("COLUMNS", ""), os.environ.get("LINES", "")
    try:
        size = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1)
    except (OSError, ValueError):
        size = os.terminal_size((_COLUMNS, _LINES))
    # A terminal whose size nobody set says 0: as `script` and other programs make them.
    return (
        int(columns) if columns.isdigit() else size.columns or _COLUMNS,
        int(lines) if lines.isdigit() else size.lines or _LINES,
    )


def count(number: int, one: str, many: str = "") -> str:
    """``1 entry``, ``1,018 entries``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def first(lines: Sequence[str], most: int, rest: str, *, indent: str = "") -> Iterator[str]:
    """The first of ``lines``, each indented, and how many more there are; ``rest`` ends that sentence."""
    yield from (indent + line for line in lines[:most])
    if len(lines) > most:
        yield f"{indent}... and {len(lines) - most:,} more{rest}"
