"""The words of the search index: the other forms of a word, and the words that are spelled almost like it.

The index contains words as they are written, so that phrases and prefixes match exactly. SQLite's Porter stemmer
decides which words are forms of one word. It is applied to the few words of the index that begin like the word of the
query.
"""

from __future__ import annotations

import sqlite3

_FORMS_MAX = 20
_CANDIDATES_MAX = 5_000
_SPELLING_MIN = 0.75
"""Minimum similarity of a suggested word, as defined by ``difflib``. Two letters of nine may differ."""

_LENGTH_DIFFERENCE_MAX = 2

_TABLES = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, words, row);
CREATE VIRTUAL TABLE IF NOT EXISTS temp.stemmed USING fts5(word, tokenize="porter unicode61 remove_diacritics 2");
CREATE VIRTUAL TABLE IF NOT EXISTS temp.stems USING fts5vocab(temp, stemmed, row);
"""


class Vocabulary:
    """The words of the index ``db``."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._forms: dict[str, list[str]] = {}
        db.executescript(_TABLES)

    def forms(self, word: str) -> list[str]:
        """Return the other words of the index with the same stem, such as ``tested`` for ``testing``.

        Only words of English letters have other forms.
        """
        if word not in self._forms:
            self._forms[word] = self._other_forms(word.lower()) if word.isascii() and word.isalpha() else []
        return self._forms[word]

    def _other_forms(self, word: str) -> list[str]:
        self._fill([word])
        (stem,) = self._db.execute("SELECT term FROM stems").fetchone()
        start = stem[:-1] if stem[-1] in "ie" else stem  # a stem ends with i for y, or with an e that was added
        self._fill(self._range(start))
        found = self._db.execute("SELECT word FROM stemmed WHERE stemmed MATCH ? LIMIT ?", (f'"{word}"', _FORMS_MAX))
        return [form for (form,) in found if form != word]

    def _fill(self, words: list[str]) -> None:
        self._db.execute("DELETE FROM stemmed")
        self._db.executemany("INSERT INTO stemmed VALUES (?)", ((word,) for word in words))

    def _range(self, start: str) -> list[str]:
        query = "SELECT term FROM vocabulary WHERE term >= ? AND term < ? LIMIT ?"
        return [term for (term,) in self._db.execute(query, (start, f"{start}\U0010ffff", _CANDIDATES_MAX))]

    def nearest(self, word: str) -> str:
        """Return the word of the index that is spelled most like ``word``; "" if there is none, or if it is known."""
        import difflib  # slow to import, and used only if nothing is found

        word = word.lower()
        if not word or self._db.execute("SELECT 1 FROM vocabulary WHERE term = ?", (word,)).fetchone():
            return ""
        query = "SELECT term FROM vocabulary WHERE term >= ? AND term < ? AND abs(length(term) - ?) <= ?"
        bounds = (word[0], f"{word[0]}\U0010ffff", len(word), _LENGTH_DIFFERENCE_MAX)
        terms = [term for (term,) in self._db.execute(query, bounds)]
        return next(iter(difflib.get_close_matches(word, terms, n=1, cutoff=_SPELLING_MIN)), "")
