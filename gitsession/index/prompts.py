"""The prompts of all sessions without duplicates, the newest first."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from gitsession.dataclass import dataclass
from gitsession.git.types import Oid
from gitsession.index.catalogue import Catalogue, Row
from gitsession.index.entry_rows import has_entry
from gitsession.index.search import text_of, with_index
from gitsession.index.search_words import expression
from gitsession.index.vocabulary import Vocabulary
from gitsession.pattern import pattern
from gitsession.store.interface import ObjectStore

_USER = "SELECT sid, oid, at_ms FROM docs WHERE role = 'user' {} ORDER BY at_ms DESC, id DESC"
_MATCHING = "AND id IN (SELECT rowid FROM words WHERE words MATCH ?)"

_INSERTED = pattern(
    r"<(?:local-command-|command-|system-reminder|task-notification|bash-)|\[Request interrupted by user"
)
"""The start of a text that Claude Code inserted as a prompt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredPrompt:
    """A prompt of the user.

    Attributes:
        session: The session.
        oid: The oid of the entry.
        at_ms: The time of the entry, Unix time in ms; 0 if it is unknown.
        text: The text of the prompt.
    """

    session: Row
    oid: Oid
    at_ms: int
    text: str


def recent_prompts(
    catalogue: Catalogue, store: ObjectStore, sessions: Mapping[str, Row], query: str, most: int
) -> list[StoredPrompt]:
    """Return the prompts in ``sessions``, the newest first. Of prompts with the same text, only the newest is returned.

    ``query``: the words that the prompts must contain, as in a search, or "". ``most``: the maximum number of prompts.
    Raises ``Unavailable`` if SQLite has no FTS5, or if another process has locked the index.
    """
    return with_index(catalogue, store, lambda db: _prompts(db, catalogue, store, sessions, query, most))


def _prompts(
    db: sqlite3.Connection, catalogue: Catalogue, store: ObjectStore, sessions: Mapping[str, Row], query: str, most: int
) -> list[StoredPrompt]:
    match_query = expression(query, Vocabulary(db).forms)
    rows = db.execute(_USER.format(_MATCHING if match_query else ""), (match_query,) if match_query else ())
    found: dict[str, StoredPrompt] = {}
    for sid, oid, at_ms in rows:
        if len(found) >= most:
            break
        text = text_of(store, oid) if sid in sessions and has_entry(catalogue.db, sid, oid) else None
        if text is not None and not _INSERTED.match(text):
            found.setdefault(
                " ".join(text.split()), StoredPrompt(session=sessions[sid], oid=oid, at_ms=at_ms, text=text)
            )
    return list(found.values())
