"""A path taken apart into the sessions that are there: one in a file, many in a database.

A session in a database is called by the database's path, ``#`` and its own id: so the catalogue remembers it, and a
repair finds it again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.discovery import databases, discover, folders
from gitsession.errors import Malformed
from gitsession.formats import DATABASES, FORMATS, SCATTERED, STREAMED, Format, Source, Streamed

if TYPE_CHECKING:
    from gitsession.index.catalogue import Stat

WITHIN = "#"


@dataclass(frozen=True, slots=True)
class Taken:
    """A session, and what lies beside it: ``attachments`` by name, ``missing`` the names of what is not there."""

    source: Source
    attachments: Mapping[str, bytes]
    missing: list[str]


@dataclass(frozen=True, slots=True)
class Found:
    """A session that can be taken. ``place``: what it is called; ``stamp``: how it stood before it was read."""

    place: Path
    format: Format
    stamp: Stat
    take: Callable[[], Taken]


def stamp_of(path: Path) -> Stat:
    """How the sessions at ``path`` stand: what changes when one of them does. Raises ``OSError``."""
    parts = folders.of(path)
    return folders.stamp_of(path, parts) if parts is not None else databases.stamp_of(path)


def at(path: Path, format: Format | None = None, *, final: bool = False) -> Iterator[Found]:
    """The sessions at ``path``, each to be taken before the next is asked for; none, where no agent of ours wrote it.

    ``format``: take it as this agent's. Raises ``Malformed``, ``Unavailable`` and ``OSError``.
    """
    stamp = stamp_of(path)
    if databases.is_database(discover.head(path)):
        yield from _in_database(path, format, final)
        return
    if stamp.st_size >= discover.LARGE_BYTES:
        likely = format or discover.format_of(path, discover.head(path))
        streamed = STREAMED.get(likely.AGENT) if likely is not None else None
        if streamed is not None:
            yield _in_large_file(path, streamed, final=final)
            return
    found, data = discover.read(path)
    chosen = format or discover.format_of(path, data)
    if chosen is None:
        return
    scattered, parts = SCATTERED.get(chosen.AGENT), folders.of(path)
    if scattered is not None and parts is not None and scattered.is_info(data):
        yield Found(path, chosen, stamp, lambda: Taken(folders.take(scattered, data, parts, final=final), {}, []))
        return

    def take() -> Taken:
        kept, missing = discover.attachments(path, data, chosen)
        return Taken(chosen.split(data, name=discover.name_of(path), final=final), kept, missing)

    yield Found(path, chosen, found, take)


def _in_large_file(path: Path, format: Streamed, *, final: bool) -> Found:
    """The session of a file that is not held in memory."""
    stamp, data = discover.stored(path)

    def take() -> Taken:
        kept, missing = discover.attachments(path, data, format)
        return Taken(format.split(data, name=discover.name_of(path), final=final), kept, missing)

    return Found(path, format, stamp, take)


def again(place: Path) -> Iterator[Found]:
    """The sessions at a ``place`` that was taken before: all of a file, the one of a database."""
    head, within, _ = os.fspath(place).rpartition(WITHIN)
    if not within or place.exists():
        yield from at(place)
        return
    yield from (found for found in at(Path(head)) if found.place == place)


def _in_database(path: Path, format: Format | None, final: bool) -> Iterator[Found]:
    with databases.opened(path) as opened:
        if not opened.agent:
            if format is not None:
                raise Malformed(f"no database of {format.AGENT}'s: it lacks the tables of one")
            return
        chosen, database = FORMATS[opened.agent], DATABASES[opened.agent]
        for id, stamp in database.listed(opened.ask, opened.columns):

            def take(id: str = id) -> Taken:
                return Taken(database.session(opened.ask, opened.columns, id, final=final), {}, [])

            yield Found(path.with_name(f"{path.name}{WITHIN}{_spelled(id)}"), chosen, stamp, take)


def _spelled(id: str) -> str:
    """An id as a part of a file's name: it may say anything."""
    return id.replace("/", "%2F").replace("\0", "%00").encode("utf-8", "replace").decode()
