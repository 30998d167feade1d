"""The journal: numbered append-only files that make a write durable before it is packed, with one fdatasync per append.

The frame of a journal record is described in store/journal_frames.py. A payload is CBOR ``[1, [[type, bytes], ...],
[[ref, old, new], ...]]``. Object types have the same numbers as in a pack (1 commit, 2 tree, 3 blob), and object ids
are computed when the record is read. ``old`` and ``new`` are values of the ref, or ``null`` if the ref does not exist.

- Only the file with the highest number is written. At least one file always exists, because the next file is created
  before an old one is removed. No number is used twice. So an existing file is the newest one if no file with the next
  number exists. The directory need not be listed to find this out.
- To open the journal, a process reads all records. Records of a crashed process and of a live one look the same. A torn
  record at the end was never acknowledged and is overwritten.
- A failed write or fdatasync is final: the record's magic is blanked, and this process never writes to the file again
  (another fsync may succeed without having written the data).
- If a record does not verify and a later one is proven good (store/journal_scan.py), the file is damaged, not torn. No
  process writes to it, and the flush that would remove the file renames it instead. This check runs when a record does
  not verify, once for each file that has data after its end, in each flush, and in each search for damage.

Appending and dropping need the store's lock. Reading does not need the lock, but a read without the lock may return a
record whose writer has not finished. If that writer fails, the record is blanked. So a record that was read without the
lock is checked again later.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gitsession.codec.digest import hash_of
from gitsession.dataclass import dataclass
from gitsession.durable import sync_directory, write_all
from gitsession.errors import Corrupt, InvalidName, Malformed, NotAStore, Unavailable
from gitsession.git.objects import oid_of
from gitsession.git.ref_files import check_ref_name, check_value
from gitsession.git.types import Kind, RefValue
from gitsession.store import journal_frames

if TYPE_CHECKING:
    from gitsession.store.journal_scan import Scan

VERSION = 1
PREALLOCATED_BYTES = 4 << 20

_NUMBER_OF: Final[dict[Kind, int]] = {"commit": 1, "tree": 2, "blob": 3}
_KIND_OF: Final[dict[int, Kind]] = {number: kind for kind, number in _NUMBER_OF.items()}
_VALUE_TYPES = frozenset({str, type(None)})
_ATTEMPTS_MAX = 200
_READ_BYTES = 1 << 12

Move = tuple[str, RefValue | None, RefValue | None]
"""A ref, its old value, and its new value."""


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One transaction: ``objects`` as ``(kind, bytes)``; ``moves`` as ``(ref, old, new)``; ``size`` in bytes."""

    objects: list[tuple[Kind, bytes]]
    moves: list[Move]
    size: int = 0


@dataclass(frozen=True, slots=True)
class JournalUpdate:
    """The changes since the last read: the numbers of removed files, and pairs of a file's number and a new record."""

    removed: list[int] = field(default_factory=list)
    records: list[tuple[int, JournalRecord]] = field(default_factory=list)


@dataclass(slots=True)
class _File:
    number: int
    fd: int
    next_path: str
    digest: bytes
    end: int = journal_frames.HEAD_BYTES
    last: int = 0
    name_is_durable: bool = False
    unsure: bool = False
    damaged: bool = False
    unread: int = 0
    is_end_checked: bool = False


_NOTHING = JournalUpdate()


def encode_record(objects: Sequence[tuple[Kind, bytes]], moves: Sequence[Move]) -> bytes:
    """Return the payload of a journal record."""
    from gitsession.codec import cbor  # not loaded by commands that only read commits

    return cbor.encode_unchecked(
        [VERSION, [[_NUMBER_OF[kind], data] for kind, data in objects], [[name, old, new] for name, old, new in moves]]
    )


def decode_record(payload: bytes) -> JournalRecord:
    """Decode the payload of a verified journal record.

    Raises ``Corrupt``, and ``NotAStore`` for a record of a later version.
    """
    from gitsession.codec import cbor

    try:
        value = cbor.decode_unchecked(payload)
    except Malformed as error:
        raise Corrupt(f"cannot read a journal record: {error}") from None
    match value:
        case [1, list(objects), list(moves)]:
            return JournalRecord([_object(row) for row in objects], [_move(row) for row in moves], len(payload))
        case [int(version), *_] if version > VERSION:
            raise NotAStore(f"cannot read the journal: unsupported version {version}", hint="upgrade gitsession")
    raise Corrupt("cannot read a journal record: invalid structure")


def scan(data: bytes) -> Scan:
    """Scan the bytes of a journal file, damaged or not, for good records."""
    from gitsession.store.journal_scan import JournalScanner

    return JournalScanner(data, _is_consistent).run()


def _is_consistent(payload: bytes) -> bool:
    """Return whether a payload is a record that moves refs, and moves each to an object in the same record."""
    try:
        record = decode_record(payload)
    except (Corrupt, NotAStore):
        return False
    own = {oid_of(kind, data) for kind, data in record.objects}
    is_canonical = encode_record(record.objects, record.moves) == payload
    return is_canonical and bool(record.moves) and all(new in own for _, _, new in record.moves)


class Journal:
    """The journal files of one store, and the position to which this process has read each of them."""

    def __init__(self, directory: Path, *, writable: bool = True, sync: bool = True) -> None:
        self._directory = str(directory)
        self._flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC
        self._sync = sync
        self._files: dict[int, _File] = {}
        self._newest: _File | None = None
        self._failed = False

    def tail(self, *, locked: bool) -> JournalUpdate:
        """Return the changes since the last read. ``locked``: True if the caller holds the store's lock."""
        newest = self._newest
        if (
            newest is None
            or len(self._files) > 1  # a flush was running: it may remove the older files at any moment
            or not os.fstat(newest.fd).st_nlink
            or os.access(newest.next_path, os.F_OK)
            or not _has_last_record(newest)
        ):
            return self._reread(locked)
        records = self._read(newest, locked)
        return JournalUpdate([], records) if records else _NOTHING

    def append(self, payload: bytes, *, sync: bool) -> int:
        """Append a record; return the number of its file.

        Raises ``OSError`` if the write fails. In this case, the record is blanked if possible.
        """
        newest = self._newest
        if newest is None or newest.damaged or self._failed:
            newest = self.start_next()
        elif not newest.name_is_durable and sync:
            # The process that created the file may have been killed before the directory entry was fsynced.
            try:
                sync_directory(self._directory)
            except OSError:
                self._failed = True
                raise
            newest.name_is_durable = True
        length = len(payload).to_bytes(4, "big")
        digest = hash_of(newest.digest + length + payload)
        try:
            write_all(newest.fd, b"".join((journal_frames.MAGIC, length, digest, payload)), newest.end)
            if sync:
                os.fdatasync(newest.fd)
        except OSError:
            self._blank(newest)
            raise
        end = newest.end + journal_frames.HEAD_BYTES + len(payload)
        newest.last, newest.end, newest.digest = newest.end, end, digest
        return newest.number

    def start_next(self) -> _File:
        """Create the next file, fsync the file and its directory, and return the file. Raises ``OSError``."""
        number = self._newest.number + 1 if self._newest else 1
        salt = os.urandom(journal_frames.SALT_BYTES)
        path, temporary = self._path(number), f"{self._directory}/{journal_frames.TEMPORARY}{number}"
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _preallocate(fd, self._newest.end if self._newest else 0)
            write_all(fd, journal_frames.header(salt), 0)
            if self._sync:
                os.fsync(fd)
            os.rename(temporary, path)
            if self._sync:
                sync_directory(self._directory)
        except BaseException:
            os.close(fd)
            for name in (temporary, path):
                with suppress(OSError):
                    os.unlink(name)
            raise
        self._newest = self._files[number] = _File(number, fd, self._path(number + 1), salt)
        self._newest.name_is_durable = self._sync
        self._failed = False
        return self._newest

    def drop(self, numbers: Sequence[int]) -> list[str]:
        """Remove the files ``numbers``, whose records are all in packs and refs. A damaged file is renamed instead.

        Returns the new names of the damaged files. The oldest file is removed first: if the process is killed, the last
        values of each ref are still in the journal, and no reader sees a ref move back.
        """
        renamed = []
        for number in sorted(numbers):
            file = self._files.pop(number)
            if file.damaged:
                renamed.append(f"{journal_frames.ASIDE}{journal_frames.file_name(number)}-{os.urandom(4).hex()}")
                os.rename(self._path(number), f"{self._directory}/{renamed[-1]}")
            else:
                os.unlink(self._path(number))
            os.close(file.fd)
        if self._sync:
            sync_directory(self._directory)
        return renamed

    def numbers(self) -> list[int]:
        """Return the numbers of the files as of the last read, oldest first."""
        return sorted(self._files)

    def scan_for_damage(self) -> None:
        """Scan each file that has data after its end, and mark the damaged ones. Reads these files completely."""
        for file in self._files.values():
            size = os.fstat(file.fd).st_size
            if not file.damaged and journal_frames.has_data_after(file.fd, file.end, size - file.end):
                self._mark_if_damaged(file)

    def unread(self) -> int:
        """Return a lower bound of the number of unreadable records, from the scans so far.

        For a file that was renamed because of damage, only the lost records are counted, but at least one.
        """
        found = sum(file.unread for file in self._files.values())
        for name in self._renamed_files():
            with open(f"{self._directory}/{name}", "rb") as file:
                found += scan(file.read()).lost or 1
        return found

    @property
    def has_damage(self) -> bool:
        """Return whether a journal file is damaged and has not been renamed yet."""
        return any(file.damaged for file in self._files.values())

    def damage(self) -> list[str]:
        """Return the paths of the damaged files, including renamed ones, relative to the store's control directory."""
        now = [journal_frames.file_name(number) for number, file in sorted(self._files.items()) if file.damaged]
        return [f"journal/{name}" for name in now + self._renamed_files()]

    def _renamed_files(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._directory) if name.startswith(journal_frames.ASIDE))
        except FileNotFoundError:
            return []

    def close(self) -> None:
        for file in self._files.values():
            os.close(file.fd)
        self._files, self._newest = {}, None

    # -- reading

    def _reread(self, locked: bool) -> JournalUpdate:
        """List the directory and read its files. Without the lock, repeat if a flush ran between the two steps."""
        removed: list[int] = []
        records: list[tuple[int, JournalRecord]] = []
        empty = 0
        for _ in range(_ATTEMPTS_MAX):
            listed = journal_frames.numbers(self._directory)
            removed_now = [n for n, file in self._files.items() if n not in listed or not _has_last_record(file)]
            for number in removed_now:
                os.close(self._files.pop(number).fd)
                removed.append(number)
            try:
                for number in listed:
                    if number not in self._files:
                        self._files[number] = self._open(number)
                    records += self._read(self._files[number], locked)
            except FileNotFoundError:
                continue
            self._newest = self._files[listed[-1]] if listed else None
            empty += not listed
            if locked or (empty > 1 if self._newest is None else not os.access(self._newest.next_path, os.F_OK)):
                return JournalUpdate(removed, [row for row in records if row[0] in self._files])
        raise Unavailable("cannot read the journal: other processes keep changing it", hint="try again")

    def _open(self, number: int) -> _File:
        fd = os.open(self._path(number), self._flags)
        raw = os.pread(fd, journal_frames.HEAD_BYTES, 0)
        file = _File(number, fd, self._path(number + 1), raw[8:])
        if raw[:8] != journal_frames.MAGIC + bytes(4) or len(raw) < journal_frames.HEAD_BYTES:
            file.damaged, file.unread = True, scan(_read_all(fd)).unread
        return file

    def _read(self, file: _File, locked: bool) -> list[tuple[int, JournalRecord]]:
        """Return the records that were not read yet, up to the first one that does not verify."""
        file.unsure = file.unsure and not locked
        if file.damaged:
            return []
        found = []
        while (record := _record_at_end(file)) is not None:
            length, digest, payload = record
            if hash_of(file.digest + length + payload) != digest:
                file.is_end_checked = file.is_end_checked and not locked
                break
            found.append((file.number, decode_record(payload)))
            end = file.end + journal_frames.HEAD_BYTES + len(payload)
            file.last, file.end, file.digest, file.unsure = file.end, end, digest, not locked
        self._check_end(file)
        return found

    def _check_end(self, file: _File) -> None:
        """Scan the file for damage if data follows its end. Runs once per file."""
        if not file.is_end_checked:
            file.is_end_checked = True
            if journal_frames.has_data_after(file.fd, file.end):
                self._mark_if_damaged(file)

    def _mark_if_damaged(self, file: _File) -> None:
        """Mark the file if it is damaged rather than torn.

        Scans twice, because a writer may append during the first scan.
        """
        found = scan(_read_all(file.fd))
        if found.flawed_at is not None and found == scan(_read_all(file.fd)):
            file.damaged, file.unread = True, found.unread

    # -- writing

    def _blank(self, file: _File) -> None:
        self._failed = True
        with suppress(OSError):
            os.pwrite(file.fd, bytes(4), file.end)
            os.fdatasync(file.fd)

    def _path(self, number: int) -> str:
        return f"{self._directory}/{journal_frames.file_name(number)}"


def _check_move(name: str, *values: str | None) -> None:
    """Check a ref move in a journal file. The flush uses the name of the ref as a path, so the name is not trusted."""
    try:
        check_ref_name(name)
        for value in values:
            if value is not None:
                check_value(value)
    except (InvalidName, Malformed) as error:
        raise Corrupt(f"cannot read a journal record: invalid ref move: {error}") from None


def _has_last_record(file: _File) -> bool:
    """Return whether the last record that was read still exists. Its writer blanks it if the write fails."""
    if not file.unsure:
        return True
    raw = os.pread(file.fd, journal_frames.HEAD_BYTES, file.last)
    return raw[:4] == journal_frames.MAGIC and raw[8:] == file.digest


def _record_at_end(file: _File) -> tuple[bytes, bytes, bytes] | None:
    """Return the length, the digest and the payload of the next record; ``None`` if there is none.

    The record is read in one step, which is faster and usually sufficient. The digest is not checked.
    """
    start = journal_frames.HEAD_BYTES
    raw = os.pread(file.fd, _READ_BYTES, file.end)
    end = start + int.from_bytes(raw[4:8], "big")
    if len(raw) < end <= os.fstat(file.fd).st_size - file.end:
        raw = os.pread(file.fd, end, file.end)
    if raw[:4] != journal_frames.MAGIC or len(raw) < end:
        return None
    return raw[4:8], raw[8:start], raw[start:end]


def _read_all(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)


def _preallocate(fd: int, expected: int) -> None:
    """Allocate disk space in advance, and write zeros to the first ``expected`` bytes.

    An fdatasync is cheaper if it does not change the size or the extents of the file. If the disk is almost full, do
    nothing.
    """
    space = os.fstatvfs(fd)
    if space.f_bavail * space.f_frsize > 16 * PREALLOCATED_BYTES:
        with suppress(OSError):  # a disk quota, or this process's limit on file size
            os.posix_fallocate(fd, 0, PREALLOCATED_BYTES)
            write_all(fd, bytes(min(expected, PREALLOCATED_BYTES)), 0)


# Each writer runs these functions for the records of all others, and a ``match`` statement takes three times as long.


def _object(row: object) -> tuple[Kind, bytes]:
    if type(row) is list and len(row) == 2:
        number, data = row
        if type(number) is int and number in _KIND_OF and type(data) is bytes:
            return _KIND_OF[number], data
    raise Corrupt("cannot read a journal record: invalid object")


def _move(row: object) -> Move:
    if type(row) is list and len(row) == 3:
        name, old, new = row
        if type(name) is str and type(old) in _VALUE_TYPES and type(new) in _VALUE_TYPES:
            _check_move(name, old, new)
            return name, old, new
    raise Corrupt("cannot read a journal record: invalid ref move")
