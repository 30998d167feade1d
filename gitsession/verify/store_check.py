"""The check of a whole store on disk: its journal, its refs, `git fsck`, and every entry.

A quick check covers only the data that was added after the last check without problems. That check left a mark
(verify/lost_refs.py). A quick check reads the packs and loose objects that the mark does not list, and compares their
checksums. On each branch, it checks the entries after the value in the mark. If there is no mark, or if a pack in the
mark is missing or has changed, everything is checked.

A large store can be checked in parts, with a limit for each part. The parts of one complete check are called a round.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from gitsession.archive import archive_set
from gitsession.durable import replace
from gitsession.errors import GitSessionError, Unavailable
from gitsession.git import config, damage, process
from gitsession.git.repository import VerifiedRepository
from gitsession.git.types import Oid, RefValue
from gitsession.store import create, flush_record, refs
from gitsession.store.git_store import GitStore
from gitsession.verify import entry_walk as entries
from gitsession.verify import lost_refs
from gitsession.verify.entry_walk import EntryChecks, Snapshot, Walk, check_log
from gitsession.verify.findings import CheckCoverage, Finding, Report
from gitsession.verify.lost_refs import VerifiedState

FILE = f"{create.CONTROL}/round"
VERSION = 1

ENTRIES_AT_ONCE = 64
"""Number of entries that are checked between two reads of the clock."""


@dataclass(slots=True)
class CheckPosition:
    """The progress of a round. Times are Unix time in ms.

    Attributes:
        since_ms: Start of the round; 0 before it begins.
        session: Session that was checked last.
        entry: Last checked entry of this session; "" if the session was checked completely.
        file: File that was checked last. Files are checked after all sessions.
        entries: Number of entries that were checked.
        before_ms: End of the previous round; ``None`` if there was none.
    """

    since_ms: int = 0
    session: str = ""
    entry: Oid = ""
    file: str = ""
    entries: int = 0
    before_ms: int | None = None


def continue_round(
    store: GitStore,
    *,
    seen: Mapping[str, RefValue],
    sample: int | None,
    max_seconds: float | None,
    now_ms: int,
    clock: Callable[[], float] = time.monotonic,
) -> Report:
    """Check the next part of the round: at most ``sample`` entries, for at most ``max_seconds`` seconds."""
    deadline = None if max_seconds is None else clock() + max_seconds
    report = Report()
    position = read(store.git_dir)
    is_start = not position.since_ms

    def is_over() -> bool:
        is_late = deadline is not None and clock() > deadline
        return is_late or (sample is not None and report.checked >= sample)

    part = _Part(store, report, position, is_over)
    if is_start:
        position.since_ms = now_ms
        part.refs(seen)
    ended = part.sessions(sample) and part.files()
    report.whole = ended and is_start
    report.covered = _covered(store, position, ended)
    if not store.read_only:
        with contextlib.suppress(OSError):  # if the write fails, the next part repeats this one
            write(store.git_dir, CheckPosition(before_ms=now_ms) if ended else position)
    return report


class _Part:
    """One part of a round. ``is_over``: function that returns whether the part has reached a limit."""

    def __init__(self, store: GitStore, report: Report, position: CheckPosition, is_over: Callable[[], bool]) -> None:
        self._store, self._report, self._position, self._is_over = store, report, position, is_over
        self._checks = EntryChecks(store, report)

    def refs(self, seen: Mapping[str, RefValue]) -> None:
        """Check the refs and the operation log."""
        self._report.problems += _lost_refs(self._store, lost_refs.read(self._store.git_dir), seen)
        for name in self._store.refs(refs.SESSIONS):
            if not refs.session_of(name):
                self._report.add(name, "invalid name of a session branch")
        check_log(self._store, self._report)

    def sessions(self, sample: int | None) -> bool:
        """Check the sessions after the position; return whether all sessions are checked."""
        position = self._position
        for sid in _sids(self._store):
            if _sort_key(sid) < _sort_key(position.session) or (sid == position.session and not position.entry):
                continue
            if sid != position.session:
                position.session, position.entry = sid, ""
            self._session(sid, sample)
            if self._is_over():
                return False
        position.entry = ""
        return True

    def _session(self, sid: str, sample: int | None) -> None:
        position = self._position
        walk = Walk(Snapshot.of(self._store, sid), self._report, self._checks)
        remaining = sorted(oid for oid in walk.nodes if oid > position.entry)
        limit = len(remaining) if sample is None else sample - self._report.checked
        chosen = remaining[:limit]
        for start in range(0, len(chosen), ENTRIES_AT_ONCE):
            batch = chosen[start : start + ENTRIES_AT_ONCE]
            walk.check_row(batch)
            position.entry = batch[-1]
            position.entries += len(batch)
            if self._is_over():
                break
        if not remaining or position.entry == remaining[-1]:
            walk.check_relations()
            position.entry = ""

    def files(self) -> bool:
        """Check the files after the position; return whether all files are checked."""
        for name in damage.object_files(self._store.git_dir):
            if name <= self._position.file:
                continue
            problem = damage.problem(self._store.git_dir, name)
            if problem:
                self._report.add(name, problem)
            self._position.file = name
            if self._is_over():
                return False
        return True


def _sort_key(sid: str) -> tuple[str, str]:
    """Return a key that sorts session ids by their random part, and not by their date."""
    return sid.partition("-")[2], sid


def _sids(store: GitStore) -> list[str]:
    names = archive_set.UnarchivedStore.of(store).refs(refs.SESSIONS)
    return sorted({refs.session_of(name) for name in names} - {""}, key=_sort_key)


def _covered(store: GitStore, position: CheckPosition, ended: bool) -> CheckCoverage:
    sids = _sids(store)
    passed = sum(_sort_key(sid) <= _sort_key(position.session) for sid in sids) - bool(position.entry)
    return CheckCoverage(position.since_ms, max(passed, 0), len(sids), position.entries, ended, position.before_ms)


def read(git_dir: Path) -> CheckPosition:
    """Return the position after the last part of the round; the start of a new round if it cannot be read."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        value = json.loads((git_dir / FILE).read_bytes())
        version, position = value.pop("version"), CheckPosition(**value)
        texts = (position.session, position.entry, position.file)
        numbers = (position.since_ms, position.entries, position.before_ms or 0)
        is_sound = all(type(text) is str for text in texts) and all(type(number) is int for number in numbers)
        if version == VERSION and is_sound:
            return position
    return CheckPosition()


def write(git_dir: Path, position: CheckPosition) -> None:
    """Write ``position``. Raises ``OSError``."""
    data = json.dumps({"version": VERSION, **asdict(position)}).encode()
    replace(git_dir / FILE, data, by=git_dir / f"{FILE}.{os.getpid()}.tmp")


def verify(
    store: GitStore,
    *,
    seen: Mapping[str, RefValue],
    sample: int | None = None,
    max_seconds: float | None = None,
    quick: bool = False,
    notices: bool = False,
    now_ms: int = 0,
) -> Report:
    """Check a store.

    If ``quick`` is set and the mark is valid, only new data is checked. Otherwise, if ``sample`` or ``max_seconds`` is
    set, the next part of a round is checked. Otherwise, everything is checked.

    Args:
        store: The store.
        seen: Values of the session refs when the catalog last read them.
        sample: Maximum number of entries to check; ``None`` for no limit.
        max_seconds: Time limit in seconds; ``None`` for no limit.
        quick: Whether to check only new data.
        notices: Whether to also report notices.
        now_ms: Current time, as Unix time in ms.

    Raises:
        Unavailable: A file of the store cannot be read, or git is required but not installed.
    """
    create.check_readable(store.git_dir)
    problems = files_of_refs(store)
    with contextlib.suppress(Unavailable):  # e.g. the disk is full: pending entries are then checked in the journal
        store.flush()
    now = lost_refs.current_state(store.git_dir, dict(store.refs("refs/")))
    mark = lost_refs.read(store.git_dir)
    is_quick = quick and mark is not None and mark.covers(now)
    if not is_quick and (sample is not None or max_seconds is not None):
        report = continue_round(store, seen=seen, sample=sample, max_seconds=max_seconds, now_ms=now_ms)
        report.problems[:0] = problems
        return report
    problems += _lost_refs(store, mark, seen)
    if is_quick and mark is not None:
        problems += _new_files(store, mark, now)
        known = frozenset(value for name, value in mark.refs.items() if refs.parse(name))
        report = entries.verify(store, sample=sample, max_seconds=max_seconds, known=known)
    else:
        finish_fsck = process.begin_fsck(store.git_dir)  # a child process, which runs in parallel
        try:
            report = entries.verify(store, notices=notices, git_dir=store.git_dir)
        finally:
            lines = finish_fsck()
        # git's findings follow our own, which name the affected entries. git reports a problem once for each path.
        report.problems += [Finding("git fsck", line) for line in dict.fromkeys(lines)]
    report.problems[:0] = problems
    if report.whole and not report.problems and not store.read_only:
        with contextlib.suppress(OSError, Unavailable):  # if this fails, the next check checks everything again
            lost_refs.write(store.git_dir, now)
            with store.locked():
                flush_record.mark(store.git_dir, flush_record.CHECKED)
    return report


def _lost_refs(store: GitStore, mark: VerifiedState | None, seen: Mapping[str, RefValue]) -> list[Finding]:
    return [Finding(lost.name, lost.what, lost.name) for lost in lost_refs.find(store, mark, seen)]


def files_of_refs(store: GitStore) -> list[Finding]:
    """Return the damage in the journal, in ref files, and in the files by which git recognizes a repository."""
    found = [Finding(name, what) for name, what in config.problems(store.git_dir).items()]
    found += [Finding("journal", f"{what} has damaged records") for what in store.damage()]
    found += [Finding(name, what, name) for name, what in store.damaged_refs().items()]
    return found + [Finding(name, "ignored: its name is not valid UTF-8") for name in store.ignored_refs()]


def _new_files(store: GitStore, mark: VerifiedState, now: VerifiedState) -> list[Finding]:
    """Return the damaged packs, indexes and loose objects that are in ``now`` but not in the mark."""
    found = []
    for name in sorted(now.packs.keys() - mark.packs.keys()):
        problem = damage.checksum_problem(store.git_dir / "objects/pack" / name)
        if problem:
            found.append(Finding(f"objects/pack/{name}", problem))
    repository = VerifiedRepository(store.git_dir)
    for oid in sorted(set(now.loose) - set(mark.loose)):
        try:
            repository.read_loose(oid)
        except GitSessionError as error:
            found.append(Finding(f"objects/{oid[:2]}/{oid[2:]}", str(error)))
    return found
