"""The files that this store wrote for agents and for people: where each is, and digests of what it held.

The list is on this machine only: no ref leads to it, and nothing sends it. It holds no text (docs/decisions/0039).
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
    """A file that was written. ``path``: absolute, as bytes of the file system decoded by ``os.fsdecode``.

    ``agent``: the form that it has. ``digest``: SHA-256 of the file, in hexadecimal; "" if it held what was purged.
    ``id``: what the agent calls the session, and ``conversation``: a digest of what is said in it; "" as ``digest``,
    and for a file that was not put where an agent looks. ``entry``: the chain of the entry that such a file ends at,
    and ``line``: of its last line. ``size``, ``mtime_ns``: of a file that held what was purged and was otherwise as
    it was written: it is known by them while it does not change. 0: not known by them.
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
    """An exported file that holds what a purge takes. ``records``: how many of its records say it."""

    export: ExportedFile
    records: int


def add(git_dir: Path, export: ExportedFile) -> None:
    """Append ``export`` to the list. Raises ``OSError``."""
    fd = os.open(git_dir / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "ab") as file:
        file.write(_line(export))


def read(git_dir: Path) -> list[ExportedFile]:
    """Return the exports, the last of each path. A damaged line is passed over."""
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
    """Put ``exports`` in the place of the list. Raises ``OSError``."""
    file = git_dir / FILE
    durable.replace(file, b"".join(map(_line, exports)), by=file.with_suffix(".tmp"))


def resumed_as(git_dir: Path, agent: str, id: str) -> ExportedFile | None:
    """Return the file that was written last for ``agent`` as its session ``id``."""
    return next((each for each in reversed(read(git_dir)) if (each.agent, each.id) == (agent, id)), None)


def unchanged(git_dir: Path, agent: str, place: Path, size: int, mtime_ns: int) -> str | None:
    """Return the session that was written to ``place`` for ``agent``, if a purge left the file and it is the same."""
    path = os.fspath(place.absolute())
    for export in read(git_dir):
        if (export.agent, export.path) == (agent, path) and export.is_unchanged(size, mtime_ns):
            return export.session
    return None


def _line(export: ExportedFile) -> bytes:
    return json.dumps(asdict(export)).encode() + b"\n"
