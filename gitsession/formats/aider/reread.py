"""What Aider itself makes of its history where it is told to restore it. It loses much, and so do we here.

Every line that begins with ``# `` is dropped, wherever it stands; ``> `` is Aider's own, ``#### `` the user's, all else
the model's. Lines of one kind in a row are one message. Nothing is known of fences, commands or runs. Seen with 0.86.2.
"""

from __future__ import annotations

from itertools import groupby


def reread(data: bytes) -> list[tuple[str, str]]:
    """Role (``user`` or ``assistant``) and words of the messages that Aider sends again."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("# ")]
    spoken = [(role, "".join(_said(line, role) for line in found)) for role, found in groupby(lines, _role)]
    return [(role, words) for role, words in spoken if role != "tool" and words.strip()]


def _role(line: str) -> str:
    return "tool" if line.startswith("> ") else "user" if line.startswith("#### ") else "assistant"


def _said(line: str, role: str) -> str:
    return line[5:] if role == "user" else line
