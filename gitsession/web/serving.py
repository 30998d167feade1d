"""Names that all pages of the server share: the store that they read, and the answer that they return."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from gitsession.index.catalogue import Catalogue
from gitsession.index.search import Hit
from gitsession.store.interface import ObjectStore
from gitsession.web.page import render

PAGES = (("/", "Sessions"), ("/files", "Files"), ("/stats", "Statistics"), ("/search", "Search"))
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

    @classmethod
    def html(cls, text: str, status: HTTPStatus = HTTPStatus.OK) -> Answer:
        """Return an answer with HTML."""
        return cls(text.encode("utf-8", "replace"), status)

    @classmethod
    def page(cls, name: str, current: str, **values: Any) -> Answer:
        """Return the page of the template ``name``. ``current``: the address of the page in the navigation."""
        return cls.html(render(name, pages=PAGES, current=current, is_served=True, **values))
