"""What an agent's own records say of the files that it changed: values only. Times are milliseconds since 1970, UTC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias


class RecordedCopy(NamedTuple):
    """A file's bytes, where the agent keeps its copies, under ``name``."""

    name: str


class RecordedTree(NamedTuple):
    """All files of a folder, as git's tree of that name (40 digits) among the objects that the agent keeps."""

    name: str


class RecordedBackup(NamedTuple):
    """What paths were before the agent touched them; ``None``: not there. ``entry``: its own id of the entry that this
    belongs to, or the number of that one's line. A path is as the agent says it: relative to the session's folder, or
    absolute.
    """

    said: bytes
    at_ms: int | None
    entry: str | int | None
    files: Mapping[str, RecordedCopy | None]


class RecordedEdit(NamedTuple):
    """What a call made of one file. ``was``: its whole text before, ``None``: not there; with LF for its line ends, as
    ``became`` is. ``rewrites``: the line ends too are as ``became`` has them, if the file had no others.
    """

    said: bytes
    at_ms: int | None
    entry: str | int | None
    call: str | None
    path: str
    was: str | None
    became: str
    rewrites: bool


class RecordedReplacement(NamedTuple):
    """What a call made of one file that was there. ``was``: its whole text before, line ends and all, as ``became`` is;
    ``None``: gone.
    """

    said: bytes
    at_ms: int | None
    entry: str | int | None
    call: str | None
    path: str
    was: str
    became: str | None


class RecordedRun(NamedTuple):
    """The files of the folder ``root`` before and after calls ran. ``paths``: the only ones that these calls can have
    changed, as the agent says them; ``None``: any.
    """

    said: bytes
    at_ms: int | None
    entry: str | int | None
    call: str | None
    root: str
    before: RecordedTree
    after: RecordedTree
    paths: tuple[str, ...] | None


RecordedChange: TypeAlias = RecordedBackup | RecordedEdit | RecordedReplacement | RecordedRun
"""One of these, from the line ``said``: what is kept of it follows from that."""
