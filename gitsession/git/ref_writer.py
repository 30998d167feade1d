"""Moving, deleting and packing refs, each compared under git's own lock (git/ref_locks.py).

    move     prove; lock; compare; rename the lock over the ref; fsync the directory; release
    delete   prove; lock; compare; take them out of packed-refs; lock packed-refs, and where they are not in it:
             unlink the files; fsync their directories; release
    pack     lock packed-refs; write them into it; then lock, compare and unlink each file
    many     lock packed-refs; compare; write into it what becomes of all; look who moved one of them meanwhile

``packed-refs`` is changed in the same way as a ref is moved: its lock becomes the new file. git is not asked to do any
of this: a git that dies leaves locks of which nobody can tell whose they are.

A file is unlinked for good only under the lock of ``packed-refs``: `git pack-refs` holds that from before it reads a
ref until it has written what it read, and would bring back what went in between.

*Many* refs that are no files of their own are moved, made and deleted by one write of ``packed-refs`` and no lock on
each. Whoever locks one of them after that write sees it, and compares with what we wrote. Whoever had locked it before
still has its lock when we look again, or has made a file of the ref, or taken it away: those few are moved one by one.

Every method wants the store's lock. A flush costs an fsync for the directory of the proofs, two for each ref that is
moved, and one for each directory that had to be made. Its deletions cost two for the proofs, two for each directory,
and one for the folder of ``packed-refs``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from gitsession.durable import read_regular, sync_directory, write_all
from gitsession.errors import GitSessionError, InvalidName, Unavailable
from gitsession.git import ref_files
from gitsession.git.ref_files import SYMBOLIC, RefReader, check_ref_name, directories
from gitsession.git.ref_locks import RefLocks
from gitsession.git.types import RefValue

_BATCH = 64
_TURNS = 8
"""A deletion takes its refs out of ``packed-refs`` so often, where git puts them in again each time."""


class RefWriter:
    """Compare-and-swap on the refs of one repository; ``proofs`` is the directory where the proofs of locks lie."""

    def __init__(self, git_dir: Path, proofs: Path, refs: RefReader, *, sync: bool = True) -> None:
        self.refs = refs
        self._git_dir, self._sync = git_dir, sync
        self._locks = RefLocks(git_dir, proofs, sync=sync)

    def prepare(self, moves: Mapping[str, RefValue]) -> None:
        """Prove the locks of several moves at once, so that they share an fsync. Raises ``OSError``."""
        self._locks.prove({name: _content(new) for name, new in moves.items()})

    def forget(self) -> None:
        """What was prepared and not moved is not going to be."""
        self._locks.forget()

    def move(self, name: str, new: RefValue, *, ours: Collection[RefValue | None]) -> bool:
        """Point ``name`` at ``new`` if it holds one of ``ours``; whether it now holds ``new``.

        Raises ``Unavailable`` where another program's lock or ref is in the way, and ``OSError``.
        """
        if not self._locks.is_proved(name, _content(new)):
            self.prepare({name: new})
        try:
            lock = self._locks.take(name)
            held = self.refs.read(name)
            # Also where it holds ``new`` already: whoever wrote that may have died before it was durable.
            return self._rename(lock, self._git_dir / name) if held in ours or held == new else False
        finally:
            self._locks.release([name])

    def delete(self, ours: Mapping[str, Collection[RefValue | None]]) -> tuple[list[str], dict[str, Exception]]:
        """Delete each ref that holds one of its ``ours``: names that others had moved, and names that failed, and why.

        Raises ``OSError`` where no lock can be made at all.
        """
        held = {name: self.refs.read(name) for name in ours}
        foreign = [name for name, value in held.items() if value is not None and value not in ours[name]]
        gone = [name for name, value in held.items() if value is None]
        failed = self._remove({name: ours[name] for name in ours if name not in {*foreign, *gone}}, self._drop)
        if self._sync and gone:
            # Whoever deleted those that are gone may have died before it was durable.
            sync_directory(self._git_dir)
            for directory in {(self._git_dir / name).parent for name in gone}:
                _sync_nearest(directory)
        return foreign, failed

    def pack(self, prefixes: Iterable[str]) -> int:
        """Move refs below ``prefixes`` that are files of their own into ``packed-refs``; how many.

        Only those that hold an oid and have a name of ours; they are taken to be commits. Raises ``Corrupt`` where
        ``packed-refs`` is damaged, ``Unavailable`` and ``OSError``.
        """
        loose: dict[str, RefValue] = {}

        def with_loose(data: bytes) -> bytes:
            # Read under the lock: who deletes a ref wants that lock too, so none comes back to life.
            found = {name: value for prefix in prefixes for name, value in self.refs.list_loose(prefix).items()}
            loose.update({name: value for name, value in found.items() if _is_oid_of_ours(name, value)})
            return ref_files.changed_packed(data, put=loose)

        self._change_packed(with_loose)
        todo = list(loose)
        failed: dict[str, Exception] = {}
        for start in range(0, len(todo), _BATCH):
            batch = todo[start : start + _BATCH]
            failed |= self._remove({name: {loose[name]} for name in batch}, partial(self._unlink_packed, loose))
        for directory in {(self._git_dir / name).parent for name in todo}:
            _remove_empty_up(directory, self._git_dir / "refs")
        return len(loose) - len(failed)

    def move_many(
        self, new: Mapping[str, RefValue | None], ours: Mapping[str, Collection[RefValue | None]]
    ) -> set[str]:
        """Point each ref that is packed, or not there, at its ``new`` (``None``: delete it), where it holds one of its
        ``ours``, by one write for all; which ones now hold it. The others are for ``move`` and ``delete``.

        Only oids, that lead to commits. Raises ``Unavailable``, ``Corrupt`` and ``OSError``.
        """
        done: set[str] = set()

        def with_new(data: bytes) -> bytes:
            packed = ref_files.packed_values(data)
            there = _Places(self._git_dir, packed)
            for name, value in new.items():
                held = packed.get(name)
                is_ours = held in ours[name] if held != value else held is not None
                if is_ours and there.is_no_file(name) and there.has_room(name, value):
                    done.add(name)
            put = {name: value for name in done if (value := new[name]) is not None}
            return ref_files.changed_packed(data, put=put, drop=done - put.keys())

        self._change_packed(with_new)
        now = ref_files.packed_values(self._packed())
        return {name for name in done if not self._was_locked(name) and now.get(name) == new[name]}

    def _was_locked(self, name: str) -> bool:
        """Whether somebody moves ``name``, or did since it was no file. The lock first: it becomes the file."""
        path = f"{self._git_dir}/{name}"
        return os.path.lexists(f"{path}.lock") or os.path.lexists(path)

    def rebuild_packed(self, put: Mapping[str, RefValue]) -> None:
        """Drop the damaged lines of ``packed-refs`` as it is by now, and put ``put`` into it."""
        self._change_packed(lambda data: ref_files.rebuilt_packed(data, put))

    def break_dead_locks(self) -> int:
        """Remove the locks and proofs of writers that died; how many."""
        return self._locks.break_dead()

    def _remove(
        self, ours: Mapping[str, Collection[RefValue | None]], remove: Callable[[list[str]], None]
    ) -> dict[str, Exception]:
        """Lock refs, and ``remove`` those that hold one of their ``ours``; names that failed, and why."""
        failed: dict[str, Exception] = {}
        locked = []
        if not ours:
            return failed
        self._locks.prove(dict.fromkeys(ours, b""))
        try:
            for name in ours:
                try:
                    self._locks.take(name)
                    if self.refs.read(name) in ours[name]:
                        locked.append(name)
                except (GitSessionError, OSError) as error:
                    failed[name] = error
            try:
                if locked:
                    remove(locked)
            except (GitSessionError, OSError) as error:
                failed |= dict.fromkeys(locked, error)
        finally:
            self._locks.release(ours)
        return failed

    def _drop(self, names: list[str]) -> None:
        """Delete refs whose locks we hold, packed and loose. Raises ``Unavailable``, ``Corrupt`` and ``OSError``."""
        for _ in range(_TURNS):
            with self._lock_packed() as lock:
                data = self._packed()
                if ref_files.packed_values(data).keys().isdisjoint(names):
                    self._unlink(names)
                    return
                # The lock becomes the new file, so git may pack the files that still stand, before we look again.
                self._replace_packed(lock, ref_files.changed_packed(data, drop=names))
        raise Unavailable(f"another program packs {names[0]} again and again", hint="try again when it is done")

    def _unlink_packed(self, held: Mapping[str, RefValue], names: list[str]) -> None:
        """Unlink the files of refs whose locks we hold, and that are packed with the values in ``held``."""
        packed = ref_files.packed_values(self._packed())
        # Another program may have deleted one there, and made it anew, before we locked it.
        self._unlink([name for name in names if packed.get(name) == held[name]])

    def _unlink(self, names: Iterable[str]) -> None:
        paths = [self._git_dir / name for name in names]
        for path in paths:
            path.unlink(missing_ok=True)
        for directory in {path.parent for path in paths} if self._sync else ():
            _sync_nearest(directory)

    def _change_packed(self, change: Callable[[bytes], bytes]) -> None:
        """Replace the text of ``packed-refs`` by what ``change`` makes of it."""
        with self._lock_packed() as lock:
            self._replace_packed(lock, change(self._packed()))

    @contextmanager
    def _lock_packed(self) -> Iterator[str]:
        """Meanwhile ``packed-refs`` is locked, for as long as the lock is not renamed over it; the path of the lock."""
        self._locks.prove({ref_files.PACKED_REFS: b""})
        try:
            yield self._locks.take(ref_files.PACKED_REFS)
        finally:
            self._locks.release([ref_files.PACKED_REFS])

    def _replace_packed(self, lock: str, data: bytes) -> None:
        fd = os.open(lock, os.O_WRONLY | os.O_CLOEXEC)
        try:
            write_all(fd, data, 0)
            if self._sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        self._rename(lock, self._git_dir / ref_files.PACKED_REFS)

    def _packed(self) -> bytes:
        return read_regular(self._git_dir / ref_files.PACKED_REFS) or b""

    def _rename(self, lock: str, path: Path) -> bool:
        """``False`` where refs lie below ``path``."""
        try:
            os.rename(lock, path)
        except IsADirectoryError:
            if not _remove_empty(path):
                return False
            os.rename(lock, path)
        if self._sync and _sync_nearest(path.parent) != path.parent:
            # `git pack-refs` has taken the ref over since, and removed a directory that became empty.
            sync_directory(self._git_dir)
        return True


class _Places:
    """Which names a new packed ref may have beside what is there: a ref is a file or a directory, never both."""

    def __init__(self, git_dir: Path, packed: Collection[str]) -> None:
        self._git_dir = git_dir
        self._taken = set(packed)
        self._folders = {folder for name in packed for folder in directories(name)}
        self._free: dict[str, bool] = {}

    def is_no_file(self, name: str) -> bool:
        return not os.path.lexists(self._git_dir / name)

    def has_room(self, name: str, value: RefValue | None) -> bool:
        """Whether it can hold ``value``; and then it does."""
        if value is None or name in self._taken:
            return True
        above = directories(name)
        if name in self._folders or not all(self._is_free(folder) for folder in above):
            return False
        self._taken.add(name)
        self._folders.update(above)
        return True

    def _is_free(self, folder: str) -> bool:
        if folder in self._taken:
            return False
        if folder not in self._free:
            path = self._git_dir / folder
            self._free[folder] = path.is_dir() or not os.path.lexists(path)
        return self._free[folder]


def _content(value: RefValue) -> bytes:
    return f"{value}\n".encode()


def _is_oid_of_ours(name: str, value: RefValue) -> bool:
    try:
        check_ref_name(name)
    except InvalidName:
        return False
    return not value.startswith(SYMBOLIC)


def _remove_empty(directory: Path) -> bool:
    """Remove a tree of empty directories; whether it is gone."""
    try:
        for parent, _, _ in os.walk(directory, topdown=False):
            os.rmdir(parent)
    except OSError:
        return False
    return True


def _remove_empty_up(directory: Path, top: Path) -> None:
    """Remove ``directory`` and what is above it, below a directory of ``top``, as far as they are empty."""
    while directory.parent.parent.is_relative_to(top):
        try:
            directory.rmdir()
        except OSError:
            return
        directory = directory.parent


def _sync_nearest(directory: Path) -> Path:
    """Sync ``directory``, or where git has removed it the nearest above it; which one it was."""
    while True:
        try:
            sync_directory(directory)
            return directory
        except (FileNotFoundError, NotADirectoryError):
            directory = directory.parent
