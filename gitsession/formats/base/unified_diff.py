"""A text that a unified diff changes."""

from __future__ import annotations

import re

_HUNK = re.compile(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+[0-9]{1,9}(?:,([0-9]{1,9}))? @@[^\n]*\n")
_NO_END = "\\ No newline at end of file"


def patched(held: str, diff: str) -> str | None:
    """What a unified ``diff`` makes of ``held``; ``None`` where it is not of that: each line it shows must stand there.

    Of the lines that it does not show it says nothing; whoever compares the outcome with a file compares those too.
    """
    rows = iter(_rows(diff))
    old, at = _lines(held), 0
    became: list[str] = []
    for row in rows:
        hunk = _HUNK.fullmatch(row)
        if hunk is None:
            return None
        start, lost, gained = int(hunk[1]), int(hunk[2] or 1), int(hunk[3] or 1)
        start -= lost > 0  # of no lines, it is the one before them
        if not at <= start <= len(old):
            return None
        became += old[at:start]
        at = start
        while lost > 0 or gained > 0:
            line = next(rows, "")
            mark, text = line[:1], line[1:]
            if mark not in (" ", "-", "+") or (mark != "+" and old[at : at + 1] != [text]):
                return None
            at, lost = at + (mark != "+"), lost - (mark != "+")
            gained -= mark != "-"
            became += [text] if mark != "-" else []
        if lost or gained:
            return None
    return "".join([*became, *old[at:]])


def _rows(diff: str) -> list[str]:
    """The lines of a diff; one that has no end in the file has none here."""
    rows: list[str] = []
    for row in _lines(diff):
        if not row.startswith(_NO_END):
            rows.append(row)
        elif rows:
            rows[-1] = rows[-1].removesuffix("\n")
    return rows


def _lines(text: str) -> list[str]:
    """With their ends, which are LF alone."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
