"""The text of a commit message, taken from the payload. FROZEN under view 1.

The message determines the id of the commit. Its rules are therefore frozen under a view number
(docs/reference/format.md). The modules that decode payloads (``codec`` for gitsession's payloads, ``formats`` for
agents' payloads) return a ``Headline``. ``codec.message`` cleans, shortens and formats its text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

TOMBSTONE = "tombstone"
"""Kind and author of a tombstone, defined here so that code that reads commits need not import the entries."""
FORK, CHECKPOINT = "fork", "checkpoint"
"""Kinds of the first entry of a fork, and of a checkpoint, defined here for the same reason."""

VIEW = 1
"""The view number of new sessions. A session always keeps the number in its root."""

# Tables of Unicode properties are not used, because they change between releases of Python.
# The patterns are compiled when they are first used, because few texts need them.
_SURROGATES = "[\ud800-\udfff]"
_UNSAFE = (
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


class Headline(NamedTuple):
    """The parts of a commit message.

    ``kind``: the value of the ``Entry`` trailer. ``role``: the author. ``label``: the part of the subject before the
    colon. ``calls``: the number of tool calls. ``at_ms``: the time in the payload, Unix time in ms; if it is ``None``,
    the entry has the time of its parent.
    """

    kind: str
    label: str
    role: str = "session"
    words: str = ""
    calls: int = 0
    body: str = ""
    model: str = ""
    at_ms: int | None = None

    def at(self, at_ms: int | None) -> Headline:
        """Return a copy with another time."""
        return Headline(*self[:-1], at_ms)


def clean(text: str) -> str:
    """Return ``text`` without control, bidirectional and invisible characters, which could manipulate a terminal.

    Line ends are not removed. A tab becomes a space.
    """
    if text.isascii():
        if text.isprintable():
            return text
        text = text.replace("\t", " ")
        return text if text.replace("\n", "").isprintable() else re.sub(_UNSAFE, "", text)
    return re.sub(_UNSAFE, "", re.sub(_SURROGATES, "\ufffd", text.replace("\t", " ")))


def format_tokens(count: int) -> str:
    """Return a number of tokens as text: in full below 1,000, else in thousands (``61k`` for 61,234), rounded half up.

    This text is part of commit messages.
    """
    return str(count) if count < 1000 else f"{(count + 500) // 1000}k"


def line_count(text: str) -> str:
    """Return the size of a tool's output as text, such as ``14 lines``."""
    count = text.count("\n") + (not text.endswith("\n")) if text else 0
    return "no output" if not count else "1 line" if count == 1 else f"{count} lines"


def first_line(text: str) -> str:
    """Return the first line that is not blank.

    White space characters are listed explicitly, because the characters that ``str.strip`` removes change with Unicode.
    """
    return text.lstrip(" \t\r\n").partition("\n")[0].rstrip(" \t\r")
