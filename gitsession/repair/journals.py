"""Salvage of objects and ref values from damaged journal files and from the journals of copies.

Objects are checked by their hash. Of the moves of a ref, only the last one counts. The new value in this move is called
the end. These rules ensure that nothing is lost:

    1. the ref's history contains the end, or a command removed the ref   -> nothing to do
    2. the file records the ref's current value, or the ref is missing    -> the ref moves to the end
    3. the current value is older than the first value in the file        -> the ref moves to the end
    4. otherwise: the history was continued without the lost records      -> the end becomes a new branch

A record is proven if a digest proves its content. If only the position of a record is proven, a ref name in the
record may be damaged. The moves of such a record are applied only to refs that a proven record also names.

A hole is a part of the file in which records are lost. A hole is closed if a copy of the same journal contains the lost
records. A hole of one record is also closed if every history that includes the record can be read. A file with an open
hole stays in the journal folder, so that ``verify`` continues to report the file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from gitsession.dataclass import dataclass
from gitsession.errors import GitSessionError
from gitsession.git.objects import oid_of, parse_commit
from gitsession.git.ref_files import SYMBOLIC
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.sessions import operation_log
from gitsession.store import histories, refs
from gitsession.store.git_store import GitStore
from gitsession.store.journal import JournalRecord, Move, decode_record, scan
from gitsession.store.journal_scan import JournalHole, SoundRecord

Read = Callable[[Oid], tuple[Kind, bytes] | None]


@dataclass(frozen=True, slots=True)
class SkippedMoves:
    """Moves of a ref that are lost in a hole of the journal.

    Attributes:
        ref: Name of the ref.
        before: Value before the hole, if recorded.
        lost: Value at the end of the hole.
        after: Value after the next recorded move.
    """

    ref: str
    before: RefValue | None
    lost: RefValue
    after: RefValue | None


@dataclass(frozen=True, slots=True)
class LostRecords:
    """Records of a journal file that are lost and that no source contains.

    Attributes:
        file: Name of the journal file.
        count: Number of lost records; ``None`` if unknown.
        jumps: Moves that the lost records contained, as far as later records show them.
    """

    file: str
    count: int | None
    jumps: tuple[SkippedMoves, ...]


@dataclass
class Journals:
    """The content of damaged journal files.

    Attributes:
        objects: Objects by id.
        holes: Holes that no copy closes.
        moves: Moves of each ref, oldest first.
    """

    objects: dict[Oid, tuple[Kind, bytes]] = field(default_factory=dict)
    holes: list[LostRecords] = field(default_factory=list)
    moves: dict[str, list[Move]] = field(default_factory=dict)


def records_by_predecessor(files: Iterable[bytes]) -> dict[bytes, SoundRecord]:
    """Return the proven records of journal files, each keyed by the digest of the record before it."""
    found: dict[bytes, SoundRecord] = {}
    for data in files:
        before: bytes | None = data[8:40]
        for part in scan(data).found:
            if isinstance(part, SoundRecord) and part.proven and before is not None:
                found[before] = part
            before = part.digest if isinstance(part, SoundRecord) else part.until or None
    return found


def records(files: Iterable[bytes]) -> list[JournalRecord]:
    """Return the proven records of journal files. Records of a later format version are left out."""
    found = []
    for part in (part for data in files for part in scan(data).found):
        if isinstance(part, SoundRecord) and part.proven:
            with contextlib.suppress(GitSessionError):
                found.append(decode_record(part.payload))
    return found


def objects_of(records: Iterable[JournalRecord]) -> dict[Oid, tuple[Kind, bytes]]:
    return {oid_of(kind, data): (kind, data) for record in records for kind, data in record.objects}


def read(files: Mapping[str, bytes], copies: Mapping[bytes, SoundRecord]) -> Journals:
    """Read damaged journal files.

    Args:
        files: Content of the files by name, oldest first.
        copies: Records of copies of the files, as ``records_by_predecessor`` returns them.
    """
    result = Journals()
    for name, data in files.items():
        parts: list[SoundRecord | JournalHole] = []
        for part in scan(data).found:
            parts += [part] if isinstance(part, SoundRecord) else _fill_hole(part, copies)
        _collect(name, parts, result)
    return result


def _fill_hole(hole: JournalHole, copies: Mapping[bytes, SoundRecord]) -> list[SoundRecord | JournalHole]:
    """Return the records in a hole that ``copies`` has, followed by the hole if some records are still missing."""
    found: list[SoundRecord | JournalHole] = []
    at = hole.before
    while at != hole.until and at in copies:
        found.append(copies[at])
        at = copies[at].digest
    return found if at == hole.until else [*found, hole]


def _collect(name: str, parts: Iterable[SoundRecord | JournalHole], result: Journals) -> None:
    """Add the records and the open holes of the journal file ``name`` to ``result``."""
    rows = [part if isinstance(part, JournalHole) else (decode_record(part.payload), part.proven) for part in parts]
    records = [row for row in rows if not isinstance(row, JournalHole)]
    result.objects |= objects_of(record for record, _ in records)
    known = {ref for record, proven in records if proven for ref, _, _ in record.moves}
    known |= result.moves.keys()
    ends: dict[str, RefValue | None] = {}
    open_holes: list[tuple[JournalHole, set[str], list[SkippedMoves]]] = []
    for row in rows:
        if isinstance(row, JournalHole):
            open_holes.append((row, set(), []))
            continue
        for ref, old, new in row[0].moves:
            if not row[1] and ref not in known:
                continue
            for _, seen, jumps in open_holes[-1:]:
                if ref not in seen and old is not None and ends.get(ref) != old:
                    jumps.append(SkippedMoves(ref, ends.get(ref), old, new))
                seen.add(ref)
            result.moves.setdefault(ref, []).append((ref, old, new))
            ends[ref] = new
    result.holes += [LostRecords(name, hole.count, tuple(jumps)) for hole, _, jumps in open_holes]


def plan_moves(
    store: GitStore, values: Mapping[str, RefValue], moves: Mapping[str, list[Move]], read: Read
) -> dict[str, tuple[RefValue | None, Oid]]:
    """Return the refs to move, each with its old and new value. Symbolic refs and deletions are skipped.

    The ref of the operation log is moved only if the whole log can be read. A command that cannot be read cannot be
    undone.
    """
    removed = _removed(store)
    found: dict[str, tuple[RefValue | None, RefValue]] = {}
    for ref, ref_moves in moves.items():
        end, current = ref_moves[-1][2], values.get(ref)
        is_own = refs.is_session_ref(ref) or ref == refs.OPLOG
        if not is_own or ref in removed or end is None or end.startswith(SYMBOLIC) or read(end) is None:
            continue
        if current is not None and _contains(read, current, end):
            continue
        recorded = {value for _, old, new in ref_moves for value in (old, new)}
        first = ref_moves[0][1] or ref_moves[0][2]
        is_continued = current is None or current in recorded or (first is not None and _contains(read, first, current))
        if ref == refs.OPLOG:
            if is_continued and _contains(read, end, None):
                found[ref] = (current, end)
        elif is_continued:
            found[ref] = (current, end)
        else:
            candidates = histories.candidate_names(histories.read_or_raise(read), ref, end, current)
            candidate = next(candidate for candidate in candidates if values.get(candidate) in (None, end))
            if candidate not in values:
                found[candidate] = (None, end)
    return found


def _removed(store: GitStore) -> set[str]:
    """Return the refs that were removed or moved back by the last command that moved them."""
    last: dict[str, bool] = {}
    with contextlib.suppress(GitSessionError):
        for operation in operation_log.history(store):
            for move in operation.moves:
                last.setdefault(move.ref, move.new is None or operation.undoes is not None)
    return {ref for ref, is_removed in last.items() if is_removed}


def _contains(read: Read, tip: RefValue, ancestor: RefValue | None) -> bool:
    """Return whether ``ancestor`` is in the history of ``tip``.

    If ``ancestor`` is ``None``, return whether the whole history can be read.
    """
    oid: Oid | None = tip
    seen: set[Oid] = set()
    while oid is not None and oid != ancestor:
        found = None if oid in seen or oid.startswith(SYMBOLIC) else read(oid)
        if found is None or found[0] != "commit":
            return False
        seen.add(oid)
        try:
            oid = next(iter(parse_commit(found[1]).parents), None)
        except GitSessionError:
            return False
    return oid == ancestor
