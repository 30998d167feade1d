"""The pages of sessions on the server: their parts, and the entries that an agent appends meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus

from gitsession.errors import NotFound
from gitsession.git.types import Oid
from gitsession.index import names
from gitsession.index.catalogue import Row
from gitsession.redaction.guard import Guard
from gitsession.sessions import graph
from gitsession.sessions.node import Node, load
from gitsession.store.interface import ObjectStore
from gitsession.web.entries import ID_CHARS
from gitsession.web.page import template
from gitsession.web.selection import number_in
from gitsession.web.serving import PAGES, Answer, StoreReader
from gitsession.web.session_page import PartView, SectionView, SessionPage
from gitsession.web.transcript import PagePart

INLINE_ENTRIES_MAX = 400
"""Maximum number of entries of a session that are sent with its page. The parts of a longer one are loaded later."""

NEWEST_FROM, NEWEST_ENTRIES = 10_000, 200
"""Minimum number of entries of a session of which only the newest are shown at first, and their number.

To order all entries takes seconds.
"""

_NEAR_ENTRIES = 500
"""Number of entries that are read to find the entry after which new entries were appended, before all are read."""

_PAGES_KEPT = 4
_PREFIX = re.compile(r"[0-9a-f]{4,40}")


class ServedSessions:
    """The pages of all sessions of a store. The order of the entries is kept for the newest pages."""

    def __init__(self, store: StoreReader, guard: Guard) -> None:
        self._store, self._guard = store, guard
        self._ordering = threading.Lock()
        self._pages: dict[str, tuple[object, SessionPage]] = {}

    def answer(self, sid: str, path: Sequence[str], values: Mapping[str, str]) -> Answer:
        """Return the answer to a request for ``path`` of a session. Raises ``NotFound`` if there is no such page."""
        match path:
            case []:
                return self._session(sid, values)
            case ["part", first, count]:
                return self._part(sid, first, count)
            case ["where"]:
                return self._where(sid, values.get("entry", ""))
            case ["new"]:
                return self._new(sid, values.get("tips", ""))
        raise NotFound(f"session {sid} has no page {'/'.join(path)[:100]!r}")

    def _session(self, sid: str, values: Mapping[str, str]) -> Answer:
        row = self._row(sid)
        if row.entries >= NEWEST_FROM and not values and not self._is_ordered(row):
            threading.Thread(target=self._prepare, args=(sid,), daemon=True).start()
            page = self._newest(row)
            return _page_answer(page, page.sections(page.loaded), row.branches.values(), all="?all=1")
        page = self._page(sid)
        entry = values.get("entry", "")
        chosen = page.part_with(entry) if _PREFIX.fullmatch(entry) else None
        parts = list(itertools.chain(*page.parts))
        number = chosen.number if chosen is not None else number_in(values.get("part", ""))
        is_short = sum(len(part.nodes) for part in parts) <= INLINE_ENTRIES_MAX

        def view(part: PagePart) -> PartView:
            if is_short or part.number == number:
                return page.loaded(part)
            return page.postponed(part, f"/session/{sid}/part/{_first(part)}/{len(part.nodes)}")

        return _page_answer(page, page.sections(view), page.tips)

    def _part(self, sid: str, first: str, count: str) -> Answer:
        page = self._page(sid)
        part = page.part_with(first) if _PREFIX.fullmatch(first) else None
        if part is None or _first(part) != first:
            raise NotFound(f"session {sid} has no part that begins at {first[:40]!r}")
        return Answer.html(page.renderer.html_of(part.nodes[: max(number_in(count), 1)]))

    def _where(self, sid: str, prefix: str) -> Answer:
        part = self._page(sid).part_with(prefix) if _PREFIX.fullmatch(prefix) else None
        if part is None:
            raise NotFound(f"session {sid} has no entry {prefix[:40]!r}")
        return Answer(_first(part).encode(), type="text/plain; charset=utf-8")

    # ---- the order of the entries

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

    def _prepare(self, sid: str) -> None:
        """Order all entries of a session in the background, so that the link to them is fast."""
        with contextlib.suppress(Exception):  # for example, the server ended
            self._page(sid)

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

    # ---- new entries

    def _new(self, sid: str, tips: str) -> Answer:
        """Return the entries that are not in the histories of ``tips``, as JSON, or nothing if there are none."""
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


def _page_answer(page: SessionPage, sections: list[SectionView], tips: Iterable[Oid], **values: str) -> Answer:
    base = f"/session/{page.row.sid}"
    return Answer.html(
        page.html(
            sections, pages=PAGES, current="", is_served=True, live=f"{base}/new", tips=",".join(sorted(tips)),
            where=f"{base}/where", **values,
        )
    )  # fmt: skip


def _first(part: PagePart) -> str:
    return part.nodes[0].oid[:ID_CHARS]
