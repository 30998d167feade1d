"""The record of the files that this store exported: their paths, and digests of their content.

It is stored only on this machine: no ref reaches it, and it is never sent. It contains no text (docs/decisions/0039).
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
    """An exported file.

    ``path``: the absolute path, decoded by ``os.fsdecode``. ``agent``: the format of the file. ``digest``: the SHA-256
    of the file in hexadecimal; "" if the file contained purged content. ``size`` (in bytes) and ``mtime_ns`` identify a
    file that contained purged content and was otherwise unchanged; they are 0 for other files.

    The other fields are set for a session file that ``resume`` wrote. ``id``: the agent's id of the session.
    ``conversation``: a digest of the conversation; "" if the file contained purged content. ``entry``: the chain digest
    of the last entry. ``line``: the number of the last line.
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
        """Return whether a file with this size and modification time still contains the purged content.

        This is the case if a file with purged content is recorded, and has not changed since then.
        """
        return self.size > 0 and (self.size, self.mtime_ns) == (size, mtime_ns)


@dataclass(frozen=True, slots=True)
class ExportHit:
    """An exported file with purged content. ``records``: the number of records in the file with this content."""

    export: ExportedFile
    records: int


def add(git_dir: Path, export: ExportedFile) -> None:
    """Append ``export`` to the record. Raises ``OSError``."""
    fd = os.open(git_dir / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "ab") as file:
        file.write(_line(export))


def read(git_dir: Path) -> list[ExportedFile]:
    """Return the last export to each path. Damaged lines are skipped."""
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
    """Replace the whole record with ``exports``. Raises ``OSError``."""
    file = git_dir / FILE
    durable.replace(file, b"".join(map(_line, exports)), by=file.with_suffix(".tmp"))


def resumed_as(git_dir: Path, agent: str, id: str) -> ExportedFile | None:
    """Return the newest file that ``resume`` wrote for ``agent`` with the session id ``id``."""
    return next((each for each in reversed(read(git_dir)) if (each.agent, each.id) == (agent, id)), None)


def unchanged(git_dir: Path, agent: str, file: Path, size: int, mtime_ns: int) -> str | None:
    """Return the id of the session in a file with purged content, if the file has the recorded size and time.

    ``file``: the path to which the session was exported for ``agent``.
    """
    path = os.fspath(file.absolute())
    for export in read(git_dir):
        if (export.agent, export.path) == (agent, path) and export.is_unchanged(size, mtime_ns):
            return export.session
    return None


def _line(export: ExportedFile) -> bytes:
    return json.dumps(asdict(export)).encode() + b"\n"
