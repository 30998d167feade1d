"""What is good in a journal file that is damaged: the records before the damage, and those behind it that are proven.

Nobody comes here unless a record does not verify and bytes follow. The digests are a chain from a salt that nobody but
the owner of the store has read, so a *link* (a record that verifies over what the record before it states, or is
computed to have) proves the places of both. From a record that does not verify the next one is looked for

    1. where its head says that it ends, or its payload (CBOR tells its own end) does. A link there proves the place;
       if it is one to the computed digest, only the head was hit, and nothing is lost at all
    2. anywhere behind it: the first record from which links lead on to the end of all that was written. Whoever chooses
       the bytes of a payload can put a chain of records of his own into it, but not one that runs to the end: behind it
       come the tree and the commit that name his bytes. A last record without another to link to counts where its
       payload decodes, moves a ref, and each value that it moves one to is an object of its own

Where none is found all the rest is a torn end. A last record that was taken back (its magic is zeros) is one too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from gitsession.codec import cbor
from gitsession.codec.digest import hash_of
from gitsession.store import journal_frames

_EFFORT = 64
"""How many times its own size may be hashed of a file: a payload can be full of what looks like heads."""


@dataclass(frozen=True, slots=True)
class SoundRecord:
    """A record. ``proven``: by a digest; where it is not, only its place is, and its payload decodes."""

    start: int
    payload: bytes
    digest: bytes
    proven: bool = True


@dataclass(frozen=True, slots=True)
class JournalHole:
    """Lost records, ``count`` if that is known. ``before``: the digest (or salt) before them; ``until``: the digest
    with which a copy of them, record after record, comes out of the hole."""

    start: int
    before: bytes
    until: bytes
    count: int | None


@dataclass
class Scan:
    """``flawed_at``: where the first damage is, ``None`` where there is none. ``found``: in order."""

    found: list[SoundRecord | JournalHole] = field(default_factory=list)
    flawed_at: int | None = None

    @property
    def unread(self) -> int:
        """How many records stand at or behind the first damage, at the least."""
        at = self.flawed_at
        behind = [it for it in self.found if at is not None and it.start >= at]
        return sum((it.count or 1) if isinstance(it, JournalHole) else 1 for it in behind)

    @property
    def lost(self) -> int:
        """How many records are lost, at the least."""
        return sum(it.count or 1 for it in self.found if isinstance(it, JournalHole))


def scan(data: bytes, accepts: Callable[[bytes], bool]) -> Scan:
    """The records in the bytes of a journal file. ``accepts``: whether a payload that no digest proves is a record."""
    return _Scanner(data, accepts).run()


_Step: TypeAlias = tuple[list[SoundRecord | JournalHole], int, bytes]
"""What was found, where the record behind it begins, and the digest that this one follows."""


class _Scanner:
    def __init__(self, data: bytes, accepts: Callable[[bytes], bool]) -> None:
        self._data, self._accepts = data, accepts
        self._written = len(data.rstrip(b"\0"))
        self._left = _EFFORT * len(data)

    def run(self) -> Scan:
        data, done = self._data, Scan()
        at, digest = journal_frames.HEAD_BYTES, data[8 : journal_frames.HEAD_BYTES]
        if data[:8] != journal_frames.MAGIC + bytes(4) or len(data) < journal_frames.HEAD_BYTES:
            done.flawed_at = 0
        while True:
            while (end := self._verified(at, digest)) is not None:
                digest = data[at + 8 : at + journal_frames.HEAD_BYTES]
                done.found.append(SoundRecord(at, data[at + journal_frames.HEAD_BYTES : end], digest))
                at = end
            found, at, digest = self._step(at, digest) or self._search(at, digest)
            if not found:
                break
            done.found += found
            done.flawed_at = found[0].start if done.flawed_at is None else done.flawed_at
        if done.flawed_at is not None and not done.found:
            done.found.append(JournalHole(journal_frames.HEAD_BYTES, digest, b"", None))
        return done

    # -- one record

    def _end(self, at: int) -> int | None:
        """Where the record at ``at`` ends by its head, whatever its magic is."""
        length = int.from_bytes(self._data[at + 4 : at + 8], "big")
        end = at + journal_frames.HEAD_BYTES + length
        return end if length and end <= len(self._data) else None

    def _computed(self, at: int, end: int, before: bytes) -> bytes:
        self._left -= end - at
        start = at + journal_frames.HEAD_BYTES
        return hash_of(before + (end - start).to_bytes(4, "big") + self._data[start:end])

    def _verified(self, at: int, before: bytes) -> int | None:
        """The end of the record at ``at`` if it is the one that follows ``before``."""
        if self._data[at : at + 4] != journal_frames.MAGIC or self._left < 0:
            return None
        end = self._end(at)
        if end is None or self._computed(at, end, before) != self._data[at + 8 : at + journal_frames.HEAD_BYTES]:
            return None
        return end

    def _step(self, at: int, before: bytes) -> _Step | None:
        """Over a record that does not verify, by the end that its head or its payload tells."""
        start = at + journal_frames.HEAD_BYTES
        stated = self._data[at + 8 : start]
        for end in dict.fromkeys((self._end(at), cbor.end_of(self._data, start))):
            if end is None:
                continue
            payload, digest = self._data[start:end], self._computed(at, end, before)
            magic = self._data[at : at + 4]
            if self._verified(end, digest) is not None or (digest == stated and magic != bytes(4)):
                return [SoundRecord(at, payload, digest)], end, digest
            if self._verified(end, stated) is not None:
                if self._accepts(payload):
                    return [SoundRecord(at, payload, stated, proven=False)], end, stated
                return [JournalHole(at, before, stated, 1)], end, stated
        return None

    # -- behind a gap

    def _search(self, at: int, before: bytes) -> _Step:
        """Over whatever is between ``at`` and the first place behind it from which links lead to the end."""
        place = self._data.find(journal_frames.MAGIC, at + 1)
        while 0 <= place < self._written and self._left > 0:
            end = self._end(place)
            if end is not None and self._leads_to_the_end(place, end):
                stated = self._data[place + 8 : place + journal_frames.HEAD_BYTES]
                payload = self._data[place + journal_frames.HEAD_BYTES : end]
                found: list[SoundRecord | JournalHole] = [JournalHole(at, before, stated, None)]
                if self._accepts(payload):
                    found.append(SoundRecord(place, payload, stated, proven=False))
                return found, end, stated
            place = self._data.find(journal_frames.MAGIC, place + 1)
        return [], at, before

    def _leads_to_the_end(self, place: int, end: int) -> bool:
        digest = self._data[place + 8 : place + journal_frames.HEAD_BYTES]
        if self._verified(end, digest) is None:
            return end >= self._written and self._accepts(self._data[place + journal_frames.HEAD_BYTES : end])
        at = end
        while at < self._written:
            following = self._verified(at, digest)
            if following is not None:
                at, digest = following, self._data[at + 8 : at + journal_frames.HEAD_BYTES]
                continue
            step = self._step(at, digest)
            if step is None:
                return False
            _, at, digest = step
        return True
