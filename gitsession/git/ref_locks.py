"""git's locks on refs, taken so that a kill at any moment leaves a lock we can judge.

git's lock on a ref is the file ``<ref>.lock``, and nothing in it says who made it. Ours is a hard link to a *proof*: a
file in our own directory, named after the ref. Whoever holds the store's lock and finds a proof knows that its writer
is dead, and by the inode whether ``<ref>.lock`` was its: no ages, no process ids.

So a proof must outlive its lock, after a power cut too: its name is durable before the lock is made (one fsync of the
directory for all the refs of a flush), and where a lock has to go, that is durable before the proof goes.

``packed-refs`` is locked in the same way. Every method wants the store's lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gitsession.durable import make_directories, sync_directory, write_new
from gitsession.errors import Unavailable

_PATIENCE_SECONDS, _PAUSE_SECONDS = 0.1, 0.002
_STALE_SECONDS = 10.0


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
        """Whether there is a proof for a lock with this content that was not used yet."""
        return self._proved.get(name) == content

    def take(self, name: str) -> str:
        """Lock ``name``, which is proved; the path of the lock. ``release`` it, whatever happens meanwhile.

        Raises ``Unavailable`` where another program's lock or ref is in the way, and ``OSError``.
        """
        self._proved.pop(name)
        lock = self._lock(name)
        deadline = time.monotonic() + _PATIENCE_SECONDS
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
                if time.monotonic() > deadline:
                    raise
                try:
                    make_directories(Path(lock).parent, sync=self._sync)
                except FileNotFoundError:
                    pass
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
