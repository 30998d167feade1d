"""Restoration of a checkpoint's files. No file outside the workspace is written, and no concurrent change is lost.

After an interruption, each path has its old or its new content, and a repeated call completes the operation. If a path
is not in its expected state, the path is not changed, and the outcome gives the reason. The rename of a file directly
follows the last check of its status.

    prepare   inspect each path, write its new content to a temporary file beside it, and begin its fsync
    sync      wait until all prepared files are synced
    replace   inspect each path again, rename its temporary file to it, and begin the fsync of its folder
    finish    fsync the other folders

A batch of at most 64 files is prepared and then replaced, and its folders are synced while the next batch is prepared.
The calls of fsync run in threads, several at once, because a disk combines concurrent requests.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from threading import Thread
from typing import Literal, NamedTuple

from gitsession.errors import GitSessionError, Malformed, NotFound, Refused, Unavailable
from gitsession.git.objects import LINK_MODE, SUBMODULE_MODE, oid_of
from gitsession.git.types import Oid
from gitsession.workspace import inspect, path_rules, place_file
from gitsession.workspace.inspect import Now, SpecialFile, Status
from gitsession.workspace.path_rules import NameFolding, PlannedChange
from gitsession.workspace.place_file import StagedFile
from gitsession.workspace.root import NoFolder, WorkspaceRoot, on_disk
from gitsession.workspace.trees import TreeEntry

__all__ = ["Content", "Outcome", "PlannedChange", "restore", "sweep"]

SYNCS_MAX = 8
"""Maximum number of concurrent calls of fsync for folders."""

SYNCS_IN_A_ROW = 8
"""Number of files that a thread syncs one after the other. A thread for each file would cost more than its fsync."""

FILES_MAX, BYTES_MAX = 64, 32 << 20
"""Maximum number and total size in bytes of the prepared files. Each file uses two handles and disk space."""

_SUBMODULE = "a submodule, whose commit is never changed"

Content = Callable[[Oid], bytes]
"""A function that returns the content of a blob. If the function raises ``GitSessionError``, the path is refused."""

_TOO_MANY_FILES = (errno.EMFILE, errno.ENFILE)
_FATAL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, *_TOO_MANY_FILES, errno.ENOMEM)


class Outcome(NamedTuple):
    """The outcome for one path.

    ``reason``: the reason why the path was kept or refused; empty if the path has the new content.
    """

    path: str
    result: Literal["done", "kept", "refused"]
    reason: str = ""


def restore(
    root: WorkspaceRoot,
    changes: Sequence[PlannedChange],
    *,
    content: Content,
    tag: str,
    bytes_max: int,
    made: Collection[str] = (),
) -> list[Outcome]:
    """Change each path from its ``expected`` state to its ``new`` state; return an outcome for each change, in order.

    Files are removed before other files are written. All changes are durable when the call returns. Raises
    ``Unavailable`` if the disk is full, failing or read-only. After this error, repeat the same call to continue.

    ``tag``: a part of the names of the temporary files, by which ``sweep`` finds them. ``bytes_max``: the maximum size
    of one file in bytes. ``made``: folders that the session created. If the removal of files leaves such a folder
    empty, the folder is removed, too.
    """
    refused = path_rules.refusals(changes)
    fit = [change for change in changes if change.path not in refused]
    run = _Run(root, content, tag, bytes_max, frozenset(made))
    if path_rules.collisions(fit, NameFolding(case=True, form=True)):
        refused |= path_rules.collisions(fit, run.folds())
    ordered = sorted((change for change in changes if change.path not in refused), key=lambda change: change.path)
    try:
        for change in reversed(ordered):
            if change.new is None:
                run.remove(change)
        for change in ordered:
            if change.new is not None:
                run.write(change)
        run.replace_files()
        run.remove_folders(run.emptied & run.made)
    finally:
        run.drop()
        root.forget()
        run.sync_folders()
    outcomes = run.outcomes | {path: Outcome(path, "refused", reason) for path, reason in refused.items()}
    return [outcomes[change.path] for change in changes]


def sweep(root: WorkspaceRoot, paths: Iterable[str], *, tag: str) -> None:
    """Remove the temporary files that a killed run with ``tag`` left beside ``paths``."""
    for folder in {"", *(path.rpartition("/")[0] for path in paths)}:
        with suppress(Malformed, NotFound, Refused, PermissionError), root.enter(folder) as fd:
            place_file.sweep(fd, tag)


class _Run:
    """One call of ``restore``. ``outcomes``: the outcomes so far, by path."""

    def __init__(self, root: WorkspaceRoot, content: Content, tag: str, bytes_max: int, made: frozenset[str]) -> None:
        self.root, self.content, self.tag, self.bytes_max, self.made = root, content, tag, bytes_max, made
        self.outcomes: dict[str, Outcome] = {}
        self.prepared: list[tuple[PlannedChange, StagedFile]] = []
        self.prepared_bytes = 0
        self.unsynced: list[StagedFile] = []
        """The prepared files whose fsync has not begun."""
        self.syncs = _Threads()
        self.folder_syncs = _Threads()
        self.handles: dict[str, int] = {}
        """Handles of folders in which a file was replaced."""
        self.failed_syncs: list[tuple[str, OSError]] = []
        self.numbers = itertools.count()
        self.emptied: set[str] = set()
        """Folders from which a file was removed."""
        self.touched: set[str] = set()
        """Folders in which a name was changed. They need an fsync."""

    def folds(self) -> NameFolding:
        with self.root.enter("") as top:
            try:
                return NameFolding(*place_file.probe(top, self.tag))
            except OSError as error:
                if error.errno in _FATAL:
                    raise Unavailable(f"cannot write to '{self.root.path}': {error.strerror}") from error
                return NameFolding(case=True, form=True)

    def remove(self, change: PlannedChange) -> None:
        self._try(change, lambda: self._remove(change))

    def write(self, change: PlannedChange) -> None:
        """Prepare a change. A file may get its new content only when ``replace_files`` is called."""
        try:
            self._try(change, lambda: self._prepare(change))
        except Unavailable:
            if not self.prepared:
                raise
            self.replace_files()  # the replacement of old files frees disk space
            self.folder_syncs.result()  # and frees handles
            self._try(change, lambda: self._prepare(change))
        if len(self.prepared) >= FILES_MAX or self.prepared_bytes >= BYTES_MAX:
            self.replace_files()

    def replace_files(self) -> None:
        """Wait for the syncs of all prepared files and rename the files to their paths."""
        try:
            self._begin_syncs()
            self.syncs.result()
            for change, file in self.prepared:
                step = partial(self._replace, change.path, file)
                try:
                    self._try(change, step)
                except Unavailable as error:
                    if not self.handles or getattr(error.__cause__, "errno", None) not in _TOO_MANY_FILES:
                        raise
                    self._close_handles()  # the folders are opened again later
                    self._try(change, step)
            if self.prepared:
                self._begin_folder_syncs(self.prepared[-1][0].path)
        finally:
            self.drop()

    def drop(self) -> None:
        """Remove the prepared files that were not renamed."""
        self.syncs.wait()  # no handle may be closed during its fsync
        for _, file in self.prepared:
            with suppress(OSError):
                file.drop()
        self.prepared.clear()
        self.unsynced.clear()
        self.prepared_bytes = 0

    def remove_folders(self, folders: Collection[str]) -> None:
        """Remove those of ``folders`` that are empty, the deepest first."""
        for folder in sorted(folders, key=lambda folder: -folder.count("/")):
            with suppress(Malformed, NotFound, Refused, PermissionError), self._entered(folder) as (fd, name):
                if place_file.remove_folder(fd, name):
                    self._touch(folder)

    def sync_folders(self) -> None:
        """Call fsync for all folders in which a name was changed, and wait until all folders are synced."""
        self._close_handles()
        folders = sorted(self.touched)
        for number in range(min(SYNCS_MAX, len(folders))):
            self.folder_syncs.run(partial(self._sync, folders[number::SYNCS_MAX]))
        self.folder_syncs.result()
        for folder, error in self.failed_syncs:
            raise Unavailable(f"cannot fsync '{folder or self.root.path}': {error.strerror}") from error

    def _close_handles(self) -> None:
        for handle in self.handles.values():
            os.close(handle)
        self.handles.clear()

    def _sync(self, folders: Iterable[str]) -> None:
        for folder in folders:
            try:
                with suppress(NotFound, Refused), self.root.enter(folder) as fd:
                    os.fsync(fd)
            except OSError as error:
                self.failed_syncs.append((folder, error))

    def _try(self, change: PlannedChange, step: Callable[[], Outcome | None]) -> None:
        """Run ``step`` and record its outcome. If ``step`` returns ``None``, a later step records the outcome."""
        try:
            outcome = step()
        except place_file.ConcurrentWrite:
            outcome = Outcome(change.path, "kept", "another process is changing it")
        except GitSessionError as error:
            outcome = Outcome(change.path, "refused", str(error))
        except OSError as error:
            if error.errno in _FATAL:
                raise Unavailable(f"cannot write '{change.path}': {error.strerror}") from error
            outcome = Outcome(change.path, "refused", f"it cannot be changed: {error.strerror}")
        if outcome is not None:
            self.outcomes[change.path] = outcome

    def _remove(self, change: PlannedChange) -> Outcome:
        if _is_submodule(change):
            return Outcome(change.path, "kept", _SUBMODULE)
        self.emptied.update(path_rules.folders_of(change.path))
        with suppress(NotFound, NoFolder), self._entered(change.path) as (fd, name):
            now, seen = _inspect(fd, name)
            if seen is None or seen.kind == "folder":  # the file is already removed, perhaps by a killed run
                self._touch(change.path)
                return Outcome(change.path, "done")
            reason = _reason_to_keep(change, now) or _misnamed(fd, name, seen)
            if reason:
                return Outcome(change.path, "kept", reason)
            place_file.remove(fd, name, seen=seen)
            self._touch(change.path)
        return Outcome(change.path, "done")

    def _prepare(self, change: PlannedChange) -> Outcome | None:
        path, new = change.path, change.new
        assert new is not None
        if _is_submodule(change):
            return Outcome(path, "kept", _SUBMODULE)
        with ExitStack() as opened:
            try:
                fd, name = opened.enter_context(self._entered(path))
                now, seen = _inspect(fd, name)
            except NotFound:
                fd, name, now, seen = -1, b"", None, None
            reason = _reason_to_keep(change, now) or _misnamed(fd, name, seen)
            if reason:
                return Outcome(path, "kept", reason)
            if now == new:
                self._touch_folders(change)
                return Outcome(path, "done")
            data = self.content(new.oid)
            reason = self._refusal(path, new, data)
            if reason:
                return Outcome(path, "refused", reason)
            if fd < 0:
                fd, name = opened.enter_context(self._entered(path, make=True))
            if isinstance(now, SpecialFile):
                if not self._make_room(fd, name, path):
                    return Outcome(path, "kept", "a folder that is not empty is in its place")
                seen = None
            self._touch_folders(change)
            if new.mode == LINK_MODE:
                place_file.put_link(fd, name, data, seen=seen, tag=self.tag)
                return Outcome(path, "done")
            executable = new.mode == "100755"
            file = place_file.stage(
                fd, name, data, executable=executable, seen=seen, tag=self.tag, numbers=self.numbers
            )
            self.prepared.append((change, file))
            self.prepared_bytes += len(data)
            self.unsynced.append(file)
            if len(self.unsynced) >= SYNCS_IN_A_ROW:
                self._begin_syncs()
        return None

    def _begin_syncs(self) -> None:
        """Let a thread sync the files whose fsync has not begun, while this thread continues."""
        if self.unsynced:
            self.syncs.run(partial(_sync_files, tuple(self.unsynced)))
            self.unsynced.clear()

    def _begin_folder_syncs(self, last: str) -> None:
        """Let threads sync folders in which files were replaced, while this thread continues.

        ``last``: the path that was replaced last. More files may follow in its folders, because the paths are sorted.
        """
        self.folder_syncs.result()  # of the previous batch, so that the number of open handles is limited
        complete = [(path, self.handles.pop(path)) for path in self.handles.keys() - {"", *path_rules.folders_of(last)}]
        self.touched.difference_update(path for path, _ in complete)
        for at in range(0, len(complete), SYNCS_IN_A_ROW):
            self.folder_syncs.run(partial(_sync_and_close, complete[at : at + SYNCS_IN_A_ROW], self.failed_syncs))

    def _replace(self, path: str, file: StagedFile) -> Outcome:
        folder = path.rpartition("/")[0]
        try:
            with self._entered(path) as (fd, name):
                file.put(fd, name)
                if folder not in self.handles:
                    with suppress(OSError):  # too many open files: the folder is opened again later
                        self.handles[folder] = os.dup(fd)
        except (NotFound, NoFolder) as cause:
            raise place_file.ConcurrentWrite from cause
        file.drop()
        return Outcome(path, "done")

    @contextmanager
    def _entered(self, path: str, *, make: bool = False) -> Iterator[tuple[int, bytes]]:
        folder, _, name = path.rpartition("/")
        with self.root.enter(folder, make=make) as fd:
            yield fd, on_disk(name)

    def _refusal(self, path: str, new: TreeEntry, data: bytes) -> str | None:
        if len(data) > self.bytes_max:
            return f"its size of {len(data):,} bytes exceeds the limit of {self.bytes_max:,} bytes"
        if oid_of("blob", data) != new.oid:
            return "its content does not match the checkpoint"
        return path_rules.target_refusal(path, data) if new.mode == LINK_MODE else None

    def _make_room(self, fd: int, name: bytes, path: str) -> bool:
        """Remove a folder in which no file is left; return whether the folder no longer exists.

        Of the folders below it, only those that this run emptied or that the session created are removed.
        """
        self.remove_folders([folder for folder in self.emptied | self.made if folder.startswith(f"{path}/")])
        return place_file.remove_folder(fd, name)

    def _touch(self, path: str) -> None:
        self.touched.add(path.rpartition("/")[0])

    def _touch_folders(self, change: PlannedChange) -> None:
        """Add the folder of a changed file to the folders that need an fsync. For a new file, add all folders above it.

        A run that was killed may have created these folders without an fsync.
        """
        self._touch(change.path)
        if change.expected is None:
            self.touched.update(("", *path_rules.folders_of(change.path)))


class _Threads:
    """Threads that each run one task.

    A pool of ``concurrent.futures`` is not used: its import takes longer than a rewind of a few files.
    """

    def __init__(self) -> None:
        self._running: list[Thread] = []
        self._errors: list[BaseException] = []

    def run(self, task: Callable[[], None]) -> None:
        """Run ``task`` in a thread, or in this thread if no thread can start."""
        thread = Thread(target=self._run, args=(task,))
        try:
            thread.start()
        except RuntimeError:
            self._run(task)
        else:
            self._running.append(thread)

    def wait(self) -> None:
        """Wait for all tasks."""
        while self._running:
            self._running[-1].join()
            self._running.pop()

    def result(self) -> None:
        """Wait for all tasks, and raise an error of one of them."""
        self.wait()
        if self._errors:
            raise self._errors.pop()

    def _run(self, task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            self._errors.append(error)


def _sync_files(files: Iterable[StagedFile]) -> None:
    for file in files:
        file.sync()


def _sync_and_close(folders: Iterable[tuple[str, int]], failed: list[tuple[str, OSError]]) -> None:
    """Call fsync for handles of folders, and close them. Add errors to ``failed``, with the path of the folder."""
    for path, handle in folders:
        try:
            os.fsync(handle)
        except OSError as error:
            failed.append((path, error))
        finally:
            os.close(handle)


def _is_submodule(change: PlannedChange) -> bool:
    return any(state is not None and state.mode == SUBMODULE_MODE for state in (change.expected, change.new))


def _inspect(fd: int, name: bytes) -> tuple[Now, Status | None]:
    try:
        return inspect.examine(fd, name)
    except Unavailable as error:
        raise place_file.ConcurrentWrite from error


def _reason_to_keep(change: PlannedChange, now: Now) -> str | None:
    """Return the reason to keep the current state of the path; ``None`` if the path may be changed."""
    if isinstance(now, SpecialFile):
        is_free = now.kind == "folder" and change.expected is None
        return None if is_free else f"{now.description} is in its place"
    if now in (change.new, change.expected):
        return None
    if now is None:
        return "it was removed meanwhile"
    return "it was changed meanwhile" if change.expected else "it was created meanwhile"


def _misnamed(fd: int, name: bytes, seen: Status | None) -> str | None:
    if seen is not None and place_file.spelled_otherwise(fd, name, seen):
        return "this file system does not distinguish it from a file with another spelling"
    return None
