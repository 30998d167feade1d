"""What a user types to search, as SQLite's FTS5 takes it: plain words, and no syntax of its own. Pure."""

from __future__ import annotations

import re

WORDS_MAX = 64
CHARS_MAX = 2_000

_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u312f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff])"
)
"""Characters of scripts that put no spaces between words, or hang endings on them: Thai, Lao, Burmese, Khmer, Han,
kana, Hangul. For SQLite a run of them would be one word."""

_PART = re.compile(r'"([^"]*)"?|([^\s"]+)')


def apart(text: str) -> str:
    """``text`` as it is indexed and asked: each character of a script without spaces is a word of its own.

    What was asked in one run has to stand in one run, so nothing else is found by it.
    """
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def parts(query: str) -> list[tuple[str, bool]]:
    """What is looked for: all of these. A word, or words in quotation marks that stand side by side.

    With each: whether a longer word will do too (``log*``). What holds no letter and no digit is passed over.
    """
    found = []
    for quoted, bare in _PART.findall(query[:CHARS_MAX]):
        text = quoted or bare
        if any(char.isalnum() for char in text):
            found.append((text, bool(bare) and bare.endswith("*")))
    return found[:WORDS_MAX]


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
    """Where ``word`` begins; in a script without spaces that is anywhere."""
    edge = "" if _UNSPACED.match(word) else r"\b"
    return f"(?i){edge}{re.escape(word)}"


def _plain(text: str) -> str:
    return "".join(char if char.isalnum() or ord(char) > 127 else " " for char in text)
