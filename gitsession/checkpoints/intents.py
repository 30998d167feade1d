"""Intents: lists of planned writes to a workspace. For crash recovery, an intent is durable before the first write.

A workspace has at most one intent: the file ``<store>/gitsession/workspaces/<name>/rewind``. While the file exists, an
operation is incomplete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gitsession import durable
from gitsession.dataclass import dataclass
from gitsession.errors import Corrupt, Refused, Unavailable
from gitsession.git.types import Oid
from gitsession.sessions import local_records, operation_log
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore
from gitsession.workspace import workspace_lock
from gitsession.workspace.path_rules import PlannedChange
from gitsession.workspace.trees import State, TreeEntry

Verb: TypeAlias = Literal["rewind", "undo", "redo"]

NAME = "rewind"
VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Intent:
    """The planned writes of a rewind, undo or redo.

    Attributes:
        safety: The checkpoint with the state of the files before the writes.
        made: Folders to remove if they are empty after the writes.
        place: The entry after which the conversation continues; "" if the conversation does not move.
        onto: The branch on which the conversation continues; "" for a new branch.
        operation: The operation that an undo reverts or a redo repeats.
        seen: The tip of the operation log before the operation.
        tag: The tag of the temporary files.
    """

    verb: Verb
    session: str
    workspace: str
    command: str
    at_ms: int
    safety: Oid
    changes: tuple[PlannedChange, ...]
    made: tuple[str, ...] = ()
    place: Oid = ""
    onto: str = ""
    operation: Oid = ""
    seen: Oid | None = None
    tag: str = field(default_factory=lambda: os.urandom(8).hex())

    @property
    def description(self) -> str:
        """A one-line description of the operation."""
        files = "1 file" if len(self.changes) == 1 else f"{len(self.changes):,} files"
        return f"'{self.command}' in '{self.workspace}' ({files})"


def write(store: GitStore, intent: Intent) -> None:
    """Write an intent durably.

    If this function raises ``Unavailable``, no file of the workspace was changed, but the intent may exist.
    """
    file = _file(store, intent.workspace)
    values = {each.name: getattr(intent, each.name) for each in fields(intent)}
    data = json.dumps({"version": VERSION, **values}).encode()
    try:
        durable.replace(file, data, by=file.with_suffix(".new"))
    except OSError as error:
        raise Unavailable(f"cannot record the planned writes in '{file.parent}': {error.strerror}") from error


def remove(store: GitStore, intent: Intent) -> None:
    """Remove the intent of a completed or reverted operation. After ``Unavailable``, the call can be repeated."""
    file = _file(store, intent.workspace)
    try:
        file.unlink(missing_ok=True)
        durable.sync_directory(file.parent)
    except OSError as error:
        raise Unavailable(f"cannot remove '{file}': {error.strerror}") from error


def read(store: GitStore, workspace: Path) -> Intent | None:
    """Return the intent of an incomplete operation in a workspace; ``None`` if there is none. Raises ``Corrupt``."""
    return _read(_file(store, workspace))


def pending(store: GitStore) -> Iterator[Intent]:
    """Yield the intents of the incomplete operations in all workspaces. Raises ``Corrupt``."""
    for file in sorted((store.git_dir / workspace_lock.WORKSPACES).glob(f"*/{NAME}")):
        found = _read(file)
        if found is not None:
            yield found


def refuse(store: GitStore, workspace: Path) -> None:
    """Check that no operation in the workspace is incomplete; raise ``Refused`` otherwise."""
    found = read(store, workspace)
    if found is not None:
        raise Refused(
            f"cannot write files: an earlier command, {found.description}, was interrupted",
            hint="run `gitsession rewind --continue` to complete it, or `gitsession rewind --abort` to revert it",
        )


def with_new_names(store: GitStore, intent: Intent) -> Intent:
    """Return ``intent`` with the oids that its commits have since a purge that rewrote them."""
    safety, place = (oid and local_records.newest_name(store.git_dir, oid) for oid in (intent.safety, intent.place))
    return replace(intent, safety=safety, place=place)


def is_done(store: ObjectStore, intent: Intent) -> bool:
    """Return whether the operation log contains the operation, so that only its intent must still be removed."""
    for operation in operation_log.history(store):
        if operation.id == intent.seen:
            return False
        if (operation.at_ms, operation.files and operation.files.safety) == (intent.at_ms, intent.safety):
            return True
    return False


def _file(store: GitStore, workspace: Path | str) -> Path:
    return workspace_lock.folder_in(store.git_dir, Path(workspace)) / NAME


def _read(file: Path) -> Intent | None:
    data = durable.read_regular(file)
    if data is None:
        return None
    try:
        found = json.loads(data)
        if found.pop("version") != VERSION:
            raise ValueError("a later release of gitsession wrote the file")
        changes = tuple(PlannedChange(path, _state(old), _state(new)) for path, old, new in found.pop("changes"))
        return Intent(**{**found, "changes": changes, "made": tuple(found["made"])})
    except (ValueError, KeyError, TypeError) as error:
        why = f"the field {error} is missing" if isinstance(error, KeyError) else error
        raise Corrupt(
            f"cannot read the interrupted command in '{file}': {why}",
            hint="upgrade gitsession, or move the file elsewhere and run `gitsession rewind ENTRY` to restore the "
            "files",
        ) from error


def _state(value: Any) -> State:
    return None if value is None else TreeEntry(*value)
