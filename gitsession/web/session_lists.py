"""The list of sessions, and the search."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from gitsession.index.catalogue import Row
from gitsession.index.search import Hit
from gitsession.index.search_words import ROLES
from gitsession.redaction.guard import Guard
from gitsession.web.entries import ID_CHARS
from gitsession.web.page import clock
from gitsession.web.reading import withheld_in
from gitsession.web.selection import SessionSelection, counted, page_of, short_project
from gitsession.web.serving import Answer, StoreReader

_HITS_MAX = 100


class ListedSession(NamedTuple):
    """A session in a list. ``changed``: the number of files that it changed."""

    sid: str
    name: str
    facts: tuple[tuple[str, str], ...]
    changed: int


class ListedHit(NamedTuple):
    """A hit of a search. ``html``: the text around the hit, with marked words."""

    id: str
    role: str
    html: Markup


def session_list(store: StoreReader, guard: Guard, values: Mapping[str, str]) -> Answer:
    """Return the list of sessions, the newest first."""
    rows = store.catalogue().sessions()
    selection = SessionSelection(rows, values, guard)
    text = values.get("text", "")
    words = text.lower().split()
    found = [
        row for row in selection.rows if all(word in f"{row.name} {row.project} {row.sid}".lower() for word in words)
    ]
    shown, pager = page_of(found, "/", values)
    count = counted(len(found), len(rows), "session")
    listed = [_listed(row, guard) for row in shown]
    return Answer.page("list.html", "/", rows=listed, selection=selection, text=text, found=count, pager=pager)


def search(store: StoreReader, guard: Guard, values: Mapping[str, str]) -> Answer:
    """Return the hits of a search, by session."""
    query, role = values.get("q", ""), values.get("role", "")
    role = role if role in ROLES else ""
    selection = SessionSelection(store.catalogue().sessions(), values, guard)
    is_query = any(char.isalnum() for char in query)
    hits = store.search(query, agent=selection.agent, role=role, most=_HITS_MAX) if is_query else []
    groups: dict[str, tuple[ListedSession, list[ListedHit]]] = {}
    for hit in hits:
        group = groups.setdefault(hit.session.sid, (_listed(hit.session, guard), []))
        group[1].append(ListedHit(hit.oid[:ID_CHARS], hit.role, _marked(_excerpt(store, guard, hit), hit.words)))
    return Answer.page(
        "search.html", "/search", query=query, role=role, roles=ROLES, selection=selection, groups=groups.values()
    )


def _excerpt(store: StoreReader, guard: Guard, hit: Hit) -> str:
    if hit.role != "title" and withheld_in(store.objects, guard, hit.session.sid, hit.oid):
        return "(withheld: the entry contains a secret)"
    return guard.excerpt(hit.snippet)


def _listed(row: Row, guard: Guard) -> ListedSession:
    facts = {
        "Agent": row.agent,
        "Folder": short_project(guard.words(row.project or "")),
        "Updated": clock(row.updated_ms),
        "Entries": f"{row.entries:,}",
        "Branches": f"{len(row.branches):,}" if len(row.branches) > 1 else "",
        "Tokens": f"{row.tokens:,}" if row.tokens else "",
    }
    shown = tuple((name, value) for name, value in facts.items() if value)
    return ListedSession(row.sid, guard.excerpt(row.name), shown, row.changed)


def _marked(text: str, words: Sequence[str]) -> Markup:
    """Return ``text`` with ``words`` marked."""
    pattern = "|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)"
    pieces = re.split(f"({pattern})", text)
    shown = (Markup("<mark>{}</mark>").format(piece) if at % 2 else escape(piece) for at, piece in enumerate(pieces))
    return Markup("").join(shown)
