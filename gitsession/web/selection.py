"""Selection of sessions by the fields of a form, and division of a long list into pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import urlencode

from gitsession.index.catalogue import Row
from gitsession.redaction.guard import Guard

T = TypeVar("T")

ROWS_AT_ONCE = 100
"""Number of rows on one page of a list."""

_FIELDS = ("agent", "project", "session")


class SessionSelection:
    """The sessions that a form selects.

    Attributes:
        agent: The selected agent; "" for all.
        project: The selected project; "" for all.
        session: The id of the selected session; "" for all.
        session_name: The name of the selected session.
        rows: The selected sessions.
        agents: The agents that can be selected.
        projects: The projects that can be selected, as values and names.
    """

    def __init__(self, rows: Sequence[Row], values: Mapping[str, str], guard: Guard) -> None:
        """Select from ``rows``. ``values``: the fields of the form."""
        self.agent, self.project, self.session = (values.get(name, "") for name in _FIELDS)
        self.rows = [
            row
            for row in rows
            if self.agent in ("", row.agent)
            and self.project in ("", row.identity, row.project)
            and self.session in ("", row.sid)
        ]
        self.session_name = guard.excerpt(next((row.name for row in self.rows), "")) if self.session else ""
        self.agents = sorted({row.agent for row in rows})
        names = {(name, guard.words(short_project(name))) for row in rows if (name := row.identity or row.project)}
        self.projects = sorted(names, key=lambda pair: pair[1])

    @property
    def is_all(self) -> bool:
        """True if all sessions are selected."""
        return not (self.agent or self.project or self.session)


class PageLinks(NamedTuple):
    """The pages before and after a page of a list: their addresses, "" if there is none."""

    newer: str
    older: str


def page_of(rows: Sequence[T], path: str, values: Mapping[str, str]) -> tuple[Sequence[T], PageLinks]:
    """Return the rows on one page of a list. ``path``, ``values``: the address of the page."""
    number = number_in(values.get("page", ""))
    asked = {name: value for name, value in values.items() if name != "page" and value}

    def address(page: int) -> str:
        return f"{path}?{urlencode({**asked, 'page': str(page)})}"

    start, end = number * ROWS_AT_ONCE, (number + 1) * ROWS_AT_ONCE
    newer = address(number - 1) if number else ""
    return rows[start:end], PageLinks(newer, address(number + 1) if len(rows) > end else "")


def counted(shown: int, total: int, noun: str) -> str:
    """Return the number of rows in a list as text, such as ``3 of 10 files``."""
    nouns = noun if total == 1 else f"{noun}s"
    return f"{shown:,} of {total:,} {nouns}" if shown < total else f"{total:,} {nouns}"


def number_in(text: str) -> int:
    """Return the number in a field; 0 if it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def short_project(project: str) -> str:
    """Return a project as people name it: without the kind of its identity."""
    return project.removeprefix("remote:")
