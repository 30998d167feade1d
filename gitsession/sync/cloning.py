"""Clones and bundles.

A clone is fetched into a folder next to its destination, validated, and then moved to the destination with one rename.
So an interrupted clone leaves no incomplete store. All refs are written to the file ``packed-refs``. With one file per
ref, a store of 10,000 sessions would have tens of thousands of files.

A bundle is a git bundle: sessions in one file, for a USB stick or an e-mail. A bundle of selected sessions contains the
tombstones that a push of these sessions to a new remote would send (``tombstone_sync.tombstones_for``).
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from gitsession.archive import archive_set, archiving
from gitsession.durable import sync_directory, write_new
from gitsession.errors import NotFound, Refused, Unavailable
from gitsession.git import config, process, ref_files
from gitsession.git.types import Oid
from gitsession.sessions.grow_only_sets import Merged
from gitsession.sessions.merge_remote_branches import SyncedBranch
from gitsession.store import create, refs
from gitsession.store.git_store import GitStore
from gitsession.sync import fetching, remotes, syncing, tombstone_sync, transport
from gitsession.sync.remotes import DEFAULT, Remote, check_is_store
from gitsession.sync.syncing import SyncReport
from gitsession.sync.transport import Quarantine, RejectedTransfer, TransportOptions, sync_lock
from gitsession.validation.quarantine_reader import Proposed
from gitsession.validation.validate import FetchedReader, validate_fetched

_YOUNG_SECONDS = 60


def clone(url: str, path: Path, options: TransportOptions, *, filter: str = "", namespace: str = "") -> SyncReport:
    """Create a store at ``path`` with the sessions of the remote at ``url``, which may be empty.

    The remote is added to the new store with the name ``origin``.

    Args:
        url: The address of the remote.
        path: The path of the new store.
        options: Options for git's interaction with the user.
        filter: A git filter, such as ``blob:limit=64k``. Objects that the filter omits are fetched when they are
            read.
        namespace: The namespace of the sessions, if the remote is shared with a code repository.

    Raises:
        Refused: ``path`` exists, or the remote is not a store.
        InvalidName: An argument is invalid.
        Unavailable: The remote cannot be reached, or the disk fails.
    """
    path = Path(os.path.abspath(path))
    if os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir())):
        raise Refused(f"cannot clone into '{path}': it already exists", hint="choose another folder")
    temporary = path.parent / f".{path.name}.{secrets.token_hex(6)}.tmp"
    _sweep(path)
    lock_fd = -1
    try:
        create.create(temporary)
        lock_fd = _lock_folder(temporary)
        remote = dataclasses.replace(remotes.add(temporary, DEFAULT, url, namespace=namespace), is_new=True)
        remotes.confirm(temporary, remote)
        if namespace:
            with GitStore.open(temporary) as store:
                report = syncing.pull(store, remote, options)
        else:
            try:
                report = _fill(temporary, remote, options, filter)
            except RejectedTransfer:
                report = _fill_by_ref(temporary, remote, options)
        os.rename(temporary, path)
        sync_directory(path.parent)
    except OSError as error:
        raise Unavailable(f"cannot create the store '{path}': {error.strerror}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if lock_fd >= 0:
            os.close(lock_fd)
    return report


def _lock_folder(folder: Path) -> int:
    """Lock the folder of an unfinished clone; return the file descriptor that holds the lock.

    Raises ``OSError`` if another process has locked it.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def _sweep(path: Path) -> None:
    """Remove the folders of killed clones to ``path``."""
    left = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{12}}\.tmp")
    for folder in path.parent.iterdir() if path.parent.is_dir() else ():
        if not left.fullmatch(folder.name):
            continue
        with suppress(OSError):
            if time.time() - folder.lstat().st_mtime < _YOUNG_SECONDS:  # the clone may not have locked it yet
                continue
            fd = _lock_folder(folder)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(fd)


def _fill(path: Path, remote: Remote, options: TransportOptions, filter: str) -> SyncReport:
    """Fetch the remote into the empty store at ``path``, which no other process uses yet."""
    refused = {}
    with Quarantine(path, remote, {}) as fetched, GitStore.open(path) as store:
        found = fetched.clone(options, filter)
        if filter:
            fetching.fetch_sets(store, fetched, found, options)
        read = FetchedReader(fetched.git_dir, store)
        check_is_store(remote, found, read)
        remote_refs = {ref: oid for ref, oid in found.items() if remote.remote_ref(ref) is not None}
        tips = {ref: oid for ref, oid in remote_refs.items() if ref != refs.TOMBSTONES}
        tombstones = tombstone_sync.merge_fetched(store, read, remote_refs.get(refs.TOMBSTONES), tips).tombstones
        rewritten = tombstone_sync.rewritten(fetched, read, tombstones, tips, {})
        remote_refs |= rewritten
        for refusal in validate_fetched(
            read, [Proposed(ref, None, oid) for ref, oid in sorted(remote_refs.items())], {}
        ):
            refused[refusal.ref] = SyncedBranch(refusal.ref, "refused", why=refusal.what)
        good = {ref: oid for ref, oid in remote_refs.items() if ref not in refused}
        if refs.ARCHIVE in good:
            listed = archive_set.of_sessions(read, [good[refs.ARCHIVE]], map(refs.session_of, good))
            good = {ref: oid for ref, oid in good.items() if not archiving.is_archived(listed, ref, oid, read.read)}
        if rewritten or len(good) < len(found):
            fetched.keep_only(good.values(), [])
        fetched.move_in(kept=False)
    if filter:
        _promise(path, remote, filter)
    _write_refs(path, {**good, **{remote.tracking(ref): oid for ref, oid in good.items()}})
    shutil.rmtree(path / create.INCOMING, ignore_errors=True)
    new = [SyncedBranch(ref, "new", None, oid) for ref, oid in good.items() if ref != create.MAIN]
    return SyncReport(remote.name, tuple(sorted((*new, *refused.values()), key=lambda branch: branch.ref)))


def _fill_by_ref(path: Path, remote: Remote, options: TransportOptions) -> SyncReport:
    """Fetch all refs that git accepts, without a filter.

    One invalid object makes `git clone` fail. This function rejects only the refs that lead to the invalid object.
    """
    with GitStore.open(path) as store:
        report = syncing.pull(store, remote, options)
    return dataclasses.replace(report, branches=tuple(one for one in report.branches if one.ref != create.MAIN))


def _promise(path: Path, remote: Remote, filter: str) -> None:
    """Configure the remote as the source of the objects that the filter left out."""
    file = str(path / config.FILE)
    settings = {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": remote.name,
        f"remote.{remote.name}.promisor": "true",
        f"remote.{remote.name}.partialclonefilter": filter,
    }
    for key, value in settings.items():
        process.run(None, "config", "--file", file, key, value)


def _write_refs(path: Path, values: Mapping[str, Oid]) -> None:
    """Write the refs ``values`` of a new store, all except ``main`` to the file ``packed-refs``.

    The ref ``main`` exists already. Its value is the first commit, which is the same in all stores.
    """
    main = values.get(create.MAIN)
    if main not in (None, create.first_commit()[0]):
        process.run(path, "update-ref", create.MAIN, main)
    packed = {ref: oid for ref, oid in values.items() if ref != create.MAIN}
    write_new(path / ref_files.PACKED_REFS, ref_files.changed_packed(b"", put=packed))
    sync_directory(path)


def write_bundle(store: GitStore, path: Path, sessions: Iterable[str] = ()) -> dict[str, Oid]:
    """Write ``sessions``, by default all sessions, to a new bundle at ``path``; return the refs of the sessions.

    Raises ``Refused`` if the file exists, ``NotFound`` if there are no sessions, and ``Unavailable`` if the bundle
    cannot be written.
    """
    store.flush()
    wanted = set(sessions)
    session_refs = {
        ref: oid
        for ref, oid in store.refs(refs.SESSIONS).items()
        if refs.is_session_ref(ref) and (not wanted or refs.session_of(ref) in wanted)
    }
    if not session_refs:
        raise NotFound(f"cannot write the bundle '{path}': there are no sessions to write")
    if os.path.lexists(path):
        raise Refused(f"cannot write the bundle '{path}': it already exists", hint="choose another name")
    # Without the tombstone set, a forged tombstone in the bundle could not be distinguished from a real one.
    local = store.ref(refs.TOMBSTONES)
    merged = tombstone_sync.tombstones_for(store, None, wanted) if wanted else Merged(local)
    own = {ref: oid for ref, oid in ((create.MAIN, store.ref(create.MAIN)), (refs.TOMBSTONES, merged.oid)) if oid}
    if merged.oid == local:
        transport.create_bundle(store.git_dir, path, [*own, *session_refs])
        return session_refs
    with (
        sync_lock(store),
        Quarantine(store.git_dir, Remote("bundle", str(path)), {**own, **session_refs}) as quarantine,
    ):
        quarantine.put(merged.objects)
        transport.create_bundle(quarantine.git_dir, path, [*own, *session_refs])
    return session_refs


def read_bundle(store: GitStore, path: Path, options: TransportOptions) -> SyncReport:
    """Pull from the bundle at ``path``. A bundle is never the home remote.

    If a branch in the bundle has diverged from the local branch, the branch of the bundle is stored under a second
    name, and its outcome is ``forked``. Raises ``NotFound`` and the errors of ``pull``.
    """
    report = syncing.pull(store, remotes.file(path), options)
    branches = (
        dataclasses.replace(branch, outcome="forked", why="")
        if branch.outcome == "refused" and branch.beside
        else branch
        for branch in report.branches
    )
    return dataclasses.replace(report, branches=tuple(branches))
