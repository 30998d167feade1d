"""Conversion of entries and queries to text for SQLite's FTS5, without I/O.

The text is divided into columns, so that prompts rank highest and results of tools lowest. A query consists of plain
words. The operators of FTS5 have no effect. The index contains words as they are written; other forms of a word are
added to the query (``index.vocabulary``).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gitsession.model import entries as kinds
from gitsession.model.blocks import Block, Text, ToolCall
from gitsession.model.entries import Entry
from gitsession.model.results import result_in
from gitsession.pattern import pattern

_SHORT_CHARS = 2_000
"""Maximum number of indexed characters of a tool's arguments or result. Longer ones mostly contain files."""

_SIDE_FILE_CHARS = 1_000_000
"""Maximum number of indexed characters of a side file."""

KINDS = tuple(kind.kind for kind in (kinds.Message, kinds.CustomMessage, kinds.Compaction, kinds.BranchSummary))
"""The kinds of entries that can have searchable text."""

ROLES = ("user", "assistant", "tool", "shell", "custom", "summary", "title", "side-file")
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
        case kinds.Attachment() if not entry.name.startswith("file-history/"):  # versions of the user's own files
            text = "" if b"\0" in entry.data[:_SHORT_CHARS] else entry.data.decode("utf-8", "replace")
            return SearchableText("side-file", work=text[:_SIDE_FILE_CHARS])
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


class Term(NamedTuple):
    """A part of a query: a word, or adjacent words.

    ``is_prefix``: whether longer words match too. ``is_exact``: whether other forms of the word do not match.
    """

    text: str
    is_prefix: bool = False
    is_exact: bool = False


def terms(query: str) -> list[Term]:
    """Split a query into its terms, all of which must match.

    A term is a word, or adjacent words in quotation marks, which match exactly. Longer words match the last word of
    the query, unless it has only one character, and words that end with ``*``. Terms without letters and digits are
    left out.
    """
    found = []
    parts = _PART.findall(query[:_CHARS_MAX])
    for number, (quoted, bare) in enumerate(parts, 1):
        text = quoted or bare.rstrip("*")
        if any(char.isalnum() for char in text):
            is_last = bool(bare) and number == len(parts) and len(text) > 1
            found.append(Term(text, is_prefix=is_last or bare.endswith("*"), is_exact=bool(quoted)))
    return found[:_TERMS_MAX]


def _no_forms(_: str) -> Sequence[str]:
    return ()


def expression(query: str, forms: Callable[[str], Sequence[str]] = _no_forms) -> str:
    """Return a query in the syntax of FTS5; "" if it has no terms. Each term is quoted, so that it has no operators.

    ``forms``: a function that returns the other forms of a word.
    """
    return " AND ".join(_alternatives(term, forms) for term in terms(query))


def _alternatives(term: Term, forms: Callable[[str], Sequence[str]]) -> str:
    texts = [term.text, *(() if term.is_exact else forms(term.text))]
    found = [f'"{_plain(separate_characters(text))}"' for text in texts]
    if term.is_prefix:
        found.insert(1, f"{found[0]} *")
    return found[0] if len(found) == 1 else f"({' OR '.join(found)})"


def matcher(query: str, forms: Callable[[str], Sequence[str]] = _no_forms) -> re.Pattern[str]:
    """Return a pattern that finds the words of a query in the result of ``fold``."""
    found: set[str] = set()
    for term in terms(query):
        for word in re.findall(r"\w+", term.text):
            found.add(_word_pattern(fold(word), is_prefix=term.is_prefix))
        found |= {_word_pattern(form) for form in (() if term.is_exact else forms(term.text))}
    return re.compile(f"(?i){'|'.join(sorted(found, key=len, reverse=True)) or '(?!)'}")


def _word_pattern(word: str, *, is_prefix: bool = False) -> str:
    """Return a pattern that matches a whole word, or a part of a text in a script without spaces."""
    if _UNSPACED.search(word):
        return re.escape(word)
    return rf"(?<![^\W_]){re.escape(word)}" + (r"\w*" if is_prefix else r"(?![^\W_])")


def fold(text: str) -> str:
    """Return ``text`` without accents. Each character is replaced by one, so that positions do not change."""
    return text if text.isascii() else "".join(unicodedata.normalize("NFD", char)[0] for char in text)


def snippet(text: str, matches: re.Pattern[str], width: int) -> str:
    """Return about ``width`` characters of ``text`` around the first match, or from the start if there is no match."""
    found = matches.search(fold(text))
    start = max(found.start() - width // 4, 0) if found else 0
    if start:
        start = text.find(" ", start, start + 20) + 1 or start
    excerpt = " ".join(text[start : start + 2 * width].split())
    cut = excerpt if len(excerpt) <= width else f"{excerpt[: width - 1]}…"
    return f"…{cut}" if start else cut


class MatchingLine(NamedTuple):
    """The first line of a text with a match, and the lines around it that are not blank; "" if there are none.

    ``words``: the different texts in the line that match.
    """

    before: str
    line: str
    after: str
    words: tuple[str, ...]


def matching_line(text: str, matches: re.Pattern[str], width: int) -> MatchingLine:
    """Return the first line with a match. Each line has about ``width`` characters at most."""
    found = matches.search(fold(text))
    at = found.start() if found else 0
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    before = text[:start].rstrip().rpartition("\n")[2]
    after = text[end:].lstrip().partition("\n")[0]
    line = snippet(text[start:end], matches, width)
    words = {line[each.start() : each.end()] for each in matches.finditer(fold(line))}
    return MatchingLine(before.strip()[:width], line, after.strip()[:width], tuple(sorted(filter(None, words))))


def _plain(text: str) -> str:
    return "".join(char if char.isalnum() or ord(char) > 127 else " " for char in text)
