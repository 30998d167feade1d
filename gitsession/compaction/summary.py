"""The interface of summarizers: the request, the summary, and the checks that every summary must pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from threading import Event
from typing import Any, Literal, Protocol, TypeAlias

from gitsession.compaction.serialise import TranscriptItem, render
from gitsession.dataclass import dataclass
from gitsession.errors import PluginFailed, SummaryFailed
from gitsession.model.usage import TOKENS_MAX

Kind: TypeAlias = Literal["initial", "update", "prefix", "branch", "title"]
"""The kind of a summary.

``initial``: a first summary. ``update``: a summary that continues an earlier one. ``prefix``: a summary of the
beginning of a turn whose end is kept. ``branch``: a summary of an abandoned branch. ``title``: a title of the session.
"""

Progress: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A request for a summary.

    Attributes:
        items: Items to summarize, in order.
        kind: Kind of the summary.
        previous: Earlier summary to continue; "" if there is none.
        previous_chars: Number of characters of the entries that ``previous`` replaced; 0 if unknown. In that case, the
            length of ``previous`` is used.
        focus: Topics that the user wants the summary to cover.
        max_tokens: Maximum number of tokens in the summary.
    """

    items: tuple[TranscriptItem, ...]
    kind: Kind = "initial"
    previous: str = ""
    previous_chars: int = 0
    focus: str = ""
    max_tokens: int = 4096

    @property
    def conversation(self) -> str:
        """The items as one text. Blank lines separate paragraphs.

        Each paragraph begins with a line that names its author. For example, a prompt begins with ``[User]``, and a
        tool call with a line such as ``[Tool call read]``.
        """
        return render(self.items)


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary.

    Attributes:
        text: Text of the summary.
        truncated: Whether the model's output was cut off.
        usage: Number of tokens by ``input`` and ``output``, if known.
    """

    text: str
    truncated: bool = False
    usage: Mapping[str, int] = field(default_factory=dict)


UNNAMED = "other"


class Summarizer(Protocol):
    """The interface of a summarizer. A summarizer does not change the store, so it may fail or be stopped at any time.

    If a summarizer has an attribute ``NAME``, the entries of its summaries record this name.
    """

    def summarise(self, request: Request, *, progress: Progress, cancelled: Event) -> Summary:
        """Return a summary.

        Args:
            request: The request.
            progress: Function that is called with messages for the user.
            cancelled: Event that is set to stop the summarizer.

        Returns:
            The summary.

        Raises:
            SummaryFailed: There is no summary, or ``cancelled`` was set.
        """


def name_of(summarizer: Summarizer) -> str:
    """Return the name of a summarizer for entries. The name of its class is not used, because it may change."""
    name = getattr(summarizer, "NAME", None)
    return name if isinstance(name, str) and name else UNNAMED


def summarise(
    summarizer: Summarizer, request: Request, *, progress: Progress = lambda _: None, cancelled: Event | None = None
) -> Summary:
    """Return a summary that is not empty and shorter than its input. Raises ``SummaryFailed`` for every failure.

    A summary that was cut off is returned with ``truncated`` set. The caller decides whether to use it.
    """
    cancelled = cancelled or Event()
    raise_if_cancelled(cancelled)
    try:
        summary = summarizer.summarise(request, progress=progress, cancelled=cancelled)
    except SummaryFailed:
        raise
    except PluginFailed as error:
        raise SummaryFailed(str(error), hint=error.hint) from error
    except Exception as error:  # a plugin can raise any error
        raise SummaryFailed(f"the summarizer failed: {type(error).__name__}: {error}") from error
    raise_if_cancelled(cancelled)
    if not isinstance(summary, Summary) or not isinstance(summary.text, str):
        raise SummaryFailed("the summarizer did not return a summary")
    summary = replace(summary, usage=_counts(summary.usage))
    if not summary.text.strip():
        raise SummaryFailed("the summarizer returned an empty summary")
    input_chars = len(request.conversation) + max(len(request.previous), request.previous_chars)
    if len(summary.text) >= input_chars:
        sizes = f"{len(summary.text):,} characters (the input: {input_chars:,})"
        raise SummaryFailed(f"the summary is not shorter than the summarizer's input: {sizes}")
    return summary


def _counts(usage: Any) -> dict[str, int]:
    """Return the items of ``usage`` that are valid token counts."""
    items = usage.items() if isinstance(usage, Mapping) else ()
    return {str(name): count for name, count in items if type(count) is int and 0 <= count <= TOKENS_MAX}


def raise_if_cancelled(cancelled: Event) -> None:
    """Raise ``SummaryFailed`` if ``cancelled`` is set."""
    if cancelled.is_set():
        raise SummaryFailed("the summary was cancelled")
