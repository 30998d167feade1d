"""The pages, which are templates with the style sheet and the script in them.

A page loads nothing: its Content-Security-Policy allows the style sheet and the script by their digests, images in
``data:`` URLs, and in pages of the server requests to the server.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from gitsession.git.types import Oid
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Message
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.node import Node, load
from gitsession.store.interface import ObjectStore
from gitsession.web.entries import Around, EntryView, view_of
from gitsession.web.reading import EntryReader, ReadEntry
from gitsession.web.text import on_one_line
from gitsession.web.transcript import Transcript

_FOLDER = Path(__file__).parent
_CALL_DISTANCE = 16
"""Number of entries before a part in which the tool calls of its first results are searched for."""

_CALLS_MAX = 1000
"""Maximum number of tool calls that are remembered until their results are shown."""


class EntryRenderer:
    """A renderer of the entries of one session. Threads can share it.

    ``on_read``: a function that receives each entry before it is rendered.
    """

    def __init__(
        self,
        store: ObjectStore,
        transcript: Transcript,
        reader: EntryReader,
        folder: str,
        on_read: Callable[[ReadEntry], None] = lambda _: None,
    ) -> None:
        self._store, self._transcript, self._reader, self._folder = store, transcript, reader, folder
        self._on_read = on_read
        self._calls: dict[str, ToolCall] = {}
        self._rendering = threading.Lock()
        self.left_out = 0

    def html_of(self, nodes: Sequence[Node]) -> Markup:
        """Return consecutive entries as HTML."""
        with self._rendering:
            self._remember_calls_before(nodes[0])
            return Markup(template("entries.html").render(entries=self._views(nodes)))

    def _views(self, nodes: Sequence[Node]) -> Iterator[EntryView]:
        """Yield the views of entries. Entries without a readable form are left out, and counted in ``left_out``."""
        for read in self._reader.read(nodes):
            self._on_read(read)
            self._remember(read)
            view = view_of(read.node, read.entry, self._around(read.node.oid), self._calls.get)
            if view is None:
                self.left_out += 1
            else:
                yield view

    def _around(self, oid: Oid) -> Around:
        found = self._transcript
        begins = tuple((each.name, each.first_id) for each in found.begins.get(oid, ()) if each.shown)
        return Around(found.labels.get(oid, ""), found.tips.get(oid, ()), begins, self._folder)

    def _remember(self, read: ReadEntry) -> None:
        if isinstance(read.entry, Message):
            self._calls |= {block.id: block for block in read.entry.content if isinstance(block, ToolCall)}
            while len(self._calls) > _CALLS_MAX:
                del self._calls[next(iter(self._calls))]

    def _remember_calls_before(self, node: Node) -> None:
        """Remember the tool calls before the result ``node``, which may be in another part."""
        before: list[Node] = []
        with contextlib.suppress(*DAMAGE):
            while node.role == "tool" and node.parent is not None and len(before) < _CALL_DISTANCE:
                before.append(load(self._store, node.parent))
                node = before[-1]._replace(role="tool")
        for read in self._reader.read(before):
            self._remember(read)


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


def render(name: str, **values: Any) -> str:
    """Return the page of the template ``name``, with the style sheet and the script."""
    style, script = static("style.css"), static("page.js")
    return template(name).render(style=Markup(style), script=Markup(script), csp=policy(**values), **values)


def policy(*, is_served: bool = False, **_values: Any) -> str:
    """Return the Content-Security-Policy of a page."""
    rules = {
        "default-src": "'none'",
        "style-src": _hash_source("style.css"),
        "script-src": _hash_source("page.js"),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'self'" if is_served else "'none'",
        **({"connect-src": "'self'"} if is_served else {}),
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


@functools.cache
def _hash_source(name: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(static(name).encode()).digest()).decode()}'"


@functools.cache
def static(name: str) -> str:
    """Return the style sheet or the script."""
    return (_FOLDER / "static" / name).read_text(encoding="utf-8")


def template(name: str) -> Template:
    """Return a template, which escapes all values that are not ``Markup``."""
    return _environment().get_template(name)


@functools.cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=StrictUndefined, auto_reload=False,
    )  # fmt: skip
    found.filters["line"] = on_one_line
    return found
