"""The text of a commit message, taken from the payload. FROZEN under view 1.

A message is part of a commit's id, so the rules for it are frozen under a view number (docs/reference/format.md).
The modules that create views (``codec`` for gitsession's payloads, ``formats`` for agents') choose the text and return
a ``Headline``; ``codec.message`` cleans, cuts and formats it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TOMBSTONE = "tombstone"
"""Kind and author of a tombstone. It is defined here so that readers of commits need not load the entries."""
FORK = "fork"
"""Kind of the first entry of a forked session; defined here for the same reason."""

VIEW = 1
"""The view number of new sessions. A session keeps the number that its root states."""

# No table of Unicode properties is used, because those change with the release of Python.
_SURROGATES = re.compile("[\ud800-\udfff]")
_UNSAFE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """The parts of a commit message.

    ``kind``: the ``Entry`` trailer. ``role``: the author. ``label``: the subject before the colon. ``calls``: the
    number of tool calls. ``at_ms``: the time that the payload states; if it is ``None``, the entry has the time of its
    parent.
    """

    kind: str
    role: str = "session"
    label: str
    words: str = ""
    calls: int = 0
    body: str = ""
    model: str = ""
    at_ms: int | None = None

    def at(self, at_ms: int | None) -> Headline:
        """Return a copy with another time."""
        return Headline(
            kind=self.kind, role=self.role, label=self.label, words=self.words, calls=self.calls, body=self.body,
            model=self.model, at_ms=at_ms,
        )  # fmt: skip


def clean(text: str) -> str:
    """Return ``text`` without control, bidirectional and invisible characters, which could control a terminal.

    Line ends stay, a tab becomes a space.
    """
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub("", _SURROGATES.sub("\ufffd", text.replace("\t", " ")))


def tokens(count: int) -> str:
    """Return a number of tokens as text: ``61k`` for 61,234 (rounded half up), and numbers below 1,000 in full."""
    return str(count) if count < 1000 else f"{(count + 500) // 1000}k"


def lines(text: str) -> str:
    """Return the size of a tool's output as text, such as ``14 lines``."""
    count = text.count("\n") + (not text.endswith("\n")) if text else 0
    return "no output" if not count else "1 line" if count == 1 else f"{count} lines"


def first_line(text: str) -> str:
    """Return the first line that is not blank.

    The white space is listed because the set that ``str.strip`` uses grows with Unicode.
    """
    return text.lstrip(" \t\r\n").partition("\n")[0].rstrip(" \t\r")
