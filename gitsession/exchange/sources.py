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
from typing import Protocol

from gitsession.errors import Malformed
from gitsession.exchange import databases, discover
from gitsession.formats import DATABASES, FORMATS, Format, Source, opencode
from gitsession.formats.databases import Stamp

WITHIN = "#"


class Seen(Protocol):
    """What tells that a file has changed: of ``os.stat_result``, or a ``Stamp``."""

    @property
    def st_size(self) -> int: ...
    @property
    def st_mtime_ns(self) -> int: ...
    @property
    def st_ino(self) -> int: ...


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
    stamp: Seen
    take: Callable[[], Taken]


def stamp_of(path: Path) -> Seen:
    """How the sessions at ``path`` stand: what changes when one of them does. Raises ``OSError``."""
    with_folders = _folders(path)
    if with_folders is not None:
        return _stamp_of_folders(path, *with_folders)
    return databases.stamp_of(path)


def at(path: Path, format: Format | None = None, *, final: bool = False) -> Iterator[Found]:
    """The sessions at ``path``, each to be taken before the next is asked for; none, where no agent of ours wrote it.

    ``format``: take it as this agent's. Raises ``Malformed``, ``Unavailable`` and ``OSError``.
    """
    stamp = stamp_of(path)
    if databases.is_database(discover.head(path)):
        yield from _in_database(path, format, final)
        return
    found, data = discover.read(path)
    chosen = format or discover.format_of(path, data)
    if chosen is None:
        return
    folders = _folders(path)
    if chosen is FORMATS[opencode.AGENT] and folders is not None and opencode.is_info(data):
        yield Found(path, chosen, stamp, lambda: Taken(_from_folders(data, *folders, final=final), {}, []))
        return

    def take() -> Taken:
        kept, missing = discover.attachments(path, data, chosen)
        return Taken(chosen.split(data, name=discover.name_of(path), final=final), kept, missing)

    yield Found(path, chosen, found, take)


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


# ---- the folders in which opencode kept sessions before its database


def _folders(path: Path) -> tuple[Path, Path] | None:
    """The folders of the messages and of the parts that belong to a session's description, if it is one by its place.

    ``storage/session/<project>/<session>.json``, ``storage/message/<session>/``, ``storage/part/<message>/``.
    """
    parents = path.absolute().parents
    if len(parents) < 3 or parents[1].name != "session":
        return None
    messages = parents[2] / "message" / path.stem
    return (messages, parents[2] / "part") if messages.is_dir() else None


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError:
        return []


def _from_folders(info: bytes, messages: Path, parts: Path, *, final: bool) -> Source:
    files = {path.stem: _content(path) for path in _files(messages)}
    own = {name: {path.stem: _content(path) for path in _files(parts / name)} for name in files}
    return opencode.from_folders(info, files, own, final=final)


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


def _stamp_of_folders(path: Path, messages: Path, parts: Path) -> Stamp:
    beside = [each for message in _files(messages) for each in (message, *_files(parts / message.stem))]
    found = [path.stat(), *(stat for each in beside if (stat := databases.stat_of(each)) is not None)]
    newest = max(each.st_mtime_ns for each in found)
    return Stamp(sum(each.st_size for each in found), newest, len(found))
