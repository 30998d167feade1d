"""Moving refs so that a kill at any moment leaves a lock we can judge.

git's lock on a ref is the file ``<ref>.lock``, and nothing in it says who made it. Ours is a hard link to a *proof*: a
file kept in our own directory, named after the ref, that already holds the new value, fsynced.

    write and fsync the proof; link it to <ref>.lock (exclusive, as git's own open is); compare the ref;
    rename the lock over the ref; fsync the directory; unlink the proof, last

Whoever holds the store's lock and finds a proof knows that its writer is dead, and by the inode whether ``<ref>.lock``
was its: no ages, no process ids. A proof is never removed while its lock stands, on errors too.

Every method wants the store's lock. Two fsyncs a ref, and one for each directory that had to be made.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from gitsession.errors import Unavailable
from gitsession.store import gitcli
from gitsession.store.base import RefValue
from gitsession.store.durable import make_directories, sync_directory, write_new
from gitsession.store.refnames import SYMBOLIC
from gitsession.store.refreader import RefReader

_PATIENCE_SECONDS, _PAUSE_SECONDS = 0.1, 0.002
_STALE_SECONDS = 10.0


class RefWriter:
    """Compare-and-swap on the refs of one repository; ``proofs`` is the directory where the proofs lie."""

    def __init__(self, git_dir: Path, proofs: Path, refs: RefReader, *, sync: bool = True) -> None:
        self.refs = refs
        self._git_dir, self._proofs, self._sync = git_dir, proofs, sync

    def move(self, name: str, new: RefValue, *, ours: Collection[RefValue | None]) -> bool:
        """Point ``name`` at ``new`` if it holds one of ``ours``; whether it now holds ``new``.

        Raises ``Unavailable`` where another program's lock or ref is in the way, and ``OSError``.
        """
        path = self._git_dir / name
        lock, proof = f"{path}.lock", self._proof(name)
        write_new(proof, f"{new}\n".encode(), sync=self._sync)
        try:
            self._lock(name, proof, lock)
            held = self.refs.read(name)
            # Also where it holds ``new`` already: whoever wrote that may have died before it was durable.
            return self._rename(lock, path) if held in ours or held == new else False
        finally:
            _break(proof, lock)

    def delete(self, ours: Mapping[str, Collection[RefValue | None]]) -> tuple[list[str], dict[str, Exception]]:
        """Delete each ref that holds one of its ``ours``: names that others had moved, and names that failed, and why.

        By one git child, because a packed ref is removed by rewriting packed-refs, which only git does safely.
        """
        held = {name: self.refs.read(name) for name in ours}
        todo = {name: value for name, value in held.items() if value is not None and value in ours[name]}
        foreign = [name for name, value in held.items() if value is not None and name not in todo]
        failed: dict[str, Exception] = {}
        try:
            self._delete(todo)
        except Unavailable as error:
            # One of them is locked or was moved this instant, and git does all or nothing.
            failed = self._delete_singly(todo) if len(todo) > 1 else dict.fromkeys(todo, error)
        if self._sync and ours:
            for directory in {self._git_dir, *(_existing(self._git_dir / name) for name in ours)}:
                sync_directory(directory)
        return foreign, failed

    def break_dead_locks(self) -> int:
        """Remove the locks and proofs of writers that died; how many."""
        names = os.listdir(self._proofs)
        for name in names:
            _break(f"{self._proofs}/{name}", f"{self._git_dir}/{name.replace('..', '').replace(':', '/')}.lock")
        return len(names)

    def _proof(self, name: str) -> str:
        """git allows no colon in a ref name, so the proof's own name tells which ref it is for."""
        return f"{self._proofs}/{name.replace('/', ':')}"

    def _lock(self, name: str, proof: str, lock: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                os.link(proof, lock)
                return
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

    def _rename(self, lock: str, path: Path) -> bool:
        """``False`` where refs lie below ``path``."""
        try:
            os.rename(lock, path)
        except IsADirectoryError:
            if not _remove_empty(path):
                return False
            os.rename(lock, path)
        if self._sync:
            sync_directory(path.parent)
        return True

    def _delete_singly(self, todo: Mapping[str, RefValue]) -> dict[str, Exception]:
        failed: dict[str, Exception] = {}
        for name, value in todo.items():
            try:
                self._delete({name: value})
            except Unavailable as error:
                failed[name] = error
        return failed

    def _delete(self, todo: Mapping[str, RefValue]) -> None:
        if not todo:
            return
        lines = []
        for name, value in todo.items():
            symbolic = value.startswith(SYMBOLIC)
            lines.append(f"option no-deref\ndelete {name}\n" if symbolic else f"delete {name} {value}\n")
        gitcli.run(self._git_dir, "update-ref", "--stdin", stdin="".join(lines).encode())


def _break(proof: str, lock: str) -> None:
    try:
        if os.path.samestat(os.stat(lock), os.stat(proof)):
            os.unlink(lock)
    except (FileNotFoundError, NotADirectoryError):
        pass
    os.unlink(proof)


def _is_stale(lock: str) -> bool:
    """Old enough that waiting for it is pointless. It is still not ours to break."""
    try:
        return time.time() - os.stat(lock).st_mtime > _STALE_SECONDS
    except FileNotFoundError:
        return False


def _remove_empty(directory: Path) -> bool:
    """Remove a tree of empty directories; whether it is gone."""
    try:
        for parent, _, _ in os.walk(directory, topdown=False):
            os.rmdir(parent)
    except OSError:
        return False
    return True


def _existing(path: Path) -> Path:
    while not path.parent.is_dir():
        path = path.parent
    return path.parent
