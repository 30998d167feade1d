"""The pages of a whole store, by address. ``web.server`` sends them."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlencode

from markupsafe import Markup, escape

from gitsession.errors import NotFound
from gitsession.formats.base.fields import to_iso
from gitsession.git.types import Oid
from gitsession.index import names
from gitsession.index.catalogue import Catalogue, Row
from gitsession.index.search import Hit
from gitsession.index.search_words import ROLES
from gitsession.redaction.guard import Guard
from gitsession.sessions import graph
from gitsession.sessions.node import Node, load
from gitsession.store import refs
from gitsession.store.interface import ObjectStore
from gitsession.web.entries import ID_CHARS
from gitsession.web.page import PartView, SectionView, render, template
from gitsession.web.session_page import SessionPage
from gitsession.web.transcript import PagePart

SESSIONS_AT_ONCE = 100
"""Number of sessions on one page of the list."""

INLINE_ENTRIES_MAX = 400
"""Maximum number of entries of a session that are sent with its page. The parts of a longer one are loaded later."""

NEWEST_FROM, NEWEST_ENTRIES = 10_000, 200
"""Minimum number of entries of a session of which only the newest are shown at first, and their number.

To order all entries takes seconds.
"""

_HITS_MAX = 100
_NEAR_ENTRIES = 500
"""Number of entries that are read to find the entry after which new entries were appended, before all are read."""

_PAGES_KEPT = 4
_PREFIX = re.compile(r"[0-9a-f]{4,40}")

PAGES = (("/", "Sessions"), ("/search", "Search"))
"""The pages in the navigation: their addresses and names."""


class StoreReader(Protocol):
    """The part of a store that the pages use."""

    @property
    def objects(self) -> ObjectStore: ...
    def catalogue(self) -> Catalogue: ...
    def search(self, query: str, *, agent: str = "", role: str = "", most: int = 20) -> list[Hit]: ...


class Answer(NamedTuple):
    """The answer to a request."""

    body: bytes = b""
    status: HTTPStatus = HTTPStatus.OK
    type: str = "text/html; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


class ListedSession(NamedTuple):
    """A session in a list."""

    sid: str
    name: str
    facts: tuple[tuple[str, str], ...]


class ListedHit(NamedTuple):
    """A hit of a search. ``html``: the text around the hit, with marked words."""

    id: str
    role: str
    html: Markup


class Site:
    """The pages of a store.

    ``refresh``: a function that ingests what agents wrote since the last call.
    """

    def __init__(self, store: StoreReader, guard: Guard, refresh: Callable[[], None] = lambda: None) -> None:
        self._store, self._guard, self._refresh = store, guard, refresh
        self._refreshing, self._ordering = threading.Lock(), threading.Lock()
        self._pages: dict[str, tuple[object, SessionPage]] = {}

    def answer(self, path: str, values: Mapping[str, str]) -> Answer:
        """Return the answer to a request for ``path``. Raises ``NotFound`` if there is no such page."""
        match path.strip("/").split("/"):
            case [""]:
                return self._list(values)
            case ["search"]:
                return self._search(values)
            case ["session", sid] if refs.is_sid(sid):
                return self._session(sid, values)
            case ["session", sid, "part", first, count] if refs.is_sid(sid):
                return self._part(sid, first, count)
            case ["session", sid, "where"] if refs.is_sid(sid):
                return self._where(sid, values.get("entry", ""))
            case ["session", sid, "new"] if refs.is_sid(sid):
                return self._new(sid, values.get("tips", ""))
        raise NotFound(f"there is no page {path[:100]!r}")

    # ---- lists

    def _list(self, values: Mapping[str, str]) -> Answer:
        self._ingest()
        rows = self._store.catalogue().sessions()
        text, agent, project = (values.get(name, "") for name in ("text", "agent", "project"))
        agents = sorted({row.agent for row in rows})
        projects = sorted({(name, _short(name)) for row in rows if (name := row.identity or row.project)}, key=_second)
        words = text.lower().split()
        found = [
            row
            for row in rows
            if agent in ("", row.agent)
            and project in ("", row.identity, row.project)
            and all(word in f"{row.name} {row.project} {row.sid}".lower() for word in words)
        ]
        number = _number(values.get("page", "0"))
        shown = found[number * SESSIONS_AT_ONCE : (number + 1) * SESSIONS_AT_ONCE]
        asked = {"text": text, "agent": agent, "project": project}
        older = number + 1 if len(found) > (number + 1) * SESSIONS_AT_ONCE else None
        return _html(
            "list.html", current="/", rows=list(map(_listed, shown)), agents=agents, projects=projects, **asked,
            found=f"{len(found):,} of {len(rows):,} sessions" if len(found) < len(rows) else f"{len(rows):,} sessions",
            newer=_address(asked, number - 1 if number else None), older=_address(asked, older),
        )  # fmt: skip

    def _search(self, values: Mapping[str, str]) -> Answer:
        self._ingest()
        query, agent, role = (values.get(name, "") for name in ("q", "agent", "role"))
        role = role if role in ROLES else ""
        is_query = any(char.isalnum() for char in query)
        hits = self._store.search(query, agent=agent, role=role, most=_HITS_MAX) if is_query else []
        groups: dict[str, tuple[ListedSession, list[ListedHit]]] = {}
        for hit in hits:
            group = groups.setdefault(hit.session.sid, (_listed(hit.session), []))
            group[1].append(ListedHit(hit.oid[:ID_CHARS], hit.role, _marked(hit.snippet, hit.words)))
        agents = sorted({row.agent for row in self._store.catalogue().sessions()})
        return _html(
            "search.html", current="/search", query=query, agent=agent, role=role, agents=agents, roles=ROLES,
            groups=list(groups.values()),
        )  # fmt: skip

    # ---- sessions

    def _session(self, sid: str, values: Mapping[str, str]) -> Answer:
        self._ingest()
        row = self._row(sid)
        if row.entries >= NEWEST_FROM and not values and not self._is_ordered(row):
            threading.Thread(target=self._prepare, args=(sid,), daemon=True).start()
            page = self._newest(row)
            return self._page_answer(page, page.sections(page.loaded), row.branches.values(), all="?all=1")
        page = self._page(sid)
        entry = values.get("entry", "")
        chosen = page.part_with(entry) if _PREFIX.fullmatch(entry) else None
        parts = list(itertools.chain(*page.parts))
        number = chosen.number if chosen is not None else _number(values.get("part", "0"))
        is_short = sum(len(part.nodes) for part in parts) <= INLINE_ENTRIES_MAX

        def view(part: PagePart) -> PartView:
            if is_short or part.number == number:
                return page.loaded(part)
            return page.postponed(part, f"/session/{sid}/part/{_first(part)}/{len(part.nodes)}")

        return self._page_answer(page, page.sections(view), page.tips)

    def _page_answer(
        self, page: SessionPage, sections: list[SectionView], tips: Iterable[Oid], **values: str
    ) -> Answer:
        base = f"/session/{page.row.sid}"
        html = page.html(
            sections, pages=PAGES, current="", is_served=True, live=f"{base}/new", tips=",".join(sorted(tips)),
            where=f"{base}/where", **values,
        )  # fmt: skip
        return Answer(html.encode("utf-8", "replace"))

    def _prepare(self, sid: str) -> None:
        """Order all entries of a session in the background, so that the link to them is fast."""
        with contextlib.suppress(Exception):  # for example, the server ended
            self._page(sid)

    def _part(self, sid: str, first: str, count: str) -> Answer:
        page = self._page(sid)
        part = page.part_with(first) if _PREFIX.fullmatch(first) else None
        if part is None or _first(part) != first:
            raise NotFound(f"session {sid} has no part that begins at {first[:40]!r}")
        nodes = part.nodes[: max(_number(count), 1)]
        return Answer(page.renderer.html_of(nodes).encode("utf-8", "replace"))

    def _where(self, sid: str, prefix: str) -> Answer:
        part = self._page(sid).part_with(prefix) if _PREFIX.fullmatch(prefix) else None
        if part is None:
            raise NotFound(f"session {sid} has no entry {prefix[:40]!r}")
        return Answer(_first(part).encode(), type="text/plain; charset=utf-8")

    def _new(self, sid: str, tips: str) -> Answer:
        """Return the entries that are not in the histories of ``tips``, as JSON, or nothing if there are none."""
        self._ingest()
        known = set(tips.split(","))
        objects = self._store.objects
        branches = graph.branches(objects, sid)
        if not branches:
            raise NotFound(f"there is no session {sid}")
        if known >= set(branches.values()):
            return Answer(status=HTTPStatus.NO_CONTENT)
        page = self._newest(self._row(sid))
        sections = []
        for name, tip in branches.items():
            nodes, after = _after(objects, tip, known)
            if not nodes:
                continue
            known |= {node.oid for node in nodes}
            shown = [node for node in nodes if page.transcript.is_shown(node)]
            rows = [row for node in nodes if (row := page.transcript.row_of(node)) is not None]
            html = page.renderer.html_of(shown) if shown else ""
            tree = template("rows.html").render(rows=rows) if rows else ""
            sections.append({"name": name, "after": after, "tip": tip, "html": html, "rows": tree})
        news = {"tips": ",".join(sorted(set(branches.values()))), "sections": sections}
        return Answer(json.dumps(news).encode(), type="application/json")

    def _page(self, sid: str) -> SessionPage:
        """Return the page of a session, in the order of its current entries."""
        row = self._row(sid)
        state = self._state(row)
        with self._ordering:
            kept = self._pages.pop(sid, None)
            if kept is None or kept[0] != state:
                kept = (state, SessionPage(self._store.objects, self._store.catalogue(), row, self._guard))
            self._pages[sid] = kept
            while len(self._pages) > _PAGES_KEPT:
                del self._pages[next(iter(self._pages))]
            return kept[1]

    def _state(self, row: Row) -> object:
        """Return a value that changes when the order or the labels of a session's entries change."""
        return row, names.names(self._store.catalogue(), row.sid).labels

    def _is_ordered(self, row: Row) -> bool:
        kept = self._pages.get(row.sid)
        return kept is not None and kept[0] == self._state(row)

    def _newest(self, row: Row) -> SessionPage:
        """Return a page with only the newest entries of the active branch. It is ready at once."""
        objects, tip = self._store.objects, row.branches[row.active]
        nodes = {node.oid: node for node in itertools.islice(graph.history(objects, tip), NEWEST_ENTRIES)}
        children: dict[Oid | None, list[Oid]] = {}
        for node in nodes.values():
            children.setdefault(node.parent if node.parent in nodes else None, []).append(node.oid)
        tree = graph.Tree({row.active: tip}, nodes, children)
        return SessionPage(objects, self._store.catalogue(), row, self._guard, tree=tree)

    def _row(self, sid: str) -> Row:
        row = self._store.catalogue().session(sid)
        if row is None:
            raise NotFound(f"there is no session {sid}")
        return row

    def _ingest(self) -> None:
        if self._refreshing.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._refreshing.release()


def _after(store: ObjectStore, tip: Oid, known: set[Oid]) -> tuple[list[Node], Oid]:
    """Return the entries from ``tip`` back to the histories of ``known``, oldest first, and the entry before them.

    The entry is "" if the entries begin at a root.
    """
    near, oid = _back(store, tip, known, _NEAR_ENTRIES)
    if oid not in known:  # a branch that begins at an older entry
        older: set[Oid] = set()
        for one in known:
            if store.contains(one):
                older.update(node.oid for node in graph.history(store, one))
        near, oid = _back(store, tip, older, None)
    return near[::-1], oid or ""


def _back(store: ObjectStore, tip: Oid, known: set[Oid], most: int | None) -> tuple[list[Node], Oid | None]:
    nodes: list[Node] = []
    oid: Oid | None = tip
    while oid is not None and oid not in known and (most is None or len(nodes) < most):
        nodes.append(load(store, oid))
        oid = nodes[-1].parent
    return nodes, oid


def _first(part: PagePart) -> str:
    return part.nodes[0].oid[:ID_CHARS]


def _html(name: str, **values: Any) -> Answer:
    page = render(name, pages=PAGES, is_served=True, **values)
    return Answer(page.encode("utf-8", "replace"))


def _listed(row: Row) -> ListedSession:
    facts = {
        "Agent": row.agent,
        "Folder": _short(row.project or ""),
        "Updated": to_iso(row.updated_ms)[:16].replace("T", " ") if row.updated_ms > 0 else "",
        "Entries": f"{row.entries:,}",
        "Branches": f"{len(row.branches):,}" if len(row.branches) > 1 else "",
        "Tokens": f"{row.tokens:,}" if row.tokens else "",
    }
    return ListedSession(row.sid, row.name, tuple((name, value) for name, value in facts.items() if value))


def _short(project: str) -> str:
    """Return a project as people name it: without the kind of its identity."""
    return project.removeprefix("remote:")


def _second(pair: tuple[str, str]) -> str:
    return pair[1]


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def _address(asked: Mapping[str, str], page: int | None) -> str:
    """Return the address of another page of the list; "" if there is none."""
    values = {name: value for name, value in asked.items() if value}
    return "" if page is None else f"/?{urlencode({**values, 'page': str(page)})}"


def _marked(text: str, words: Sequence[str]) -> Markup:
    """Return ``text`` with ``words`` marked."""
    pattern = "|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)"
    pieces = re.split(f"({pattern})", text)
    shown = (Markup("<mark>{}</mark>").format(piece) if at % 2 else escape(piece) for at, piece in enumerate(pieces))
    return Markup("").join(shown)
