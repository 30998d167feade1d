"""Moves, deletions and packing of refs.

Each operation compares the value of a ref with the expected one while it holds git's lock on that ref.

    move     prove; lock; compare; rename the lock over the ref; fsync the directory; release
    delete   prove; lock; compare; remove the refs from packed-refs; lock packed-refs, and if it no longer lists them:
             unlink the files; fsync their directories; release
    pack     lock packed-refs; write the refs into it; then lock, compare and unlink each file
    many     lock packed-refs; compare; write all new values into it; check that no other program moved one meanwhile

``packed-refs`` is changed in the same way as a ref is moved: its lock becomes the new file. Git is not used for any of
these operations, because a killed git leaves locks whose owner cannot be determined.

A loose ref is unlinked only under the lock of ``packed-refs``. `git pack-refs` holds this lock from before it reads a
ref until it has written the value. So `git pack-refs` cannot restore a ref that was deleted in between.

With *many*, refs that are not loose are moved, created and deleted by one write of ``packed-refs``, without a lock on
each ref. A program that locks one of these refs after that write compares with the new value. A program that locked the
ref earlier is detected by the check: it still holds its lock, has made the ref loose, or has deleted it. These few refs
are then moved one by one.

Every method needs the store's lock. A flush costs one fsync for the directory of the proofs, two for each moved ref,
and one for each new directory. The deletions of a flush cost two fsyncs for the proofs, two for each directory, and one
for the folder of ``packed-refs``.

Git's lock on a ref is the file ``<ref>.lock``, which does not name its owner. Gitsession creates its lock as a hard
link to a *proof*: a file in gitsession's control directory, named after the ref. If a process that holds the store's
lock finds a proof, the writer of the proof is dead, and the inode shows whether ``<ref>.lock`` was its lock. Neither
the ages of files nor process ids are needed for this. A proof must outlive its lock, even in a power failure. The name
of the proof is durable before the lock is created (one fsync of the directory for all refs of a flush), and the removal
of a lock is durable before its proof is removed. ``packed-refs`` is locked in the same way.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gitsession.durable import make_directories, read_regular, sync_directory, write_all, write_new
from gitsession.errors import GitSessionError, InvalidName, Unavailable
from gitsession.git import ref_files
from gitsession.git.ref_files import SYMBOLIC, RefReader, check_ref_name, directories
from gitsession.git.types import RefValue

_PATIENCE_SECONDS, _PAUSE_SECONDS = 0.1, 0.002
_STALE_SECONDS = 10.0

_BATCH = 64
_ATTEMPTS_MAX = 8
"""Maximum number of attempts to remove refs from ``packed-refs`` while git keeps packing them again."""


class RefLock(NamedTuple):
    """A lock file: its path, its age in seconds, and whether gitsession created the file."""

    path: str
    age_s: float
    is_own: bool

    @property
    def is_stale(self) -> bool:
        """Return whether the program that created the lock is probably dead: git holds a lock only for milliseconds."""
        return self.age_s > _STALE_SECONDS


class RefLocks:
    """The locks of one repository; ``proofs`` is the directory of the proofs."""

    def __init__(self, git_dir: Path, proofs: Path, *, sync: bool = True) -> None:
        self._git_dir, self._proofs, self._sync = git_dir, proofs, sync
        self._proved: dict[str, bytes] = {}

    def prove(self, contents: Mapping[str, bytes]) -> None:
        """Write the proofs of future locks. ``contents``: the content of each lock, by the name of its ref.

        A lock that is never renamed over its ref needs no content, and an empty proof needs no separate fsync. If a
        proof cannot be written, all unused proofs are removed, and ``OSError`` is raised.
        """
        try:
            for name, content in contents.items():
                if self._proved.pop(name, None) is not None:
                    os.unlink(self.proof(name))  # the proof of a lock that was never created
                write_new(self.proof(name), content, sync=self._sync and content != b"")
                self._proved[name] = content
            if self._sync and contents:
                sync_directory(self._proofs)
        except BaseException:
            self.forget()
            raise

    def is_proved(self, name: str, content: bytes) -> bool:
        """Return whether a proof with the content ``content`` exists for ``name`` and has not been used for a lock."""
        return self._proved.get(name) == content

    def acquire(self, name: str) -> str:
        """Lock the ref ``name``; return the path of the lock. Call ``release`` even after an error.

        Call ``prove`` first: the lock is a hard link to the proof, by which ``break_dead`` recognizes the lock if this
        process dies. Raises ``Unavailable`` if another program's lock or ref is in the way, and ``OSError`` for any
        other failure.
        """
        self._proved.pop(name)
        lock = self._lock(name)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        has_made_directory = False
        while True:
            try:
                os.link(self.proof(name), lock)
                return lock
            except FileExistsError:
                if time.monotonic() > deadline or _is_stale(lock):
                    raise Unavailable(
                        f"cannot lock ref {name}: another program holds {name}.lock",
                        hint=f"if no other git command is running, remove '{lock}'",
                    ) from None
                time.sleep(_PAUSE_SECONDS)
            except FileNotFoundError:
                # The directory of the lock does not exist yet, or `git pack-refs` has just removed it because it was
                # empty.
                if has_made_directory and time.monotonic() > deadline:
                    raise
                has_made_directory = True  # try at least once, even if the time is already over on a busy machine
                with suppress(FileNotFoundError):
                    make_directories(Path(lock).parent, sync=self._sync)
            except NotADirectoryError:
                raise Unavailable(f"cannot create ref {name}: the first part of its name is already a ref") from None

    def release(self, names: Iterable[str]) -> None:
        """Remove the remaining locks, then the proofs. After an ``OSError``, ``break_dead`` completes the removal."""
        names = list(names)
        directories = set()
        for name in names:
            self._proved.pop(name, None)
            lock = self._lock(name)
            try:
                if os.path.samestat(os.stat(lock), os.stat(self.proof(name))):
                    os.unlink(lock)
                    directories.add(os.path.dirname(lock))
            except (FileNotFoundError, NotADirectoryError):
                pass
        for directory in directories if self._sync else ():
            sync_directory(directory)
        for name in names:
            os.unlink(self.proof(name))

    def forget(self) -> None:
        """Remove unused proofs. Ignore errors of the disk, because a proof without a lock blocks no program."""
        for name in self._proved:
            with suppress(OSError):
                os.unlink(self.proof(name))
        self._proved.clear()

    def list_locks(self) -> Iterator[RefLock]:
        """Yield the existing locks, including those of ``HEAD`` and of the configuration."""
        root = str(self._git_dir)
        found = [f"{folder}/{name}" for folder, _, names in os.walk(f"{root}/refs") for name in names]
        found += [f"{root}/{name}.lock" for name in ("packed-refs", "HEAD", "config")]
        for path in sorted(path for path in found if path.endswith(".lock")):
            try:
                lock = os.stat(path)
            except FileNotFoundError:
                continue
            name = os.path.relpath(path, root).removesuffix(".lock")
            try:
                is_own = os.path.samestat(lock, os.stat(self.proof(name)))
            except FileNotFoundError:
                is_own = False
            yield RefLock(path, time.time() - lock.st_mtime, is_own)

    def break_dead(self) -> int:
        """Remove the locks and proofs of dead writers; return their number."""
        self._proved.clear()
        names = [name.replace("..", "").replace(":", "/") for name in os.listdir(self._proofs)]
        self.release(names)
        return len(names)

    def proof(self, name: str) -> str:
        """Return the path of a ref's proof. Git allows no colon in a ref name, so the path is unique."""
        return f"{self._proofs}/{name.replace('/', ':')}"

    def _lock(self, name: str) -> str:
        return f"{self._git_dir}/{name}.lock"


def _is_stale(lock: str) -> bool:
    """Return whether a lock is too old to be worth waiting for. Even then, only its owner may remove it."""
    try:
        return time.time() - os.stat(lock).st_mtime > _STALE_SECONDS
    except FileNotFoundError:
        return False


class RefWriter:
    """Compare-and-swap on the refs of one repository; ``proofs`` is the directory for the proofs of locks."""

    def __init__(self, git_dir: Path, proofs: Path, refs: RefReader, *, sync: bool = True) -> None:
        self.refs = refs
        self._git_dir, self._sync = git_dir, sync
        self._locks = RefLocks(git_dir, proofs, sync=sync)

    def prepare(self, moves: Mapping[str, RefValue]) -> None:
        """Write the proofs of several moves at once, so that they share an fsync. Raises ``OSError``."""
        self._locks.prove({name: _content(new) for name, new in moves.items()})

    def move(self, name: str, new: RefValue, *, expected: Collection[RefValue | None]) -> bool:
        """Move ``name`` to ``new`` if its value is in ``expected``; return whether its value is ``new`` afterwards.

        Raises ``Unavailable`` if another program's lock or ref is in the way, and ``OSError`` for any other failure.
        """
        if not self._locks.is_proved(name, _content(new)):
            self.prepare({name: new})
        try:
            lock = self._locks.acquire(name)
            current = self.refs.read(name)
            # Rename even if the ref already has the value ``new``: its writer may have died before the value was
            # durable.
            return self._rename(lock, self._git_dir / name) if current in expected or current == new else False
        finally:
            self._locks.release([name])

    def delete(self, expected: Mapping[str, Collection[RefValue | None]]) -> dict[str, Exception]:
        """Delete each ref whose current value is in ``expected``; return the errors of failed deletions by name.

        If a ref has another value, another program moved the ref, and the ref is not deleted. Raises ``OSError`` if no
        lock file can be created at all.
        """
        current = {name: self.refs.read(name) for name in expected}
        missing = [name for name, value in current.items() if value is None]
        unmoved = {name: expected[name] for name, value in current.items() if value and value in expected[name]}
        failed = self._remove(unmoved, self._drop)
        if self._sync and missing:
            # The process that deleted the refs may have died before the deletion was durable.
            sync_directory(self._git_dir)
            for directory in {(self._git_dir / name).parent for name in missing}:
                _sync_nearest(directory)
        return failed

    def pack(self, prefixes: Iterable[str], *, at_least: int = 1) -> int:
        """Move loose refs below ``prefixes`` into ``packed-refs``, if there are ``at_least``; return the number.

        Only refs with an object id and a name that gitsession accepts are packed; they must point to commits. Raises
        ``Corrupt`` if ``packed-refs`` is damaged, ``Unavailable`` and ``OSError``.
        """
        prefixes = tuple(prefixes)
        if len(self._packable(prefixes)) < at_least:
            return 0  # the file grows with the store, so it is not written and synced for a few refs
        loose: dict[str, RefValue] = {}

        def with_loose(data: bytes) -> bytes:
            # Read the loose refs under the lock: a deletion needs the same lock, so no deleted ref is restored.
            loose.update(self._packable(prefixes))
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

    def _packable(self, prefixes: Iterable[str]) -> dict[str, RefValue]:
        """Return the loose refs below ``prefixes`` that can be packed."""
        found = {name: value for prefix in prefixes for name, value in self.refs.list_loose(prefix).items()}
        return {name: value for name, value in found.items() if _is_packable(name, value)}

    def move_many(
        self, new: Mapping[str, RefValue | None], expected: Mapping[str, Collection[RefValue | None]]
    ) -> set[str]:
        """Move refs that are not loose to their ``new`` values in one write, if their values are in ``expected``.

        Returns the refs that have the new value; use ``move`` and ``delete`` for the other refs. A value is the object
        id of a commit, or ``None`` to delete the ref. Raises ``Unavailable``, ``Corrupt`` and ``OSError``.
        """
        done: set[str] = set()

        def with_new(data: bytes) -> bytes:
            packed = ref_files.packed_values(data)
            available = _AvailableNames(self._git_dir, packed)
            for name, value in new.items():
                current = packed.get(name)
                is_expected = current in expected[name] if current != value else current is not None
                if is_expected and available.is_no_file(name) and available.has_room(name, value):
                    done.add(name)
            put = {name: value for name in done if (value := new[name]) is not None}
            return ref_files.changed_packed(data, put=put, drop=done - put.keys())

        self._change_packed(with_new)
        now = ref_files.packed_values(self._packed())
        return {name for name in done if not self._was_locked(name) and now.get(name) == new[name]}

    def _was_locked(self, name: str) -> bool:
        """Return whether another program is moving ``name`` or has made it loose.

        The lock is checked before the file, because a rename turns the lock into the file.
        """
        path = f"{self._git_dir}/{name}"
        return os.path.lexists(f"{path}.lock") or os.path.lexists(path)

    def rebuild_packed(self, put: Mapping[str, RefValue]) -> None:
        """Rewrite ``packed-refs`` without its damaged lines, and add the refs in ``put``."""
        self._change_packed(lambda data: ref_files.rebuilt_packed(data, put))

    def break_dead_locks(self) -> int:
        """Remove the locks and proofs of dead writers; return their number."""
        return self._locks.break_dead()

    def _remove(
        self, expected: Mapping[str, Collection[RefValue | None]], remove: Callable[[list[str]], None]
    ) -> dict[str, Exception]:
        """Lock refs, and call ``remove`` for the refs whose value is in ``expected``; return the errors by name."""
        failed: dict[str, Exception] = {}
        locked = []
        if not expected:
            return failed
        self._locks.prove(dict.fromkeys(expected, b""))
        try:
            for name in expected:
                try:
                    self._locks.acquire(name)
                    if self.refs.read(name) in expected[name]:
                        locked.append(name)
                except (GitSessionError, OSError) as error:
                    failed[name] = error
            try:
                if locked:
                    remove(locked)
            except (GitSessionError, OSError) as error:
                failed |= dict.fromkeys(locked, error)
        finally:
            self._locks.release(expected)
        return failed

    def _drop(self, names: list[str]) -> None:
        """Delete locked refs from ``packed-refs`` and their loose files.

        Raises ``Unavailable``, ``Corrupt`` and ``OSError``.
        """
        for _ in range(_ATTEMPTS_MAX):
            with self._lock_packed() as lock:
                data = self._packed()
                if ref_files.packed_values(data).keys().isdisjoint(names):
                    self._unlink(names)
                    return
                # The replacement of ``packed-refs`` releases its lock, so git may pack the remaining loose refs before
                # the next check.
                self._replace_packed(lock, ref_files.changed_packed(data, drop=names))
        raise Unavailable(f"cannot delete ref {names[0]}: another program keeps packing it", hint="try again")

    def _unlink_packed(self, loose: Mapping[str, RefValue], names: list[str]) -> None:
        """Unlink locked loose refs whose packed values equal those in ``loose``."""
        # Another program may have deleted the ref and created it again before it was locked.
        self._unlink([name for name in names if self.refs.read_packed(name) == loose[name]])

    def _unlink(self, names: Iterable[str]) -> None:
        paths = [self._git_dir / name for name in names]
        for path in paths:
            path.unlink(missing_ok=True)
        for directory in {path.parent for path in paths} if self._sync else ():
            _sync_nearest(directory)

    def _change_packed(self, change: Callable[[bytes], bytes]) -> None:
        """Replace the text of ``packed-refs`` with the result of ``change``."""
        with self._lock_packed() as lock:
            self._replace_packed(lock, change(self._packed()))

    @contextmanager
    def _lock_packed(self) -> Iterator[str]:
        """Lock ``packed-refs``, and yield the path of the lock, which the caller may rename over the file."""
        self._locks.prove({ref_files.PACKED_REFS: b""})
        try:
            yield self._locks.acquire(ref_files.PACKED_REFS)
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
        """Rename ``lock`` to ``path``; return False if there are refs below ``path``."""
        try:
            os.rename(lock, path)
        except IsADirectoryError:
            if not _remove_empty(path):
                return False
            os.rename(lock, path)
        if self._sync and _sync_nearest(path.parent) != path.parent:
            # `git pack-refs` has meanwhile packed the ref and removed its empty directory.
            sync_directory(self._git_dir)
        return True


class _AvailableNames:
    """The names that new packed refs can have. A name is a ref or a directory of refs, never both."""

    def __init__(self, git_dir: Path, packed: Collection[str]) -> None:
        self._git_dir = git_dir
        self._used = set(packed)
        self._folders = {folder for name in packed for folder in directories(name)}
        self._free: dict[str, bool] = {}

    def is_no_file(self, name: str) -> bool:
        return not os.path.lexists(self._git_dir / name)

    def has_room(self, name: str, value: RefValue | None) -> bool:
        """Return whether the packed ref ``name`` can be set to ``value``. If so, reserve the name."""
        if value is None or name in self._used:
            return True
        above = directories(name)
        if name in self._folders or not all(self._is_free(folder) for folder in above):
            return False
        self._used.add(name)
        self._folders.update(above)
        return True

    def _is_free(self, folder: str) -> bool:
        if folder in self._used:
            return False
        if folder not in self._free:
            path = self._git_dir / folder
            self._free[folder] = path.is_dir() or not os.path.lexists(path)
        return self._free[folder]


def _content(value: RefValue) -> bytes:
    return f"{value}\n".encode()


def _is_packable(name: str, value: RefValue) -> bool:
    try:
        check_ref_name(name)
    except InvalidName:
        return False
    return not value.startswith(SYMBOLIC)


def _remove_empty(directory: Path) -> bool:
    """Remove a tree of empty directories; return whether it no longer exists."""
    try:
        for parent, _, _ in os.walk(directory, topdown=False):
            os.rmdir(parent)
    except OSError:
        return False
    return True


def _remove_empty_up(directory: Path, top: Path) -> None:
    """Remove ``directory`` and its parents as long as they are empty; keep ``top`` and its direct children."""
    while directory.parent.parent.is_relative_to(top):
        try:
            directory.rmdir()
        except OSError:
            return
        directory = directory.parent


def _sync_nearest(directory: Path) -> Path:
    """Fsync ``directory``, or its nearest existing parent if git has removed it; return the fsynced directory."""
    while True:
        try:
            sync_directory(directory)
            return directory
        except (FileNotFoundError, NotADirectoryError):
            directory = directory.parent
