"""Scores of texts that are in no index, by the words of a query."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterable

from gitsession.index.search_words import separate_characters


def text_scores(query: str, texts: Iterable[str]) -> dict[int, float]:
    """Return the score (BM25) of each text that contains a word of ``query``, in any of its forms, by its number.

    The result is empty if SQLite has no full-text search (FTS5).
    """
    words = re.findall(r"\w+", separate_characters(query))
    if not words:
        return {}
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        try:
            db.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'porter unicode61')")
        except sqlite3.OperationalError:
            return {}
        db.executemany("INSERT INTO texts VALUES (?)", ((separate_characters(text),) for text in texts))
        wanted = " OR ".join(f'"{word}"' for word in words)
        return dict(db.execute("SELECT rowid - 1, -bm25(texts) FROM texts WHERE texts MATCH ?", (wanted,)))
