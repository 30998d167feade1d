"""The content of a store at this moment: staged by a thread, acknowledged in the journal, or git's.

``StoreState`` owns all of it. The journal and ``Overlay``, the sum of its records in memory, change together: where one
of them has changed and the other has not, nobody knows which, so the next look reads the journal from its beginning.

The journal is tailed first, and git is asked after: what leaves the journal is in git before it goes. An object that is
in neither was flushed between the two looks, so it is looked for once more.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.durable import read_regular, replace
from gitsession.errors import Corrupt, InvalidName, MissingObject, RefMoved, Unavailable
from gitsession.git.objects import oid_of
from gitsession.git.ref_files import SYMBOLIC, check_ref_name, check_value, directories
from gitsession.git.repository import VerifiedRepository
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.store import create
from gitsession.store.journal import Journal, Move, encode_record
from gitsession.store.journal_frames import ASIDE

if TYPE_CHECKING:
    from gitsession.redaction.original import Original

DROPPED = "gitsession/dropped"
"""A file that is one byte longer after each time that objects were dropped: who looked before may hold names of what is
gone. Its size tells one from another: two files that replace each other within a tick of the clock may have the same
times and the same inode.
"""

Generation = tuple[int, int, int]


def generation_of(git_dir: Path) -> Generation | None:
    """The count of times that objects were dropped from a store, to compare; ``None`` if none ever was."""
    try:
        stat = os.stat(git_dir / DROPPED)
    except FileNotFoundError:
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def begin_generation(git_dir: Path) -> None:
    """For a holder of the store's lock, before anything is dropped. Raises ``OSError``."""
    replace(git_dir / DROPPED, (read_regular(git_dir / DROPPED) or b"") + b".", by=git_dir / f"{DROPPED}.tmp")


class Staging:
    """A transaction while it is put together: new objects, and ref moves that are checked one by one.

    ``objects`` and ``moves`` are what the store makes durable at its end; ``originals`` go into the vault before. The
    ``Transaction`` of both stores, so that what is refused, and why, has one home. What the store itself holds is asked
    through three functions.
    """

    __slots__ = (
        "_contains", "_ends", "_made_below", "_names_below", "_open", "_ref", "_seen", "moves", "objects",
        "originals", "size", "thread",
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
        self.size = 0
        self.thread = threading.get_ident()
        self._ref, self._names_below, self._contains = ref, names_below, contains
        self._seen: dict[str, RefValue | None] = {}
        self._ends: dict[str, RefValue | None] = {}
        self._made_below: dict[str, list[str]] = {}  # of ``_ends``, by the directories they lie in
        self._open = True

    def put(self, kind: Kind, data: bytes) -> Oid:
        """See ``Transaction.put``."""
        self._check_open()
        oid = oid_of(kind, data)
        if oid not in self.objects:
            self.objects[oid] = (kind, data)
            self.size += len(data)
        return oid

    def put_all(self, objects: Mapping[Oid, tuple[Kind, bytes]]) -> None:
        self._check_open()
        for oid, (kind, data) in objects.items():
            if oid not in self.objects:
                self.objects[oid] = (kind, data)
                self.size += len(data)

    def keep_original(self, original: Original) -> None:
        """See ``Transaction.keep_original``."""
        self._check_open()
        self.originals.append(original)

    def move(self, name: str, new: RefValue | None, *, expected: RefValue | None) -> None:
        """See ``Transaction.move``. Raises ``MissingObject`` too, for a ``new`` that nobody has written."""
        self._check_open()
        check_ref_name(name)
        if new is not None and new not in self.objects:
            check_value(new)
            if not new.startswith(SYMBOLIC) and not self._contains(new):
                raise MissingObject(f"{name} cannot point at {new}: there is no such object")
        held = self.value(name)
        if held != expected:
            raise RefMoved(f"{name} holds {held or 'nothing'}, not {expected or 'nothing'}")
        if held is None and new is not None:
            self._check_room(name)
        if held != new:
            self.moves.append((name, held, new))
            if name not in self._ends:
                for directory in directories(name):
                    self._made_below.setdefault(directory, []).append(name)
            self._ends[name] = new

    def value(self, name: str) -> RefValue | None:
        """Return the value of ``name`` in this transaction: git may move a ref any time, and is asked once."""
        if name in self._ends:
            return self._ends[name]
        if name not in self._seen:
            self._seen[name] = self._ref(name)
        return self._seen[name]

    def ends(self) -> dict[str, RefValue | None]:
        """Every ref this transaction moves, with what it holds at the end."""
        return self._ends

    def close(self) -> None:
        """From now on a forgotten reference to this transaction refuses to work."""
        self._open = False

    def _check_room(self, name: str) -> None:
        """A ref is a file: none may lie where another needs a directory."""
        for directory in directories(name):
            if self.value(directory) is not None:
                raise InvalidName(f"{name} cannot be beside {directory}: a ref is a file or a directory, not both")
        below = name + "/"
        names = {*self._names_below(below), *self._made_below.get(name, ())}
        if any(self.value(other) is not None for other in names):
            raise InvalidName(f"{name} cannot be beside the refs below it: a ref is a file or a directory, not both")

    def _check_open(self) -> None:
        if not self._open:
            raise RuntimeError("this transaction has ended")


class Overlay:
    """The sum of the pending records, kept per journal file so that a file that is gone can be taken out again.

    A chain is every value a ref has had since the journal's oldest record, the value before it first. While it exists
    it hides what the repository says about that ref; at the flush it tells which values there are ours to replace.
    """

    def __init__(self) -> None:
        self.objects: dict[Oid, tuple[Kind, bytes]] = {}
        self.chains: dict[str, list[RefValue | None]] = {}
        self.records = 0
        self.size = 0
        self._parts: dict[int, list[tuple[dict[Oid, tuple[Kind, bytes]], list[Move], int]]] = {}

    @property
    def first(self) -> int:
        """The number of the oldest journal file that it has records of; 0 if it has none."""
        return min(self._parts, default=0)

    def add(self, number: int, objects: dict[Oid, tuple[Kind, bytes]], moves: list[Move], size: int) -> None:
        """Take in a record of journal file ``number`` that was ``size`` bytes long."""
        self._parts.setdefault(number, []).append((objects, moves, size))
        self._apply(objects, moves, size)

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget the records of files that are gone. Readers in other threads keep the dicts they have in hand."""
        for number in numbers:
            self._parts.pop(number, None)
        self.objects, self.chains, self.records, self.size = {}, {}, 0, 0
        for number in sorted(self._parts):
            for part in self._parts[number]:
                self._apply(*part)

    def _apply(self, objects: dict[Oid, tuple[Kind, bytes]], moves: list[Move], size: int) -> None:
        self.objects.update(objects)
        for name, old, new in moves:
            chain = self.chains.get(name)
            if chain is None:
                self.chains[name] = [old, new]
            else:
                chain.append(new)
        self.records += 1
        self.size += size


class StoreState:
    """Objects and refs of the store at ``git_dir``. Threads share it.

    ``staging``: the transaction that is open, of whichever thread.
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
        return itertools.chain(list(self.overlay.objects), self.git.oids())

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
        ends |= staging.ends() if staging else {}
        found = {**self.git.refs.list(prefix), **{name: end for name, end in ends.items() if name.startswith(prefix)}}
        return {name: value for name, value in sorted(found.items()) if value is not None}

    def value(self, name: str) -> RefValue | None:
        """Return the value of a ref, with the journal tailed."""
        chain = self.overlay.chains.get(name)
        return chain[-1] if chain else self.git.refs.read(name)

    def names_below(self, prefix: str) -> Iterable[str]:
        """The refs whose names begin so, with the journal tailed; also those that are gone as soon as it is flushed."""
        return {*self.git.refs.list(prefix), *(name for name in self.overlay.chains if name.startswith(prefix))}

    def _in_memory(self, oid: Oid) -> tuple[Kind, bytes] | None:
        staging = self._own_staging()
        return self.overlay.objects.get(oid) or (staging.objects.get(oid) if staging else None)

    def _own_staging(self) -> Staging | None:
        staging = self.staging
        return staging if staging is not None and staging.thread == threading.get_ident() else None

    # -- the journal

    def check_open(self) -> None:
        """Raises ``Unavailable`` after ``close``."""
        if self._closed:
            raise Unavailable(f"this handle of {self._git_dir} is closed")

    def tail(self, *, locked: bool = False) -> None:
        """Learn what this and other processes appended and flushed. ``locked``: the caller holds the store's lock.

        Raises ``Unavailable``, ``Corrupt``, and ``NotAStore`` for records of a later version.
        """
        self.check_open()
        with self._mutex:
            try:
                news = self.journal.tail(locked=locked)
                if news.gone:
                    self.overlay.drop(news.gone)
                for number, record in news.records:
                    objects = {oid_of(kind, data): (kind, data) for kind, data in record.objects}
                    self.overlay.add(number, objects, record.moves, record.size)
            except OSError as error:
                self._forget()
                raise unavailable(self._git_dir, "read the journal", error) from error
            except BaseException:
                self._forget()
                raise

    def append(self, objects: dict[Oid, tuple[Kind, bytes]], moves: list[Move], *, sync: bool) -> None:
        """Under the lock, with the journal tailed. Raises ``OSError``."""
        payload = encode_record(list(objects.values()), moves)
        with self._mutex:
            try:
                number = self.journal.append(payload, sync=sync)
                self.overlay.add(number, objects, moves, len(payload))
            except BaseException:
                self._forget()
                raise

    def start_afresh(self, left: list[Move]) -> list[str]:
        """Under the lock: a new file of the journal that holds ``left``, and the old ones go. Raises ``OSError``.

        Gives the names of those that were damaged, and are set aside instead.
        """
        with self._mutex:
            try:
                old = self.journal.numbers()
                self.journal.start_next()
                if left:
                    payload = encode_record([], left)
                    self.overlay.add(self.journal.append(payload, sync=self._sync), {}, left, len(payload))
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

    def let_go(self) -> None:
        """``close`` in a forked child: a thread that is not there may hold the mutex."""
        self._closed = True
        self.journal.close()

    def damaged_files(self) -> dict[str, bytes]:
        """Return the content of the damaged files of the last look, by name, oldest first; none that is gone."""
        found = {}
        for name in self.journal.damage():
            path = f"{create.CONTROL}/{name}"
            with suppress(FileNotFoundError):
                found[path] = (self._git_dir / path).read_bytes()
        return dict(sorted(found.items(), key=lambda file: Path(file[0]).name.removeprefix(ASIDE)))

    def _forget(self) -> None:
        """Journal and overlay no longer agree, so the next look reads the journal from its beginning."""
        self.journal.close()
        self.overlay = Overlay()


def unavailable(git_dir: Path, doing: str, error: OSError) -> Unavailable:
    """The error for what the disk did not let us do in a store."""
    hint = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return Unavailable(f"cannot {doing} in {git_dir}: {error.strerror}", hint=hint)
