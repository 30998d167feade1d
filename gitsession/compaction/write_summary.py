"""Writing of a summary's text. Long input is summarized in parts. A split turn and lists of files follow at the end."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from threading import Event

from gitsession.codec.cbor import valid_text
from gitsession.compaction.plan import Plan
from gitsession.compaction.prompts import with_files, without_files
from gitsession.compaction.serialise import CHARS_PER_TOKEN, TranscriptItem, render, serialise
from gitsession.compaction.summarizers.extractive import Extractive
from gitsession.compaction.summary import Kind, Progress, Request, Summarizer, Summary, summarise
from gitsession.context.value import Item
from gitsession.dataclass import dataclass
from gitsession.errors import SummaryFailed

TURN = "## The turn under way"
"""Heading above the beginning of a split turn."""

_HIGH, _LOW, _LAST = "\ud800", "\udc00", "\udfff"
"""The first high, first low and last low surrogate. In an agent's string, a surrogate pair can be two characters."""

QUOTED_CHARS_MAX = 1_000
"""Maximum length in characters of the beginning of a turn that is quoted instead of summarized."""


DEFAULT_SUMMARIZER = Extractive()


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryOptions:
    """Options for the text of a summary. By default, the summarizer selects sentences by rules, without a model.

    Attributes:
        summarizer: Summarizer that writes the text.
        fallbacks: Summarizers that are tried in this order if the ones before them write no usable summary.
        focus: Topics that the user wants the summary to cover.
        max_tokens: Maximum number of tokens in the summary.
        input_tokens_max: Maximum number of tokens in one request. Longer input is split into parts. The summary of each
            part continues the summary of the previous parts.
        progress: Function that is called with messages for the user.
        cancelled: Event that stops the compaction without a summary when it is set.
    """

    summarizer: Summarizer = DEFAULT_SUMMARIZER
    fallbacks: tuple[Summarizer, ...] = ()
    focus: str = ""
    max_tokens: int = 4_096
    input_tokens_max: int = 100_000
    progress: Progress = lambda _: None
    cancelled: Event | None = None


def write(plan: Plan, options: SummaryOptions) -> Summary:
    """Return the complete summary for ``plan``.

    Raises ``SummaryFailed`` if there is no summary or the model's output was cut off.
    """
    usage: Counter[str] = Counter()
    summary = _summarise("branch" if plan.onto else "initial", plan.history, without_files(plan.previous), options)
    usage.update(summary.usage)
    parts = [plan.quoted, summary.text]
    if plan.prefix:
        beginning = render(serialise(item.entry for item in plan.prefix))
        if len(beginning) > QUOTED_CHARS_MAX:
            short = replace(options, max_tokens=options.max_tokens // 2, focus="")
            summary = _summarise("prefix", plan.prefix, "", short)
            usage.update(summary.usage)
            beginning = summary.text
        parts.append(f"---\n\n{TURN}\n\n{beginning}" if beginning else "")
    body = "\n\n".join(part for part in parts if part.strip())
    if not body:
        raise SummaryFailed("nothing to summarize: the entries have no text")
    return Summary(valid_text(with_files(body, plan.files.read, plan.files.modified)), usage=dict(usage))


def _summarise(kind: Kind, items: Iterable[Item], text: str, options: SummaryOptions) -> Summary:
    """Return a summary of ``items`` that continues the earlier summary ``text``. Long input is summarized in parts."""
    usage: Counter[str] = Counter()
    chars = len(text)
    pieces = list(pieces_of(serialise(item.entry for item in items), options.input_tokens_max))
    for number, piece in enumerate(pieces, 1):
        if len(pieces) > 1 and kind != "prefix":
            options.progress(f"summarizing part {number} of {len(pieces)}")
        request = Request(
            items=piece,
            kind="update" if text and kind == "initial" else kind,
            previous=text,
            previous_chars=chars,
            focus=options.focus,
            max_tokens=options.max_tokens,
        )
        answer = summarise(options.summarizer, request, progress=options.progress, cancelled=options.cancelled)
        if answer.truncated:
            raise SummaryFailed(
                "the summary is incomplete: the model reached its token limit",
                hint="pass a higher --keep-tokens (or, in Python, a higher max_tokens)",
            )
        text = answer.text
        chars += len(request.conversation)
        usage.update(answer.usage)
    return Summary(text, usage=usage)


def pieces_of(paragraphs: Iterable[TranscriptItem], tokens_max: int) -> Iterator[tuple[TranscriptItem, ...]]:
    """Divide ``paragraphs`` into few parts of at most ``tokens_max`` tokens. Only longer paragraphs are split."""
    chars_max = tokens_max * CHARS_PER_TOKEN
    piece: list[TranscriptItem] = []
    size = 0
    for paragraph in itertools.chain.from_iterable(_parts(paragraph, chars_max) for paragraph in paragraphs):
        length = len(str(paragraph))
        if piece and size + length > chars_max:
            yield tuple(piece)
            piece, size = [], 0
        piece.append(paragraph)
        size += length
    if piece:
        yield tuple(piece)


def _parts(paragraph: TranscriptItem, chars_max: int) -> Iterator[TranscriptItem]:
    """Yield a paragraph, or its parts if it is too long. Each part has the tag, and no surrogate pair is split."""
    if len(str(paragraph)) <= chars_max:
        yield paragraph
        return
    text, start = paragraph.text, 0
    room = max(chars_max - len(str(replace(paragraph, text=""))), 1)
    while start < len(text):
        end = min(start + room, len(text))
        # ``str`` inserts a space before lines that look like a tag, which makes the text longer.
        end -= max(len(str(replace(paragraph, text=text[start:end]))) - chars_max, 0)
        end = max(end, start + 1)
        if _HIGH <= text[end - 1] < _LOW <= text[end : end + 1] <= _LAST:
            end = end - 1 if end - 1 > start else end + 1
        yield replace(paragraph, text=text[start:end])
        start = end
