"""A path taken apart into the sessions that are there: one in a file, many in a database.

A session in a database is called by the database's path, ``#`` and its own id: so the catalogue remembers it, and a
repair finds it again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gitsession.discovery import databases, discover
from gitsession.discovery.databases import stat_of
from gitsession.errors import Malformed
from gitsession.formats import Format, Scattered, Source, Streamed
from gitsession.formats.base.format import Stamp

if TYPE_CHECKING:
    from gitsession.index.catalogue import Stat

WITHIN = "#"


@dataclass(frozen=True, slots=True)
class LoadedSession:
    """A session, and what lies beside it: ``attachments`` by name, ``missing`` the names of what is not there."""

    source: Source
    attachments: Mapping[str, bytes]
    missing: list[str]


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session that can be taken. ``place``: what it is called; ``stamp``: how it stood before it was read."""

    place: Path
    format: Format
    stamp: Stat
    take: Callable[[], LoadedSession]


def stamp_of(path: Path) -> Stat:
    """How the sessions at ``path`` stand: what changes when one of them does. Raises ``OSError``."""
    parts = _folders_of(path)
    return _stamp_of_folders(path, parts) if parts is not None else databases.stamp_of(path)


def at(path: Path, format: Format | None = None, *, final: bool = False) -> Iterator[FoundSession]:
    """The sessions at ``path``, each to be taken before the next is asked for; none, where no agent of ours wrote it.

    ``format``: take it as this agent's. Raises ``Malformed``, ``Unavailable`` and ``OSError``.
    """
    stamp = stamp_of(path)
    if databases.is_database(discover.head(path)):
        yield from _in_database(path, format, final)
        return
    if stamp.st_size >= discover.LARGE_BYTES:
        likely = format or discover.format_of(path, discover.head(path))
        if isinstance(likely, Streamed):
            yield _in_large_file(path, likely, final=final)
            return
    found, data = discover.read(path)
    chosen = format or discover.format_of(path, data)
    if chosen is None:
        return
    parts = _folders_of(path)
    if isinstance(chosen, Scattered) and parts is not None and chosen.is_info(data):
        yield FoundSession(
            path, chosen, stamp, lambda: LoadedSession(_take_folders(chosen, data, parts, final=final), {}, [])
        )
        return

    def take() -> LoadedSession:
        kept, missing = discover.attachments(path, data, chosen)
        return LoadedSession(chosen.split(data, name=discover.name_of(path), final=final), kept, missing)

    yield FoundSession(path, chosen, found, take)


def _in_large_file(path: Path, format: Streamed, *, final: bool) -> FoundSession:
    """The session of a file that is not held in memory."""
    stamp, data = discover.stored(path)

    def take() -> LoadedSession:
        kept, missing = discover.attachments(path, data, format)
        return LoadedSession(format.split(data, name=discover.name_of(path), final=final), kept, missing)

    return FoundSession(path, format, stamp, take)


def reopen(place: Path) -> Iterator[FoundSession]:
    """The sessions at a ``place`` that was taken before: all of a file, the one of a database."""
    head, within, _ = os.fspath(place).rpartition(WITHIN)
    if not within or place.exists():
        yield from at(place)
        return
    yield from (found for found in at(Path(head)) if found.place == place)


def _in_database(path: Path, format: Format | None, final: bool) -> Iterator[FoundSession]:
    with databases.opened(path) as opened:
        database = opened.format
        if database is None:
            if format is not None:
                raise Malformed(f"no database of {format.AGENT}'s: it lacks the tables of one")
            return
        for id, stamp in database.listed(opened.ask, opened.columns):

            def take(id: str = id) -> LoadedSession:
                return LoadedSession(database.session(opened.ask, opened.columns, id, final=final), {}, [])

            yield FoundSession(path.with_name(f"{path.name}{WITHIN}{_spelled(id)}"), database, stamp, take)


def _spelled(id: str) -> str:
    """An id as a part of a file's name: it may say anything."""
    return id.replace("/", "%2F").replace("\0", "%00").encode("utf-8", "replace").decode()


class _Folders(NamedTuple):
    """Those of the ``messages`` of one session, and of the ``parts`` of all messages."""

    messages: Path
    parts: Path


def _folders_of(path: Path) -> _Folders | None:
    """The folders that belong to a session's description, if it is one by its place."""
    parents = path.absolute().parents
    if len(parents) < 3 or parents[1].name != "session":
        return None
    messages = parents[2] / "message" / path.stem
    return _Folders(messages, parents[2] / "part") if messages.is_dir() else None


def _take_folders(format: Scattered, info: bytes, folders: _Folders, *, final: bool) -> Source:
    """The session that ``info`` describes. Raises ``Malformed`` and ``OSError``."""
    files = _contents(folders.messages)
    return format.from_folders(info, files, {name: _contents(folders.parts / name) for name in files}, final=final)


def _stamp_of_folders(path: Path, folders: _Folders) -> Stamp:
    """What changes when any of its files does. Raises ``OSError``."""
    messages = _json_files(folders.messages)
    beside = [each for message in messages for each in (message, *_json_files(folders.parts / message.stem))]
    found = [path.stat(), *(stat for each in beside if (stat := stat_of(each)) is not None)]
    newest = max(each.st_mtime_ns for each in found)
    return Stamp(sum(each.st_size for each in found), newest, len(found))


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.stem: _content(path) for path in _json_files(folder)}


def _content(path: Path) -> bytes:
    """Nothing of what is no file: it is left out, and named. Raises ``OSError`` for what may be read another day."""
    try:
        return discover.read(path)[1]
    except Malformed:
        return b""
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EIO):
            raise
        return b""


def _json_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError:
        return []
