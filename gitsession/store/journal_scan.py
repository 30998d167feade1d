"""Search for good journal records in a damaged file: all records before the damage, and proven records after it.

The search runs only if a record does not verify and bytes follow it. The digests form a chain, and the chain starts
with a salt that only the owner of the store can read. A *link* is a record that verifies against the digest of the
record before it, either the stated digest or the computed one. A link proves the positions of both records. After a
record that does not verify, the next record is searched for:

    1. at the end of the bad record, according to its head or to its payload (CBOR is self-delimiting). A link at this
       offset proves the position. If the link is to the computed digest, only the head was damaged, and nothing is lost
    2. at every offset after the bad record: the first record from which links lead to the end of the written data. An
       attacker who chooses the bytes of a payload can put a chain of records into it, but the chain cannot reach the
       end, because the tree and the commit that name these bytes follow. The last record has no next record to link to.
       It is accepted if its payload can be decoded and moves a ref, and if each new value is an object in the same
       record

If no record is found, the remaining bytes are a torn end. A last record whose magic was blanked with zeros is a torn
end, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

from gitsession.codec import cbor
from gitsession.codec.digest import hash_of
from gitsession.dataclass import dataclass
from gitsession.store import journal_frames

_EFFORT = 64
"""Maximum number of bytes to hash, as a multiple of the file's size.

A payload may contain many byte sequences that look like heads.
"""


@dataclass(frozen=True, slots=True)
class SoundRecord:
    """A good journal record. ``proven``: True if a digest proves the content; False if only the position is proven."""

    start: int
    payload: bytes
    digest: bytes
    proven: bool = True


@dataclass(frozen=True, slots=True)
class JournalHole:
    """A span of lost journal records (writes in the journal).

    ``count``: the number of lost records, if known. ``before``: the digest of the record before the span, or the salt.
    ``until``: the digest of the last lost record. If a copy of the lost records is chained from ``before``, its last
    digest must equal ``until``.
    """

    start: int
    before: bytes
    until: bytes
    count: int | None


@dataclass(slots=True)
class Scan:
    """The result of a scan. ``found``: records and holes, in file order. ``flawed_at``: offset of the first damage."""

    found: list[SoundRecord | JournalHole] = field(default_factory=list)
    flawed_at: int | None = None

    @property
    def unread(self) -> int:
        """Return a lower bound of the number of records at or after the first damage."""
        at = self.flawed_at
        later = [item for item in self.found if at is not None and item.start >= at]
        return sum((item.count or 1) if isinstance(item, JournalHole) else 1 for item in later)

    @property
    def lost(self) -> int:
        """Return a lower bound of the number of lost records."""
        return sum(item.count or 1 for item in self.found if isinstance(item, JournalHole))


_Step: TypeAlias = tuple[list[SoundRecord | JournalHole], int, bytes]
"""The records and holes that were found, the offset of the next record, and the digest before that record."""


class JournalScanner:
    """A scan of the bytes of a journal file.

    ``accepts``: a function that returns whether a payload is a journal record. It is called if no digest proves the
    payload.
    """

    def __init__(self, data: bytes, accepts: Callable[[bytes], bool]) -> None:
        self._data, self._accepts = data, accepts
        self._written = len(data.rstrip(b"\0"))
        self._left = _EFFORT * len(data)

    def run(self) -> Scan:
        """Return the good records and the holes."""
        data, result = self._data, Scan()
        at, digest = journal_frames.HEAD_BYTES, data[8 : journal_frames.HEAD_BYTES]
        if data[:8] != journal_frames.MAGIC + bytes(4) or len(data) < journal_frames.HEAD_BYTES:
            result.flawed_at = 0
        while True:
            while (end := self._verified(at, digest)) is not None:
                digest = data[at + 8 : at + journal_frames.HEAD_BYTES]
                result.found.append(SoundRecord(at, data[at + journal_frames.HEAD_BYTES : end], digest))
                at = end
            found, at, digest = self._step(at, digest) or self._search(at, digest)
            if not found:
                break
            result.found += found
            result.flawed_at = found[0].start if result.flawed_at is None else result.flawed_at
        if result.flawed_at is not None and not result.found:
            result.found.append(JournalHole(journal_frames.HEAD_BYTES, digest, b"", None))
        return result

    # -- one record

    def _end(self, at: int) -> int | None:
        """Return the end of the record at offset ``at`` according to its head. The magic is not checked."""
        length = int.from_bytes(self._data[at + 4 : at + 8], "big")
        end = at + journal_frames.HEAD_BYTES + length
        return end if length and end <= len(self._data) else None

    def _computed(self, at: int, end: int, before: bytes) -> bytes:
        self._left -= end - at
        start = at + journal_frames.HEAD_BYTES
        return hash_of(before + (end - start).to_bytes(4, "big") + self._data[start:end])

    def _verified(self, at: int, before: bytes) -> int | None:
        """Return the end of the record at offset ``at``; ``None`` if it does not verify.

        ``before``: the digest of the record before it, or the salt.
        """
        if self._data[at : at + 4] != journal_frames.MAGIC or self._left < 0:
            return None
        end = self._end(at)
        if end is None or self._computed(at, end, before) != self._data[at + 8 : at + journal_frames.HEAD_BYTES]:
            return None
        return end

    def _step(self, at: int, before: bytes) -> _Step | None:
        """Skip a record that does not verify. Its end is taken from its head or from its payload."""
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

    # -- after a damaged span

    def _search(self, at: int, before: bytes) -> _Step:
        """Skip to the first offset after ``at`` from which links lead to the end of the written data."""
        offset = self._data.find(journal_frames.MAGIC, at + 1)
        while 0 <= offset < self._written and self._left > 0:
            end = self._end(offset)
            if end is not None and self._reaches_end(offset, end):
                stated = self._data[offset + 8 : offset + journal_frames.HEAD_BYTES]
                payload = self._data[offset + journal_frames.HEAD_BYTES : end]
                found: list[SoundRecord | JournalHole] = [JournalHole(at, before, stated, None)]
                if self._accepts(payload):
                    found.append(SoundRecord(offset, payload, stated, proven=False))
                return found, end, stated
            offset = self._data.find(journal_frames.MAGIC, offset + 1)
        return [], at, before

    def _reaches_end(self, offset: int, end: int) -> bool:
        digest = self._data[offset + 8 : offset + journal_frames.HEAD_BYTES]
        if self._verified(end, digest) is None:
            return end >= self._written and self._accepts(self._data[offset + journal_frames.HEAD_BYTES : end])
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
