"""Words of a search: those of an entry, and as whose, and those of a query, as SQLite's FTS5 takes them.

What the user asked counts most, what tools gave back least. A query is plain words, and has no syntax of FTS5. Pure.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from gitsession.model import entries as kinds
from gitsession.model.blocks import Block, Text, ToolCall
from gitsession.model.entries import Entry
from gitsession.model.results import result_in

_SHORT_CHARS = 2_000
"""How much is searched of what a tool was asked, and of what it gave back: the rest is mostly files."""

KINDS = tuple(kind.kind for kind in (kinds.Message, kinds.CustomMessage, kinds.Compaction, kinds.BranchSummary))
"""The kinds of entry that say anything."""

ROLES = ("user", "assistant", "tool", "shell", "custom", "summary", "title")
"""As whose words something is found."""

_WORDS_MAX = 64
_CHARS_MAX = 2_000

_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u312f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff])"
)
"""Characters of scripts that put no spaces between words, or hang endings on them: Thai, Lao, Burmese, Khmer, Han,
kana, Hangul. For SQLite a run of them would be one word."""

_PART = re.compile(r'"([^"]*)"?|([^\s"]+)')


class SearchableText(NamedTuple):
    """``role``: one of ``ROLES``. The others are the columns of the index, in its order."""

    role: str
    asked: str = ""
    summary: str = ""
    answer: str = ""
    work: str = ""

    @property
    def all(self) -> str:
        return "\n".join(filter(None, self[1:]))


def words_of(entry: Entry) -> SearchableText | None:
    """The words of ``entry``; ``None`` where nobody would look for them: prompts of the system, and what has none."""
    found = _words(entry)
    return found if found is not None and found.all.strip() else None


def _words(entry: Entry) -> SearchableText | None:
    match entry:
        case kinds.Message(role="user"):
            return SearchableText("user", asked=_text(entry.content))
        case kinds.Message(role="assistant"):
            work = "\n".join([*_calls(entry.content), *_results(entry.content)])
            return SearchableText("assistant", answer=_text(entry.content), work=work)
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


def _calls(content: tuple[Block, ...]) -> list[str]:
    calls = [block for block in content if isinstance(block, ToolCall)]
    return [f"{call.name} {_arguments(call)}"[:_SHORT_CHARS] for call in calls]


def _results(content: tuple[Block, ...]) -> list[str]:
    """What tools gave back, where that stands in the answer that called them."""
    return [_text(found.content)[:_SHORT_CHARS] for block in content if (found := result_in(block)) is not None]


def _arguments(call: ToolCall) -> str:
    said = [value if isinstance(value, str) else json.dumps(value, default=str) for value in call.arguments.values()]
    return " ".join(said)


def apart(text: str) -> str:
    """``text`` as it is indexed and asked: each character of a script without spaces is a word of its own.

    What was asked in one run has to stand in one run, so nothing else is found by it.
    """
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def parts(query: str) -> list[tuple[str, bool]]:
    """Split a query into its terms, all of which must be found.

    A term is a word, or words in quotation marks that stand side by side. With each: whether a longer word will do too
    (``log*``). What holds no letter and no digit is passed over.
    """
    found = []
    for quoted, bare in _PART.findall(query[:_CHARS_MAX]):
        text = quoted or bare
        if any(char.isalnum() for char in text):
            found.append((text, bool(bare) and bare.endswith("*")))
    return found[:_WORDS_MAX]


def expression(query: str) -> str:
    """The same for FTS5: every part a string, so that nothing in it is an operator; "" where nothing is asked."""
    return " AND ".join(f'"{_plain(apart(text))}"' + " *" * is_prefix for text, is_prefix in parts(query))


def snippet(text: str, query: str, width: int) -> str:
    """About ``width`` characters of ``text`` around the first that was looked for; its beginning if that hides."""
    needles = sorted({word for part, _ in parts(query) for word in re.findall(r"\w+", part)}, key=len, reverse=True)
    spots = [found.start() for word in needles if (found := re.search(_place(word), text))]
    start = max(min(spots, default=0) - width // 4, 0)
    if start:
        start = text.find(" ", start, start + 20) + 1 or start
    said = " ".join(text[start : start + 2 * width].split())
    cut = said if len(said) <= width else f"{said[: width - 1]}…"
    return f"…{cut}" if start else cut


def _place(word: str) -> str:
    """Return the pattern of places where ``word`` begins; in a script without spaces that is anywhere."""
    edge = "" if _UNSPACED.match(word) else r"\b"
    return f"(?i){edge}{re.escape(word)}"


def _plain(text: str) -> str:
    return "".join(char if char.isalnum() or ord(char) > 127 else " " for char in text)
