"""A look at a workspace: what differs from the last look. git tells where to look, and stores nothing.

    look     under the lock: one `git ls-files` names what may differ; each is read, by our own lines, when asked for
    keep     the caller makes what it was handed durable, wherever that is
    accept   only now the private index is told; what is not accepted shows again in the next look

The tree of a look is the tree of the one before it with its changes in it. Who cannot ask a store for that tree goes by
the looks' names: ``before`` and ``name``.
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
from gitsession.workspace.read_file import USUAL, Caps, PathContent, PathReading, Skipped, named, take
from gitsession.workspace.root import WorkspaceRoot
from gitsession.workspace.trees import TreeEntry

FOLDED_FROM = 1000
"""So many paths over the cap are named one by one; more are named by their folders."""

_IGNORE_FILE = b".gitignore"
_SLOW_MS = 500
_SINCE_MAX = 256
"""So many paths are remembered beside the index before it is written again: that costs a look at every file."""
_OID_DIGITS = 40
_GONE = b"0 " + b"0" * 40
_DEBUG = re.compile(rb"\n  mtime: (\d+):(\d+)\n  dev: \d+\tino: (\d+)\n.*?\n  size: (\d+)\t[^\n]*\n", re.DOTALL)


class WorkspaceScan:
    """What differs. ``changes`` once, to its end; then ``skipped`` and ``appeared`` are complete, and ``accept``.

    A file in the place of a folder says it for all that was in there.
    """

    def __init__(self, root: WorkspaceRoot, shadow: PrivateRepository, found: ChangedPaths, caps: Caps) -> None:
        """Use ``look``."""
        self.before = shadow.state.look or None
        """The look that this one tells the differences from; ``None``: it tells all there is."""
        self.skipped: list[Skipped] = []
        """All that was left out, whether the last look knew it or not."""
        self.appeared: list[str] = []
        """New paths whose files were there before the last look began, or may have been: what leaves files out is
        another since, in a folder above them."""
        self._root, self._shadow, self._found, self._caps = root, shadow, found, caps
        self._rows: dict[bytes, str] = {}
        self._gone: list[bytes] = []
        self._files = shadow.state.files
        self._since = dict(shadow.state.since)
        self._whole = False

    def base(self) -> Oid | None:
        """The tree of ``before``. Raises ``MissingObject`` where nobody knows it yet."""
        return self._shadow.tree_of(self.before) if self.before else None

    def changes(self) -> Iterator[PathContent]:
        """What differs, in the order of paths as bytes, each read when it is asked for.

        Raises ``OSError`` for a disk that fails.
        """
        old: list[tuple[str, bytes, Status]] = []
        over: list[bytes] = []
        fresh: list[tuple[str, bytes, Status]] = []
        unhidden = [b""] if self._found.rules_differ else []
        differing = self._found.differing | {os.fsencode(path): bool(seen.row) for path, seen in self._since.items()}
        for raw, known in sorted(differing.items()):
            if not known and self._files >= self._caps.files:
                over.append(raw)
                continue
            if known and self._is_as_seen(raw):
                continue
            taken = self._take(raw)
            self.skipped += [taken.skipped] if taken.skipped else []
            change = taken.change
            if change is None or (change.file is None and not known) or (known and self._was_seen(raw, change.file)):
                continue
            self._files += (change.file is not None) - known
            self._rows[raw] = _row(change.file)
            self._since[os.fsdecode(raw)] = IndexedPath(_row(change.file), self._lasting(taken.status))
            if change.file is None:
                self._gone.append(raw)
            if os.path.basename(raw) == _IGNORE_FILE and (known or b"!" in change.data):
                unhidden.append(os.path.dirname(raw))
            if not known and taken.status and self.before:
                is_old = taken.status.ctime_ns < self._shadow.state.at_ns
                (old if is_old else fresh).append((change.path, raw, taken.status))
            yield change
        for path, reason in self._found.skipped + _folded(over, self._caps.files):
            self.skipped.append(Skipped(named(names.unescape_path(path), self._caps.secret)[0], reason))
        self.skipped = sorted(set(self.skipped))
        self.appeared = self._not_moved(sorted(old + self._perhaps_hidden(fresh, unhidden)))
        self._whole = True

    @property
    def changed(self) -> bool:
        """Whether there was a change, as far as ``changes`` has come."""
        return bool(self._rows)

    def accept(self, tree: Oid | None = None, *, kept: bool = True, name: str | None = None) -> str:
        """What was handed out is durable: the next look goes on from here. Returns this look's name.

        ``name``: what it is called if it saw anything; a new one of ``new_name``, which the caller may have noted.
        ``tree`` holds all there is; with ``kept=False`` nobody knows yet, and ``PrivateRepository.keep_tree`` will be
        told. Raises ``Unavailable``; then this look is as one that was not accepted.
        """
        if not self._whole:
            raise RuntimeError("a look is accepted when all its changes were taken")
        try:
            return self._accept(tree, kept, name)
        except OSError as error:
            raise Unavailable(f"cannot note what was seen of {self._root.path}: {error.strerror}") from error

    def _accept(self, tree: Oid | None, kept: bool, name: str | None) -> str:
        state, found = self._shadow.state, self._found
        look = (name or new_name()) if self._rows or not state.look else state.look
        index, mark = state.index_name, state.index_mark
        # Files that were touched and not changed are compared in every look, until git remembers their new status.
        is_slow = 0 < 3 * state.took_ms < found.took_ms > _SLOW_MS
        # A link may hide what the index has below it, and stand away again: what it hid is gone from the tree.
        has_link = any(row.startswith(LINK_MODE) for row in self._rows.values())
        writes = is_slow or has_link or len(self._since) > _SINCE_MAX or not state.look
        if writes:
            index, mark = self._shadow.written(found.state.beside.top, self._index_rows())
        if not self._rows and state.look:
            kept, tree = state.kept, state.tree
        self._shadow.save(
            found.state._replace(
                look=look,
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
        return look

    def _take(self, raw: bytes) -> PathReading:
        taken = take(self._root, raw, self._caps)
        commit = self._found.state.submodules.get(os.fsdecode(raw))
        if commit is None or not taken.status or taken.status.kind != "folder":
            return taken
        path = names.escape_path(raw)
        oid = user_repository.head(os.path.join(self._root.path, os.fsdecode(raw))) or commit
        if len(oid) != _OID_DIGITS:
            return taken._replace(skipped=Skipped(path, "a submodule whose commits are named by SHA-256"))
        return PathReading(PathContent(path, TreeEntry(SUBMODULE_MODE, oid)), None, taken.status)

    def _is_as_seen(self, raw: bytes) -> bool:
        """Without reading it."""
        seen = self._since.get(os.fsdecode(raw))
        if seen is None or seen.status is None:
            return False
        try:
            status = self._root.state(names.escape_path(raw))
        except (OSError, GitSessionError):
            return False
        return status == seen.status

    def _was_seen(self, raw: bytes, file: TreeEntry | None) -> bool:
        seen = self._since.get(os.fsdecode(raw))
        if seen is None and file is not None and file.mode == LINK_MODE:
            return self._found.state.links.get(os.fsdecode(raw)) == file.oid
        return seen is not None and seen.row == _row(file)

    def _lasting(self, status: Status | None) -> Status | None:
        """A file that was written after this look began might be written again with the same times."""
        return status if status and status.ctime_ns < self._found.state.at_ns else None

    def _index_rows(self) -> bytes:
        """What is gone first, so that nothing stands in the way of what is there."""
        place = os.fsencode(os.path.relpath(self._root.path, self._found.state.beside.top))
        prefix = b"" if place == b"." else place + b"/"
        ordered = sorted(self._since.items(), key=lambda item: item[1].row != "")
        rows = ((seen.row.encode() or _GONE, prefix, os.fsencode(path)) for path, seen in ordered)
        return b"".join(b"%b\t%b%b\0" % row for row in rows)

    def _absent(self) -> list[str]:
        """What the user's index tracks and ours, as of now, does not."""
        state = self._found.state
        tracked = {*state.tracked, *state.submodules}
        gone = {os.fsdecode(raw) for raw, row in self._rows.items() if not row}
        held = {os.fsdecode(raw) for raw in self._rows} - gone
        return sorted(((set(state.absent) | gone) & tracked) - held)

    def _links(self) -> dict[str, Oid]:
        """Those that the index holds: what is a link now makes that it is written."""
        links = self._found.state.links
        found = {path: oid for path, oid in links.items() if path not in self._since}
        start = f"{LINK_MODE} "
        new = {raw: row for raw, row in self._rows.items() if row.startswith(start)}
        return found | {os.fsdecode(raw): row.removeprefix(start) for raw, row in new.items()}

    def _perhaps_hidden(
        self, fresh: list[tuple[str, bytes, Status]], unhidden: list[bytes]
    ) -> list[tuple[str, bytes, Status]]:
        """Of new files, those that may have been left out before: no status says so of one that is written all the
        time, such as a database. ``unhidden``: folders whose rules are others now.
        """
        below = tuple(folder + b"/" for folder in unhidden if folder)
        tracked = set(self._found.state.tracked) - set(self._shadow.state.tracked)  # though ignored
        return [
            (path, raw, status)
            for path, raw, status in fresh
            if os.path.basename(raw) != _IGNORE_FILE
            and (b"" in unhidden or raw.startswith(below) or os.fsdecode(raw) in tracked)
        ]

    def _not_moved(self, old: list[tuple[str, bytes, Status]]) -> list[str]:
        """Of new paths with old files, those that are no file which the last look saw by another name."""
        if not old or not self._gone:
            return [path for path, _, _ in old]
        gone = set(self._gone)
        seen = [self._shadow.state.since.get(os.fsdecode(raw)) for raw in gone]
        moved = [_as_indexed(each.status) for each in seen if each and each.status]
        told = self._shadow.git(self._found.state.beside.top, str(self._root.path), "ls-files", "-z", "--debug").out
        at = 0
        while (end := told.find(b"\0", at)) >= 0:
            path = told[at:end]
            found = _DEBUG.search(told, end)
            if not found:
                break
            if path in gone:
                moved.append([int(number) for number in found.groups()])
            at = found.end()
        return [path for path, _, status in old if _as_indexed(status) not in moved]


@contextmanager
def look(
    root: WorkspaceRoot,
    folder: Path,
    *,
    caps: Caps = USUAL,
    afresh: bool = False,
    wait_seconds: float = 30.0,
) -> Iterator[WorkspaceScan]:
    """Look at the whole workspace, by the private git directory in ``folder``, which is made where it is missing.

    The store's own path is left out, if ``root`` was opened with it. ``afresh``: forget what was seen before. Raises
    ``Unavailable``.
    """
    with PrivateRepository.open(folder, wait_seconds=wait_seconds) as shadow:
        if afresh:
            shadow.forget()
        try:
            found = find(shadow, root)
        except Unavailable:
            if not shadow.state.look:
                raise
            shadow.forget()  # what git cannot use is no loss
            found = find(shadow, root)
        root.forget()
        yield WorkspaceScan(root, shadow, found, caps)


def _folded(over: list[bytes], most: int) -> list[Skipped]:
    """What is beyond the cap, in so few words that a checkpoint can carry them."""
    for depth in (None, -1, 1):
        places = {b"/".join(raw.split(b"/")[:depth]) or raw for raw in over}
        if len(places) <= FOLDED_FROM:
            break
    return [Skipped(names.escape_path(raw), f"beyond {most:,} files") for raw in sorted(places)]


def _row(file: TreeEntry | None) -> str:
    return f"{file.mode} {file.oid}" if file else ""


def _as_indexed(status: Status) -> list[int]:
    """As git's index says it: the numbers cut to 32 bits."""
    seconds, nanoseconds = divmod(status.mtime_ns, 10**9)
    return [seconds & 0xFFFFFFFF, nanoseconds, status.ino & 0xFFFFFFFF, status.size & 0xFFFFFFFF]
