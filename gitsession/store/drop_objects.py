"""Removal of objects by id. Removal by reachability would also remove the unfinished data of other writers.

    1  with the lock: flush, so that the journal is empty; list packs and loose objects
    2  without the lock: git repacks the packs that contain a victim (an object to drop), without the victims; the new
       pack is on disk, and is known to list every remaining object
    3  with the lock again: check that no new pack contains a victim (otherwise go back to 1); write a note with the
       names of the packs and objects to remove; begin a new generation, so that no process relies on removed objects;
       remove exactly the packs and loose objects in the note

If a process is killed in step 3, the note remains; ``finish`` completes the step.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path

from gitsession.durable import replace, sync_directory
from gitsession.errors import Corrupt, Refused, Unavailable
from gitsession.git import config, pack_reader, process
from gitsession.git.pack_index import PackIndex
from gitsession.git.repository import VerifiedRepository
from gitsession.git.types import Oid
from gitsession.store import create
from gitsession.store.git_store import GitStore
from gitsession.store.state import begin_generation

NOTE = f"{create.CONTROL}/dropping"

_PACK = ("pack-objects", "--delta-base-offset", "--window-memory=100m", "-q", "objects/pack/pack")
_PACK_SUFFIXES = (".pack", ".rev", ".bitmap", ".mtimes", ".keep", ".promisor", ".idx")
"""Suffixes of a pack's files. The index is removed last: git ignores an index without a pack."""
_ALL = ("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname) %(objecttype)")


class ObjectRemoval:
    """A removal of objects, based on one listing of all packs of a store."""

    def __init__(self, store: GitStore) -> None:
        """List the packs. Raises ``Refused`` if objects are shared with other repositories, and ``Unavailable``."""
        self._store = store
        self._directory = store.git_dir / "objects/pack"
        with store.locked():
            check_unshared(store.git_dir)
            store.flush_all()
            self._seen = pack_reader.files(str(self._directory)).keys()  # the name of a pack is a hash of its content

    def kinds(self) -> dict[Oid, str]:
        """Return the type of every object by id: ``commit``, ``tree``, ``blob`` or ``tag``. Raises ``Corrupt``."""
        try:
            output = process.run(self._store.git_dir, *_ALL, timeout_seconds=3600).out.decode()
        except Unavailable as error:
            raise Corrupt(f"cannot list the objects: {error}", hint="run `gitsession repair` first") from None
        return dict(line.split(" ", 1) for line in output.splitlines())

    def drop(self, victims: AbstractSet[Oid], is_settled: Callable[[], bool]) -> bool:
        """Drop ``victims``; return False if other processes wrote meanwhile, so that the selection must be repeated.

        The caller must hold the lock ``packing``. ``is_settled``: a function that returns True if no ref leads to any
        of ``victims``. It is called while the store's lock is held. Raises ``Unavailable``.
        """
        try:
            obsolete = [name for name in self._seen if name.endswith(".idx") and self._holds(name, victims)]
            self._pack_without(obsolete, victims)
        except FileNotFoundError:
            return False  # another git process replaced these packs
        with self._store.locked():
            self._store.flush_all()
            if not self._is_unchanged(victims) or not is_settled():
                return False
            loose = [oid for oid in VerifiedRepository(self._store.git_dir).loose() if oid in victims]
            _write_note(self._store.git_dir, [name.removesuffix(".idx") for name in obsolete], loose)
            finish(self._store.git_dir)
        with self._store.locked():
            return True  # this handle has reopened the packs, because it acquired the lock

    def _holds(self, name: str, victims: AbstractSet[Oid]) -> bool:
        return any(raw.hex() in victims for raw in PackIndex(f"{self._directory}/{name}").names())

    def _pack_without(self, obsolete: list[str], victims: AbstractSet[Oid]) -> None:
        retained: set[Oid] = set()
        for name in obsolete:
            retained.update(raw.hex() for raw in PackIndex(f"{self._directory}/{name}").names())
        retained -= victims
        if not retained:
            return
        oid_lines = "".join(f"{oid}\n" for oid in sorted(retained)).encode()
        output = process.run(self._store.git_dir, *_PACK, stdin=oid_lines, timeout_seconds=3600).out.decode().split()
        new = PackIndex(f"{self._directory}/pack-{output[0]}.idx") if len(output) == 1 else None
        if new is None or {raw.hex() for raw in new.names()} != retained:
            raise Unavailable("cannot drop objects: git did not pack all objects to be kept (nothing was dropped)")
        if any((self._directory / name).with_suffix(".promisor").exists() for name in obsolete):
            (self._directory / f"pack-{output[0]}.promisor").touch()
        sync_directory(self._directory)

    def _is_unchanged(self, victims: AbstractSet[Oid]) -> bool:
        now = pack_reader.files(str(self._directory)).keys()
        if not self._seen <= now:
            return False  # another git process replaced packs, and the new ones have not been searched
        new = [name for name in now if name.endswith(".idx") and name not in self._seen]
        try:
            return not any(self._holds(name, victims) for name in new)
        except FileNotFoundError:
            return False


def check_unshared(git_dir: Path) -> None:
    """Raise ``Refused`` if the store may share objects with another repository."""
    if any((git_dir / "objects/info" / name).exists() for name in ("alternates", "http-alternates")):
        raise Refused(
            f"cannot purge in '{git_dir}': it borrows objects from another repository",
            hint="run `git repack -a -d` in the store, then delete its file objects/info/alternates",
        )
    if config.settings_of(git_dir).get("extensions.preciousobjects", "false").lower() in ("true", "yes", "on", "1"):
        raise Refused(
            f"cannot purge in '{git_dir}': other repositories borrow objects from it (extensions.preciousObjects)"
        )


def finish(git_dir: Path) -> bool:
    """Complete the removal that a note describes; return whether there was a note. Needs the store's lock."""
    try:
        note = json.loads((git_dir / NOTE).read_bytes())
    except FileNotFoundError:
        return False
    begin_generation(git_dir)
    directory = git_dir / "objects/pack"
    for path in [*directory.glob("multi-pack-index*"), *(git_dir / "objects/info").glob("commit-graph*")]:
        _remove_tree(path)
    for name in note["packs"]:
        for suffix in _PACK_SUFFIXES:
            (directory / f"{name}{suffix}").unlink(missing_ok=True)
    for oid in note["loose"]:
        (git_dir / "objects" / oid[:2] / oid[2:]).unlink(missing_ok=True)
    sync_directory(directory)
    (git_dir / NOTE).unlink()
    sync_directory(git_dir / create.CONTROL)
    return True


def _write_note(git_dir: Path, names: list[str], loose: list[Oid]) -> None:
    note = {"packs": names, "loose": loose}
    replace(git_dir / NOTE, json.dumps(note).encode(), by=git_dir / f"{NOTE}.tmp")


def _remove_tree(path: Path) -> None:
    """Remove a file, or a folder and its content. Git may remove files of the folder at the same time."""
    if path.is_dir() and not path.is_symlink():
        for child in path.iterdir():
            _remove_tree(child)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
