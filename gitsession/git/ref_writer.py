"""Moving, deleting and packing refs, each compared under git's own lock.

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

git's lock on a ref is the file ``<ref>.lock``, and nothing in it says who made it. Ours is a hard link to a *proof*: a
file in our own directory, named after the ref. Whoever holds the store's lock and finds a proof knows that its writer
is dead, and by the inode whether ``<ref>.lock`` was its: no ages, no process ids. So a proof must outlive its lock,
after a power cut too: its name is durable before the lock is made (one fsync of the directory for all the refs of a
flush), and where a lock has to go, that is durable before the proof goes. ``packed-refs`` is locked in the same way.
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
_TURNS = 8
"""A deletion takes its refs out of ``packed-refs`` so often, where git puts them in again each time."""


class RefLock(NamedTuple):
    """A lock file: its path, its age in seconds, and whether a writer of ours made it."""

    path: str
    age_s: float
    is_ours: bool

    @property
    def is_stale(self) -> bool:
        """Return whether the program that made it is likely dead: git holds a lock for milliseconds."""
        return self.age_s > _STALE_SECONDS


class RefLocks:
    """The locks of one repository; ``proofs`` is the directory where the proofs lie."""

    def __init__(self, git_dir: Path, proofs: Path, *, sync: bool = True) -> None:
        self._git_dir, self._proofs, self._sync = git_dir, proofs, sync
        self._proved: dict[str, bytes] = {}

    def prove(self, contents: Mapping[str, bytes]) -> None:
        """Write the proof of each ref, that will be the content of its lock. Raises ``OSError``, and then none stands.

        A lock that is never renamed over its ref needs no content, and an empty one no fsync of its own.
        """
        try:
            for name, content in contents.items():
                if self._proved.pop(name, None) is not None:
                    os.unlink(self.proof(name))  # for a lock that was not taken
                write_new(self.proof(name), content, sync=self._sync and content != b"")
                self._proved[name] = content
            if self._sync and contents:
                sync_directory(self._proofs)
        except BaseException:
            self.forget()
            raise

    def is_proved(self, name: str, content: bytes) -> bool:
        """Return whether there is an unused proof for a lock with this content."""
        return self._proved.get(name) == content

    def take(self, name: str) -> str:
        """Lock ``name``, which is proved; the path of the lock. ``release`` it, whatever happens meanwhile.

        Raises ``Unavailable`` where another program's lock or ref is in the way, and ``OSError``.
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
                        f"another program holds {name}.lock", hint=f"if none is running, remove {lock}"
                    ) from None
                time.sleep(_PAUSE_SECONDS)
            except FileNotFoundError:
                # No directory yet, or `git pack-refs` removed it because it was empty, perhaps a moment ago.
                if has_made_directory and time.monotonic() > deadline:
                    raise
                has_made_directory = True  # tried at least once, however long a busy machine took to come here
                with suppress(FileNotFoundError):
                    make_directories(Path(lock).parent, sync=self._sync)
            except NotADirectoryError:
                raise Unavailable(f"{name} cannot be: another ref is where its directory should be") from None

    def release(self, names: Iterable[str]) -> None:
        """Let go of locks that still stand, and of the proofs. Raises ``OSError``: ``break_dead`` finishes it."""
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
        """Remove the proofs that were not used, as far as the disk allows: without a lock they hold up nobody."""
        for name in self._proved:
            try:
                os.unlink(self.proof(name))
            except OSError:
                pass
        self._proved.clear()

    def standing(self) -> Iterator[RefLock]:
        """Yield the locks that stand now, those of ``HEAD`` and the configuration included."""
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
                is_ours = os.path.samestat(lock, os.stat(self.proof(name)))
            except FileNotFoundError:
                is_ours = False
            yield RefLock(path, time.time() - lock.st_mtime, is_ours)

    def break_dead(self) -> int:
        """Remove the locks and proofs of writers that died; how many."""
        self._proved.clear()
        names = [name.replace("..", "").replace(":", "/") for name in os.listdir(self._proofs)]
        self.release(names)
        return len(names)

    def proof(self, name: str) -> str:
        """git allows no colon in a ref name, so the proof's own name tells which ref it is for."""
        return f"{self._proofs}/{name.replace('/', ':')}"

    def _lock(self, name: str) -> str:
        return f"{self._git_dir}/{name}.lock"


def _is_stale(lock: str) -> bool:
    """Old enough that waiting for it is pointless. It is still not ours to break."""
    try:
        return time.time() - os.stat(lock).st_mtime > _STALE_SECONDS
    except FileNotFoundError:
        return False


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
