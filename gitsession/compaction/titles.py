"""Titles of sessions that a summarizer writes, from the first prompt and its answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gitsession.compaction.serialise import cut, serialise
from gitsession.compaction.summary import Request, Summarizer, summarise
from gitsession.errors import NotFound
from gitsession.index.prompts import INSERTED
from gitsession.line_text import shorten
from gitsession.model.entries import Entry, Message

TITLE_COLUMNS_MAX = 60
_INPUT_CHARS_MAX = 8_000
_TITLE_TOKENS_MAX = 60
_FENCE = re.compile(r"^[ \t]*(?:```|~~~).*?(?:^[ \t]*(?:```|~~~)[ \t]*$|\Z)", re.M | re.S)
_MARKS = re.compile(r"^[\s>#*+\-]+|[*`]+")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s")


def generate(entries: Iterable[Entry], summarizer: Summarizer) -> str:
    """Return a title for a session.

    Args:
        entries: The entries of the session, the oldest first. Only the first turn is read.
        summarizer: The summarizer. A prompt that is short enough is the title, without a summarizer.

    Returns:
        The title, on one line.

    Raises:
        NotFound: The prompt has no text.
        SummaryFailed: The summarizer failed.
    """
    items = serialise(_first_turn(entries))
    prompt = next((item.text for item in items if item.by == "user"), "")
    by_rule = first_sentence(prompt)
    if not by_rule:
        raise NotFound("cannot generate a title: the session has no prompt with text", hint="pass a title")
    if len(" ".join(prompt.split())) <= TITLE_COLUMNS_MAX:
        return by_rule
    turn = [replace(item, text=cut(item.text, _INPUT_CHARS_MAX)) for item in items if item.by in ("user", "assistant")]
    answer = summarise(summarizer, Request(items=tuple(turn[:2]), kind="title", max_tokens=_TITLE_TOKENS_MAX))
    return first_sentence(answer.text) or by_rule


def _first_turn(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the first prompt that the user wrote, and the entries before the second one."""
    prompts = 0
    for entry in entries:
        if isinstance(entry, Message) and entry.role == "user":
            prompts += bool(entry.text.strip()) and not INSERTED.match(entry.text)
            if prompts > 1:
                return
        if prompts:
            yield entry


def first_sentence(text: str) -> str:
    """Return the first sentence of a text outside of code blocks, without Markdown, as a title."""
    lines = (_MARKS.sub("", line).strip() for line in (_FENCE.sub("\n", text).strip() or text).splitlines())
    first = next(filter(None, lines), "")
    title = shorten(_SENTENCE_END.split(first)[0].strip(" \"'.:;,"), TITLE_COLUMNS_MAX)
    return title.removesuffix("…").rstrip() + "…" if title.endswith(" …") else title
