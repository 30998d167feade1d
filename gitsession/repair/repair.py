"""Repair of a store. Planning changes nothing. If the process is killed during the repair, no data is lost.

    plan      find damaged files; read the good records of damaged journal files (repair/journals.py); read every object
              that is reachable from a ref, and search the donors for lost objects; find refs that cannot be read
    perform   write the objects from donors and journals, and the good objects of damaged packs, to durable new packs;
              move each damaged file into the quarantine; rewrite the refs whose values are known; move refs to their
              last values in the journal
    report    list what was repaired, what was set aside, and which entries of which sessions are still missing

A ref that cannot be read is restored to a recorded value. The sources of values are the refs of donors, the catalog,
the last check without problems, and the operation log. If the values differ but are in one history, the newest one is
used. If they are in different histories, the ref is not restored, because the right value cannot be determined.

An existing ref is moved only by journal records. If a ref was moved back, its earlier value becomes a new branch. If
only a copy that the user named has a session ref, the ref is restored if all of its objects exist and no operation of
this store removed it.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from gitsession.archive import archive_set
from gitsession.dataclass import dataclass
from gitsession.durable import read_regular
from gitsession.errors import Corrupt, GitSessionError, Malformed, MissingObject, Unavailable
from gitsession.git import config, damage, ref_files
from gitsession.git.damage import BadFile
from gitsession.git.objects import SUBMODULE_MODE, oid_of, parse_commit, parse_tree
from gitsession.git.pack_reader import Packs
from gitsession.git.repository import OBJECT_BYTES_MAX
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.repair import journals
from gitsession.repair.donors import Donor, UnreadFile
from gitsession.repair.journals import LostRecords
from gitsession.sessions import graph, operation_log, tombstone_set, unreachable
from gitsession.sessions.meta import meta_of
from gitsession.sessions.node import parse
from gitsession.sessions.unreachable import Unassigned
from gitsession.store import create, histories, refs, salvage
from gitsession.store.git_store import GitStore
from gitsession.store.journal_frames import ASIDE
from gitsession.verify import lost_refs
from gitsession.verify.lost_refs import LostRefFinding

_NO_COPY = " (no copy has the entry that the ref was at)"
_UNREADABLE = "has damaged records"


@dataclass(frozen=True, slots=True)
class Lost:
    """An object that is reachable from a ref but that no source contains.

    Attributes:
        oid: Id of the object.
        ref: Ref from which the object is reachable.
        entry: Id of the entry to which the object belongs; the id of the object itself if it belongs to no entry.
        what: Message of the read error.
    """

    oid: Oid
    ref: str
    entry: str
    what: str


@dataclass(frozen=True, slots=True)
class LostRef:
    """A ref that cannot be restored, or whose last value is lost. ``what``: description of the problem."""

    name: str
    what: str


@dataclass
class RepairPlan:
    """The plan of a repair.

    Attributes:
        bad: Damaged files.
        rescued: Ids of objects in damaged packs that can still be read.
        taken: Objects from donors, by id.
        donors: Name of the donor of each object in ``taken``.
        lost: Objects that no source contains.
        ref_files: New content of damaged loose refs and of a damaged packed-refs file, by path.
        ref_values: New values of refs that cannot be read or are missing.
        lost_refs: Refs that cannot be restored or whose last value is lost.
        log_lost: Value of the operation log's ref if a part of the log is lost, else "". A new log is then started,
            and earlier commands cannot be undone.
        settings: New content of ``HEAD`` and of the configuration, if a part of them is missing, by path.
        beside: New branches for the earlier values of refs that were moved back, each with the name of the ref.
        copied: Refs that exist only in a copy, each with the name of the copy.
        unheard: Names of donors that could not be read.
        unread: Agents' files from which nothing could be rebuilt.
        moves: Old and new values of the refs that move because of records in damaged journal files.
        dangling: Symbolic refs to missing branches, with their values. These symbolic refs are deleted.
        lost_records: Journal records that no source contains.
    """

    bad: list[BadFile] = field(default_factory=list)
    rescued: list[Oid] = field(default_factory=list)
    taken: dict[Oid, tuple[Kind, bytes]] = field(default_factory=dict)
    donors: dict[Oid, str] = field(default_factory=dict)
    lost: list[Lost] = field(default_factory=list)
    ref_files: dict[str, bytes] = field(default_factory=dict)
    ref_values: dict[str, RefValue] = field(default_factory=dict)
    lost_refs: list[LostRef] = field(default_factory=list)
    log_lost: RefValue = ""
    settings: dict[str, bytes] = field(default_factory=dict)
    beside: dict[str, str] = field(default_factory=dict)
    copied: dict[str, str] = field(default_factory=dict)
    unheard: list[str] = field(default_factory=list)
    unread: list[UnreadFile] = field(default_factory=list)
    moves: dict[str, tuple[RefValue | None, Oid]] = field(default_factory=dict)
    dangling: dict[str, RefValue] = field(default_factory=dict)
    lost_records: list[LostRecords] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing can be repaired. Data may still be missing."""
        refs_to_do = self.ref_files or self.log_lost or self.moves or self.dangling
        return not (self.bad or self.taken or refs_to_do or self.settings)


@dataclass(frozen=True, slots=True)
class RepairResult:
    """The result of a repair, or its plan if ``dry_run`` was set.

    Attributes:
        plan: The plan of the repair.
        quarantine: Folder to which the damaged files were moved; ``None`` if nothing was changed.
        set_aside: Paths of the files in the quarantine, relative to the store.
        unassigned: Entries that exist but could belong to several of the damaged sessions.
    """

    plan: RepairPlan
    quarantine: Path | None
    set_aside: tuple[str, ...]
    unassigned: tuple[Unassigned, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Return whether no data is missing after the repair."""
        return not (self.plan.lost or self.plan.lost_refs or self.plan.lost_records)


def repair(
    store: GitStore, donors: Sequence[Donor], *, seen: Iterable[tuple[str, RefValue]] = (), dry_run: bool = False
) -> RepairResult:
    """Repair the store as far as the donors allow.

    Other processes can read from the store and append to it during the repair.

    Args:
        store: The store.
        donors: Sources of lost objects.
        seen: Values of the session refs when the catalog last read them.
        dry_run: Whether to only return the plan.

    Raises:
        Unavailable: The store cannot be written, or one of its files cannot be read. Nothing was changed.
    """
    create.check_readable(store.git_dir)
    if not dry_run:
        with contextlib.suppress(Unavailable):  # pending records are then read from the journal
            store.flush()
    with tempfile.TemporaryDirectory(prefix="gitsession-") as scratch:
        plan = _Planner(store, donors, dict(seen), Path(scratch)).plan()
        result = RepairResult(plan, None, ()) if dry_run or plan.is_empty else _perform(store, plan)
    return replace(result, unassigned=_unassigned(store)) if plan.lost else result


def _unassigned(store: GitStore) -> tuple[Unassigned, ...]:
    whole = archive_set.UnarchivedStore.of(store)

    def entries_of(sid: str) -> Iterator[Oid]:
        if graph.branches(whole, sid):
            yield from graph.tree(whole, sid).nodes
        yield from (node.oid for node in meta_of(whole, sid).nodes)

    return tuple(unreachable.unassigned(whole, entries_of))


def _perform(store: GitStore, plan: RepairPlan) -> RepairResult:
    quarantine = salvage.quarantine(store.git_dir)
    with _writing(store), store.locked():
        salvage.save(store.git_dir, plan.rescued, plan.taken)
        moved = salvage.quarantine_files(store.git_dir, [bad for bad in plan.bad if not _of_journal(bad)], quarantine)
        existing = store.refs("refs/")  # a ref that another process has created meanwhile keeps its value
        lost = {name: value for name, value in plan.ref_values.items() if name not in existing}
        files = {name: f"{lost[name]}\n".encode() for name in lost if name in plan.ref_files} | plan.settings
        moved += salvage.replace_ref_files(store.git_dir, quarantine, files)
        if ref_files.PACKED_REFS in plan.ref_files:
            salvage.quarantine_copy(store.git_dir, ref_files.PACKED_REFS, quarantine)
            moved.append(ref_files.PACKED_REFS)
            store.rebuild_packed_refs({name: lost[name] for name in lost if name not in files})
        if plan.log_lost:
            salvage.write_note(quarantine / refs.OPLOG, plan.log_lost)
    changes: dict[str, tuple[RefValue | None, RefValue | None]] = {**plan.moves}
    changes |= {name: (value, None) for name, value in plan.dangling.items()}
    changes |= {refs.OPLOG: (plan.log_lost, None)} if plan.log_lost else {}
    if changes:
        with store.transaction() as tx:
            for name, (old, new) in changes.items():
                tx.move(name, new, expected=old)
        store.flush()
    if plan.log_lost:
        lost_refs.forget(store.git_dir, refs.OPLOG)
    with _writing(store), store.locked():
        # The content of these files is now stored elsewhere. If a file is still in use, the next flush handles it.
        flushed_journals = [bad for bad in plan.bad if _of_journal(bad) and Path(bad.path).name.startswith(ASIDE)]
        moved += salvage.quarantine_files(store.git_dir, flushed_journals, quarantine)
    return RepairResult(plan, quarantine, tuple(moved))


def _of_journal(bad: BadFile) -> bool:
    return bad.path.startswith(f"{create.JOURNAL}/")


@contextlib.contextmanager
def _writing(store: GitStore) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(f"cannot repair the store '{store.git_dir}': {error.strerror}") from error


class _Planner:
    def __init__(self, store: GitStore, donors: Sequence[Donor], seen: dict[str, RefValue], scratch: Path) -> None:
        self._store, self._donors, self._seen, self._scratch = store, donors, seen, scratch
        self._plan = RepairPlan()
        self._done: set[Oid] = set()
        self._problem = ""
        """Message of the last read error."""

    def plan(self) -> RepairPlan:
        plan = self._plan
        plan.settings = config.repaired_files(self._store.git_dir, create.MAIN)
        plan.bad = damage.find(self._store.git_dir, self._scratch)
        self._reindexed = Packs(str(self._scratch), OBJECT_BYTES_MAX)
        files = self._store.damaged_journal()
        holes = self._journals(files, self._store.refs("refs/"))
        self._refs()
        values = {**self._store.refs("refs/"), **plan.ref_values}
        postponed = plan.moves.keys() & plan.ref_values.keys()  # the next repair moves these refs
        plan.moves = {name: move for name, move in plan.moves.items() if name not in postponed}
        values |= {name: new for name, (_, new) in plan.moves.items()}
        self._check_sets()
        known_names = {*values, *(lost.name for lost in plan.lost_refs)}
        for name, value in values.items():
            if name.startswith((refs.ACTIVE, refs.ACTIVE_FILES)) and refs.target(value) not in known_names:
                plan.dangling[name] = value
        self._follow_all(values)
        plan.lost_records = [hole for hole in holes if not self._is_closed(hole)]
        open_files = {hole.file for hole in plan.lost_records}
        plan.bad += [BadFile(name, _UNREADABLE) for name in files if name not in open_files and not postponed]
        plan.rescued = salvage.good_objects(self._store.git_dir, plan.bad)
        plan.unread = list(dict.fromkeys(file for donor in self._donors for file in donor.unread))
        return plan

    # -- journals

    def _journals(self, files: Mapping[str, bytes], values: Mapping[str, RefValue]) -> list[LostRecords]:
        """Add the objects and moves of damaged journal files to the plan; return the records that are lost."""
        if not files:
            return []
        found = journals.read(
            files, journals.records_by_predecessor(data for donor in self._donors for data in donor.journals)
        )
        for oid, (kind, data) in found.objects.items():
            if not self._store.contains(oid):
                self._plan.taken[oid], self._plan.donors[oid] = (kind, data), "the journal"
        self._plan.moves = journals.plan_moves(self._store, values, found.moves, self._read)
        return found.holes

    def _is_closed(self, hole: LostRecords) -> bool:
        """Return whether exactly one record is lost in the hole and all histories that include it can be read."""
        sessions = {refs.session_of(jump.ref) for jump in hole.jumps}
        damaged_sessions = {refs.session_of(lost.ref) for lost in self._plan.lost}
        known = all(self._read(jump.lost) is not None for jump in hole.jumps)
        return hole.count == 1 and bool(hole.jumps) and known and not sessions & damaged_sessions

    # -- objects

    def _read(self, oid: Oid, sid: str = "") -> tuple[Kind, bytes] | None:
        """Return an object from the store or from a donor; ``None`` if none of them has an object with the right hash.

        ``sid``: session to which the object belongs; "" if unknown.
        """
        if oid in self._plan.taken:
            return self._plan.taken[oid]
        try:
            return self._store.read(oid)
        except GitSessionError as error:
            self._problem = str(error)
        with contextlib.suppress(GitSessionError):
            found = self._reindexed.read(oid)
            if found is not None:
                return found
        for donor in self._donors:
            if donor.name in self._plan.unheard:
                continue
            try:
                found = donor.read(oid, sid)
            except GitSessionError as error:
                self._plan.unheard.append(donor.name)
                self._problem = f"{self._problem} ({donor.name}: {error})"
                continue
            if found is not None and oid_of(*found) == oid:
                self._plan.taken[oid], self._plan.donors[oid] = found, donor.name
                return found
        return None

    def _follow_all(self, values: Mapping[str, RefValue]) -> None:
        """Follow every ref, session refs first, because an object's session determines the files to search."""
        plan = self._plan
        for name, value in sorted(values.items(), key=lambda ref: not ref[0].startswith(refs.SESSIONS)):
            if refs.target(value) is None and name not in plan.copied:
                self._follow(name, value)
        for name in list(plan.copied):
            self._follow_copied(name)
        if any(lost.ref == refs.OPLOG for lost in plan.lost):
            plan.log_lost = values[refs.OPLOG]
            plan.lost = [lost for lost in plan.lost if lost.ref != refs.OPLOG]

    def _follow(self, ref: str, start: Oid) -> None:
        """Read every object that is reachable from ``start``, each once, and add the lost ones to the plan."""
        sid = refs.session_of(ref)
        stack: list[tuple[Oid, str]] = [(start, "")]
        while stack:
            oid, entry = stack.pop()
            if oid in self._done:
                continue
            self._done.add(oid)
            found = self._read(oid, sid)
            if found is None:
                self._plan.lost.append(Lost(oid, ref, entry or oid, self._problem))
                continue
            try:
                stack += _references(oid, *found, entry)
            except GitSessionError as error:
                self._plan.lost.append(Lost(oid, ref, entry or oid, str(error)))

    def _follow_copied(self, ref: str) -> None:
        """Follow a ref that only a copy has. If an object is lost, remove the ref from the plan."""
        plan = self._plan
        lost = len(plan.lost)
        self._follow(ref, plan.ref_values[ref])
        if len(plan.lost) > lost:
            what = f"cannot be restored from {plan.copied.pop(ref)}, which lacks a part of it"
            plan.lost_refs.append(LostRef(ref, what))
            del plan.lost[lost:], plan.ref_files[ref], plan.ref_values[ref]

    # -- refs

    def _check_sets(self) -> None:
        """Report the tombstone set or the archive set if the value of its ref is invalid."""
        for name, read in ((refs.TOMBSTONES, tombstone_set.at), (refs.ARCHIVE, archive_set.at)):
            value = self._store.ref(name)
            try:
                if value is not None:
                    read(self._store, value)
            except Malformed as error:
                self._plan.lost_refs.append(LostRef(name, f"contains an invalid value: {error}"))
            except (MissingObject, Corrupt):
                pass  # the error is reported and repaired like that of any other object

    def _refs(self) -> None:
        """Plan the values of refs that are missing or cannot be read, and branches for refs that were moved back."""
        plan, damaged = self._plan, self._store.damaged_refs()
        existing = self._store.refs("refs/")
        mark = lost_refs.read(self._store.git_dir)
        lost = lost_refs.find(self._store, mark, self._seen)
        lost = [found for found in lost if found.name not in plan.moves]  # the journal has the values of the other refs
        missing = {found.name: found for found in lost if found.now is None}
        recorded, copies = self._recorded_values({name: found.was for name, found in missing.items()})
        problems = {name: what for name, what in damaged.items() if name != ref_files.PACKED_REFS}
        if ref_files.PACKED_REFS in damaged:
            unread = recorded.keys() - existing.keys() - problems.keys()
            problems |= dict.fromkeys(unread, "was in a damaged line of packed-refs")
        problems |= {name: found.what for name, found in missing.items()}
        if create.MAIN not in existing:
            problems.setdefault(create.MAIN, "is missing")
        plan.copied = {name: copy for name, copy in copies.items() if name not in existing and name not in problems}
        problems |= dict.fromkeys(plan.copied, "has different values in several copies")
        for name, what in sorted(problems.items()):
            value = self._restorable(name, what, recorded.get(name, []))
            if value is None:
                plan.copied.pop(name, None)
                continue
            plan.ref_values[name] = value
            if name in damaged or ref_files.PACKED_REFS not in damaged:
                plan.ref_files[name] = f"{value}\n".encode()
        for found in lost:
            if found.now is not None:
                self._plan_new_branch(found, existing)
        if ref_files.PACKED_REFS in damaged:
            restored = {name: value for name, value in plan.ref_values.items() if name not in damaged}
            data = read_regular(self._store.git_dir / ref_files.PACKED_REFS) or b""
            plan.ref_files[ref_files.PACKED_REFS] = ref_files.rebuilt_packed(data, restored)

    def _plan_new_branch(self, found: LostRefFinding, existing: Mapping[str, RefValue]) -> None:
        """Plan a new branch for the earlier value of a ref that was moved back, if a source has that value."""
        read = histories.read_or_raise(self._read)
        candidates = histories.candidate_names(read, found.name, found.was, found.now)
        values = {**existing, **self._plan.ref_values}
        name = next((name for name in candidates if name not in values or found.was in self._history(values[name])), "")
        if name in values:
            return  # a restored branch includes this value
        if not name or self._read(found.was) is None:
            self._plan.lost_refs.append(LostRef(found.name, f"{found.what}{_NO_COPY}"))
            return
        self._plan.beside[name] = found.name
        self._plan.ref_values[name] = found.was
        self._plan.ref_files[name] = f"{found.was}\n".encode()

    def _recorded_values(self, lost: Mapping[str, RefValue]) -> tuple[dict[str, list[RefValue]], dict[str, str]]:
        """Return the values of each ref that are recorded in the sources, and the session refs that copies have.

        ``lost``: the last values of missing refs. Each ref that a copy has is returned with the name of the copy.
        """
        found: dict[str, list[RefValue]] = {}
        copies: dict[str, str] = {}
        for values in (self._seen, lost):
            for name, value in values.items():
                found.setdefault(name, []).append(value)
        last: dict[str, RefValue | None] = {}
        with contextlib.suppress(GitSessionError):
            for operation in operation_log.history(self._store):
                for move in operation.moves:
                    last.setdefault(move.ref, move.new)
        for name, last_value in last.items():
            if last_value is None:
                found.pop(name, None)
            else:
                found.setdefault(name, []).append(last_value)
        for donor in self._donors:
            try:
                donor_refs = donor.refs()
            except GitSessionError:
                self._plan.unheard.append(donor.name)
                continue
            for name, value in donor_refs.items():
                # The author of the copy chose these names and values, so only valid ones are accepted.
                is_own = refs.is_session_ref(name) or name == create.MAIN
                if last.get(name, value) is not None and is_own and refs.target(value) is None:
                    found.setdefault(name, []).append(value)
                    if donor.is_copy and refs.is_session_ref(name):
                        copies.setdefault(name, donor.name)
        return found, copies

    def _restorable(self, name: str, what: str, values: Sequence[RefValue]) -> RefValue | None:
        """Return the new value of a lost ref; ``None`` if it cannot be restored.

        If no source has the last value, the ref is set to an earlier value, and the loss is reported. It is never set
        to a missing commit, because git would then fail in the whole store.
        """
        value = self._newest(values)
        if value is None or not self._exists(name, value):
            existing = [candidate for candidate in values if self._exists(name, candidate)]
            if len(existing) < len(values) and (earlier := self._newest(existing)) is not None:
                problem = f"{what}{_NO_COPY}, so it is set to the earlier entry {earlier[:12]}"
                self._plan.lost_refs.append(LostRef(name, problem))
                return earlier
            reason = "its last value is unknown" if value is None else f"no copy has {value}"
            self._plan.lost_refs.append(LostRef(name, f"{what} ({reason})"))
            return None
        return value

    def _exists(self, name: str, value: RefValue) -> bool:
        return refs.target(value) is not None or self._read(value, refs.session_of(name)) is not None

    def _newest(self, values: Sequence[RefValue]) -> RefValue | None:
        """Return the newest of ``values`` if all are in one history, else ``None``."""
        return next((value for value in dict.fromkeys(values) if set(values) <= self._history(value)), None)

    def _history(self, value: RefValue) -> set[RefValue]:
        """Return ``value`` and the entries before it, as far as they can be read."""
        history: set[RefValue] = set()
        at: RefValue | None = value
        while at is not None and at not in history:
            history.add(at)
            found = self._read(at) if refs.target(at) is None else None
            at = None
            if found is not None and found[0] == "commit":
                with contextlib.suppress(GitSessionError):
                    at = next(iter(parse_commit(found[1]).parents), None)
        return history


def _references(oid: Oid, kind: Kind, data: bytes, entry: str) -> list[tuple[Oid, str]]:
    """Return the objects to which an object refers, each with the entry to which it belongs. Raises ``Malformed``."""
    if kind == "commit":
        commit = parse_commit(data)
        with contextlib.suppress(GitSessionError):
            entry = parse(oid, data).oid
        return [*((parent, "") for parent in commit.parents), (commit.tree, entry)]
    if kind == "tree":
        return [(child, entry) for mode, _, child in parse_tree(data) if mode != SUBMODULE_MODE]
    return []
