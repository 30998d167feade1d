"""The agents' ids of purged entries, by which an import knows a copy that an agent makes of one.

An agent that forks a session writes its entries again, with other bytes: the id of the session differs. The id of the
entry and its time stay. ``<store>/gitsession/purged-ids`` holds a digest of each such pair, a line each, and no text.
It is on this machine only: every store that carries out a purge makes its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from gitsession.codec.digest import hash_of
from gitsession.durable import read_regular, sync_directory
from gitsession.sessions.node import Node
from gitsession.store import create

FILE = f"{create.CONTROL}/purged-ids"
_KEY_BYTES = 16
_LINE = re.compile(rb"^[0-9a-f]{32}$", re.M)


def key(node: Node) -> str:
    """Return the digest of the agent, the agent's id and the time of an entry; "" for one that no agent gave an id."""
    if node.source is None or not node.source.id:
        return ""
    pair = f"{node.source.agent}\0{node.source.id}\0{node.author_seconds}"
    return hash_of(pair.encode("utf-8", "surrogatepass"))[:_KEY_BYTES].hex()


def read(git_dir: Path) -> frozenset[str]:
    """Return the keys of the entries that were purged here. A damaged line is passed over. Raises ``OSError``."""
    return frozenset(line.decode() for line in _LINE.findall(read_regular(git_dir / FILE) or b""))


def add(git_dir: Path, nodes: Iterable[Node]) -> None:
    """Append the keys of ``nodes``, durably. Raises ``OSError``."""
    new = sorted({key(node) for node in nodes} - read(git_dir) - {""})
    if not new:
        return
    fd = os.open(git_dir / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "ab") as file:
        file.write(b"".join(b"\n" + line.encode() + b"\n" for line in new))  # a line cut off by a full disk ends here
        file.flush()
        os.fsync(file.fileno())
    sync_directory((git_dir / FILE).parent)
