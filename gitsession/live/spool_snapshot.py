"""The snapshot of a workspace that a hook writes to the spool, with all data that its ingestion requires.

1. Find the differences from the last snapshot. Each file is read once.
2. Write the differences to one file of the spool, with the name of this snapshot.
3. Make this snapshot the base of the next one.

If the process is killed between steps 2 and 3, no snapshot is based on the spooled one. The next snapshot then
contains the same differences.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gitsession.errors import MissingObject, Unavailable
from gitsession.git import config
from gitsession.git.objects import oid_of
from gitsession.git.ref_files import RefReader
from gitsession.git.repository import VerifiedRepository
from gitsession.live import spool
from gitsession.store import refs
from gitsession.workspace import user_repository, workspace_lock
from gitsession.workspace.private_repository import new_name
from gitsession.workspace.read_file import caps
from gitsession.workspace.root import WorkspaceRoot
from gitsession.workspace.snapshot import WorkspaceSnapshot, take_snapshot

if TYPE_CHECKING:
    from gitsession.redaction.guard import Guard

BYTES_MAX = 64 << 20
"""Maximum size of the changes in a snapshot, in bytes. If they are larger, the ingestion takes the snapshot later."""


class TooManyChanges(Unavailable):
    """An error: the changes in a snapshot are larger than ``BYTES_MAX``."""


def workspace_of(cwd: str, home: Path, store: Path, project: str = "") -> WorkspaceRoot:
    """Open the workspace of an agent.

    If ``cwd`` is inside ``project``, the workspace is ``project``, else ``cwd``. If that folder is in a git repository,
    the workspace is the repository's top folder, unless the top folder contains the user's home directory. Raises
    ``NotFound`` and ``Refused``.
    """
    at = os.path.realpath(cwd)
    outer = os.path.realpath(project) if project else ""
    chosen = outer if outer and (at == outer or at.startswith(outer.rstrip("/") + "/")) else at
    top = user_repository.find(chosen).top if os.path.isdir(chosen) else chosen
    if top != chosen and not _is_home(top, home):
        chosen = top
    return WorkspaceRoot.open(chosen, home=home, store=store)


def spool_snapshot(store: Path, root: WorkspaceRoot, head: dict[str, Any], *, wait_seconds: float) -> str:
    """Take a snapshot, write it to the spool, and return the name of the event. ``head``: description of the event.

    Raises ``Unavailable`` if another process has locked the workspace, ``TooManyChanges``, and ``OSError``.
    """
    folder = workspace_lock.folder_in(store, root.path)
    with (
        workspace_lock.hold_workspace_lock(store, root.path, wait_seconds=wait_seconds),
        take_snapshot(
            root, folder, caps=caps()._replace(secret=_exclusion_rule(store)), wait_seconds=wait_seconds
        ) as snapshot,
    ):
        rows: list[tuple[str, str | None, str | None, int]] = []
        contents: list[bytes] = []
        size = 0
        for change in snapshot.changes():
            mode, oid = change.file or (None, None)
            rows.append((change.path, mode, oid, len(change.data)))
            contents.append(change.data)
            size += len(change.data)
            if size > BYTES_MAX:
                raise TooManyChanges(f"more than {BYTES_MAX >> 20} MiB of changes in '{root.path}'")
        name = (not snapshot.changed and snapshot.before) or new_name()
        fields = {
            "workspace": os.fspath(root.path),
            "before": snapshot.before,
            "base": _base(snapshot),
            "name": name,
            "changes": rows,
            "skipped": [list(row) for row in snapshot.skipped],
            "appeared": snapshot.appeared,
        }
        event = spool.write(os.fspath(store), _parts({**head, "look": fields}, contents))
        snapshot.accept(kept=False, name=name)
        return event


def _exclusion_rule(store: Path) -> Callable[[bytes], str | None] | None:
    """Return a function that returns why a file is excluded: it contains a secret, or its content was purged.

    Return ``None`` if no file is excluded. The rules are those of ``capturing.exclusion_rule``. Unlike that function,
    this one requires no store and loads modules only when they are needed. Raises the errors of ``tombstone_set.at``.
    """
    settings = config.redaction(store)
    purged = None
    tip = RefReader(store).read(refs.TOMBSTONES)
    if tip is not None:
        from gitsession.sessions import tombstone_set

        tombstones = tombstone_set.at(VerifiedRepository(store), tip)
        purged = tombstones if tombstones.has_files else None
    guards: list[Guard] = []

    def rule(data: bytes) -> str | None:
        if purged is not None and purged.has_file(oid_of("blob", data)):
            return tombstone_set.RULE
        if not settings.is_on:
            return None
        from gitsession.redaction.guard import Guard

        if not guards:
            guards.append(Guard.load(settings.rules))
        return guards[0].in_file(data)

    return rule if settings.is_on or purged is not None else None


def _base(snapshot: WorkspaceSnapshot) -> list[str | None] | None:
    """Return a one-element list with the tree of the last snapshot; ``None`` if that tree is not known yet."""
    try:
        return [snapshot.base()] if snapshot.before else None
    except MissingObject:
        return None


def _parts(head: dict[str, Any], contents: list[bytes]) -> Iterator[bytes]:
    # The time is read while the workspace is locked, so a later snapshot has a later time.
    yield json.dumps({"v": spool.VERSION, **head, "at_ms": time.time_ns() // 1_000_000}).encode() + b"\n"
    yield from contents


def _is_home(top: str, home: Path) -> bool:
    return home.is_relative_to(top) or os.path.realpath(home).startswith(top.rstrip("/") + "/") or top == "/"
