"""Conversion of an agent's recorded file changes to paths for checkpoints and to file contents for the store.

A ``RecordedStep`` is a step for which the agent recorded git trees of the project before and after the step.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gitsession.formats.base.file_changes import RecordedRun
from gitsession.git.cat_file import BorrowedObjects
from gitsession.git.objects import oid_of
from gitsession.git.types import ObjectSink, Oid
from gitsession.importing.recorded_trees import RecordedFile, Trees
from gitsession.sessions import tombstone_set
from gitsession.store.interface import ObjectStore
from gitsession.workspace import names
from gitsession.workspace.read_file import USUAL, display_path, secret_reason
from gitsession.workspace.trees import State, TreeEntry

PLAIN, EXECUTABLE = "100644", "100755"

BYTES_MAX = 256 << 20
"""Maximum total size of the files that are stored for one step, in bytes."""


@dataclass
class Contents:
    """File contents to store. Each content is written with the first checkpoint that refers to it."""

    store: ObjectStore
    waiting: dict[Oid, bytes] = field(default_factory=dict)

    def omission_reason(self, data: bytes) -> str | None:
        """Return the reason why a file with the content ``data`` must be omitted, or ``None``."""
        if tombstone_set.read(self.store).has_file(oid_of("blob", data)):
            return secret_reason(tombstone_set.RULE)
        rule = self.store.guard.in_file(data) if self.store.guard is not None else None
        return None if rule is None else secret_reason(rule)

    def redact_path(self, path: str) -> tuple[str, str | None]:
        """Return ``path`` with secrets redacted, and the reason why a file at ``path`` must be omitted, or ``None``."""
        guard = self.store.guard
        name, rule = display_path(names.unescape_path(path), guard.in_file if guard is not None else None)
        return name, secret_reason(rule) if rule else None

    def file(self, data: bytes, mode: str) -> TreeEntry:
        oid = oid_of("blob", data)
        if not self.store.contains(oid):
            self.waiting[oid] = data
        return TreeEntry(mode, oid)

    def put(self, sink: ObjectSink, states: Iterable[State]) -> None:
        for state in states:
            if state is not None and state.oid in self.waiting:
                sink.put("blob", self.waiting.pop(state.oid))


def within(cwd: str, raw_path: str) -> str | None:
    """Return ``raw_path`` as a path for a checkpoint, or ``None`` if it is outside of ``cwd`` or cannot be stored."""
    if not raw_path or "\0" in raw_path or ".." in raw_path.split("/"):
        return None
    full_path = posixpath.normpath(posixpath.join(cwd, raw_path))
    prefix = cwd.rstrip("/") + "/"
    if not full_path.startswith(prefix):
        return None
    try:
        path = names.escape_path(full_path[len(prefix) :].encode())
    except UnicodeEncodeError:
        return None
    return path if names.path_refusal(path) is None else None


class RecordedStep:
    """The file changes of one step. ``cwd``: the session's folder. Files outside of this folder are ignored.

    ``skipped``: the paths of omitted files, each with the reason.
    """

    def __init__(self, store: ObjectStore, borrowed: BorrowedObjects, trees: Trees, cwd: str, run: RecordedRun) -> None:
        self._store, self._borrowed, self._trees, self._run = store, borrowed, trees, run
        self._base = _below(posixpath.normpath(run.root), cwd)
        self._room = BYTES_MAX
        self.contents = Contents(store)
        self.skipped: list[tuple[str, str]] = []

    def changed(self) -> tuple[dict[str, State], dict[str, State]]:
        """Return the states, before and after the step, of the files that the calls of the step may have changed.

        Files whose state cannot be determined are added to ``skipped``. If one of the trees is incomplete, both results
        are empty.
        """
        old_states: dict[str, State] = {}
        new_states: dict[str, State] = {}
        found = self._trees.diff(self._run.before.name, self._run.after.name) if self._base is not None else None
        only = None if self._run.paths is None else {_raw(path, self._run.root) for path in self._run.paths}
        for raw, files in sorted((found or {}).items()):
            path = self._path(raw) if only is None or raw in only else None
            if path is None:
                continue
            before, after = (self._state(raw, file) for file in files)
            reason = next((state for state in (before, after) if isinstance(state, str)), None)
            path, path_reason = self.contents.redact_path(path)
            reason = path_reason or reason
            if len(new_states) >= USUAL.files:
                reason = f"more than {USUAL.files:,} files"
            if before is None and self._trees.may_have_existed(self._run.before.name, self._run.after.name, raw):
                reason = "git may have ignored it before"
            if reason is None and not isinstance(before, str) and not isinstance(after, str):
                old_states[path], new_states[path] = before, after
            elif reason is not None:
                self.skipped.append((path, reason))
        return old_states, new_states

    def changed_before(self, known: Mapping[str, State]) -> dict[str, State]:
        """Return the files in ``known`` whose state at the beginning of the step differed from their known state.

        Each file is returned with its state at the beginning of the step.
        """
        found: dict[str, State] = {}
        for path, known_state in known.items():
            raw = (self._base or b"") + names.unescape_path(path)
            file = self._trees.look_up(self._run.before.name, raw)
            if isinstance(file, str) or (file and TreeEntry(*file)) == known_state:
                continue
            state = self._state(raw, file)
            if not isinstance(state, str):
                found[path] = state
        return found

    def _path(self, raw: bytes) -> str | None:
        """Return ``raw`` as a checkpoint path, or ``None`` if it is invalid or outside of the session's folder."""
        base = self._base or b""
        if not raw.startswith(base):
            return None
        path = names.escape_path(raw[len(base) :])
        return path if names.path_refusal(path) is None else None

    def _state(self, raw: bytes, file: RecordedFile | None) -> State | str:
        """Return the state of ``file``, or the reason why its state cannot be determined."""
        if file is None:
            return None
        if any(self._trees.is_converted(tree.name, raw) for tree in (self._run.before, self._run.after)):
            return "git's attributes change its bytes"
        if self._store.contains(file.oid):
            return TreeEntry(*file)
        data = self._borrowed.read("blob", file.oid, min(USUAL.file_bytes, self._room))
        if isinstance(data, str):
            return data
        self._room -= len(data)
        return self.contents.omission_reason(data) or self.contents.file(data, file.mode)


def _below(root: str, cwd: str) -> bytes | None:
    """Return the prefix that paths in ``cwd`` have in a tree of ``root``, or ``None`` if ``cwd`` is not in ``root``."""
    above = root.rstrip("/") + "/"
    try:
        return (cwd.rstrip("/") + "/").encode()[len(above.encode()) :] if f"{cwd}/".startswith(above) else None
    except UnicodeEncodeError:
        return None


def _raw(path: str, root: str) -> bytes:
    """Return ``path`` relative to ``root``, as in a tree of ``root``. No tree contains a path outside of ``root``."""
    return posixpath.relpath(posixpath.normpath(posixpath.join(root, path)), root).encode("utf-8", "backslashreplace")
