"""A plan into the words of a summary: in pieces that fit a model, a split turn apart, the lists of files behind."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from threading import Event

from gitsession.codec.cbor import whole
from gitsession.compaction.plan import Plan
from gitsession.compaction.prompts import with_files, without_files
from gitsession.compaction.serialise import CHARS_PER_TOKEN, TranscriptItem, render, serialise
from gitsession.compaction.summarizers.extractive import Extractive
from gitsession.compaction.summary import Kind, Progress, Request, Summarizer, Summary, summarise
from gitsession.context.value import Item
from gitsession.errors import SummaryFailed

TURN = "## The turn under way"
"""The heading under which the beginning of a split turn stands."""

_HIGH, _LOW, _LAST = "\ud800", "\udc00", "\udfff"
"""Where the first and the second halves of pairs begin, and end: agents' files can hold them apart."""

QUOTED_CHARS_MAX = 1_000
"""The beginning of a turn that is no longer than this stands there as it is."""


BY_RULE = Extractive()


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryOptions:
    """How a summary is to be written; by rule, if nobody says who writes it.

    ``focus``: what the user asks to take care of. ``max_tokens``: of the summary.

    ``input_tokens_max``: what the summarizer is given at once; more of it goes piece by piece, each carrying on.
    ``progress`` takes words for the user; once ``cancelled`` is set, there will be no summary.
    """

    summarizer: Summarizer = BY_RULE
    focus: str = ""
    max_tokens: int = 4_096
    input_tokens_max: int = 100_000
    progress: Progress = lambda _: None
    cancelled: Event | None = None


def write(plan: Plan, how: SummaryOptions) -> Summary:
    """The whole text of a summary. Raises ``SummaryFailed``; what was cut off is never part of it."""
    usage: Counter[str] = Counter()
    text = without_files(plan.previous)
    pieces = list(pieces_of(_said(plan.history), how.input_tokens_max))
    chars = len(text)
    for number, piece in enumerate(pieces, 1):
        if len(pieces) > 1:
            how.progress(f"part {number} of {len(pieces)}")
        kind: Kind = "branch" if plan.onto else "update" if text else "initial"
        request = Request(said=piece, kind=kind, previous=text, previous_chars=chars, focus=how.focus)
        answer = _ask(replace(request, max_tokens=how.max_tokens), how)
        text = answer.text
        chars += len(request.conversation)
        usage.update(answer.usage)
    parts = [plan.quoted, text]
    if plan.prefix:
        begun, spent = _beginning(_said(plan.prefix), how)
        parts.append(f"---\n\n{TURN}\n\n{begun}" if begun else "")
        usage.update(spent)
    words = "\n\n".join(part for part in parts if part.strip())
    if not words:
        raise SummaryFailed("there is nothing in it that could be summarised")
    return Summary(whole(with_files(words, plan.files.read, plan.files.modified)), usage=dict(usage))


def _beginning(said: tuple[TranscriptItem, ...], how: SummaryOptions) -> tuple[str, Counter[str]]:
    """What a turn began with, and what it took to say so."""
    words, usage = render(said), Counter[str]()
    if len(words) <= QUOTED_CHARS_MAX:
        return words, usage
    text, chars = "", 0
    for piece in pieces_of(said, how.input_tokens_max):
        request = Request(said=piece, kind="prefix", previous=text, previous_chars=chars)
        answer = _ask(replace(request, max_tokens=how.max_tokens // 2), how)
        text = answer.text
        chars += len(request.conversation)
        usage.update(answer.usage)
    return text, usage


def _ask(request: Request, how: SummaryOptions) -> Summary:
    answer = summarise(how.summarizer, request, progress=how.progress, cancelled=how.cancelled)
    if answer.truncated:
        raise SummaryFailed("the summary was cut off before its end", hint="give it more room, or keep more as it is")
    return answer


def _said(items: Iterable[Item]) -> tuple[TranscriptItem, ...]:
    return serialise(item.entry for item in items)


def pieces_of(said: Iterable[TranscriptItem], tokens_max: int) -> Iterator[tuple[TranscriptItem, ...]]:
    """``said`` in pieces of at most ``tokens_max``: as few as there can be, a paragraph taken apart only if it must."""
    chars_max = tokens_max * CHARS_PER_TOKEN
    piece: list[TranscriptItem] = []
    size = 0
    for paragraph in itertools.chain.from_iterable(_parts(paragraph, chars_max) for paragraph in said):
        more = len(str(paragraph))
        if piece and size + more > chars_max:
            yield tuple(piece)
            piece, size = [], 0
        piece.append(paragraph)
        size += more
    if piece:
        yield tuple(piece)


def _parts(paragraph: TranscriptItem, chars_max: int) -> Iterator[TranscriptItem]:
    """``paragraph`` whole, or where it is too long in parts, each under its head, none of which ends in half a pair."""
    if len(str(paragraph)) <= chars_max:
        yield paragraph
        return
    text, start = paragraph.text, 0
    room = max(chars_max - len(str(replace(paragraph, text=""))), 1)
    while start < len(text):
        end = min(start + room, len(text))
        # Lines that read like a head are marked when they are written, which makes them longer.
        end -= max(len(str(replace(paragraph, text=text[start:end]))) - chars_max, 0)
        end = max(end, start + 1)
        if _HIGH <= text[end - 1] < _LOW <= text[end : end + 1] <= _LAST:
            end = end - 1 if end - 1 > start else end + 1
        yield replace(paragraph, text=text[start:end])
        start = end
