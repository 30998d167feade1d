"""The option ``--format`` of ``ls``: fields of a session as text."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import click

from gitsession.index.catalogue import Row
from gitsession.line_text import ago, clock, on_a_line
from gitsession.pattern import pattern


def formatted(row: Row, format: str) -> str:
    """Return the fields of a session in the format of the user, such as ``%(session) %(title)``.

    Raises ``UsageError`` if the format has an unknown field.
    """
    return _ATOM.sub(lambda found: "%" if found[0] == "%%" else on_a_line(_field(row, found[1])), format)


_ATOM = pattern(r"%%|%\(([^()]*)\)")
FIELDS: Mapping[str, Callable[[Row], object]] = {
    "session": lambda row: row.sid,
    "title": lambda row: row.name,
    "agent": lambda row: row.agent,
    "source_id": lambda row: row.source_id or row.key,
    "project": lambda row: row.project,
    "identity": lambda row: row.identity,
    "created": lambda row: clock(row.created_ms),
    "created:unix": lambda row: row.created_ms // 1000,
    "updated": lambda row: clock(row.updated_ms),
    "updated:relative": lambda row: ago(row.updated_ms, time.time_ns() // 1_000_000),
    "updated:unix": lambda row: row.updated_ms // 1000,
    "entries": lambda row: row.entries,
    "branches": lambda row: len(row.branches),
    "branch": lambda row: row.active,
    "tip": lambda row: row.branches.get(row.active),
    "tokens": lambda row: row.tokens,
    "cost": lambda row: f"{row.cost:.4f}",
    "files": lambda row: row.changed,
    "added": lambda row: row.added,
    "removed": lambda row: row.removed,
    "mode": lambda row: row.mode,
    "todo": lambda row: f"{row.done}/{row.todos}" if row.todos else None,
    "marks": lambda row: row.marked,
    "parent": lambda row: row.parent,
    "continues": lambda row: row.continues,
}
"""The fields of ``--format``."""


def _field(row: Row, name: str) -> str:
    if name not in FIELDS:
        raise click.UsageError(f"unknown field '{name}' in --format")  # the help, which the hint names, has a list
    value = FIELDS[name](row)
    return "" if value is None else str(value)
