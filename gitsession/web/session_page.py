"""The page of one session: the same for a file and for the server, except for the way in which its parts are loaded."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

from markupsafe import Markup

from gitsession.index import names
from gitsession.index.catalogue import Catalogue, Row
from gitsession.redaction.guard import Guard
from gitsession.sessions import graph
from gitsession.sessions.graph import Tree
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore
from gitsession.web.entry_renderer import EntryRenderer
from gitsession.web.page import clock, render
from gitsession.web.reading import EntryReader, ReadEntry
from gitsession.web.transcript import PART_ENTRIES, OutlineRow, PagePart, Transcript

_ROWS_AT_ONCE = 500
"""Number of rows of the branch tree in one part."""

_GAPS_MAX = 100


class PartView(NamedTuple):
    """A part in a page: its entries as HTML, or the address from which they are loaded.

    Attributes:
        number: The index of the part in the page.
        entries: The number of entries.
        html: The entries; "" if they are loaded later.
        more: The address from which the entries are loaded, or ``inline`` if the page contains them in a form that is
            not parsed before they are shown.
        names: The numbers of the entries, such as ``201 to 400``, if they are loaded later.
    """

    number: int
    entries: int
    html: Markup
    more: str = ""
    names: str = ""


class SectionView(NamedTuple):
    """A section in a page. ``onto``: the id of the entry after which it begins; "" if it begins at a root."""

    name: str
    onto: str
    tip: str
    parts: Iterable[PartView]


class SessionPage:
    """A session, ordered and ready to be rendered in parts.

    Attributes:
        row: The session in the catalog.
        transcript: The entries in the order of the page.
        tips: The tips of all branches.
        parts: The parts of each section.
        renderer: The renderer of the entries.
    """

    def __init__(
        self,
        store: ObjectStore,
        catalogue: Catalogue,
        row: Row,
        guard: Guard,
        *,
        tree: Tree | None = None,
        at: Node | None = None,
        allowed: Collection[str] = (),
        on_read: Callable[[ReadEntry], None] = lambda _: None,
    ) -> None:
        """Order the entries.

        ``tree``: the entries; ``None`` for all of them. ``at``: if it is set, only the history of this entry is shown.
        See also ``EntryReader``.
        """
        self.row = row._replace(title=guard.excerpt(row.name), project=guard.words(row.project or "") or None)
        tree = tree or graph.tree(store, row.sid)
        self.tips = frozenset(tree.branches.values())
        labels = {oid: guard.words(label) for oid, label in names.names(catalogue, row.sid).labels.items()}
        self.transcript = Transcript(tree, row.active, labels, at=at, withhold=guard.excerpt)
        self.parts = self.transcript.parts()
        reader = EntryReader(store, row.sid, guard, allowed)
        self.renderer = EntryRenderer(store, self.transcript, reader, row.project or "", on_read)
        self._problems = [f"Entry {gap.oid[:12]} cannot be read: {gap.problem}" for gap in tree.gaps[:_GAPS_MAX]]

    def facts(self) -> list[tuple[str, str]]:
        """Return the facts below the title, as names and values."""
        row = self.row
        branches = len(self.transcript.sections)
        facts = {
            "Agent": row.agent,
            "Folder": row.project or "",
            "Started": clock(row.created_ms),
            "Updated": clock(row.updated_ms) if clock(row.updated_ms) != clock(row.created_ms) else "",
            "Entries": f"{sum(len(section.shown) for section in self.transcript.sections):,}",
            "Branches": f"{branches:,}" if branches > 1 else "",
            "Tokens": f"{row.tokens:,}" if row.tokens else "",
            "Session": row.sid,
        }
        return [(name, value) for name, value in facts.items() if value]

    def html(self, sections: list[SectionView], **values: Any) -> str:
        """Return the page with ``sections``. ``values``: the other values of the template."""
        defaults = {"pages": (), "live": "", "tips": "", "where": "", "all": ""}
        return render(
            "session.html", title=self.row.name, sid=self.row.sid, facts=self.facts(), sections=sections,
            problems=self._problems, chunks=_chunks(self.transcript.rows()), **{**defaults, **values},
        )  # fmt: skip

    def sections(self, part_view: Callable[[PagePart], PartView]) -> list[SectionView]:
        """Return the sections for the template. ``part_view``: a function that returns a part for the template."""
        return [
            SectionView(section.name, (section.onto or "")[:12], section.tip, map(part_view, parts))
            for section, parts in zip(self.transcript.sections, self.parts, strict=True)
        ]

    def part_with(self, prefix: str) -> PagePart | None:
        """Return the part with the entry whose oid begins with ``prefix``; ``None`` if there is none."""
        parts = itertools.chain(*self.parts)
        return next((part for part in parts if any(node.oid.startswith(prefix) for node in part.nodes)), None)

    def loaded(self, part: PagePart, more: str = "") -> PartView:
        """Return a part with its entries as HTML."""
        return PartView(part.number, len(part.nodes), self.renderer.html_of(part.nodes), more)

    def postponed(self, part: PagePart, address: str) -> PartView:
        """Return a part without its entries, which are loaded from ``address``."""
        first = part.number * PART_ENTRIES + 1
        entries = f"{first:,} to {first + len(part.nodes) - 1:,}"
        return PartView(part.number, len(part.nodes), Markup(), address, entries)


def _chunks(rows: Iterator[OutlineRow]) -> Iterator[list[OutlineRow]]:
    while chunk := list(itertools.islice(rows, _ROWS_AT_ONCE)):
        yield chunk
