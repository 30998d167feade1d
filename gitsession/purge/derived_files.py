"""Deletion of a store's files with purged content, except git objects and the journal.

Derived files are always deleted. They are rebuilt later. Events in the spool that are not yet ingested are deleted only
if they contain purged content.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from gitsession.errors import Unavailable
from gitsession.git import pack_writer
from gitsession.index import derived
from gitsession.store import create, journal_frames, salvage, spill
from gitsession.store.lock import exclusive_lock
from gitsession.verify.lost_refs import FILE as VERIFIED
from gitsession.workspace.private_repository import PrivateRepository
from gitsession.workspace.workspace_lock import WORKSPACES

SPOOL = f"{create.CONTROL}/spool"
_DATABASES = ("index.db", "search.db")
_GIT_FILES = ("FETCH_HEAD", "ORIG_HEAD", "logs")
_FOREIGN_TEMPORARIES = ("tmp_pack_", "tmp_idx_", "tmp_rev_", "tmp_obj_", ".tmp-", "tmp_objdir-", "incoming-")
"""Prefixes of git's temporary files.

The last two belong to folders that an interrupted push to this store leaves behind.
"""
_HOUR_SECONDS = 3600.0
_TEXT_RUN = re.compile(rb'[^\x00-\x1f"\\\x7f]{12,}')
_SAMPLES_MAX = 10_000
_SAMPLE_BYTES_MAX = 200


def text_samples(payloads: Iterable[bytes]) -> frozenset[bytes]:
    """Return long runs of text in ``payloads``. A file that contains one of these runs contains purged content."""
    found: set[bytes] = set()
    for payload in payloads:
        runs = sorted(_TEXT_RUN.findall(payload), key=len, reverse=True)[:8]
        found.update(run[:_SAMPLE_BYTES_MAX] for run in runs)
        if len(found) > _SAMPLES_MAX:
            break
    return frozenset(found)


def remove(git_dir: Path, samples: frozenset[bytes], *, discard_snapshots: bool) -> None:
    """Delete the store's files that can contain purged content. The caller must hold the store's lock.

    ``samples``: the result of ``text_samples``. ``discard_snapshots``: True to discard also the last snapshots of
    workspaces. Raises ``OSError``, and ``Unavailable`` if another process locks a workspace for too long.
    """
    for name in _DATABASES:
        derived.remove(git_dir / create.CONTROL / name)
    for name in (VERIFIED, salvage.QUARANTINE, create.THREADS, *_GIT_FILES):
        _remove(git_dir / name)
    for file in chain(_spooled(git_dir / SPOOL, samples), _temporaries(git_dir)):
        _remove(file)
    # If a sync is running, it removes its quarantine itself.
    with contextlib.suppress(Unavailable), exclusive_lock(git_dir / create.SYNC_LOCK, wait_seconds=0):
        _remove(git_dir / create.INCOMING)
    spill.sweep(git_dir)
    if discard_snapshots:
        _forget_workspaces(git_dir / WORKSPACES)


def _spooled(folder: Path, samples: frozenset[bytes]) -> Iterator[Path]:
    """Yield the files in the spool to delete: all files except events that are not yet ingested and can be kept.

    An event that is not yet ingested is deleted only if it contains one of ``samples``.
    """
    for file in _children(folder):
        if file.suffix != ".event" or any(sample in file.read_bytes() for sample in samples):
            yield file


def _temporaries(git_dir: Path) -> Iterator[Path]:
    """Yield the temporary files of killed writers: all of gitsession's, and git's if they are older than an hour."""
    before = time.time() - _HOUR_SECONDS
    for folder in ("objects/pack", "objects", create.JOURNAL):
        for file in _children(git_dir / folder):
            is_own = file.name.startswith(pack_writer.TEMPORARY) or (
                folder == create.JOURNAL and file.name.startswith(journal_frames.TEMPORARY)
            )
            with contextlib.suppress(FileNotFoundError):
                if is_own or (file.name.startswith(_FOREIGN_TEMPORARIES) and file.stat().st_mtime < before):
                    yield file


def _forget_workspaces(folder: Path) -> None:
    """Discard the last snapshot of each workspace. The next snapshot then includes all files."""
    for workspace in _children(folder):
        if (workspace / "state").exists():
            with PrivateRepository.open(workspace) as shadow:
                shadow.forget()
        _remove(workspace / "drained")


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
