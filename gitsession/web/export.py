"""Export of a session as one HTML file that contains everything that it shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from gitsession import progress
from gitsession.git.types import Oid
from gitsession.index.catalogue import Catalogue, Row
from gitsession.redaction.guard import Guard
from gitsession.redaction.original import OPENS
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore
from gitsession.web.reading import ReadEntry, SuspiciousText, suspicious_in, texts_of
from gitsession.web.session_page import PartView, SessionPage
from gitsession.web.transcript import PagePart


class HtmlExport(NamedTuple):
    """A session as an HTML file.

    Attributes:
        data: The content of the file.
        hidden: The number of placeholders that replace secrets in the file.
        suspicious: Text that looks like a secret, although no rule found it.
        left_out: The number of entries without a readable form.
    """

    data: bytes
    hidden: int
    suspicious: tuple[SuspiciousText, ...]
    left_out: int


def export(
    store: ObjectStore,
    catalogue: Catalogue,
    row: Row,
    guard: Guard,
    *,
    at: Node | None = None,
    allowed: Collection[str] = (),
) -> HtmlExport:
    """Return all branches of a session as HTML. ``at``: if it is set, only the history of this entry.

    ``guard``: the rules for secrets. Secrets that the store has not redacted are withheld too, except for the
    exceptions ``allowed``.
    """
    hidden = 0
    suspicious: dict[tuple[str, int], SuspiciousText] = {}

    def search(oid: Oid, texts: Iterable[str]) -> None:
        for text in suspicious_in(oid, texts):
            suspicious.setdefault((text.beginning, text.length), text)

    def look(read: ReadEntry) -> None:
        nonlocal hidden
        hidden += read.hidden + len(read.withheld)
        search(read.node.oid, texts_of(read.entry))

    page = SessionPage(store, catalogue, row, guard, at=at, allowed=allowed, on_read=look)
    parts = progress.each("Rendering entries", [part for section in page.parts for part in section])
    views = iter([_view(page, part) for part in parts])
    html = page.html(page.sections(lambda _: next(views)))
    for oid, label in page.transcript.labels.items():
        search(oid, [label])
    search(row.branches[row.active], [guard.words(row.title or "")])
    hidden = min(hidden, html.count(OPENS))
    return HtmlExport(html.encode("utf-8", "replace"), hidden, tuple(suspicious.values()), page.renderer.left_out)


def _view(page: SessionPage, part: PagePart) -> PartView:
    """Return a part of the page. All parts but the first are parsed when they are shown, if scripts are enabled."""
    return page.loaded(part, "inline" if part.number else "")
