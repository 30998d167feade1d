"""Temporary packs for a transaction with too many objects for memory. The packs exist until the transaction commits.

The originals of redacted payloads are stored in a separate vault. The packs and this vault are in one folder per
transaction below the store. Neither git nor a flush reads this folder, so the store's lock is not held while the folder
is written. The process locks its folder. A folder that no process has locked belongs to a killed process. The next
large import, ``maintain`` or a purge removes it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.durable import make_directories
from gitsession.errors import Unavailable
from gitsession.git import pack_writer
from gitsession.git.types import Kind, Oid
from gitsession.store import create
from gitsession.store.lock import exclusive_lock
from gitsession.store.state import unavailable

if TYPE_CHECKING:
    from gitsession.redaction.original import Original
    from gitsession.redaction.vault import Vault

FOLDER = f"{create.CONTROL}/importing"
_LOCK = "lock"


class PackSpill:
    """Temporary packs of one transaction. Close it whether the transaction succeeds or not."""

    def __init__(self, git_dir: Path) -> None:
        self._git_dir = git_dir
        self._folder = git_dir / FOLDER / os.urandom(8).hex()
        self._locks = ExitStack()
        self._vault: Vault | None = None
        self._is_used = False

    def put(
        self, objects: Mapping[Oid, tuple[Kind, bytes]], originals: Sequence[Original],
        deflated: pack_writer.Deflated | None = None,
    ) -> None:  # fmt: skip
        """Write ``objects`` as one more pack, and store ``originals``. Raises ``Unavailable``.

        ``deflated``: see ``Transaction.put_all``.
        """
        try:
            if not self._is_used:
                self._begin()
            pack_writer.write_pack(self._folder, objects, self._git_dir / create.KEEP, deflated=deflated)
            if originals:
                from gitsession.redaction.vault import FILE, Vault  # programs that only read do not load sqlite3

                self._vault = self._vault or Vault(self._folder / FILE)
                self._vault.keep(originals)
        except OSError as error:
            raise unavailable(self._git_dir, "write", error) from error

    def move_in(self, vault: Vault) -> None:
        """Move the packs into the store and the originals into ``vault``.

        The packs have ``.keep`` files until the refs have moved. Needs the store's lock. Everything is durable on
        return. Raises ``Unavailable`` and ``Corrupt``.
        """
        try:
            if self._vault is not None:
                vault.keep(self._vault.originals())  # first, so that every redacted entry has its original
            if self._is_used:
                pack_writer.move_packs(self._folder / "pack", self._git_dir / "objects", self._git_dir / create.KEEP)
        except OSError as error:
            raise unavailable(self._git_dir, "write", error) from error

    def close(self) -> None:
        """Remove packs and originals that were not moved into the store. Idempotent."""
        if self._vault is not None:
            self._vault.close()
        if self._is_used:
            import shutil  # slow to import, and not required by most commands

            shutil.rmtree(self._folder, ignore_errors=True)
        self._locks.close()

    def _begin(self) -> None:
        parent = self._git_dir / FOLDER
        make_directories(parent)
        with exclusive_lock(parent / _LOCK):  # an unlocked new folder looks like that of a killed process
            _sweep(parent)
            (self._folder / "pack").mkdir(mode=0o700, parents=True)
            self._is_used = True
            self._locks.enter_context(exclusive_lock(self._folder / _LOCK, wait_seconds=0))


def sweep(git_dir: Path) -> list[str]:
    """Remove the folders that killed processes left; return their paths relative to ``git_dir``.

    Raises ``Unavailable`` if another process holds the lock for too long.
    """
    parent = git_dir / FOLDER
    if not parent.is_dir():
        return []
    with exclusive_lock(parent / _LOCK):
        return [f"{FOLDER}/{name}" for name in _sweep(parent)]


def _sweep(parent: Path) -> list[str]:
    removed = []
    for folder in [each for each in parent.iterdir() if each.is_dir()]:
        with suppress(Unavailable), exclusive_lock(folder / _LOCK, wait_seconds=0):
            import shutil  # slow to import, and not required by most commands

            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder.name)
    return sorted(removed)
