"""What a summarizer is asked, what it answers, and what is checked of every answer, whoever gave it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any, Literal, Protocol, TypeAlias

from gitsession.compaction.serialise import TranscriptItem, render
from gitsession.errors import SummaryFailed
from gitsession.model.usage import TOKENS_MAX

Kind: TypeAlias = Literal["initial", "update", "prefix", "branch"]
"""A first summary, one that carries an earlier one on, one of the beginning of a turn whose end is kept, one of a
branch that is left."""

Progress: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """``said``: what to summarise, in order. ``previous``: the summary to carry on. ``focus``: the user's own wish.

    ``previous_chars``: of what ``previous`` stands for, where that is at hand; else it counts for itself.
    """

    said: tuple[TranscriptItem, ...]
    kind: Kind = "initial"
    previous: str = ""
    previous_chars: int = 0
    focus: str = ""
    max_tokens: int = 4096

    @property
    def conversation(self) -> str:
        """What was said as one text, each paragraph under a tag that says who."""
        return render(self.said)


@dataclass(frozen=True, slots=True)
class Summary:
    """``truncated``: the model had to stop before its end. ``usage``: tokens by ``input`` and ``output``, if known."""

    text: str
    truncated: bool = False
    usage: Mapping[str, int] = field(default_factory=dict)


UNNAMED = "other"


class Summarizer(Protocol):
    """Anything that shortens. It changes nothing, so that it may fail or be stopped at any time.

    One that has a ``NAME`` is told by it in the entries that it made.
    """

    def summarise(self, request: Request, *, progress: Progress, cancelled: Event) -> Summary:
        """Raises ``SummaryFailed``; soon after ``cancelled`` is set, too. ``progress`` takes words for the user."""


def name_of(summarizer: Summarizer) -> str:
    """What is kept of who summarised: never the name of a class, which is nobody's to rely on."""
    stated = getattr(summarizer, "NAME", None)
    return stated if isinstance(stated, str) and stated else UNNAMED


def summarise(
    summarizer: Summarizer, request: Request, *, progress: Progress = lambda _: None, cancelled: Event | None = None
) -> Summary:
    """A summary that says something in less than it was given. Raises ``SummaryFailed`` for all that can go wrong.

    One that was cut off comes back as it is (``truncated``): whether it is of use is the caller's to say.
    """
    cancelled = cancelled or Event()
    stop_if(cancelled)
    try:
        summary = summarizer.summarise(request, progress=progress, cancelled=cancelled)
    except SummaryFailed:
        raise
    except Exception as error:  # a plugin's own; nothing was changed, whatever it was
        raise SummaryFailed(f"the summarizer failed: {type(error).__name__}: {error}") from error
    stop_if(cancelled)
    if not isinstance(summary, Summary) or not isinstance(summary.text, str):
        raise SummaryFailed("the summarizer gave something that is no summary")
    summary = replace(summary, usage=_counts(summary.usage))
    if not summary.text.strip():
        raise SummaryFailed("the summarizer gave an empty answer")
    given = len(request.conversation) + max(len(request.previous), request.previous_chars)
    if len(summary.text) >= given:
        sizes = f"{len(summary.text)} characters for {given}"
        raise SummaryFailed(f"the summary is not shorter than what it stands for: {sizes}")
    return summary


def _counts(usage: Any) -> dict[str, int]:
    """What of ``usage`` is a count that one answer can have."""
    stated = usage.items() if isinstance(usage, Mapping) else ()
    return {str(name): count for name, count in stated if type(count) is int and 0 <= count <= TOKENS_MAX}


def stop_if(cancelled: Event) -> None:
    """Raises ``SummaryFailed`` once ``cancelled`` is set."""
    if cancelled.is_set():
        raise SummaryFailed("cancelled")
