"""The record of files that this store wrote for agents and people: their paths, and digests of their content.

It is only on this machine: no ref reaches it, and it is never sent. It contains no text (docs/decisions/0039).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from gitsession import durable
from gitsession.store import create

FILE = f"{create.CONTROL}/exports.jsonl"


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A file that was written.

    ``path``: absolute, decoded by ``os.fsdecode``. ``agent``: the format of the file. ``digest``: SHA-256 of the file,
    in hexadecimal; "" if it contained purged content. ``id``: the agent's id of the session. ``conversation``: a digest
    of the conversation. Both are "" for a file that is not where an agent looks; ``conversation`` also if the file
    contained purged content. ``entry``: the chain of the last entry in a file for ``resume``. ``line``: the number of
    its last line. ``size`` (bytes), ``mtime_ns``: identify a file that contained purged content and was otherwise
    unchanged; 0 for others.
    """

    path: str
    session: str
    agent: str
    digest: str
    id: str = ""
    conversation: str = ""
    size: int = 0
    mtime_ns: int = 0
    entry: str = ""
    line: int = 0

    def is_unchanged(self, size: int, mtime_ns: int) -> bool:
        """Return whether a file of this size and time is the one that a purge left as it was written."""
        return self.size > 0 and (self.size, self.mtime_ns) == (size, mtime_ns)


@dataclass(frozen=True, slots=True)
class ExportHit:
    """An exported file with purged content. ``records``: the number of its records with that content."""

    export: ExportedFile
    records: int


def add(git_dir: Path, export: ExportedFile) -> None:
    """Append ``export`` to the list. Raises ``OSError``."""
    fd = os.open(git_dir / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "ab") as file:
        file.write(_line(export))


def read(git_dir: Path) -> list[ExportedFile]:
    """Return the exports, the last of each path. A damaged line is skipped."""
    try:
        lines = (git_dir / FILE).read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    found: dict[str, ExportedFile] = {}
    for line in lines:
        try:
            export = ExportedFile(**json.loads(line))
        except (ValueError, TypeError):
            continue
        found[export.path] = export
    return list(found.values())


def rewrite(git_dir: Path, exports: Iterable[ExportedFile]) -> None:
    """Replace the list with ``exports``. Raises ``OSError``."""
    file = git_dir / FILE
    durable.replace(file, b"".join(map(_line, exports)), by=file.with_suffix(".tmp"))


def resumed_as(git_dir: Path, agent: str, id: str) -> ExportedFile | None:
    """Return the file that was written last for ``agent`` as its session ``id``."""
    return next((each for each in reversed(read(git_dir)) if (each.agent, each.id) == (agent, id)), None)


def unchanged(git_dir: Path, agent: str, place: Path, size: int, mtime_ns: int) -> str | None:
    """Return the session that was written to ``place`` for ``agent``, if a purge left the file unchanged.

    The file must have the recorded size and time.
    """
    path = os.fspath(place.absolute())
    for export in read(git_dir):
        if (export.agent, export.path) == (agent, path) and export.is_unchanged(size, mtime_ns):
            return export.session
    return None


def _line(export: ExportedFile) -> bytes:
    return json.dumps(asdict(export)).encode() + b"\n"
