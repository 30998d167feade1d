"""The journal: numbered append-only files that make a write durable before it is packed. One fdatasync an append.

store/journal_frames.py has the frame; a payload is CBOR ``[1, [[type, bytes], ...], [[ref, old, new], ...]]``: objects
(types as in a pack: 1 commit, 2 tree, 3 blob; ids are computed when read) and what refs held and hold, ``null`` for
nothing.

- The highest number is written. There is always one, the next is made before an old one goes, and no number comes
  twice: so a file that still has its name, with no next beside it, is the newest, and no directory need be listed.
- Opening is reading to the end; a crashed process's records and a live one's look the same. A torn record after the
  end was never acknowledged, and is written over.
- A failed write or fdatasync is final: the record's magic is blanked and the file never written again by this process
  (trying fsync again may succeed without having written).
- Where a record does not verify and another one behind it is proven (store/journal_scan.py), the file is damaged, not
  torn: nobody writes over it, and when its time comes it is set aside under another name. Looked for where a record
  does not verify, once for each file where something stands behind its end, and by whoever flushes or checks.

Appending and dropping want the store's lock. Reading does not, but may see a record whose writer has not finished; if
that writer fails the record goes away again, so what was read without the lock is looked at once more.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gitsession.codec import cbor
from gitsession.codec.digest import hash_of
from gitsession.durable import sync_directory, write_all
from gitsession.errors import Corrupt, InvalidName, Malformed, NotAStore, Unavailable
from gitsession.git.objects import oid_of
from gitsession.git.ref_files import check_ref_name, check_value
from gitsession.git.types import Kind, RefValue
from gitsession.store import journal_frames, journal_scan
from gitsession.store.journal_scan import Scan

VERSION = 1
PREALLOCATED_BYTES = 4 << 20

_NUMBER_OF: Final[dict[Kind, int]] = {"commit": 1, "tree": 2, "blob": 3}
_KIND_OF: Final[dict[int, Kind]] = {number: kind for kind, number in _NUMBER_OF.items()}
_LOOKS_MAX = 200

Move = tuple[str, RefValue | None, RefValue | None]
"""A ref, what it held, and what it holds from now on."""


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One transaction: ``objects`` as ``(kind, bytes)``, ``moves`` as ``(ref, old, new)``; ``size`` bytes as stored."""

    objects: list[tuple[Kind, bytes]]
    moves: list[Move]
    size: int = 0


@dataclass(frozen=True, slots=True)
class JournalUpdate:
    """What a look at the journal found: numbers of files that are gone, and new records with their file's number."""

    gone: list[int] = field(default_factory=list)
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
    looked_behind: bool = False


_NOTHING = JournalUpdate()


def encode_record(objects: Sequence[tuple[Kind, bytes]], moves: Sequence[Move]) -> bytes:
    """The payload of a record."""
    return cbor.encode_ours(
        [VERSION, [[_NUMBER_OF[kind], data] for kind, data in objects], [[name, old, new] for name, old, new in moves]]
    )


def decode_record(payload: bytes) -> JournalRecord:
    """The record of a payload whose digest was right. Raises ``Corrupt``; ``NotAStore`` for one of a later version."""
    try:
        value = cbor.decode(payload)
    except Malformed as error:
        raise Corrupt(f"a journal record that is {error}") from None
    match value:
        case [1, [*objects], [*moves]]:
            return JournalRecord([_object(row) for row in objects], [_move(row) for row in moves], len(payload))
        case [int(version), *_] if version > VERSION:
            raise NotAStore(f"the journal is of version {version}", hint="a later gitsession wrote it: upgrade")
    raise Corrupt("a journal record of no form we know")


def scan(data: bytes) -> Scan:
    """What is good in the bytes of a journal file, be it damaged."""
    return journal_scan.scan(data, _proves_itself)


def _proves_itself(payload: bytes) -> bool:
    """Whether a payload is a record that moves refs, each to an object of its own."""
    try:
        record = decode_record(payload)
    except (Corrupt, NotAStore):
        return False
    own = {oid_of(kind, data) for kind, data in record.objects}
    return bool(record.moves) and all(new in own for _, _, new in record.moves)


class Journal:
    """The journal files of one store, and how far this process has read them."""

    def __init__(self, directory: Path, *, writable: bool = True, sync: bool = True) -> None:
        self._directory = str(directory)
        self._flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC
        self._sync = sync
        self._files: dict[int, _File] = {}
        self._newest: _File | None = None
        self._failed = False

    def tail(self, *, locked: bool) -> JournalUpdate:
        """What happened since the last look. ``locked``: the caller holds the store's lock."""
        newest = self._newest
        if (
            newest is None
            or len(self._files) > 1  # a flush was under way: the older ones go any moment, and the newest does not say
            or not os.fstat(newest.fd).st_nlink
            or os.access(newest.next_path, os.F_OK)
            or not _still_true(newest)
        ):
            return self._look(locked)
        records = self._read(newest, locked)
        return JournalUpdate([], records) if records else _NOTHING

    def append(self, payload: bytes, *, sync: bool) -> int:
        """Write a record after the newest; the number of its file. Raises ``OSError``, and then nothing was written."""
        newest = self._newest
        if newest is None or newest.damaged or self._failed:
            newest = self.start_next()
        elif not newest.name_is_durable and sync:
            # Its maker may have been killed before it could make the name durable.
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
        """Begin a new file, durable before it is used. Raises ``OSError``."""
        number = self._newest.number + 1 if self._newest else 1
        salt = secrets.token_bytes(journal_frames.SALT_BYTES)
        path, temporary = self._path(number), f"{self._directory}/{journal_frames.TEMPORARY}{number}"
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _preallocate(fd)
            write_all(fd, journal_frames.header(salt), 0)
            if self._sync:
                os.fsync(fd)
            os.rename(temporary, path)
            if self._sync:
                sync_directory(self._directory)
        except BaseException:
            os.close(fd)
            _remove(temporary)
            _remove(path)
            raise
        self._newest = self._files[number] = _File(number, fd, self._path(number + 1), salt)
        self._newest.name_is_durable = self._sync
        self._failed = False
        return self._newest

    def drop(self, numbers: Sequence[int]) -> list[str]:
        """Remove files whose records are all in packs and refs, oldest first. Never the newest.

        Gives the names of those that were damaged, and are set aside instead.

        Oldest first, so that what a kill leaves is the end of every chain, and no reader sees a ref go back.
        """
        aside = []
        for number in sorted(numbers):
            file = self._files.pop(number)
            if file.damaged:
                aside.append(f"{journal_frames.ASIDE}{journal_frames.file_name(number)}-{secrets.token_hex(4)}")
                os.rename(self._path(number), f"{self._directory}/{aside[-1]}")
            else:
                os.unlink(self._path(number))
            os.close(file.fd)
        if self._sync:
            sync_directory(self._directory)
        return aside

    def numbers(self) -> list[int]:
        """The files as of the last look, oldest first."""
        return sorted(self._files)

    def look_for_damage(self) -> None:
        """Whether in the files of the last look something stands behind the end. Reads all that is there."""
        for file in self._files.values():
            size = os.fstat(file.fd).st_size
            if not file.damaged and journal_frames.is_something_behind(file.fd, file.end, size - file.end):
                self._judge(file)

    def unread(self) -> int:
        """How many records cannot be read, at the least and as far as looks have told; of files set aside, how many
        are lost in them."""
        found = sum(file.unread for file in self._files.values())
        for name in self._aside():
            with open(f"{self._directory}/{name}", "rb") as file:
                found += scan(file.read()).lost or 1
        return found

    @property
    def has_damage(self) -> bool:
        """Whether a file is to be set aside."""
        return any(file.damaged for file in self._files.values())

    def damage(self) -> list[str]:
        """The damaged files, those set aside too, as of the last look; names below the store's own folder."""
        now = [journal_frames.file_name(number) for number, file in sorted(self._files.items()) if file.damaged]
        return [f"journal/{name}" for name in now + self._aside()]

    def _aside(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._directory) if name.startswith(journal_frames.ASIDE))
        except FileNotFoundError:
            return []

    def close(self) -> None:
        for file in self._files.values():
            os.close(file.fd)
        self._files, self._newest = {}, None

    # -- reading

    def _look(self, locked: bool) -> JournalUpdate:
        """List the directory. Without the lock, again and again until no flush came between listing and reading."""
        gone: list[int] = []
        records: list[tuple[int, JournalRecord]] = []
        empty = 0
        for _ in range(_LOOKS_MAX):
            listed = journal_frames.numbers(self._directory)
            gone_now = [n for n, file in self._files.items() if n not in listed or not _still_true(file)]
            for number in gone_now:
                os.close(self._files.pop(number).fd)
                gone.append(number)
            try:
                for number in listed:
                    if number not in self._files:
                        self._files[number] = self._open(number)
                    records += self._read(self._files[number], locked)
            except FileNotFoundError:
                continue
            self._newest = self._files[listed[-1]] if listed else None
            empty += not listed
            if self._newest is None:
                settled = locked or empty > 1
            else:
                settled = locked or not os.access(self._newest.next_path, os.F_OK)
            if settled:
                return JournalUpdate(gone, [row for row in records if row[0] in self._files])
        raise Unavailable("the journal changes faster than it can be read", hint="try again")

    def _open(self, number: int) -> _File:
        fd = os.open(self._path(number), self._flags)
        raw = os.pread(fd, journal_frames.HEAD_BYTES, 0)
        file = _File(number, fd, self._path(number + 1), raw[8:])
        if raw[:8] != journal_frames.MAGIC + bytes(4) or len(raw) < journal_frames.HEAD_BYTES:
            file.damaged, file.unread = True, scan(_whole(fd)).unread
        return file

    def _read(self, file: _File, locked: bool) -> list[tuple[int, JournalRecord]]:
        """The records after what is known, up to the first that does not verify."""
        file.unsure = file.unsure and not locked
        if file.damaged:
            return []
        if os.pread(file.fd, 4, file.end) != journal_frames.MAGIC:
            self._look_behind(file)
            return []
        found = []
        size = os.fstat(file.fd).st_size
        while (length := journal_frames.length_at(file.fd, file.end, size)) is not None:
            start = file.end + journal_frames.HEAD_BYTES
            raw = os.pread(file.fd, journal_frames.HEAD_BYTES, file.end)
            payload = os.pread(file.fd, length, start)
            if hash_of(file.digest + raw[4:8] + payload) != raw[8:]:
                file.looked_behind = file.looked_behind and not locked
                break
            found.append((file.number, decode_record(payload)))
            file.last, file.end, file.digest, file.unsure = file.end, start + length, raw[8:], not locked
        self._look_behind(file)
        return found

    def _look_behind(self, file: _File) -> None:
        """Once for each file: an end with something behind it may be none."""
        if not file.looked_behind:
            file.looked_behind = True
            if journal_frames.is_something_behind(file.fd, file.end):
                self._judge(file)

    def _judge(self, file: _File) -> None:
        """Damage or a torn end? Asked twice: while the bytes were read the first time, a writer may have come by."""
        found = scan(_whole(file.fd))
        if found.flawed_at is not None and found == scan(_whole(file.fd)):
            file.damaged, file.unread = True, found.unread

    # -- writing

    def _blank(self, file: _File) -> None:
        self._failed = True
        try:
            os.pwrite(file.fd, bytes(4), file.end)
            os.fdatasync(file.fd)
        except OSError:
            pass

    def _path(self, number: int) -> str:
        return f"{self._directory}/{journal_frames.file_name(number)}"


def _check_move(name: str, *values: str | None) -> None:
    """A name becomes a path at the flush, so it is not taken on trust from a file either."""
    try:
        check_ref_name(name)
        for value in values:
            if value is not None:
                check_value(value)
    except (InvalidName, Malformed) as error:
        raise Corrupt(f"a journal record with a bad ref move: {error}") from None


def _still_true(file: _File) -> bool:
    """Whether the last record we know of is still there, if it was read while its writer may not have been done."""
    if not file.unsure:
        return True
    raw = os.pread(file.fd, journal_frames.HEAD_BYTES, file.last)
    return raw[:4] == journal_frames.MAGIC and raw[8:] == file.digest


def _whole(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)


def _preallocate(fd: int) -> None:
    """Blocks that exist already make fdatasync cheaper; not worth a disk that is almost full, nor a failure."""
    space = os.fstatvfs(fd)
    if space.f_bavail * space.f_frsize > 16 * PREALLOCATED_BYTES:
        with contextlib.suppress(OSError):  # a quota, or a limit of this process on the size of files
            os.posix_fallocate(fd, 0, PREALLOCATED_BYTES)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _object(row: object) -> tuple[Kind, bytes]:
    match row:
        case [int(number), bytes(data)] if number in _KIND_OF:
            return _KIND_OF[number], data
    raise Corrupt("a journal record with an object of no form we know")


def _move(row: object) -> Move:
    match row:
        case [str(name), (None | str()) as old, (None | str()) as new]:
            _check_move(name, old, new)
            return name, old, new
    raise Corrupt("a journal record with a ref move of no form we know")
