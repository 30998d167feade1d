"""What a span of Aider's history says, out of its Markdown. FROZEN under view 1: commit messages are made of it."""

from __future__ import annotations

import re
from typing import NamedTuple

from gitsession.formats.aider.spans import RUN

CLEARED = ("All chat history cleared.", "All files dropped and chat history cleared.")
"""What ``/clear`` and ``/reset`` print: the model sees nothing of what was before."""

RESTORED = "Restored previous conversation history."
"""What a run with ``--restore-chat-history`` prints when it has read this file again."""

APPLIED = "Applied edit to "
"""How a line begins that says which file was changed."""

COMMITTED = "I committed the changes with git hash {hash} & commit msg: {message}"
UPDATED = "I updated the files."
"""What Aider then tells the model, as the user's words; the model's are ``OK``."""

RAN = "I ran this command:\n\n{command}\n\nAnd got this output:\n\n{output}\n"
"""What it tells the model of a command that the user ran, and shared."""

OK = "Ok."
SUMMARY_PREFIX = "I spoke to you previously about a number of things.\n"
"""How a summary begins, as the user's words."""


class Run(NamedTuple):
    """The beginning of a run. ``started``: local time, as it stands there; ``""`` for what is not said."""

    started: str
    version: str
    model: str
    restored: bool
    words: tuple[str, ...]


class AiderCommit(NamedTuple):
    """A commit that Aider made: its short hash and message."""

    hash: str
    message: str


def prompt(payload: bytes) -> str:
    """What the user typed."""
    lines = [line.removeprefix("####").removeprefix(" ").removesuffix("  ") for line in _lines(payload)]
    text = "\n".join(lines)
    return "" if text == "<blank>" else text


def is_command(text: str) -> bool:
    """Whether a prompt is for Aider and not for the model."""
    return text.startswith(("/", "!"))


def answer(payload: bytes) -> str:
    """What the model said."""
    return _text(payload).strip(" \t\r\n")


def output(payload: bytes) -> list[str]:
    """What Aider printed, line by line."""
    return [line.removeprefix(">").strip(" \t") for line in _lines(payload)]


def run(payload: bytes) -> Run:
    """What the beginning of a run says of it."""
    head, *_ = _lines(payload)
    found = RUN.fullmatch(head.encode())
    words = tuple(line.removeprefix(">").strip(" \t") for line in _lines(payload)[1:])
    version = next((match[1] for line in words if (match := _VERSION.fullmatch(line))), "")
    model = next((match[1] for line in words if (match := _MODEL.match(line))), "")
    return Run(found[1].decode() if found else "", version, model, RESTORED in words, words)


def commits(lines: list[str]) -> list[AiderCommit]:
    """The commits that were printed."""
    return [AiderCommit(found[1], found[2]) for line in lines if (found := _COMMIT.fullmatch(line))]


_VERSION = re.compile(r"Aider v(\S{1,40})")
_MODEL = re.compile(r"(?:Main m|M)odel: (\S{1,120})")
_COMMIT = re.compile(r"Commit ([0-9a-f]{4,40}) (.*)")


def _lines(payload: bytes) -> list[str]:
    """The lines with something on them, without their line ends."""
    lines = [line.removesuffix("\r") for line in _text(payload).split("\n")]
    return [line for line in lines if line.strip(" \t\r")]


def _text(payload: bytes) -> str:
    return payload.decode("utf-8", "replace")
