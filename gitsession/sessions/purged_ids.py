"""Ids that purges removed or changed: agents' ids of purged entries, and old oids of commits.

An import uses the agents' ids to detect copies of purged entries. When an agent forks a session, it writes the entries
again with another session id, so that their digests change. Their ids and times do not change. The file
``<store>/gitsession/purged-ids`` contains a digest of each id and time, one per line, and no text.

The file ``<store>/gitsession/renamed`` contains the old and the new oid of each commit that a purge changed, one pair
per line, so that old addresses still work. Both files are never sent. Every store writes its own during a purge.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from gitsession.codec.digest import hash_of
from gitsession.durable import read_regular, sync_directory
from gitsession.git.types import Oid
from gitsession.sessions.node import Node
from gitsession.store import create

FILE = f"{create.CONTROL}/purged-ids"
_KEY_BYTES = 16
_LINE = re.compile(rb"^[0-9a-f]{32}$", re.M)

RENAMED = f"{create.CONTROL}/renamed"
_RENAMED_LINE = re.compile(rb"([0-9a-f]{40}) ([0-9a-f]{40})\n")
_PREFIX = re.compile(r"[0-9a-f]{4,40}")


def key(node: Node) -> str:
    """Return a digest of the agent, the agent's id and the time of an entry; "" if the entry has no agent's id."""
    if node.source is None or not node.source.id:
        return ""
    pair = f"{node.source.agent}\0{node.source.id}\0{node.author_seconds}"
    return hash_of(pair.encode("utf-8", "surrogatepass"))[:_KEY_BYTES].hex()


def read(git_dir: Path) -> frozenset[str]:
    """Return the keys of the entries that were purged in this store. Damaged lines are skipped. Raises ``OSError``."""
    return frozenset(line.decode() for line in _LINE.findall(read_regular(git_dir / FILE) or b""))


def add(git_dir: Path, nodes: Iterable[Node]) -> None:
    """Append the keys of ``nodes``, durably. Raises ``OSError``."""
    new = sorted({key(node) for node in nodes} - read(git_dir) - {""})
    if new:
        _append(git_dir / FILE, b"".join(b"\n" + line.encode() + b"\n" for line in new))


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


def _newest(known: Mapping[Oid, Oid], oid: Oid) -> Oid:
    seen = {oid}
    while (new := known.get(oid)) is not None and new not in seen:
        seen.add(new)
        oid = new
    return oid


def _renamed(git_dir: Path) -> dict[Oid, Oid]:
    found = _RENAMED_LINE.findall(read_regular(git_dir / RENAMED) or b"")
    return {old.decode(): new.decode() for old, new in found}


def _append(path: Path, lines: bytes) -> None:
    """Append ``lines``. They begin with a line end, in case a full disk or a power failure truncated the last line."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "ab") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())
    sync_directory(path.parent)
