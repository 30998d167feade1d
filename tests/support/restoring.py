"""Test helpers for restored files: the exact state of a folder, and applied plans."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gitsession.errors import MissingObject
from gitsession.git.objects import oid_of
from gitsession.workspace.restore import Outcome, PlannedChange, restore
from gitsession.workspace.root import WorkspaceRoot
from gitsession.workspace.trees import TreeEntry

BYTES_MAX = 1 << 20


def picture(folder: Path, *, times: bool = True) -> dict[bytes, tuple[object, ...]]:
    """Return the kind, permissions, content and modification time of every path below ``folder``.

    Symbolic links are not followed.
    """
    found: dict[bytes, tuple[object, ...]] = {}
    stack = [os.fsencode(folder)]
    while stack:
        path = stack.pop()
        status = os.lstat(path)
        content: object = None
        if stat.S_ISDIR(status.st_mode):
            stack += [os.path.join(path, name) for name in os.listdir(path)]
        elif stat.S_ISLNK(status.st_mode):
            content = os.readlink(path)
        elif stat.S_ISREG(status.st_mode):
            content = hashlib.sha256(Path(os.fsdecode(path)).read_bytes()).hexdigest()
        found[os.path.relpath(path, os.fsencode(folder))] = (
            status.st_mode,
            content,
            status.st_mtime_ns if times else None,
        )
    return found


class Blobs:
    """Contents by oid."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        oid = oid_of("blob", data)
        self.held[oid] = data
        return oid

    def file(self, data: bytes | str) -> TreeEntry:
        return TreeEntry("100644", self.put(data if isinstance(data, bytes) else data.encode()))

    def program(self, data: str) -> TreeEntry:
        return TreeEntry("100755", self.put(data.encode()))

    def link(self, target: bytes | str) -> TreeEntry:
        return TreeEntry("120000", self.put(target if isinstance(target, bytes) else target.encode()))

    def get(self, oid: str) -> bytes:
        try:
            return self.held[oid]
        except KeyError:
            raise MissingObject(f"no object {oid}") from None


@contextmanager
def opened(folder: Path) -> Iterator[WorkspaceRoot]:
    with WorkspaceRoot.open(folder, home=None, store=None) as root:
        yield root


def carried_out(
    folder: Path, blobs: Blobs, *changes: PlannedChange, made: tuple[str, ...] = (), bytes_max: int = BYTES_MAX
) -> list[Outcome]:
    with opened(folder) as root:
        return restore(root, changes, content=blobs.get, tag="t", bytes_max=bytes_max, made=made)


def as_seen(folder: Path, wanted: Mapping[str, TreeEntry | None]) -> list[PlannedChange]:
    """Plan changes from the current files: the most permissive plan that a caller can make."""
    with opened(folder) as root:
        now = {path: root.now(path) for path in wanted}
    return [
        PlannedChange(path, seen if isinstance(seen := now[path], TreeEntry) else None, new)
        for path, new in wanted.items()
    ]
