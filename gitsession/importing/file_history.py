"""Import of the file changes that an agent recorded, as checkpoints of the imported session (decision 0021).

The changes are replayed in the order of the agent's file. The state of files before a change is not attributed to the
session. A change that a tool call made is attributed to the session only if the content of the file before and after
the call is known. The workspace is not read.
"""

from __future__ import annotations

import functools
import os
import posixpath
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gitsession.checkpoints import history
from gitsession.checkpoints.attribution import AFTER, BEFORE, EDITED
from gitsession.checkpoints.history import Point
from gitsession.codec.cbor import to_profile
from gitsession.codec.digest import hash_of
from gitsession.codec.payload import NONCE_BYTES
from gitsession.discovery import sources
from gitsession.formats import Format, Remembering, Source
from gitsession.formats.base.file_changes import (
    RecordedBackup,
    RecordedChange,
    RecordedCopy,
    RecordedEdit,
    RecordedReplacement,
    RecordedRun,
)
from gitsession.git.cat_file import BorrowedObjects
from gitsession.git.types import ObjectSink, Oid
from gitsession.importing.recorded_step import EXECUTABLE, PLAIN, Contents, RecordedStep, within
from gitsession.importing.recorded_trees import Trees
from gitsession.model.entries import Checkpoint
from gitsession.sessions import graph
from gitsession.sessions.node import Node
from gitsession.sessions.session_facts import beginning
from gitsession.store.interface import ObjectStore
from gitsession.workspace import trees
from gitsession.workspace.read_file import USUAL
from gitsession.workspace.trees import CachedTrees, State, TreeEntry


def add_checkpoints(store: ObjectStore, format: Format, source: Source, path: Path, sid: str, cwd: str | None) -> int:
    """Add checkpoints for the file changes in ``source`` to the session ``sid``.

    Return the number of added checkpoints. No checkpoint is added if the agent's copies of files are not available. If
    the session's newest checkpoint was made from a snapshot by gitsession and not from copies, no checkpoint is added
    either, because snapshots are more exact.

    ``path``: the path of the agent's file. ``cwd``: the folder of the session. Raises ``Unavailable``. Raises
    ``MissingObject``, ``Corrupt`` or ``Malformed`` if existing checkpoints cannot be read.
    """
    if not isinstance(format, Remembering) or cwd is None or not cwd.startswith("/"):
        return 0
    folders = copy_folders(format, source, path)
    if not folders:
        return 0
    newest = history.newest(store, sid)
    if newest is not None and newest.entry.reason != format.RECORDED:
        return 0
    with BorrowedObjects(folders) as borrowed:
        replay = _Replay(store, sid, posixpath.normpath(cwd), folders[0], borrowed, format.RECORDED, newest)
        return replay.run(format.file_changes(source))


def copy_folders(format: Remembering, source: Source, path: Path) -> list[Path]:
    """Return the existing folders that may contain the agent's copies of files. ``path``: the path of its file."""
    base = path.resolve().parent
    paths = [Path(os.path.normpath(base / folder)) for folder in format.copy_folders(sources.name_of(path), source)]
    return [folder for folder in paths if folder.is_dir()]


@dataclass
class _Copies:
    """The copies of files that an agent made. Each copy is read only once, because copies never change.

    The mapping returns, for the name of a copy, the file in the store, or the reason why the copy is not available.
    """

    folder: Path
    contents: Contents
    seen: dict[str, TreeEntry | str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> TreeEntry | str:
        if name not in self.seen:
            self.seen[name] = self._read(name)
        return self.seen[name]

    def _read(self, name: str) -> TreeEntry | str:
        try:
            fd = os.open(self.folder / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                status = os.fstat(fd)
                if not stat.S_ISREG(status.st_mode):
                    return "the agent's copy is no file"
                if status.st_size > USUAL.file_bytes:
                    return f"larger than {USUAL.file_bytes:,} bytes"
                with os.fdopen(fd, "rb", closefd=False) as file:
                    data = file.read(status.st_size)
            finally:
                os.close(fd)
        except OSError as error:
            return f"the agent's copy cannot be read: {error.strerror}"
        mode = EXECUTABLE if status.st_mode & stat.S_IXUSR else PLAIN
        return self.contents.omission_reason(data) or self.contents.file(data, mode)


class _Replay:
    """A replay of recorded changes.

    ``newest``: the newest checkpoint. Changes up to the time of this checkpoint are skipped.
    """

    def __init__(
        self,
        store: ObjectStore,
        sid: str,
        cwd: str,
        folder: Path,
        borrowed: BorrowedObjects,
        reason: str,
        newest: Point | None,
    ) -> None:
        self._store, self._sid, self._cwd, self._reason, self._newest = store, sid, cwd, reason, newest
        self._contents = Contents(store)
        self._copies = _Copies(folder, self._contents)
        self._borrowed, self._trees = borrowed, Trees(borrowed)
        self._entry_names: list[str | int] = []
        self._at_ms = 0
        self._added = 0

    def run(self, changes: Iterable[RecordedChange]) -> int:
        newest_ms = self._newest.entry.at_ms if self._newest is not None else -1
        for change in changes:
            self._at_ms = max(change.at_ms or 0, self._at_ms + 2)  # strictly increasing times preserve the order
            self._entry_names += [] if change.entry is None else [change.entry]
            if isinstance(change, RecordedBackup) and self._at_ms > newest_ms:
                self._add_backup(change)
            elif not isinstance(change, RecordedBackup) and self._at_ms + 1 > newest_ms:
                self._add_change(change)
        return self._added

    @functools.cached_property
    def _entries(self) -> Mapping[str | int, Node]:
        """Return the session's own entries by the agent's id and by line number."""
        found: dict[str | int, Node] = {}
        own = graph.subtree(graph.tree(self._store, self._sid), beginning(self._store, self._sid).oid)
        for node in own.nodes.values():
            if node.source is not None:
                found |= {node.source.line: node, node.source.id or "": node}
        return found

    @property
    def _target(self) -> Node | None:
        """Return the entry to which the newest change with an existing entry belongs, or ``None``."""
        return next((self._entries[name] for name in reversed(self._entry_names) if name in self._entries), None)

    def _add_change(self, change: RecordedEdit | RecordedReplacement | RecordedRun) -> None:
        if isinstance(change, RecordedRun):
            self._add_step(change)
            return
        path = within(self._cwd, change.path)
        if path is None or self._contents.redact_path(path)[1] is not None:
            return
        tree = self._newest.files if self._newest is not None else None
        known = CachedTrees(self._store).look_up(tree, [path])[path]
        states = _contents_of(change, self._store.read(known.oid)[1] if known is not None else None)
        if states is None or any(data is not None and len(data) > USUAL.file_bytes for data in states):
            return
        if any(data is not None and self._contents.omission_reason(data) for data in states):
            return  # a file with a secret is omitted as a whole
        mode = known.mode if known is not None else PLAIN
        before, after = (None if data is None else self._contents.file(data, mode) for data in states)
        if before is None or before != known:
            self._add(BEFORE, change, {path: before})
        self._add(AFTER, change, {path: after}, call=change.call)

    def _add_backup(self, backup: RecordedBackup) -> None:
        states: dict[str, State] = {}
        skipped: list[tuple[str, str]] = []
        for raw_path, copy in backup.files.items():
            path = within(self._cwd, raw_path)
            if path is None:
                continue
            path, reason = self._contents.redact_path(path)
            state = reason or (self._copies[copy.name] if isinstance(copy, RecordedCopy) else None)
            if isinstance(state, str):
                skipped.append((path, state))
            else:
                states[path] = state
        if states:
            self._add(BEFORE, backup, states, skipped=tuple(skipped))

    def _add_step(self, run: RecordedRun) -> None:
        """Add the checkpoints of one step.

        Changes that the calls of the step may have made are attributed to the session. Other changes since the newest
        checkpoint are recorded in a checkpoint before the step, so that they are not attributed to the session.
        """
        step = RecordedStep(self._store, self._borrowed, self._trees, self._cwd, run)
        before, after = step.changed()
        if not after:
            return
        known = trees.walk(self._store, self._newest.files if self._newest is not None else None)
        states = step.changed_before(dict(known)) | before
        self._add(BEFORE, run, states, skipped=tuple(step.skipped), contents=step.contents)
        self._add(AFTER, run, after, call=run.call, contents=step.contents)

    def _add(
        self,
        phase: str,
        change: RecordedChange,
        states: Mapping[str, State],
        *,
        skipped: tuple[tuple[str, str], ...] = (),
        call: str | None = None,
        contents: Contents | None = None,
    ) -> None:
        entry = Checkpoint(
            mode=EDITED,
            phase=phase,
            call=to_profile(call),
            workspace=to_profile(self._cwd),
            paths=tuple(sorted(states)),
            skipped=skipped,
            reason=self._reason,
            at_ms=self._at_ms if phase == BEFORE else self._at_ms + 1,
        )

        def files(tx: ObjectSink, before: Oid | None) -> Oid | None:
            (contents or self._contents).put(tx, states.values())
            return CachedTrees(self._store).patch(tx, before, states)

        nonce = hash_of(phase.encode() + b"\n" + change.raw)[:NONCE_BYTES]
        point = history.add(self._store, self._sid, entry, files, self._target, nonce=nonce)
        self._added += self._newest is None or point.oid != self._newest.oid
        self._newest = point


def _contents_of(
    change: RecordedEdit | RecordedReplacement, current: bytes | None
) -> tuple[bytes | None, bytes | None] | None:
    """Return the bytes of a file before and after ``change``, or ``None`` if they cannot be determined.

    ``current``: the last known bytes of the file.
    """
    if isinstance(change, RecordedEdit):
        return contents(change, current)
    try:
        return change.before.encode(), None if change.after is None else change.after.encode()
    except UnicodeEncodeError:
        return None


def contents(edit: RecordedEdit, current: bytes | None) -> tuple[bytes | None, bytes] | None:
    """Return the bytes of a file before and after ``edit``, or ``None`` if they cannot be determined.

    ``current``: the last known bytes of the file.

    The agent records text with LF line endings only. If ``current`` is the recorded text with other line endings, the
    result has the line endings of ``current``. If ``current`` differs from the recorded text in more than line endings
    and contains CR, the line endings of the file are unknown.
    """
    try:
        after = edit.after.encode()
        if edit.before is None:
            return None, after
        if current is None:
            return (edit.before.encode(), after)
        if current.replace(b"\r\n", b"\n") != edit.before.encode():
            return None if b"\r" in current else (edit.before.encode(), after)
    except UnicodeEncodeError:
        return None
    if b"\r" not in current:
        return current, after
    if edit.rewrites or not current.count(b"\r") == current.count(b"\n") == current.count(b"\r\n"):
        return None
    return current, after.replace(b"\n", b"\r\n")
