"""What an agent's database has already of a session that the agent is to take in.

The agent's own import adds the messages that are not there, and leaves those that are as they are. So it must not be
asked where the two do not say the same: what came of it would be neither.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from gitsession.discovery import databases, discover
from gitsession.errors import Malformed, Refused, Unavailable
from gitsession.formats import Format, Source
from gitsession.formats.base.jsonl import parse
from gitsession.model.entries import Prune


class AgentFileAhead(Refused):
    """The agent has more of the session at ``path`` than was taken in as it."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message, hint=f"`gitsession import {shlex.quote(str(path))}` first")
        self.path = path


def check(format: Format, data: bytes, home: Path, environment: Mapping[str, str]) -> int:
    """How many results are marked as old in the export ``data`` that stay unmarked, because they are there already.

    Raises ``Refused`` where a database of this agent's has the session, and more of it or another; ``Unavailable``
    where one is locked, ``Malformed`` where it is damaged.
    """
    wanted = format.split(data, final=True)
    ours = [parse(record.payload) for record in wanted.records]
    passed_over = 0
    for path, held in _held(format, wanted.source_id, home, environment):
        theirs = [parse(record.payload) for record in held.records]
        if ours[: len(theirs)] != theirs:
            raise _goes_on(path) if theirs[: len(ours)] == ours else _is_other(path)
        behind = (format.read(record.payload) for record in wanted.records[len(theirs) :])
        passed_over += sum(isinstance(entry, Prune) for entry in behind) if theirs else 0
    return passed_over


def _held(format: Format, id: str, home: Path, environment: Mapping[str, str]) -> Iterator[tuple[Path, Source]]:
    for root in format.ROOTS:
        for path in sorted(discover.base_of(root, home, environment).glob(root.pattern)):
            try:
                held = _session(format, path, id)
            except (Malformed, Unavailable) as error:
                raise type(error)(f"{path}: {error}", hint=error.hint) from error
            if held is not None:
                yield path, held


def _session(format: Format, path: Path, id: str) -> Source | None:
    if not databases.is_database(discover.head(path)):
        return None
    with databases.opened(path) as opened:
        database = opened.format
        if database is None or database.AGENT != format.AGENT:
            return None
        is_there = any(listed == id for listed, _ in database.listed(opened.ask, opened.columns))
        return database.session(opened.ask, opened.columns, id, final=True) if is_there else None


def _goes_on(path: Path) -> AgentFileAhead:
    return AgentFileAhead(path, f"{path} has more of this session than was taken in: it was gone on with")


def _is_other(path: Path) -> Refused:
    return Refused(
        f"{path} has this session already, and it says something else; it is left as it is",
        hint=f"`gitsession import {shlex.quote(str(path))}` takes in what it says",
    )
