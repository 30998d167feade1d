"""Conversion of entries and queries to text for SQLite's FTS5, without I/O.

The text is divided into columns, so that prompts rank highest and results of tools lowest. A query consists of plain
words. The operators of FTS5 have no effect.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from gitsession.model import entries as kinds
from gitsession.model.blocks import Block, Text, ToolCall
from gitsession.model.entries import Entry
from gitsession.model.results import result_in
from gitsession.pattern import pattern

_SHORT_CHARS = 2_000
"""Maximum number of indexed characters of a tool's arguments or result. Longer ones mostly contain files."""

KINDS = tuple(kind.kind for kind in (kinds.Message, kinds.CustomMessage, kinds.Compaction, kinds.BranchSummary))
"""The kinds of entries that can have searchable text."""

ROLES = ("user", "assistant", "tool", "shell", "custom", "summary", "title")
"""The roles of searchable text."""

_TERMS_MAX = 64
_CHARS_MAX = 2_000

_UNSPACED = pattern(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u312f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff])"
)
"""Characters of scripts without spaces between words, or with endings attached to words.

The scripts are Thai, Lao, Burmese, Khmer, Han, kana and Hangul. SQLite would treat a sequence of these characters as
one word.
"""

_PART = pattern(r'"([^"]*)"?|([^\s"]+)')


class SearchableText(NamedTuple):
    """The text of an entry. ``role``: one of ``ROLES``. The other fields are the columns of the index, in order."""

    role: str
    asked: str = ""
    summary: str = ""
    answer: str = ""
    work: str = ""

    @property
    def all(self) -> str:
        return "\n".join(filter(None, self[1:]))


def searchable_text(entry: Entry) -> SearchableText | None:
    """Return the searchable text of ``entry``; ``None`` if it has none. System prompts are not searchable."""
    found = _text_of(entry)
    return found if found is not None and found.all.strip() else None


def _text_of(entry: Entry) -> SearchableText | None:
    match entry:
        case kinds.Message(role="user"):
            return SearchableText("user", asked=_text(entry.content))
        case kinds.Message(role="assistant"):
            return SearchableText("assistant", answer=_text(entry.content), work=_work(entry.content))
        case kinds.Message(role="tool"):
            return SearchableText("tool", work=_text(entry.content)[:_SHORT_CHARS])
        case kinds.Message(role="shell"):
            return SearchableText("shell", asked=entry.command or "", work=(entry.output or "")[:_SHORT_CHARS])
        case kinds.Message(role="custom") | kinds.CustomMessage():
            return SearchableText("custom", answer=_text(entry.content))
        case kinds.Compaction() | kinds.BranchSummary():
            return SearchableText("summary", summary=entry.summary)
    return None


def _text(content: tuple[Block, ...]) -> str:
    return "\n".join(block.text for block in content if isinstance(block, Text))


def _work(content: tuple[Block, ...]) -> str:
    """Return the tool calls in a message, and the tool results in the same message."""
    calls = [f"{block.name} {_arguments(block)}" for block in content if isinstance(block, ToolCall)]
    results = [_text(found.content) for block in content if (found := result_in(block)) is not None]
    return "\n".join(text[:_SHORT_CHARS] for text in (*calls, *results))


def _arguments(call: ToolCall) -> str:
    values = [value if isinstance(value, str) else json.dumps(value, default=str) for value in call.arguments.values()]
    return " ".join(values)


def separate_characters(text: str) -> str:
    """Return ``text`` with each character of a script without spaces as a separate word, for the index and queries.

    The characters of a query term match only if they are adjacent and in the same order, so there are no false hits.
    """
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def terms(query: str) -> list[tuple[str, bool]]:
    """Split a query into its terms, all of which must match.

    A term is a word, or adjacent words in quotation marks. The flag of a term is True if the term also matches longer
    words, as ``log*`` does. Terms without letters and digits are left out.
    """
    found = []
    for quoted, bare in _PART.findall(query[:_CHARS_MAX]):
        text = quoted or bare
        if any(char.isalnum() for char in text):
            found.append((text, bool(bare) and bare.endswith("*")))
    return found[:_TERMS_MAX]


def expression(query: str) -> str:
    """Return a query in the syntax of FTS5; "" if it has no terms. Each term is quoted, so that it has no operators."""
    return " AND ".join(f'"{_plain(separate_characters(text))}"' + " *" * is_prefix for text, is_prefix in terms(query))


def snippet(text: str, query: str, width: int) -> str:
    """Return about ``width`` characters of ``text`` around the first match, or from the start if there is no match."""
    needles = sorted({word for part, _ in terms(query) for word in re.findall(r"\w+", part)}, key=len, reverse=True)
    spots = [found.start() for word in needles if (found := re.search(_start_pattern(word), text))]
    start = max(min(spots, default=0) - width // 4, 0)
    if start:
        start = text.find(" ", start, start + 20) + 1 or start
    excerpt = " ".join(text[start : start + 2 * width].split())
    cut = excerpt if len(excerpt) <= width else f"{excerpt[: width - 1]}…"
    return f"…{cut}" if start else cut


def _start_pattern(word: str) -> str:
    """Return a pattern that matches ``word`` at the start of a word, or anywhere in a script without spaces."""
    edge = "" if _UNSPACED.match(word) else r"\b"
    return f"(?i){edge}{re.escape(word)}"


def _plain(text: str) -> str:
    return "".join(char if char.isalnum() or ord(char) > 127 else " " for char in text)
