"""The refs of a flush: moved to where the journal's chains end, and noted in the reflog of ``main``.

Under the store's lock, with the journal tailed. What moves is what the journal's chain says is ours to move; a ref that
others moved meanwhile stays theirs, and our line goes on beside it (``move_to_ends``).
"""

from __future__ import annotations

import errno
import os
import re
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


def moved(chains: Mapping[str, Chain], left: set[str], beside: Mapping[str, str]) -> flush_record.Moved:
    """Return the first and the last value of each chain that has reached a ref, by the name of that ref."""
    return {
        beside.get(name, name): (None if name in beside else chain[0], chain[-1])
        for name, chain in chains.items()
        if name not in left
    }


REFLOG = f"logs/{create.MAIN}"

_EXPIRES_NEVER = 4102444800
"""The time of each line, in Unix seconds: 2100. `git gc` drops what a reflog has of more than 30 days ago."""

_BYTES_MAX = 1 << 20
"""Each time the file has grown by so much, only the last line of each branch is kept."""


_LOG_LINE = re.compile(rb"^[0-9a-f]{40} [0-9a-f]{40} [^\n\0]*> [0-9]+ [+-][0-9]{4}(?:\t[^\n\0]*)?\n", re.MULTILINE)
"""A line as git reads it."""


def append_reflog(
    git_dir: Path,
    moved: Mapping[str, RefValue | None],
    there: Callable[[], Mapping[str, RefValue]],
    *,
    check_whole: bool = False,
) -> None:
    """Write the values of ``moved`` to the reflog of ``main``; in a new file first those of ``there``, the branches.

    git keeps what a reflog names: after `git branch -D` a collection leaves the entries in the store, and `repair`
    gets them back by the record of values (store/flush_record.py). The reflog of the branch itself would be of no use:
    git deletes it with the branch. ``main`` is in every store, and no command deletes it.

    The store's lock is held. Nothing waits for the disk: without a line, an entry is as safe as in any repository of
    git. A purge removes all reflogs; the flush that finds none begins with the branches that are there. So does one
    that finds a file which is no reflog, after the lines in it that are whole: its end is looked at each time, all of
    it with ``check_whole``. Raises ``OSError``.
    """
    problem = reflog_problem(git_dir)
    if problem:
        raise OSError(errno.ENOTDIR, problem, REFLOG)
    path = git_dir / REFLOG
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = _damaged_reflog(path, check_whole=check_whole)
    if kept is not None:
        replace(path, kept + _reflog_lines({**there(), **moved}), by=path.with_suffix(".gitsession-tmp"))
        return
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(fd).st_size
        text = _reflog_lines(moved if size else {**there(), **moved})
        write_all(fd, text, size)
    finally:
        os.close(fd)
    if size // _BYTES_MAX != (size + len(text)) // _BYTES_MAX:
        _shorten_reflog(path)


def reflog_problem(git_dir: Path) -> str:
    """Return why the reflog of ``main`` cannot be written, "" if nothing is in its way."""
    path = git_dir / REFLOG
    for folder in (git_dir / "logs", git_dir / "logs/refs", path.parent):
        if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
            return f"{folder} is not a folder"
    return f"{path} is a folder" if path.is_dir() and not path.is_symlink() else ""


def _damaged_reflog(path: Path, *, check_whole: bool) -> bytes | None:
    """Return the whole lines of a file that is no well-formed reflog; ``None`` if it is one, is empty or missing."""
    if not os.path.lexists(path):
        return None
    if path.is_symlink() or not path.is_file():
        return b""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        if file.read() in (b"", b"\n") and not check_whole:
            return None
        file.seek(0)
        data = file.read()
    whole = b"".join(_LOG_LINE.findall(data))
    return None if whole == data else whole


def _reflog_lines(values: Mapping[str, RefValue | None]) -> bytes:
    lines = (_reflog_line(name, value) for name, value in values.items() if value and _is_kept(name, value))
    return "".join(lines).encode()


def _is_kept(name: str, value: RefValue) -> bool:
    return name.startswith((refs.SESSIONS, refs.TRASH)) and refs.target(value) is None


def _reflog_line(name: str, value: RefValue) -> str:
    return f"{value} {value} gitsession <gitsession@localhost> {_EXPIRES_NEVER} +0000\tflush: {name}\n"


def _shorten_reflog(path: Path) -> None:
    """Leave the last line of each branch."""
    last: dict[bytes, bytes] = {}
    for line in (read_regular(path) or b"").splitlines(keepends=True):
        last[line.rpartition(b"\t")[2]] = line
    replace(path, b"".join(last.values()), by=path.with_suffix(".gitsession-tmp"))


_MANY = 32

Chain = list[RefValue | None]


def move_to_ends(
    chains: Mapping[str, Chain], writer: RefWriter, read: Read, sidestepped: list[tuple[str, str]]
) -> tuple[list[Move], Exception | None]:
    """Bring the repository's refs to where the journal's chains end; the moves that are left, and the first error.

    A chain is every value a ref had since the journal began. What the repository holds decides:

        1. a value of the chain       -> ours to move: to the end of the chain
        2. part of what we wrote      -> the same: others brought it too, and not as far as we
        3. our end and more           -> it stays: others have what we wrote
        4. nothing                    -> another program deleted it: it is set to the end of the chain again
        5. anything else              -> others moved it meanwhile: theirs stays, and our line goes on beside it under
                                         the name that follows from it (``store.histories``); what this store had
                                         chosen to go on with goes along
        6. we cannot move it for now  -> it is left for the next flush, and holds up no other ref

    Where many refs move at once, those that hold what is ours and are no files of their own move together, by one
    write. Symbolic refs and deletions hold no history, and tracking refs only say what was seen: where others moved
    those, theirs stays and that is all.

    The store's lock is held. Adds to ``sidestepped`` each ref that others had moved, with our new name for it. Raises
    ``OSError`` where no lock can be made at all.
    """
    done = _move_many(chains, writer)
    rest = {name: chain for name, chain in chains.items() if name not in done}
    _, failed = writer.delete({name: set(chain) for name, chain in rest.items() if chain[-1] is None})
    ends = {name: end for name, chain in rest.items() if (end := chain[-1]) is not None}
    writer.prepare(ends)
    for name, end in ends.items():
        try:
            is_line = not end.startswith(SYMBOLIC) and not name.startswith(refs.TRACKING)
            if not writer.move(name, end, ours=set(chains[name])) and is_line:
                side = _meet(name, chains, end, writer, read)
                sidestepped += [(name, side)] if side else []
        except (OSError, GitSessionError) as error:
            failed[name] = error
    return [_left(name, chains[name], writer) for name in failed], next(iter(failed.values()), None)


def _move_many(chains: Mapping[str, Chain], writer: RefWriter) -> set[str]:
    """Many refs at once, as a pull of many sessions brings them, are one write; which ones are where they belong."""
    ends = {name: chain[-1] for name, chain in chains.items() if refs.target(chain[-1] or "") is None}
    if len(ends) <= _MANY:
        return set()
    try:
        return writer.move_many(ends, {name: set(chains[name]) for name in ends})
    except (OSError, GitSessionError):
        return set()  # one by one, then: what is in the way is told where it still is


def _meet(name: str, chains: Mapping[str, Chain], end: Oid, writer: RefWriter, read: Read) -> str | None:
    """Bring our line to where it belongs beside what others put there; its name, if that is not ``name``."""
    theirs = _held(name, writer)
    if theirs is None and writer.move(name, end, ours={None}):
        return None  # branches are deleted by us alone: another program's deletion is taken back
    if theirs is not None:
        try:
            if histories.holds(read, end, theirs, until=chains[name][0]) and writer.move(name, end, ours={theirs}):
                return None
            if histories.holds(read, theirs, end):
                return None
        except GitSessionError:
            pass  # what cannot be followed is not ours to judge
    side = histories.aside(read, lambda at: _held(at, writer), name, end, theirs)
    held = _held(side, writer)
    if (held is None or not histories.holds(read, held, end)) and not writer.move(side, end, ours={held}):
        raise Unavailable(f"another program moves {side}")
    _take_along(name, side, chains, writer)
    return side


def _held(name: str, writer: RefWriter) -> Oid | None:
    value = writer.refs.read(name)
    return None if value is not None and value.startswith(SYMBOLIC) else value


def _take_along(name: str, side: str, chains: Mapping[str, Chain], writer: RefWriter) -> None:
    """Who goes on with the line ``name``, by choice or for lack of one, goes on with ours."""
    choice = refs.choice(name)
    chain = chains.get(choice or "", [None])
    if choice and chain[-1] in (None, refs.symbolic(name)):
        writer.move(choice, refs.symbolic(side), ours={None, refs.symbolic(name), *chain})


def _left(name: str, chain: Chain, writer: RefWriter) -> Move:
    """One move stands for the whole chain: from what the repository holds, where that is ours."""
    try:
        held = writer.refs.read(name)
    except GitSessionError:
        held = chain[0]
    return name, held if held in chain else chain[0], chain[-1]
