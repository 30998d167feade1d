"""The current content of a store: data staged by a thread, data acknowledged in the journal, and data in git.

``StoreState`` owns all three. The journal and ``Overlay`` (the objects and ref moves of all journal records, in memory)
change together. If an error interrupts a change of both, their state is unknown, and the next read starts at the
beginning of the journal.

The journal is read before git, because data is in git before it leaves the journal. An object that is found in neither
may have been flushed between the two reads. So both are searched once more.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.dataclass import dataclass
from gitsession.durable import read_regular, replace
from gitsession.errors import Corrupt, InvalidName, MissingObject, RefMoved, Unavailable
from gitsession.git.objects import oid_of
from gitsession.git.ref_files import SYMBOLIC, check_ref_name, check_value, directories
from gitsession.git.repository import VerifiedRepository
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.store import create
from gitsession.store.journal import Journal, Move, encode_record

if TYPE_CHECKING:
    from gitsession.git.pack_writer import Deflated
    from gitsession.redaction.original import Original

DROPPED = "gitsession/dropped"
"""Path of a file that grows by one byte each time objects are dropped.

A process that read the store before may hold ids of dropped objects. The process detects this by the size of the file.
Times and inodes would not be reliable: files that replace each other within one tick of the clock may have the same
times and the same inode.
"""


def generation_of(git_dir: Path) -> tuple[int, int, int] | None:
    """Return a value that changes each time objects are dropped from the store; ``None`` if none were ever dropped."""
    try:
        stat = os.stat(f"{git_dir}/{DROPPED}")  # once per append, and much faster than a new Path
    except FileNotFoundError:
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def begin_generation(git_dir: Path) -> None:
    """Begin a new generation. Needs the store's lock; call it before objects are dropped. Raises ``OSError``."""
    replace(git_dir / DROPPED, (read_regular(git_dir / DROPPED) or b"") + b".", by=git_dir / f"{DROPPED}.tmp")


class Staging:
    """A transaction in preparation: new objects, and ref moves that are checked one by one.

    When the transaction ends, the store first puts ``originals`` into the vault. Then it makes ``objects`` and
    ``moves`` durable. ``ends`` maps each ref that the transaction moves to its new value. Both stores use this class as
    their ``Transaction``, so that both reject the same moves for the same reasons. The functions ``ref``,
    ``names_below`` and ``contains`` read the store.
    """

    __slots__ = (
        "_contains", "_made_below", "_names_below", "_open", "_ref", "_seen", "deflated", "ends", "moves",
        "objects", "originals", "size", "thread",
    )  # fmt: skip

    def __init__(
        self,
        *,
        ref: Callable[[str], RefValue | None],
        names_below: Callable[[str], Iterable[str]],
        contains: Callable[[Oid], bool],
    ) -> None:
        self.objects: dict[Oid, tuple[Kind, bytes]] = {}
        self.moves: list[Move] = []
        self.originals: list[Original] = []
        self.deflated: Deflated | None = None
        self.size = 0
        self.thread = threading.get_ident()
        self._ref, self._names_below, self._contains = ref, names_below, contains
        self._seen: dict[str, RefValue | None] = {}
        self.ends: dict[str, RefValue | None] = {}
        self._made_below: dict[str, list[str]] = {}  # names in ``ends``, by their parent directories
        self._open = True

    def put(self, kind: Kind, data: bytes) -> Oid:
        """See ``Transaction.put``."""
        self._check_open()
        oid = oid_of(kind, data)
        if oid not in self.objects:
            self.objects[oid] = (kind, data)
            self.size += len(data)
        return oid

    def put_all(self, objects: Mapping[Oid, tuple[Kind, bytes]], deflated: Deflated | None = None) -> None:
        """See ``Transaction.put_all``."""
        self._check_open()
        self.deflated = deflated
        for oid, (kind, data) in objects.items():
            if oid not in self.objects:
                self.objects[oid] = (kind, data)
                self.size += len(data)

    def keep_original(self, original: Original) -> None:
        """See ``Transaction.keep_original``."""
        self._check_open()
        self.originals.append(original)

    def move(self, name: str, new: RefValue | None, *, expected: RefValue | None) -> None:
        """See ``Transaction.move``. Also raises ``MissingObject`` if the object ``new`` does not exist."""
        self._check_open()
        check_ref_name(name)
        if new is not None and new not in self.objects:
            check_value(new)
            if not new.startswith(SYMBOLIC) and not self._contains(new):
                raise MissingObject(f"cannot set ref {name} to {new}: the object is missing")
        current = self.value(name)
        if current != expected:
            raise RefMoved(f"cannot move ref {name}: expected {expected or 'no ref'}, found {current or 'no ref'}")
        if current is None and new is not None:
            self._check_room(name)
        if current != new:
            self.moves.append((name, current, new))
            if name not in self.ends:
                for directory in directories(name):
                    self._made_below.setdefault(directory, []).append(name)
            self.ends[name] = new

    def value(self, name: str) -> RefValue | None:
        """Return the value of ``name`` in this transaction.

        The ref is read only once, because git may move it at any time.
        """
        if name in self.ends:
            return self.ends[name]
        if name not in self._seen:
            self._seen[name] = self._ref(name)
        return self._seen[name]

    def close(self) -> None:
        """Reject all later changes through this object."""
        self._open = False

    def _check_room(self, name: str) -> None:
        """Raise ``InvalidName`` if another ref is a parent directory of ``name`` or below ``name``: refs are files."""
        for directory in directories(name):
            if self.value(directory) is not None:
                raise InvalidName(f"cannot create ref {name}: the ref {directory} exists")
        below = name + "/"
        names = {*self._names_below(below), *self._made_below.get(name, ())}
        if any(self.value(other) is not None for other in names):
            raise InvalidName(f"cannot create ref {name}: refs exist below it")

    def _check_open(self) -> None:
        if not self._open:
            raise RuntimeError("this transaction has ended")


@dataclass(slots=True)
class _PendingRecord:
    """A journal record that is not in git yet.

    ``objects``: by id. The objects of a record that another process wrote are a list until their ids are needed.
    """

    objects: dict[Oid, tuple[Kind, bytes]] | list[tuple[Kind, bytes]]
    moves: list[Move]
    size: int

    def by_id(self) -> dict[Oid, tuple[Kind, bytes]]:
        if isinstance(self.objects, list):
            self.objects = {oid_of(kind, data): (kind, data) for kind, data in self.objects}
        return self.objects


class Overlay:
    """The objects and ref moves of all pending journal records.

    The records are grouped by journal file, so that the records of a removed file can be dropped. A chain lists the
    values of a ref since the journal's oldest record, beginning with the value before that record. While a chain
    exists, it overrides the value of the ref in the repository. A flush replaces a value in the repository only if the
    chain contains that value.

    If several processes append, each of them reads the records of all others, but needs few of their objects. So the
    ids of objects that other processes wrote are computed when an object is not found. The newest record is searched
    first, because the next entry needs the newest commit.
    """

    def __init__(self) -> None:
        self.chains: dict[str, list[RefValue | None]] = {}
        self.records = 0
        self.size = 0
        self._found: dict[Oid, tuple[Kind, bytes]] = {}
        self._unsearched: list[_PendingRecord] = []
        self._parts: dict[int, list[_PendingRecord]] = {}

    @property
    def first(self) -> int:
        """Return the number of the oldest journal file with pending records; 0 if there is none."""
        return min(self._parts, default=0)

    @property
    def is_searched(self) -> bool:
        """Return whether ``get`` finds all objects."""
        return not self._unsearched

    def get(self, oid: Oid) -> tuple[Kind, bytes] | None:
        """Return an object whose id was computed already; ``None`` if there is none."""
        return self._found.get(oid)

    def search(self, oid: Oid) -> tuple[Kind, bytes] | None:
        """Return an object; ``None`` if there is none. Compute the ids of as many objects as necessary."""
        while oid not in self._found and self._unsearched:
            self._found.update(self._unsearched[-1].by_id())
            self._unsearched.pop()
        return self._found.get(oid)

    def objects(self) -> dict[Oid, tuple[Kind, bytes]]:
        """Return all objects, oldest first."""
        records = (record for number in sorted(self._parts) for record in self._parts[number])
        return {oid: found for record in records for oid, found in record.by_id().items()}

    def add(
        self,
        number: int,
        objects: dict[Oid, tuple[Kind, bytes]] | list[tuple[Kind, bytes]],
        moves: list[Move],
        size: int,
    ) -> None:
        """Add a record of ``size`` bytes from the journal file ``number``."""
        record = _PendingRecord(objects, moves, size)
        self._parts.setdefault(number, []).append(record)
        self._apply(record)

    def drop(self, numbers: Iterable[int]) -> None:
        """Drop the records of removed files.

        The old dicts are replaced, not changed: other threads may still read them.
        """
        for number in numbers:
            self._parts.pop(number, None)
        self.chains, self.records, self.size, self._found, self._unsearched = {}, 0, 0, {}, []
        for number in sorted(self._parts):
            for record in self._parts[number]:
                self._apply(record)

    def _apply(self, record: _PendingRecord) -> None:
        if isinstance(record.objects, list):
            self._unsearched.append(record)
        else:
            self._found.update(record.objects)
        for name, old, new in record.moves:
            chain = self.chains.get(name)
            if chain is None:
                self.chains[name] = [old, new]
            else:
                chain.append(new)
        self.records += 1
        self.size += record.size


class StoreState:
    """Objects and refs of the store at ``git_dir``. Threads may share it.

    ``staging``: the open transaction, which may belong to any thread.
    """

    def __init__(self, git_dir: Path, *, writable: bool, sync: bool) -> None:
        self.git = VerifiedRepository(git_dir)
        self.overlay = Overlay()
        self.staging: Staging | None = None
        self._git_dir = git_dir
        self._sync = sync
        self.journal = Journal(git_dir / create.JOURNAL, writable=writable, sync=sync)
        self._mutex = threading.Lock()
        self._closed = False

    # -- reading

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        """See ``Reader``."""
        found = self._in_memory(oid)
        if found:
            return found
        try:
            return self.git.read(oid)
        except (MissingObject, Corrupt):
            self.tail()
        return self._in_memory(oid) or self.git.read(oid)

    def contains(self, oid: Oid) -> bool:
        """See ``Reader``."""
        if self._in_memory(oid) or self.git.contains(oid):
            return True
        self.tail()
        return self._in_memory(oid) is not None or self.git.contains(oid)

    def oids(self) -> Iterator[Oid]:
        """See ``ObjectStore``."""
        self.tail()
        return itertools.chain(self.pending_objects(), self.git.oids())

    def ref(self, name: str) -> RefValue | None:
        """See ``ObjectStore``."""
        staging = self._own_staging()
        if staging:
            return staging.value(name)
        self.tail()
        return self.value(name)

    def refs(self, prefix: str) -> Mapping[str, RefValue]:
        """See ``ObjectStore``."""
        staging = self._own_staging()
        if not staging:
            self.tail()
        ends: dict[str, RefValue | None] = {name: chain[-1] for name, chain in self.overlay.chains.items()}
        ends |= staging.ends if staging else {}
        pending = {name: end for name, end in ends.items() if name.startswith(prefix)}
        found = self.git.refs.list(prefix)
        if not pending:
            return found
        return {name: value for name, value in sorted({**found, **pending}.items()) if value is not None}

    def value(self, name: str) -> RefValue | None:
        """Return the value of a ref. Needs an up-to-date journal."""
        chain = self.overlay.chains.get(name)
        return chain[-1] if chain else self.git.refs.read(name)

    def names_below(self, prefix: str) -> Iterable[str]:
        """Return the refs below ``prefix``, including refs that the next flush deletes. Needs an up-to-date journal."""
        return {*self.git.refs.list(prefix), *(name for name in self.overlay.chains if name.startswith(prefix))}

    def pending_objects(self) -> dict[Oid, tuple[Kind, bytes]]:
        """Return the objects of all pending journal records, oldest first. Needs an up-to-date journal."""
        with self._mutex:
            return self.overlay.objects()

    def _in_memory(self, oid: Oid) -> tuple[Kind, bytes] | None:
        overlay = self.overlay
        is_searched = overlay.is_searched  # read first, because another thread may be searching
        found = overlay.get(oid)
        if found is None and not is_searched:
            with self._mutex:
                found = self.overlay.search(oid)
        staging = self._own_staging()
        return found or (staging.objects.get(oid) if staging else None)

    def _own_staging(self) -> Staging | None:
        staging = self.staging
        return staging if staging is not None and staging.thread == threading.get_ident() else None

    # -- the journal

    def check_open(self) -> None:
        """Raise ``Unavailable`` after ``close``."""
        if self._closed:
            raise Unavailable(f"the store '{self._git_dir}' is closed")

    def tail(self, *, locked: bool = False) -> None:
        """Update the journal and the overlay: other processes may have appended or flushed records since the last read.

        ``locked``: True if the caller holds the store's lock. Raises ``Unavailable``, ``Corrupt``, and ``NotAStore``
        for records of a later version.
        """
        self.check_open()
        with self._mutex:
            try:
                update = self.journal.tail(locked=locked)
                if update.removed:
                    self.overlay.drop(update.removed)
                for number, record in update.records:
                    self.overlay.add(number, record.objects, record.moves, record.size)
            except OSError as error:
                self._forget()
                raise unavailable(self._git_dir, "read the journal", error) from error
            except BaseException:
                self._forget()
                raise

    def append(self, objects: dict[Oid, tuple[Kind, bytes]], moves: list[Move], *, sync: bool) -> None:
        """Append a journal record. Needs the lock and an up-to-date journal. Raises ``OSError``."""
        payload = encode_record(list(objects.values()), moves)
        with self._mutex:
            try:
                number = self.journal.append(payload, sync=sync)
                self.overlay.add(number, objects, moves, len(payload))
            except BaseException:
                self._forget()
                raise

    def replace_journal(self, remaining: list[Move]) -> list[str]:
        """Begin a new journal file with the moves ``remaining``, and remove the old files.

        A damaged file is renamed instead of removed. Returns the new names. Needs the lock. Raises ``OSError``.
        """
        with self._mutex:
            try:
                old = self.journal.numbers()
                self.journal.start_next()
                if remaining:
                    payload = encode_record([], remaining)
                    self.overlay.add(self.journal.append(payload, sync=self._sync), {}, remaining, len(payload))
                aside = self.journal.drop(old)
                self.overlay.drop(old)
            except BaseException:
                self._forget()
                raise
        return aside

    def close(self) -> None:
        self._closed = True
        with self._mutex:
            self.journal.close()

    def close_in_child(self) -> None:
        """Close in a forked child. Does not acquire the mutex: a thread that exists only in the parent may hold it."""
        self._closed = True
        self.journal.close()

    def _forget(self) -> None:
        """Reset the journal and the overlay, because they may not match.

        The next read starts at the beginning of the journal.
        """
        self.journal.close()
        self.overlay = Overlay()


def unavailable(git_dir: Path, doing: str, error: OSError) -> Unavailable:
    """Return an ``Unavailable`` error for an ``OSError`` in a store. ``doing``: the operation that failed."""
    hint = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return Unavailable(f"cannot {doing} in '{git_dir}': {error.strerror}", hint=hint)
