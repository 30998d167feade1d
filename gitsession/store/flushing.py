"""Two steps of a flush: to move refs to their new values, and to record these values in the reflog of ``main``.

These functions need the store's lock and an up-to-date journal. The *chain* of a ref lists its values since the journal
began; a flush moves the ref to the end of its chain. A value in the repository is replaced only if the chain contains
it. If another program moved a ref meanwhile, the ref keeps its value, and *our* branch, whose tip is the end of the
chain, is renamed (``move_to_ends``).
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from gitsession.durable import read_regular, replace, write_all
from gitsession.errors import GitSessionError, Unavailable
from gitsession.git.ref_files import SYMBOLIC
from gitsession.git.ref_writer import RefWriter
from gitsession.git.types import Oid, RefValue
from gitsession.store import create, flush_record, histories, refs
from gitsession.store.histories import Read
from gitsession.store.journal import Move


def moved_refs(chains: Mapping[str, Chain], remaining: set[str], renamed: Mapping[str, str]) -> flush_record.Moved:
    """Return, by ref, the first and the last value of each chain whose ref is not in ``remaining``.

    A renamed branch is listed under its new name, with ``None`` as its first value.
    """
    return {
        renamed.get(name, name): (None if name in renamed else chain[0], chain[-1])
        for name, chain in chains.items()
        if name not in remaining
    }


REFLOG = f"logs/{create.MAIN}"

_EXPIRES_NEVER = 4102444800
"""Timestamp of every line, in Unix seconds: the year 2100. ``git gc`` drops reflog lines older than 30 days."""

_BYTES_MAX = 1 << 20
"""Growth of the reflog, in bytes, after which the reflog is reduced to the last line of each branch."""

_TAIL_BYTES = 1 << 16
"""Bytes at the end of an intact reflog that a process checks: a power failure may have lost some of them."""

_LOG_LINE = re.compile(rb"^[0-9a-f]{40} [0-9a-f]{40} [^\n\0]*> [0-9]+ [+-][0-9]{4}(?:\t[^\n\0]*)?\n", re.MULTILINE)
"""A well-formed line of a reflog in git's format."""


def append_reflog(
    git_dir: Path,
    moved: Mapping[str, RefValue | None],
    read_initial: Callable[[], Mapping[str, RefValue]],
    *,
    check_lines: bool = False,
) -> None:
    """Append the values of ``moved`` to the reflog of ``main``.

    ``read_initial``: returns the values of the existing branches. A new file begins with these values.

    Git keeps objects that are listed in a reflog. So the entries of a branch survive ``git branch -D`` followed by
    garbage collection, and ``repair`` restores the branch from the record of flushed values (store/flush_record.py).
    The reflog of the branch itself would not help, because git deletes it with the branch. ``main`` is in every store,
    and no command deletes it.

    Needs the store's lock. The file is not fsynced: an entry without a line is as safe as in any git repository. A
    purge removes all reflogs, and the next flush starts a new file with the existing branches. If the file is not a
    well-formed reflog, a flush also starts a new file, which begins with the complete lines of the old one. Each flush
    checks that the last line is complete; with ``check_lines``, it checks all lines that may be damaged (``_mark``).
    Raises ``OSError``.
    """
    problem = reflog_problem(git_dir)
    if problem:
        raise OSError(errno.ENOTDIR, problem, REFLOG)
    path = git_dir / REFLOG
    path.parent.mkdir(parents=True, exist_ok=True)
    intact = _damaged_reflog(path, check_lines=check_lines)
    if intact is not None:
        replace(path, intact + _reflog_lines({**read_initial(), **moved}), by=path.with_suffix(".gitsession-tmp"))
        return
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(fd).st_size
        text = _reflog_lines(moved if size else {**read_initial(), **moved})
        is_marked = size == 0 or _is_marked(fd)
        write_all(fd, text, size)
        if is_marked or check_lines:
            _mark(fd)
    finally:
        os.close(fd)
    if size // _BYTES_MAX != (size + len(text)) // _BYTES_MAX:
        _shorten_reflog(path)


def reflog_problem(git_dir: Path) -> str:
    """Return the reason why the reflog of ``main`` is not writable; "" if it is writable."""
    path = git_dir / REFLOG
    for folder in (git_dir / "logs", git_dir / "logs/refs", path.parent):
        if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
            return f"'{folder}' is not a folder"
    return f"'{path}' is a folder" if path.is_dir() and not path.is_symlink() else ""


def _mark(fd: int) -> None:
    """Set the time of a well-formed reflog to its size in seconds. A write by another program changes this time.

    So the next processes need not check all lines, which a reflog has for each branch of the store.
    """
    os.utime(fd, (time.time(), os.fstat(fd).st_size))


def _is_marked(fd: int) -> bool:
    stat = os.fstat(fd)
    return stat.st_mtime == stat.st_size


def _damaged_reflog(path: Path, *, check_lines: bool) -> bytes | None:
    """Return the complete lines of a malformed reflog; ``None`` if the file is well-formed, empty or missing."""
    if not os.path.lexists(path):
        return None
    if path.is_symlink() or not path.is_file():
        return b""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        if file.read() in (b"", b"\n"):
            if not check_lines:
                return None
            if size > _TAIL_BYTES and _is_marked(file.fileno()):
                file.seek(size - _TAIL_BYTES)
                tail = file.read().partition(b"\n")[2]
                if tail == _well_formed(tail):
                    return None
        file.seek(0)
        data = file.read()
    intact = _well_formed(data)
    return None if intact == data else intact


def _well_formed(data: bytes) -> bytes:
    return b"".join(_LOG_LINE.findall(data))


def _reflog_lines(values: Mapping[str, RefValue | None]) -> bytes:
    lines = (_reflog_line(name, value) for name, value in values.items() if value and _is_logged(name, value))
    return "".join(lines).encode()


def _is_logged(name: str, value: RefValue) -> bool:
    return name.startswith((refs.SESSIONS, refs.TRASH)) and refs.target(value) is None


def _reflog_line(name: str, value: RefValue) -> str:
    return f"{value} {value} gitsession <gitsession@localhost> {_EXPIRES_NEVER} +0000\tflush: {name}\n"


def _shorten_reflog(path: Path) -> None:
    """Reduce the reflog to the last line of each branch."""
    last: dict[bytes, bytes] = {}
    for line in (read_regular(path) or b"").splitlines(keepends=True):
        last[line.rpartition(b"\t")[2]] = line
    replace(path, b"".join(last.values()), by=path.with_suffix(".gitsession-tmp"))


_MANY = 32

Chain = list[RefValue | None]


def move_to_ends(
    chains: Mapping[str, Chain], writer: RefWriter, read: Read, renamed_branches: list[tuple[str, str]]
) -> tuple[list[Move], Exception | None]:
    """Move the repository's refs to the ends of the journal's chains; return the remaining moves and the first error.

    A chain lists all values of a ref since the journal began. The action depends on the value in the repository:

        1. a value of the chain      -> the ref is moved to the end of the chain
        2. an ancestor of the end    -> as in 1: another program fetched a part of our branch
        3. a descendant of the end   -> the ref keeps its value, which includes our entries
        4. no value                  -> another program deleted the ref: it is set to the end of the chain again
        5. any other value           -> the branches diverged: the ref keeps its value, and our branch is renamed to a
                                        name that follows from its content (``store.histories``). If our branch was the
                                        active branch or the checkpoint branch of this store, it is selected again under
                                        the new name
        6. the ref cannot be moved   -> the next flush tries again; the other refs are moved now

    If many refs move at once, the refs that are not loose and whose value is in the chain are moved in one write.
    Symbolic refs and deletions have no history, and remote-tracking refs only record the state of a remote. If another
    program moved such a ref, it keeps its value.

    Needs the store's lock. Appends to ``renamed_branches`` each ref that another program moved, with the new name of
    our branch. Raises ``OSError`` if no lock file can be created at all.
    """
    done = _move_many(chains, writer)
    remaining = {name: chain for name, chain in chains.items() if name not in done}
    failed = writer.delete({name: set(chain) for name, chain in remaining.items() if chain[-1] is None})
    ends = {name: end for name, chain in remaining.items() if (end := chain[-1]) is not None}
    writer.prepare(ends)
    for name, end in ends.items():
        try:
            is_branch = not end.startswith(SYMBOLIC) and not name.startswith(refs.TRACKING)
            if not writer.move(name, end, expected=set(chains[name])) and is_branch:
                new_name = _flush_diverged(name, chains, end, writer, read)
                renamed_branches += [(name, new_name)] if new_name else []
        except (OSError, GitSessionError) as error:
            failed[name] = error
    return [_remaining_move(name, chains[name], writer) for name in failed], next(iter(failed.values()), None)


def _move_many(chains: Mapping[str, Chain], writer: RefWriter) -> set[str]:
    """Move many refs in one write, as after a pull of many sessions; return the names of the moved refs."""
    ends = {name: chain[-1] for name, chain in chains.items() if refs.target(chain[-1] or "") is None}
    if len(ends) <= _MANY:
        return set()
    try:
        return writer.move_many(ends, {name: set(chains[name]) for name in ends})
    except (OSError, GitSessionError):
        return set()  # the caller then moves the refs one by one and reports the error of each ref


def _flush_diverged(name: str, chains: Mapping[str, Chain], end: Oid, writer: RefWriter, read: Read) -> str | None:
    """Flush a ref that another program moved; return the new name of our branch, or ``None`` if it is not renamed."""
    current = _current_oid(name, writer)
    if current is None and writer.move(name, end, expected={None}):
        return None  # only gitsession deletes branches, so a deletion by another program is undone
    if current is not None:
        try:
            if histories.holds(read, end, current, until=chains[name][0]) and writer.move(
                name, end, expected={current}
            ):
                return None
            if histories.holds(read, current, end):
                return None
        except GitSessionError:
            pass  # a branch whose history cannot be read is treated as a diverged branch
    new_name = histories.unused_name(read, lambda at: _current_oid(at, writer), name, end, current)
    existing = _current_oid(new_name, writer)
    if (existing is None or not histories.holds(read, existing, end)) and not writer.move(
        new_name, end, expected={existing}
    ):
        raise Unavailable(f"cannot update ref {new_name}: another program keeps changing it")
    _select_renamed(name, new_name, chains, writer)
    return new_name


def _current_oid(name: str, writer: RefWriter) -> Oid | None:
    value = writer.refs.read(name)
    return None if value is not None and value.startswith(SYMBOLIC) else value


def _select_renamed(name: str, new_name: str, chains: Mapping[str, Chain], writer: RefWriter) -> None:
    """Select ``new_name`` as active branch or checkpoint branch if ``name`` was selected, explicitly or by default."""
    choice = refs.choice(name)
    chain = chains.get(choice or "", [None])
    if choice and chain[-1] in (None, refs.symbolic(name)):
        writer.move(choice, refs.symbolic(new_name), expected={None, refs.symbolic(name), *chain})


def _remaining_move(name: str, chain: Chain, writer: RefWriter) -> Move:
    """Return one move that replaces all moves of the chain.

    The old value of this move is the repository's value if the chain contains that value, and otherwise the first value
    of the chain.
    """
    try:
        current = writer.refs.read(name)
    except GitSessionError:
        current = chain[0]
    return name, current if current in chain else chain[0], chain[-1]
