"""The headline of a commit message: a few words, taken from the payload once and for ever. FROZEN under view 1.

A message is part of a commit's id, so how it is made is frozen under a number (docs/reference/format.md).
``Headline`` is what the makers of views (``codec`` for our payloads, ``formats`` for agents') hand to the writer of
messages: it says which words, the writer says how they are cleaned, cut and laid out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TOMBSTONE = "tombstone"
"""Kind and author of what stands where a purged entry stood; here, so that who reads commits need not load entries."""
FORK = "fork"
"""Kind of the first entry of a forked session; here for the same reason."""

VIEW = 1
"""The number that new sessions begin with. A session keeps the number its root states."""

# No table of Unicode properties is consulted: those change with the release of Python.
_SURROGATES = re.compile("[\ud800-\udfff]")
_UNSAFE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """``kind``: the ``Entry`` trailer; ``role``: the author; ``label``: what stands before the colon of the subject.

    ``at_ms``: the time the payload states, ``None`` if it states none (the entry then takes its parent's).
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
        """The same, of a payload that states this time."""
        return Headline(
            kind=self.kind, role=self.role, label=self.label, words=self.words, calls=self.calls, body=self.body,
            model=self.model, at_ms=at_ms,
        )  # fmt: skip


def clean(text: str) -> str:
    """``text`` without control, bidirectional and invisible characters: it cannot drive a terminal or hide words.

    Line ends stay, a tab becomes a space.
    """
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub("", _SURROGATES.sub("\ufffd", text.replace("\t", " ")))


def tokens(count: int) -> str:
    """``61k`` for 61,234: thousands, rounded half up; below 1,000 the number itself."""
    return str(count) if count < 1000 else f"{(count + 500) // 1000}k"


def lines(text: str) -> str:
    """``14 lines``: how much a tool gave back."""
    count = text.count("\n") + (not text.endswith("\n")) if text else 0
    return "no output" if not count else "1 line" if count == 1 else f"{count} lines"


def first_line(text: str) -> str:
    """The first line with something on it. Spaces by name: what ``str.strip`` takes for one grows with Unicode."""
    return text.lstrip(" \t\r\n").partition("\n")[0].rstrip(" \t\r")
