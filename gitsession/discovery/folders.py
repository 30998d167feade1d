"""Sessions in many files, as opencode kept them before its database: a description, a file a message, and one a part.

``storage/session/<project>/<session>.json``, ``storage/message/<session>/``, ``storage/part/<message>/``.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import NamedTuple

from gitsession.discovery import discover
from gitsession.discovery.databases import stat_of
from gitsession.errors import Malformed
from gitsession.formats import Scattered, Source
from gitsession.formats.base.databases import Stamp


class Folders(NamedTuple):
    """Those of the ``messages`` of one session, and of the ``parts`` of all messages."""

    messages: Path
    parts: Path


def of(path: Path) -> Folders | None:
    """The folders that belong to a session's description, if it is one by its place."""
    parents = path.absolute().parents
    if len(parents) < 3 or parents[1].name != "session":
        return None
    messages = parents[2] / "message" / path.stem
    return Folders(messages, parents[2] / "part") if messages.is_dir() else None


def take(format: Scattered, info: bytes, folders: Folders, *, final: bool) -> Source:
    """The session that ``info`` describes. Raises ``Malformed`` and ``OSError``."""
    files = _contents(folders.messages)
    return format.from_folders(info, files, {name: _contents(folders.parts / name) for name in files}, final=final)


def stamp_of(path: Path, folders: Folders) -> Stamp:
    """What changes when any of its files does. Raises ``OSError``."""
    messages = _files(folders.messages)
    beside = [each for message in messages for each in (message, *_files(folders.parts / message.stem))]
    found = [path.stat(), *(stat for each in beside if (stat := stat_of(each)) is not None)]
    newest = max(each.st_mtime_ns for each in found)
    return Stamp(sum(each.st_size for each in found), newest, len(found))


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.stem: _content(path) for path in _files(folder)}


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


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError:
        return []
