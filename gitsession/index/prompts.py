"""The user's prompts without duplicates, the newest first: those of all sessions, and those in agents' histories."""

from __future__ import annotations

import contextlib
import heapq
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gitsession.dataclass import dataclass
from gitsession.formats.prompt_histories import TypedPrompt
from gitsession.git.types import Oid
from gitsession.index.catalogue import Catalogue, Row
from gitsession.index.current_folder import CurrentFolder, is_at_or_above
from gitsession.index.derived import storable
from gitsession.index.entry_rows import has_entry
from gitsession.index.search import TOKENIZER, text_of, with_index
from gitsession.index.search_words import expression, separate_characters
from gitsession.index.vocabulary import Vocabulary
from gitsession.pattern import pattern
from gitsession.store.interface import ObjectStore

_USER = "SELECT sid, oid, at_ms FROM docs WHERE role = 'user' {} ORDER BY at_ms DESC, id DESC"
_MATCHING = "AND id IN (SELECT rowid FROM words WHERE words MATCH ?)"

INSERTED = pattern(
    r"<(?:local-command-|command-|system-reminder|task-notification|bash-)|\[Request interrupted by user"
)
"""The start of a text that Claude Code inserted as a prompt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecentPrompt:
    """A prompt of the user.

    Attributes:
        agent: The name of the agent.
        at_ms: The time of the prompt, Unix time in ms; 0 if it is unknown.
        text: The text of the prompt.
        project: The working directory of the session; ``None`` if it is unknown.
        session: The session; ``None`` if the prompt is from the agent's own history, and the session is not stored.
        oid: The oid of the entry; ``None`` if the prompt is from the agent's own history.
    """

    agent: str
    at_ms: int
    text: str
    project: str | None = None
    session: Row | None = None
    oid: Oid | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptQuery:
    """The parameters of a list of prompts.

    ``query``: the words that the prompts must contain, as in a search, or "". ``rows``: all sessions. ``sessions``: the
    sessions whose prompts are listed, by id. ``folder``: the folder of these sessions; ``None`` if they are of all
    folders. ``most``: the maximum number of prompts. ``typed``: a function that returns iterators over the prompts in
    agents' histories, each with the newest prompt first. ``redact``: a function that replaces secrets in their texts.
    """

    query: str
    rows: Sequence[Row]
    sessions: Mapping[str, Row]
    most: int
    folder: CurrentFolder | None = None
    typed: Callable[[], Iterable[Iterable[TypedPrompt]]] = tuple
    redact: Callable[[str], str] = str


def recent_prompts(catalogue: Catalogue, store: ObjectStore, wanted: PromptQuery) -> list[RecentPrompt]:
    """Return prompts, the newest first. Of prompts with the same text, only the newest is returned.

    Raises ``Unavailable`` if SQLite has no FTS5, or if another process has locked the index.
    """
    return with_index(catalogue, store, lambda db: _prompts(db, catalogue, store, wanted))


def _prompts(
    db: sqlite3.Connection, catalogue: Catalogue, store: ObjectStore, wanted: PromptQuery
) -> list[RecentPrompt]:
    histories = _from_histories(wanted)
    prompts = heapq.merge(_stored(db, catalogue, store, wanted), *histories, key=lambda prompt: -prompt.at_ms)
    newest: dict[str, RecentPrompt] = {}
    for prompt in prompts:
        newest.setdefault(" ".join(prompt.text.split()), prompt)
        if len(newest) >= wanted.most:
            break
    return sorted(newest.values(), key=lambda prompt: -prompt.at_ms)  # the times in a history can be out of order


def _stored(
    db: sqlite3.Connection, catalogue: Catalogue, store: ObjectStore, wanted: PromptQuery
) -> Iterator[RecentPrompt]:
    match_query = expression(wanted.query, Vocabulary(db).forms)
    rows = db.execute(_USER.format(_MATCHING if match_query else ""), (match_query,) if match_query else ())
    for sid, oid, at_ms in rows:
        row = wanted.sessions.get(sid)
        text = text_of(store, oid) if row is not None and has_entry(catalogue.db, sid, oid) else None
        if row is not None and text is not None and not INSERTED.match(text):
            yield RecentPrompt(agent=row.agent, at_ms=at_ms, text=text, project=row.project, session=row, oid=oid)


def _from_histories(wanted: PromptQuery) -> Iterator[Iterator[RecentPrompt]]:
    """Yield an iterator over the listed prompts of each history. A prompt is read when it is requested."""
    by_source = {(row.agent, row.source_id): row for row in wanted.rows}
    projects = {row.project for row in wanted.sessions.values()}

    def is_wanted(prompt: TypedPrompt) -> bool:
        row = by_source.get((prompt.agent, prompt.source_id))
        if row is not None:
            return row.sid in wanted.sessions
        here, project = wanted.folder, prompt.project
        return here is None or (bool(project) and (project in projects or is_at_or_above(project, here)))

    def recent(prompt: TypedPrompt) -> RecentPrompt:
        row = by_source.get((prompt.agent, prompt.source_id))
        project = prompt.project or (row.project if row is not None else None)
        text = wanted.redact(prompt.text)
        return RecentPrompt(agent=prompt.agent, at_ms=prompt.at_ms, text=text, project=project, session=row)

    for history in wanted.typed():
        found: Iterable[TypedPrompt] = filter(is_wanted, history)
        yield map(recent, _matching(list(found), wanted.query) if wanted.query else found)


def _matching(prompts: Sequence[TypedPrompt], query: str) -> list[TypedPrompt]:
    """Return the prompts that a search for ``query`` would find if they were in the index; all if it has no words."""
    if not expression(query):
        return list(prompts)
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.execute(f"CREATE VIRTUAL TABLE words USING fts5 (asked, content='', {TOKENIZER})")
        texts = ((number, storable(separate_characters(prompt.text))) for number, prompt in enumerate(prompts))
        db.executemany("INSERT INTO words (rowid, asked) VALUES (?, ?)", texts)
        match_query = expression(query, Vocabulary(db).forms)
        rows = db.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid", (match_query,)).fetchall()
        return [prompts[number] for (number,) in rows]
