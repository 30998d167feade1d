"""Text of one line, and styles: the parts from which the screens build their lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from gitsession.line_text import clock, columns, cut
from gitsession.model.headline import clean

Part: TypeAlias = tuple[str, str]
"""A text without control characters and line ends, and the name of its style in ``STYLES``."""

STYLES = {
    "": Style(),
    "dim": Style(dim=True),
    "bold": Style(bold=True),
    "user": Style(color="green"),
    "assistant": Style(color="cyan"),
    "tool": Style(color="yellow"),
    "mark": Style(bold=True, color="magenta"),
    "error": Style(color="red"),
    "added": Style(color="green"),
    "removed": Style(color="red"),
    "here": Style(bold=True, color="green"),
    "cursor": Style(reverse=True),
}
"""The 16 colors of the terminal, so that its own palette applies. Nothing is shown by color alone."""

ROLE_STYLES = {"user": "user", "assistant": "assistant", "tool": "tool", "shell": "tool"}

_CHARS_MAX = 2000


def one_line(text: str) -> str:
    """Return the beginning of ``text`` on one line, without characters that could control a terminal."""
    return " ".join(clean(text[:_CHARS_MAX]).split())


def strip_of(parts: Iterable[Part], width: int, *, selected: bool = False) -> Strip:
    """Return a line of exactly ``width`` columns. The line under the cursor is shown in reverse video."""
    segments: list[Segment] = []
    room = width
    for text, style in parts:
        shown = cut(text, room)
        segments.append(Segment(shown, STYLES["cursor"] if selected else STYLES[style]))
        room -= columns(shown)
        if shown != text:
            break
    if room > 0:
        segments.append(Segment(" " * room, STYLES["cursor"] if selected else STYLES[""]))
    return Strip(segments, width)


def fit(parts: Iterable[Part], end: Sequence[Part], width: int) -> list[Part]:
    """Return ``parts``, cut so that ``end`` fits after them in ``width`` columns, and then ``end``."""
    room = width - sum(columns(text) for text, _ in end)
    found: list[Part] = []
    for text, style in parts:
        shown = cut(text, room)
        found.append((shown, style))
        room -= columns(shown)
        if shown != text:
            break
    return [*found, *end]


def age(at_ms: int, now_ms: int) -> str:
    """Return the age of a time (Unix time in ms) such as ``5m``, ``3h`` or ``12d``; the date if it is older."""
    seconds = (now_ms - at_ms) // 1000
    if at_ms <= 0:
        return "-"
    for unit, size, limit in (("s", 1, 60), ("m", 60, 3600), ("h", 3600, 86_400), ("d", 86_400, 30 * 86_400)):
        if seconds < limit:
            return f"{max(seconds, 0) // size}{unit}"
    return clock(at_ms)[:10]
