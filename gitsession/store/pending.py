"""What is acknowledged and not git's yet: the journal, and in memory the sum of its records. The two change together.

Where one of them has changed and the other has not, nobody knows which: so the next look reads the journal from its
beginning.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from gitsession.errors import Unavailable
from gitsession.git.objects import oid_of
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.store import create
from gitsession.store.journal import Journal, encode_record
from gitsession.store.journal_frames import ASIDE
from gitsession.store.staging import Move


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


class Pending:
    """The journal of the store at ``git_dir``, as ``overlay`` has it. Threads share it."""

    def __init__(self, git_dir: Path, *, writable: bool, sync: bool) -> None:
        self.overlay = Overlay()
        self._git_dir = git_dir
        self._sync = sync
        self._journal = Journal(git_dir / create.JOURNAL, writable=writable, sync=sync)
        self._mutex = threading.Lock()
        self._closed = False

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
                news = self._journal.tail(locked=locked)
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
                number = self._journal.append(payload, sync=sync)
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
                old = self._journal.numbers()
                self._journal.start_next()
                if left:
                    payload = encode_record([], left)
                    self.overlay.add(self._journal.append(payload, sync=self._sync), {}, left, len(payload))
                aside = self._journal.drop(old)
                self.overlay.drop(old)
            except BaseException:
                self._forget()
                raise
        return aside

    def close(self) -> None:
        self._closed = True
        with self._mutex:
            self._journal.close()

    def let_go(self) -> None:
        """``close`` in a forked child: a thread that is not there may hold the mutex."""
        self._closed = True
        self._journal.close()

    # -- damage

    @property
    def has_damage(self) -> bool:
        """Whether a file is to be set aside, as of the last look for damage."""
        return self._journal.has_damage

    def look_for_damage(self) -> None:
        """With the journal tailed. Raises ``OSError``."""
        self._journal.look_for_damage()

    def damage(self) -> list[str]:
        """The damaged files, as of the last look for damage; names below the store's own folder."""
        return self._journal.damage()

    def damaged_files(self) -> dict[str, bytes]:
        """What is in those files, by name below the store, oldest first; no file that is gone."""
        found = {}
        for name in self.damage():
            path = f"{create.CONTROL}/{name}"
            with suppress(FileNotFoundError):
                found[path] = (self._git_dir / path).read_bytes()
        return dict(sorted(found.items(), key=lambda file: Path(file[0]).name.removeprefix(ASIDE)))

    def unread(self) -> int:
        """How many acknowledged records cannot be read, at the least and as far as reading the journal tells."""
        return self._journal.unread()

    def _forget(self) -> None:
        """Journal and overlay no longer agree, so the next look reads the journal from its beginning."""
        self._journal.close()
        self.overlay = Overlay()


def unavailable(git_dir: Path, doing: str, error: OSError) -> Unavailable:
    """The error for what the disk did not let us do in a store."""
    hint = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return Unavailable(f"cannot {doing} in {git_dir}: {error.strerror}", hint=hint)
