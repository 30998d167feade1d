"""The interface of summarizers: the request, the summary, and the checks of every summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any, Literal, Protocol, TypeAlias

from gitsession.compaction.serialise import TranscriptItem, render
from gitsession.errors import SummaryFailed
from gitsession.model.usage import TOKENS_MAX

Kind: TypeAlias = Literal["initial", "update", "prefix", "branch"]
"""The kind of a summary.

``initial``: a first summary; ``update``: one that continues an earlier one; ``prefix``: one of the beginning of a turn
whose end is kept; ``branch``: one of an abandoned branch.
"""

Progress: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A request for a summary.

    Attributes:
        said: The items to summarize, in order.
        kind: The kind of summary.
        previous: The summary to continue.
        previous_chars: Number of characters that ``previous`` replaced, if known; otherwise its own length counts.
        focus: The user's wish for what the summary covers.
        max_tokens: Maximum number of tokens of the summary.
    """

    said: tuple[TranscriptItem, ...]
    kind: Kind = "initial"
    previous: str = ""
    previous_chars: int = 0
    focus: str = ""
    max_tokens: int = 4096

    @property
    def conversation(self) -> str:
        """The items as one text, each paragraph under a tag with its author."""
        return render(self.said)


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary. ``truncated``: the model was cut off. ``usage``: tokens for ``input`` and ``output``, if known."""

    text: str
    truncated: bool = False
    usage: Mapping[str, int] = field(default_factory=dict)


UNNAMED = "other"


class Summarizer(Protocol):
    """The interface of a summarizer. It changes nothing, so it may fail or be stopped at any time.

    If it has a ``NAME``, the entries with its summaries record it.
    """

    def summarise(self, request: Request, *, progress: Progress, cancelled: Event) -> Summary:
        """Return a summary. ``progress`` receives messages for the user.

        Raises ``SummaryFailed``, also soon after ``cancelled`` is set.
        """


def name_of(summarizer: Summarizer) -> str:
    """Return the name that entries record for a summarizer: never that of its class, which may change."""
    stated = getattr(summarizer, "NAME", None)
    return stated if isinstance(stated, str) and stated else UNNAMED


def summarise(
    summarizer: Summarizer, request: Request, *, progress: Progress = lambda _: None, cancelled: Event | None = None
) -> Summary:
    """Return a summary that is not empty and shorter than its input. Raises ``SummaryFailed`` for every failure.

    A summary that was cut off is returned with ``truncated``; the caller decides whether to use it.
    """
    cancelled = cancelled or Event()
    stop_if(cancelled)
    try:
        summary = summarizer.summarise(request, progress=progress, cancelled=cancelled)
    except SummaryFailed:
        raise
    except Exception as error:  # any error of a plugin; nothing was changed
        raise SummaryFailed(f"the summarizer failed: {type(error).__name__}: {error}") from error
    stop_if(cancelled)
    if not isinstance(summary, Summary) or not isinstance(summary.text, str):
        raise SummaryFailed("the summarizer did not return a summary")
    summary = replace(summary, usage=_counts(summary.usage))
    if not summary.text.strip():
        raise SummaryFailed("the summarizer returned an empty summary")
    given = len(request.conversation) + max(len(request.previous), request.previous_chars)
    if len(summary.text) >= given:
        sizes = f"{len(summary.text)} characters for {given}"
        raise SummaryFailed(f"the summary is not shorter than its input: {sizes}")
    return summary


def _counts(usage: Any) -> dict[str, int]:
    """Return the items of ``usage`` that are plausible token counts."""
    stated = usage.items() if isinstance(usage, Mapping) else ()
    return {str(name): count for name, count in stated if type(count) is int and 0 <= count <= TOKENS_MAX}


def stop_if(cancelled: Event) -> None:
    """Raise ``SummaryFailed`` if ``cancelled`` is set."""
    if cancelled.is_set():
        raise SummaryFailed("cancelled")
