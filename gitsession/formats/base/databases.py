"""Values and queries of agents that keep their sessions in an SQLite database (``format.Database``). Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from gitsession.errors import Malformed

Row: TypeAlias = Sequence[Any]
Columns: TypeAlias = Mapping[str, Collection[str]]
"""The columns of each table that may be read."""

Ask: TypeAlias = Callable[[str, Sequence[object]], Iterator[Row]]
"""One SELECT, with its values. Text that is not UTF-8 comes with replacement characters."""


class Stamp(NamedTuple):
    """What changes when a session in a database does; named as in ``os.stat_result``, with which it is compared.

    ``st_size``: how many rows it has. ``st_mtime_ns``: when the newest was written. ``st_ino``: a sum over all of them.
    """

    st_size: int
    st_mtime_ns: int
    st_ino: int


UNKNOWN = Stamp(-1, 0, 0)
"""Of a session that could not be looked at: no other one is equal to what is seen of it when it can."""

WHOLE_MASK = (1 << 62) - 1
"""What keeps a number of any size one that SQLite can hold."""


def picked(names: Sequence[str], there: Collection[str]) -> str:
    """A list of columns for a SELECT, ``NULL`` for one that this version of the agent does not have yet."""
    return ", ".join(f'"{name}"' if name in there else f'NULL AS "{name}"' for name in names)


def summed(column: str) -> str:
    """A sum over a column for a SELECT, which no value in it makes fail or a fraction."""
    return f"coalesce(sum(CAST({column} AS INTEGER) % {1 << 40}), 0)"


def rows_of(ask: Ask, query: str) -> tuple[list[Row], Malformed | None]:
    """The rows of a SELECT; where the database is damaged, those before the damage, and what is to be said of it."""
    found: list[Row] = []
    try:
        found.extend(ask(query, ()))
    except Malformed as error:
        return found, error
    return found, None
