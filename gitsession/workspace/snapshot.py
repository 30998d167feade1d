"""Snapshots of a workspace, as differences from the last snapshot. git finds the paths but stores nothing.

    look     the private repository is locked; one `git ls-files` lists the paths that may differ; gitsession reads each
             path when the caller requests its change
    keep     the caller makes the contents durable, in any storage
    accept   the private state is updated; changes that are not accepted are in the next snapshot again

The tree of a snapshot is the tree of the previous snapshot with the changes applied. A caller without a store has no
trees. Such a caller uses snapshot ids: ``before`` and ``name``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gitsession.errors import GitSessionError, Unavailable
from gitsession.git.objects import LINK_MODE, SUBMODULE_MODE
from gitsession.git.types import Oid
from gitsession.workspace import names, user_repository
from gitsession.workspace.changed_paths import ChangedPaths, find
from gitsession.workspace.inspect import Status
from gitsession.workspace.private_repository import IndexedPath, PrivateRepository, new_name
from gitsession.workspace.read_file import USUAL, Caps, PathContent, PathReading, Skipped, display_path, read_path
from gitsession.workspace.root import WorkspaceRoot
from gitsession.workspace.trees import TreeEntry

FOLDED_FROM = 1000
"""Maximum number of paths over the cap that are listed one by one. If there are more, only their folders are listed."""

_IGNORE_FILE = b".gitignore"
_SLOW_MS = 500
_SINCE_MAX = 256
"""Maximum number of changed paths before the index is written again. To write it, git must check every file."""
_OID_DIGITS = 40
_REMOVED_ROW = b"0 " + b"0" * 40
_DEBUG = re.compile(rb"\n  mtime: (\d+):(\d+)\n  dev: \d+\tino: (\d+)\n.*?\n  size: (\d+)\t[^\n]*\n", re.DOTALL)


class WorkspaceSnapshot:
    """The differences of a workspace from its last snapshot.

    Iterate over ``changes`` once, to the end. After that, ``skipped`` and ``appeared`` are complete, and ``accept`` can
    be called. A file that replaces a folder implies the removal of all files in that folder.
    """

    def __init__(self, root: WorkspaceRoot, private: PrivateRepository, found: ChangedPaths, caps: Caps) -> None:
        """Use ``take_snapshot`` instead."""
        self.before = private.state.look or None
        """The id of the snapshot on which this one is based. If it is ``None``, all files are listed."""
        self.skipped: list[Skipped] = []
        """The paths that were not captured. Some of them may be in the last snapshot."""
        self.appeared: list[str] = []
        """Paths that are not in the last snapshot, although their files existed, or may have existed, before it began.

        Ignore rules that have changed since the last snapshot may have excluded these files.
        """
        self._root, self._private, self._found, self._caps = root, private, found, caps
        self._rows: dict[bytes, str] = {}
        self._removed: list[bytes] = []
        self._files = private.state.files
        self._since = dict(private.state.since)
        self._is_read = False

    def base(self) -> Oid | None:
        """Return the tree of the snapshot ``before``. Raises ``MissingObject`` if the tree is not known yet."""
        return self._private.tree_of(self.before) if self.before else None

    def changes(self) -> Iterator[PathContent]:
        """Yield the changes, sorted by path as bytes. A file is read when its change is requested.

        Raises ``OSError`` if the disk fails.
        """
        old: dict[bytes, Status] = {}
        over: list[bytes] = []
        fresh: dict[bytes, Status] = {}
        unhidden = [b""] if self._found.rules_differ else []
        differing = self._found.differing | {os.fsencode(path): bool(seen.row) for path, seen in self._since.items()}
        for raw, known in sorted(differing.items()):
            if not known and self._files >= self._caps.files:
                over.append(raw)
                continue
            if known and self._is_unchanged(raw):
                continue
            reading = self._read(raw)
            self.skipped += [reading.skipped] if reading.skipped else []
            change = reading.change
            if change is None or (change.file is None and not known) or (known and self._is_recorded(raw, change.file)):
                continue
            self._files += (change.file is not None) - known
            self._rows[raw] = _row(change.file)
            self._since[os.fsdecode(raw)] = IndexedPath(_row(change.file), self._lasting_status(reading.status))
            if change.file is None:
                self._removed.append(raw)
            if os.path.basename(raw) == _IGNORE_FILE and (known or b"!" in change.data):
                unhidden.append(os.path.dirname(raw))
            if not known and reading.status and self.before:
                is_old = reading.status.ctime_ns < self._private.state.at_ns
                (old if is_old else fresh)[raw] = reading.status
            yield change
        for path, reason in self._found.skipped + _folded(over, self._caps.files):
            self.skipped.append(Skipped(display_path(names.unescape_path(path), self._caps.secret)[0], reason))
        self.skipped = sorted(set(self.skipped))
        self.appeared = self._not_moved(old | self._perhaps_hidden(fresh, unhidden))
        self._is_read = True

    @property
    def changed(self) -> bool:
        """Return whether ``changes`` has yielded a change so far."""
        return bool(self._rows)

    def accept(self, tree: Oid | None = None, *, kept: bool = True, name: str | None = None) -> str:
        """Mark all changes as durable, so that the next snapshot is based on this one; return the id of this snapshot.

        If this method raises ``Unavailable``, the snapshot is not accepted.

        ``tree``: the tree of all files. ``kept``: False if the tree is not known yet; pass the tree to
        ``PrivateRepository.keep_tree`` later. ``name``: the id of this snapshot if there are changes, for a caller that
        has already stored an id; a new id by default.
        """
        if not self._is_read:
            raise RuntimeError("cannot accept a snapshot before all its changes were read")
        try:
            return self._accept(tree, kept, name)
        except OSError as error:
            raise Unavailable(f"cannot record the snapshot of '{self._root.path}': {error.strerror}") from error

    def _accept(self, tree: Oid | None, kept: bool, name: str | None) -> str:
        state, found = self._private.state, self._found
        snapshot = (name or new_name()) if self._rows or not state.look else state.look
        index, mark = state.index_name, state.index_mark
        # If only the status of a file has changed, git reads the file in every snapshot until the index is written.
        is_slow = 0 < 3 * state.took_ms < found.took_ms > _SLOW_MS
        # A new link replaces a folder. The index must not list files of that folder, even if the link is removed later.
        has_link = any(row.startswith(LINK_MODE) for row in self._rows.values())
        writes = is_slow or has_link or len(self._since) > _SINCE_MAX or not state.look
        if writes:
            index, mark = self._private.write_index(found.state.beside.top, self._index_rows())
        if not self._rows and state.look:
            kept, tree = state.kept, state.tree
        self._private.save(
            found.state._replace(
                look=snapshot,
                kept=kept,
                tree=tree,
                files=self._files,
                took_ms=0 if writes else min(state.took_ms or found.took_ms, found.took_ms),
                since={} if writes else self._since,
                index_name=index,
                index_mark=mark,
                absent=self._absent(),
                links=self._links(),
            )
        )
        return snapshot

    def _read(self, raw: bytes) -> PathReading:
        reading = read_path(self._root, raw, self._caps)
        commit = self._found.state.submodules.get(os.fsdecode(raw))
        if commit is None or not reading.status or reading.status.kind != "folder":
            return reading
        path = names.escape_path(raw)
        oid = user_repository.head(os.path.join(self._root.path, os.fsdecode(raw))) or commit
        if len(oid) != _OID_DIGITS:
            return reading._replace(skipped=Skipped(path, "a submodule whose commits are named by SHA-256"))
        return PathReading(PathContent(path, TreeEntry(SUBMODULE_MODE, oid)), None, reading.status)

    def _is_unchanged(self, raw: bytes) -> bool:
        """Return whether the status proves that the file is unchanged. The file is not read."""
        seen = self._since.get(os.fsdecode(raw))
        if seen is None or seen.status is None:
            return False
        try:
            status = self._root.state(names.escape_path(raw))
        except (OSError, GitSessionError):
            return False
        return status == seen.status

    def _is_recorded(self, raw: bytes, file: TreeEntry | None) -> bool:
        seen = self._since.get(os.fsdecode(raw))
        if seen is None and file is not None and file.mode == LINK_MODE:
            return self._found.state.links.get(os.fsdecode(raw)) == file.oid
        return seen is not None and seen.row == _row(file)

    def _lasting_status(self, status: Status | None) -> Status | None:
        """Return ``status`` if it can later prove that the file is unchanged, else ``None``.

        A file that was written after this snapshot began might be written again within the same tick of the clock.
        """
        return status if status and status.ctime_ns < self._found.state.at_ns else None

    def _index_rows(self) -> bytes:
        """Return the rows for the index. Removed paths come first, so that none of them conflicts with a new path."""
        relative = os.fsencode(os.path.relpath(self._root.path, self._found.state.beside.top))
        prefix = b"" if relative == b"." else relative + b"/"
        ordered = sorted(self._since.items(), key=lambda item: item[1].row != "")
        rows = ((seen.row.encode() or _REMOVED_ROW, prefix, os.fsencode(path)) for path, seen in ordered)
        return b"".join(b"%b\t%b%b\0" % row for row in rows)

    def _absent(self) -> list[str]:
        """Return ``SnapshotState.absent`` for this snapshot."""
        state = self._found.state
        tracked = {*state.tracked, *state.submodules}
        removed = {os.fsdecode(raw) for raw, row in self._rows.items() if not row}
        added = {os.fsdecode(raw) for raw in self._rows} - removed
        return sorted(((set(state.absent) | removed) & tracked) - added)

    def _links(self) -> dict[str, Oid]:
        """Return ``SnapshotState.links`` for this snapshot. If there is a new link, the index is always written."""
        links = self._found.state.links
        found = {path: oid for path, oid in links.items() if path not in self._since}
        start = f"{LINK_MODE} "
        new = {raw: row for raw, row in self._rows.items() if row.startswith(start)}
        return found | {os.fsdecode(raw): row.removeprefix(start) for raw, row in new.items()}

    def _perhaps_hidden(self, fresh: dict[bytes, Status], unhidden: list[bytes]) -> dict[bytes, Status]:
        """Return the new files that may have existed before the last snapshot, although they are not in that snapshot.

        The times of a file that is written constantly, such as a database, do not show when the file was created.
        ``unhidden``: folders whose ignore rules have changed.
        """
        below = tuple(folder + b"/" for folder in unhidden if folder)
        tracked = set(self._found.state.tracked) - set(self._private.state.tracked)  # tracked although ignored
        return {
            raw: status
            for raw, status in fresh.items()
            if os.path.basename(raw) != _IGNORE_FILE
            and (b"" in unhidden or raw.startswith(below) or os.fsdecode(raw) in tracked)
        }

    def _not_moved(self, old: dict[bytes, Status]) -> list[str]:
        """Return the paths in ``old``, except those of files that had another path in the last snapshot."""
        if not old or not self._removed:
            return sorted(map(names.escape_path, old))
        removed = set(self._removed)
        seen = [self._private.state.since.get(os.fsdecode(raw)) for raw in removed]
        moved = [_as_indexed(each.status) for each in seen if each and each.status]
        output = self._private.git(self._found.state.beside.top, str(self._root.path), "ls-files", "-z", "--debug").out
        at = 0
        while (end := output.find(b"\0", at)) >= 0:
            path = output[at:end]
            found = _DEBUG.search(output, end)
            if not found:
                break
            if path in removed:
                moved.append([int(number) for number in found.groups()])
            at = found.end()
        return sorted(names.escape_path(raw) for raw, status in old.items() if _as_indexed(status) not in moved)


@contextmanager
def take_snapshot(
    root: WorkspaceRoot,
    folder: Path,
    *,
    caps: Caps = USUAL,
    discard_state: bool = False,
    wait_seconds: float = 30.0,
) -> Iterator[WorkspaceSnapshot]:
    """Take a snapshot of the workspace. If ``root`` was opened with the path of the store, the store is not captured.

    Raises ``Unavailable``.

    ``folder``: the folder of the private git directory; it is created if it is missing. ``discard_state``: True to
    discard the state of the last snapshot first.
    """
    with PrivateRepository.open(folder, wait_seconds=wait_seconds) as private:
        if discard_state:
            private.forget()
        try:
            found = find(private, root)
        except Unavailable:
            if not private.state.look:
                raise
            private.forget()  # git cannot use the state, which is only a cache
            found = find(private, root)
        root.forget()
        yield WorkspaceSnapshot(root, private, found, caps)


def _folded(over: list[bytes], most: int) -> list[Skipped]:
    """Return the paths ``over`` the cap as skipped paths. If there are too many for a checkpoint, return their folders.

    ``most``: the maximum number of files.
    """
    for depth in (None, -1, 1):
        folders = {b"/".join(raw.split(b"/")[:depth]) or raw for raw in over}
        if len(folders) <= FOLDED_FROM:
            break
    return [Skipped(names.escape_path(raw), f"beyond {most:,} files") for raw in sorted(folders)]


def _row(file: TreeEntry | None) -> str:
    return f"{file.mode} {file.oid}" if file else ""


def _as_indexed(status: Status) -> list[int]:
    """Return the mtime, inode and size as in git's index, which truncates them to 32 bits."""
    seconds, nanoseconds = divmod(status.mtime_ns, 10**9)
    return [seconds & 0xFFFFFFFF, nanoseconds, status.ino & 0xFFFFFFFF, status.size & 0xFFFFFFFF]
