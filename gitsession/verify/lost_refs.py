"""A search for refs that have lost a recorded value although no command moved them.

git does not list a ref whose file is missing. If a ref was moved back to an earlier entry, the earlier value is a valid
value, too. So only a record of the lost value shows the loss. There are four records:

    1. the values that flushes wrote (store/flush_record.py)
    2. the values that the last check without problems found (``VerifiedState``, called the mark)
    3. the values that operations after the mark recorded; if there is no mark, all operations
    4. the values in the catalog, which are used only if a ref is in none of the other records

A recorded value is not lost in two cases:

    1. Another program moved the ref, and gitsession then renamed its own branch (store/flushing.py). The value is still
       on a branch of the session.
    2. The entries were appended again to another history (sessions/merge_remote_branches.py). The commits then differ,
       but their content is the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path

from gitsession.archive import archive_set
from gitsession.dataclass import dataclass
from gitsession.durable import replace
from gitsession.errors import GitSessionError
from gitsession.git import pack_reader as packs
from gitsession.git.objects import parse_commit
from gitsession.git.repository import VerifiedRepository
from gitsession.git.types import Oid, RefValue
from gitsession.sessions import operation_log
from gitsession.store import create, flush_record, refs
from gitsession.store.flush_record import FlushedRefs
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore

FILE = f"{create.CONTROL}/verified"
VERSION = 1


@dataclass(frozen=True, slots=True)
class VerifiedState:
    """The state of a store after a check without problems.

    Attributes:
        refs: Values of the refs.
        packs: Size, modification time in ns, and inode of each pack and index, by name.
        loose: Ids of the loose objects.
    """

    refs: dict[str, str]
    packs: dict[str, list[int]]
    loose: list[str]

    def covers(self, now: VerifiedState) -> bool:
        """Return whether all packs and indexes of this state still exist, unchanged, in the state ``now``."""
        return all(now.packs.get(name) == seen for name, seen in self.packs.items())


def current_state(git_dir: Path, refs: dict[str, str]) -> VerifiedState:
    """Return the current state of the store. ``refs``: the current values of the refs."""
    found = packs.files(f"{git_dir}/objects/pack")
    return VerifiedState(
        refs, {name: list(identity) for name, identity in found.items()}, list(VerifiedRepository(git_dir).loose())
    )


def read(git_dir: Path) -> VerifiedState | None:
    """Return the mark; ``None`` if it is missing or cannot be read."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        value = json.loads((git_dir / FILE).read_bytes())
        if value["version"] == VERSION:
            return VerifiedState(dict(value["refs"]), dict(value["packs"]), list(value["loose"]))
    return None


def write(git_dir: Path, mark: VerifiedState) -> None:
    """Write ``mark``. Raises ``OSError``."""
    data = json.dumps({"version": VERSION, **asdict(mark)}).encode()
    replace(git_dir / FILE, data, by=git_dir / f"{FILE}.{os.getpid()}.tmp")


def forget(git_dir: Path, ref: str) -> None:
    """Remove a ref that was deleted intentionally from the mark. Raises ``OSError``."""
    mark = read(git_dir)
    if mark is not None and mark.refs.pop(ref, None) is not None:
        write(git_dir, mark)


@dataclass(frozen=True, slots=True)
class LostRefFinding:
    """A ref that is missing, or whose current value does not descend from its recorded value.

    Attributes:
        name: Name of the ref.
        was: Recorded value.
        when: Description of the time at which the value was recorded.
        now: Current value; ``None`` if the ref is missing.
        unreached: Number of entries in the history of ``was`` that are on no branch of the session; ``None`` if
            objects of this history are missing.
    """

    name: str
    was: RefValue
    when: str
    now: RefValue | None
    unreached: int | None = 0

    @property
    def what(self) -> str:
        if self.now is None:
            what = f"is missing: it was at {self.was[:12]} {self.when}, and no command removed it"
        else:
            what = f"was at {self.was[:12]} {self.when}, and is now at {self.now[:12]}, which does not descend from it"
        if self.unreached is None:
            return f"{what} (some of its entries are missing)"
        entries = "1 entry is" if self.unreached == 1 else f"{self.unreached:,} entries are"
        return f"{what} ({entries} on no branch)" if self.unreached else what


def find(store: GitStore, mark: VerifiedState | None, seen: Mapping[str, RefValue]) -> list[LostRefFinding]:
    """Return the refs that lost a value, except refs with damaged files. ``seen``: values of refs in the catalog."""
    unreadable = store.damaged_refs()
    for _ in range(_TRIES):
        # The records are read before the refs. Meanwhile, an append can only move a ref forward, which is no loss, and
        # a command changes the log. If the log or a record has changed, the search is repeated.
        log_tip, flushed = _records(store)
        known, replaced = _recorded_values(store, mark, seen, flushed)
        found = [finding for finding in _compare(store, known, flushed, replaced) if finding.name not in unreadable]
        if not found or _records(store) == (log_tip, flushed):
            break
    return found


def _records(store: GitStore) -> tuple[RefValue | None, FlushedRefs]:
    """Return the tip of the operation log and the values that flushes wrote, as far as they can be read."""
    log_tip, flushed = None, FlushedRefs()
    with contextlib.suppress(GitSessionError):
        log_tip = store.ref(refs.OPLOG)
    with contextlib.suppress(OSError):
        flushed = flush_record.read(store.git_dir)
    return log_tip, flushed


_RecordedValues = dict[str, tuple[RefValue | None, str]]
_BY_FLUSH = "when it was last written"
_OTHER_REFS = (refs.OPLOG, refs.TOMBSTONES, refs.ARCHIVE)
_TRIES = 8


def _recorded_values(
    store: ObjectStore, mark: VerifiedState | None, seen: Mapping[str, RefValue], flushed: FlushedRefs
) -> tuple[_RecordedValues, set[tuple[str, RefValue | None]]]:
    """Return the last recorded value of each ref with its time, and the values that commands replaced.

    The value of a removed ref is ``None``.
    """
    marked = mark.refs if mark else {}
    later: _RecordedValues = {}
    unflushed: _RecordedValues = {}
    logged: set[str] = set()
    replaced: set[tuple[str, RefValue | None]] = set()
    after_mark, after_flush = True, refs.OPLOG in flushed.last
    try:
        for operation in operation_log.history(store):
            after_mark = after_mark and operation.id != marked.get(refs.OPLOG)
            after_flush = after_flush and operation.id != flushed.last[refs.OPLOG]
            for move in operation.moves:
                logged.add(move.ref)
                replaced.add((move.ref, move.old))
                if after_mark:
                    (unflushed if after_flush else later).setdefault(move.ref, (move.new, _describe_time(operation)))
    except GitSessionError:
        seen = {}  # the part of the log that cannot be read may contain moves of these refs
    at_mark = {name: (value, "at the last check without problems") for name, value in marked.items()}
    at_listing = {name: (value, "when sessions were last listed") for name, value in seen.items() if name not in logged}
    last_flushed, since_flush = (
        {name: (value, later[name][1] if later.get(name, ("",))[0] == value else _BY_FLUSH) for name, value in values}
        for values in (flushed.last.items(), flushed.since.items())
    )
    return {**at_listing, **last_flushed, **at_mark, **later, **since_flush, **unflushed}, replaced


def _describe_time(operation: operation_log.Operation) -> str:
    try:
        date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(operation.at_ms / 1000))
    except (OverflowError, ValueError, OSError):
        date = "an invalid date"
    return f"after `{operation.command[:80]}` on {date}"


def _compare(
    store: ObjectStore, known: _RecordedValues, flushed: FlushedRefs, replaced: Collection[tuple[str, RefValue | None]]
) -> list[LostRefFinding]:
    current = archive_set.UnarchivedStore.of(store).refs("refs/")
    unselected = {refs.active(sid) for sid in _ever_archived(store)}
    unselected |= {
        name for name, (was, _) in known.items() if was is not None and _is_target_removed(was, known, current)
    }
    found = []
    for name, (was, when) in sorted(known.items()):
        now = current.get(name)
        if was is None or now == was or not _is_watched(name) or (now is None and name in unselected):
            continue
        unreached = _unreached(store, name, was, current, is_flushed=flushed.last.get(name) == was)
        if now is None or unreached != 0:
            found.append(LostRefFinding(name, was, when, now, unreached))
    for name, values in sorted(flushed.passed.items()):
        last = current.get(name) or known[name][0]
        if last is None or not _is_watched(name):
            continue
        for was in dict.fromkeys(values):
            if (name, was) in replaced:
                continue
            unreached = _unreached(store, name, was, {**current, name: last}, is_flushed=True)
            if unreached != 0:
                found.append(LostRefFinding(name, was, _BY_FLUSH, last, unreached))
    return found


def _is_target_removed(was: RefValue, known: _RecordedValues, current: Mapping[str, RefValue]) -> bool:
    """Return whether ``was`` is the value of a symbolic ref to a branch that was removed.

    The purge of a whole session also deletes its symbolic ref. The operation log does not contain this deletion.
    """
    target = refs.target(was)
    if target is None or target in current:
        return False
    return not _is_watched(target) or known.get(target, (None, ""))[0] is None


def _ever_archived(store: ObjectStore) -> Collection[str]:
    """Return the sessions that were ever archived.

    Archiving deletes the refs that select their active branches. The operation log does not contain these deletions.
    """
    try:
        return archive_set.read(store).turns.keys()
    except GitSessionError:
        return ()


def _is_watched(name: str) -> bool:
    return refs.is_session_ref(name) or name in _OTHER_REFS or name.startswith(refs.ACTIVE)


def _unreached(
    store: ObjectStore, name: str, was: RefValue, current: Mapping[str, RefValue], *, is_flushed: bool
) -> int | None:
    """Return the number of entries in the history of ``was`` that are on no branch of the session of ``name``.

    Entries are compared by their trees. If a branch cannot be read because of damage, the result is 0. If the history
    of ``was`` cannot be read, the result is ``None`` if a flush wrote ``was``, and 0 otherwise.
    """
    if not refs.is_session_ref(name) or refs.target(was) is not None:
        return 0
    folder = name.rpartition("/")[0] + "/"
    seen: dict[Oid, Oid] = {}  # the tree of each commit
    tips = [current[name]] if name in current else []
    try:
        for value in (*tips, *(value for other, value in current.items() if other.startswith(folder))):
            seen.update(_trees(store, value if refs.target(value) is None else None, seen))
            if was in seen:
                return 0
    except GitSessionError:
        return 0
    try:
        return len(set(_trees(store, was, seen).values()) - set(seen.values()))
    except GitSessionError:
        return None if is_flushed else 0


def _trees(store: ObjectStore, tip: Oid | None, seen: Mapping[Oid, Oid]) -> dict[Oid, Oid]:
    """Return the commits in the history of ``tip`` that are not in ``seen``, newest first, each with its tree."""
    found: dict[Oid, Oid] = {}
    oid = tip
    while oid is not None and oid not in seen:
        commit = parse_commit(store.read(oid)[1])
        found[oid] = commit.tree
        oid = next(iter(commit.parents), None)
    return found
