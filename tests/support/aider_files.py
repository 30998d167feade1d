"""Builders for history files of Aider."""

from __future__ import annotations

STARTED = "2026-11-21 20:43:36"
PLACE = "/work/app/.aider.chat.history"


def run(*printed: str, at: str = STARTED) -> str:
    """Return the beginning of a run, with the lines that Aider prints at the start."""
    begun = f"\n# aider chat started at {at}\n\n"
    return begun + told("Aider v0.86.2", "Model: openai/mock with diff edit format", *printed)


def restored(at: str = "2026-11-22 08:00:00") -> str:
    """Return the beginning of a run with ``--restore-chat-history``."""
    return run("Restored previous conversation history.", at=at)


def told(*lines: str) -> str:
    """Return lines that Aider prints."""
    return "".join(f"> {line}".rstrip() + "  \n" for line in lines)


def user(text: str) -> str:
    """Return a prompt."""
    return "\n" + "  \n".join(f"#### {line}" for line in text.split("\n")).rstrip() + "  \n"


def answer(text: str) -> str:
    """Return an answer of the model, with the token count that Aider prints after it."""
    return f"\n{text}\n\n" + told("Tokens: 1.9k sent, 54 received.")


def edited(name: str, *commits: str) -> str:
    """Return the lines that Aider prints after an edit."""
    return told(f"Applied edit to {name}", *(f"Commit {commit}" for commit in commits))


def history(*parts: str) -> bytes:
    return "".join(parts).encode()
