"""Records of purges and exports that a store keeps only on this machine.

No ref reaches these records, and they are never sent. The records contain no text of a session.

    purged-ids     a digest of the agent's id and the time of each purged entry, one per line
    renamed        the old and the new oid of each commit that a purge changed, so that old addresses still work
    exports.jsonl  the paths of exported files, and digests of their content (docs/decisions/0039)

An import uses ``purged-ids`` to detect copies of purged entries. When an agent forks a session, the agent writes the
entries again with another session id, so that their digests change. Their ids and times do not change.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from gitsession import durable
from gitsession.codec.digest import hash_of
from gitsession.dataclass import dataclass
from gitsession.git.types import Oid
from gitsession.sessions.node import Node
from gitsession.store import create

PURGED_IDS = f"{create.CONTROL}/purged-ids"
_KEY_BYTES = 16
_KEY_LINE = re.compile(rb"^[0-9a-f]{32}$", re.M)

RENAMED = f"{create.CONTROL}/renamed"
_RENAMED_LINE = re.compile(rb"([0-9a-f]{40}) ([0-9a-f]{40})\n")
_PREFIX = re.compile(r"[0-9a-f]{4,40}")

EXPORTS = f"{create.CONTROL}/exports.jsonl"


# ---- purged entries


def purged_key(node: Node) -> str:
    """Return a digest of the agent, the agent's id and the time of an entry; "" if the entry has no agent's id."""
    if node.source is None or not node.source.id:
        return ""
    pair = f"{node.source.agent}\0{node.source.id}\0{node.author_seconds}"
    return hash_of(pair.encode("utf-8", "surrogatepass"))[:_KEY_BYTES].hex()


def purged_keys(git_dir: Path | None) -> frozenset[str]:
    """Return the keys of the entries that were purged in this store. Damaged lines are skipped. Raises ``OSError``."""
    return frozenset(line.decode() for line in _KEY_LINE.findall(_read(git_dir, PURGED_IDS)))


def add_purged(git_dir: Path, nodes: Iterable[Node]) -> None:
    """Append the keys of ``nodes``, durably. Raises ``OSError``."""
    new = sorted({purged_key(node) for node in nodes} - purged_keys(git_dir) - {""})
    if new:
        _append(git_dir / PURGED_IDS, b"".join(b"\n" + line.encode() + b"\n" for line in new))


def add_renamed(git_dir: Path, mapped: Mapping[Oid, Oid]) -> None:
    """Append the old and new oids of commits that a purge changed, each pair once. Raises ``OSError``."""
    known = _renamed(git_dir)
    lines = "".join(f"{old} {new}\n" for old, new in sorted(mapped.items()) if known.get(old) != new)
    if lines:
        _append(git_dir / RENAMED, b"\n" + lines.encode())


def find_renamed(git_dir: Path, prefix: str) -> list[tuple[Oid, Oid]]:
    """Return the old and new oids of commits whose old oid begins with ``prefix`` (at least 4 digits)."""
    if not _PREFIX.fullmatch(prefix):
        return []
    known = _renamed(git_dir)
    return [(old, _newest(known, old)) for old in sorted(known) if old.startswith(prefix)]


def newest_name(git_dir: Path, oid: Oid) -> Oid:
    """Return the oid that the commit ``oid`` has since the last purge that changed it."""
    return _newest(_renamed(git_dir), oid)


def _newest(known: Mapping[Oid, Oid], oid: Oid) -> Oid:
    seen = {oid}
    while (new := known.get(oid)) is not None and new not in seen:
        seen.add(new)
        oid = new
    return oid


def _renamed(git_dir: Path) -> dict[Oid, Oid]:
    found = _RENAMED_LINE.findall(_read(git_dir, RENAMED))
    return {old.decode(): new.decode() for old, new in found}


def _append(path: Path, lines: bytes) -> None:
    """Append ``lines``, which begin with a line end: a full disk or a power failure may have cut the last line."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "ab") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())
    durable.sync_directory(path.parent)


def _read(git_dir: Path | None, name: str) -> bytes:
    """Return the content of a file of records, which a store in memory (``None``) does not have."""
    return (durable.read_regular(git_dir / name) or b"") if git_dir is not None else b""


# ---- exported files


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


def add_export(git_dir: Path, export: ExportedFile) -> None:
    """Append ``export`` to the record. Raises ``OSError``."""
    fd = os.open(git_dir / EXPORTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "ab") as file:
        file.write(_line(export))


def exports(git_dir: Path | None) -> list[ExportedFile]:
    """Return the last export to each path. Damaged lines are skipped."""
    found: dict[str, ExportedFile] = {}
    for line in _read(git_dir, EXPORTS).split(b"\n"):
        try:
            export = ExportedFile(**json.loads(line))
        except (ValueError, TypeError):
            continue
        found[export.path] = export
    return list(found.values())


def rewrite_exports(git_dir: Path, changed: Iterable[ExportedFile]) -> None:
    """Replace the whole record of exports with ``changed``. Raises ``OSError``."""
    file = git_dir / EXPORTS
    durable.replace(file, b"".join(map(_line, changed)), by=file.with_suffix(".tmp"))


def resumed_as(git_dir: Path | None, agent: str, id: str) -> ExportedFile | None:
    """Return the newest file that ``resume`` wrote for ``agent`` with the session id ``id``."""
    return next((each for each in reversed(exports(git_dir)) if (each.agent, each.id) == (agent, id)), None)


def unchanged_export(git_dir: Path | None, agent: str, file: Path, size: int, mtime_ns: int) -> str | None:
    """Return the id of the session in a file with purged content, if the file has the recorded size and time.

    ``file``: the path to which the session was exported for ``agent``.
    """
    path = os.fspath(file.absolute())
    for export in exports(git_dir):
        if (export.agent, export.path) == (agent, path) and export.is_unchanged(size, mtime_ns):
            return export.session
    return None


def _line(export: ExportedFile) -> bytes:
    return json.dumps(asdict(export)).encode() + b"\n"
