"""A fingerprint of a store, computed from the names and times of files.

If two fingerprints are equal, the store has not changed. Session listing uses this to check whether the index is up to
date. To start quickly, this module imports no CBOR, hashing or git code.

To change a loose ref, git renames a file into the ref's directory, which changes the modification time of the
directory. One ``stat`` of each session's directory is therefore enough. A time in the last second is not trusted,
because two renames may have the same time. In that case, the fingerprint includes the values of the refs in the
directory. So the next fingerprint may differ once although no ref has changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from stat import S_ISDIR

from gitsession.git.permissions import denied
from gitsession.store import journal_frames

_WATCHED = ("refs/heads/sessions", "refs/heads/gitsession", "refs/gitsession")
_FRESH_NS = 1_000_000_000
_JOURNAL = "\njournal\n"
_NO_SUBDIRECTORIES = 2  # number of hard links: the directory's name and ``.``; each subdirectory adds one


def fingerprint(git_dir: str | os.PathLike[str]) -> str:
    """Return a string that changes whenever one of gitsession's refs changes or the journal grows.

    If two fingerprints are equal, neither the refs nor the journal have changed. Raises ``Unavailable`` if a folder of
    refs cannot be read for lack of permission.
    """
    fresh = time.time_ns() - _FRESH_NS
    parts = [_packed_refs(f"{git_dir}/packed-refs")]
    for directory in _WATCHED:
        _add_directory(f"{git_dir}/{directory}", fresh, parts)
    journal = "\n".join(f"{number} {inode} {end}" for number, inode, end in _journal(git_dir))
    return "\n".join(parts) + _JOURNAL + journal


def has_same_packed_refs(before: str, now: str) -> bool:
    """Return whether, between two fingerprints, ``packed-refs`` was not replaced."""
    return before.partition("\n")[0] == now.partition("\n")[0]


def has_only_grown(before: str, now: str) -> bool:
    """Return whether, between two fingerprints, no ref moved in git and the journal lost no data."""
    repository, _, journal = before.rpartition(_JOURNAL)
    repository_now, _, journal_now = now.rpartition(_JOURNAL)
    if repository != repository_now:
        return False
    ends = {file: int(end) for file, _, end in (line.rpartition(" ") for line in journal_now.splitlines())}
    old = (line.rpartition(" ") for line in journal.splitlines())
    return all(file in ends and ends[file] >= int(end) for file, _, end in old)


def has_journal(git_dir: str | os.PathLike[str]) -> bool:
    """Return whether the journal has records, which plain git cannot read."""
    return any(end > journal_frames.HEAD_BYTES for _, _, end in _journal(git_dir))


def is_journal_doubtful(git_dir: str | os.PathLike[str]) -> bool:
    """Return whether a journal file was renamed as damaged, or data follows the apparent end of a journal file.

    A writer that was killed also leaves data after the end. When the store is opened, this case is distinguished from
    damage.
    """
    directory = f"{git_dir}/gitsession/journal"
    try:
        names = os.listdir(directory)
    except OSError:
        return False
    return any(name.startswith(journal_frames.ASIDE) or _has_trailing_data(f"{directory}/{name}") for name in names)


def _has_trailing_data(path: str) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return journal_frames.has_data_after(fd, journal_frames.end(fd))
    finally:
        os.close(fd)


def _packed_refs(path: str) -> str:
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return ""
    return f"{stat.st_mtime_ns} {stat.st_size} {stat.st_ino}"


def _add_directory(path: str, fresh: int, parts: list[str]) -> None:
    """Add the state of a directory of refs to ``parts``."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    except PermissionError:
        raise denied(path) from None
    try:
        changed = os.fstat(fd).st_mtime_ns
        parts.append(f"{path} {changed}")
        for name in os.listdir(fd):
            try:
                stat = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if not S_ISDIR(stat.st_mode):
                if changed >= fresh:
                    parts.append(f"{name} {_content(f'{path}/{name}')}")
            elif stat.st_nlink == _NO_SUBDIRECTORIES and stat.st_mtime_ns < fresh:
                parts.append(f"{name} {stat.st_mtime_ns}")
            else:
                _add_directory(f"{path}/{name}", fresh, parts)
    finally:
        os.close(fd)


def _content(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # do not block on a named pipe
        try:
            return os.read(fd, 1024).decode("utf-8", "replace").strip()
        finally:
            os.close(fd)
    except OSError:
        return ""


def _journal(git_dir: str | os.PathLike[str]) -> Iterator[tuple[int, int, int]]:
    """Yield the number, inode and end offset of every journal file."""
    directory = f"{git_dir}/gitsession/journal"
    for number in journal_frames.numbers(directory):
        try:
            fd = os.open(f"{directory}/{journal_frames.file_name(number)}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            yield number, os.fstat(fd).st_ino, journal_frames.end(fd)
        finally:
            os.close(fd)
