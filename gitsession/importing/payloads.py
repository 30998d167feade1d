"""The payloads of an import: the search for secrets in them, and their compression, in another process.

Both take half of the time of a large import, and neither depends on the store. So another process does them, beginning
with the first record that may be new, while this process drafts the entries. The first portion of the payloads is
searched in this process, before the other one starts. If no process can be started, or if it fails, this process does
the work.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gitsession.codec.holes import STRING_BYTES_MIN
from gitsession.formats import Record
from gitsession.formats.base.record import StoredRecord
from gitsession.git.objects import oid_of
from gitsession.git.pack_writer import deflate
from gitsession.git.types import Oid
from gitsession.store.writing import FLUSH_THREAD

if TYPE_CHECKING:
    from gitsession.parallel import Ahead
    from gitsession.redaction.guard import Guard

BYTES_MIN = 1 << 19
"""Minimum size of the payloads in bytes for which a process is started. Its start takes as long as 0.1 MB."""

_FIRST_PORTION_BYTES = 1 << 15
"""Minimum size of the first portion in bytes.

This process searches it before the other one starts. Then the other one has compiled rules, and entries can be drafted
at once.
"""

_PORTION_BYTES_MAX = 1 << 18
"""Maximum of the minimum sizes of portions, which double: the search is faster in large portions."""


class _Portion(NamedTuple):
    """A result of the process. It first sends the results of the search, and then the compressed payloads.

    ``searched``: indexes of records. ``suspects``: those of them that may contain a secret. ``deflated``: the oids of
    payloads, and the sizes of their compressed forms, which follow one another in a file.
    """

    searched: range = range(0)
    suspects: frozenset[int] = frozenset()
    deflated: tuple[tuple[Oid, int], ...] = ()


class Payloads:
    """The payloads of ``records``. Close the object, which ends the process."""

    def __init__(self, guard: Guard | None, records: Sequence[Record]) -> None:
        self._guard, self._records = guard, records
        self._ahead: Ahead[_Portion] | None = None
        self._file = -1
        self._is_begun = False
        self._searched = range(0)
        self._suspects: set[int] = set()
        self._sizes: list[tuple[Oid, int]] = []

    def may_hold_secret(self, number: int) -> bool:
        """Return whether the record with the index ``number`` may contain a secret."""
        if self._guard is None:
            return False
        if not self._is_begun:
            self._begin(number)
        while number >= self._searched.stop and self._receive():
            pass
        return number in self._suspects if number in self._searched else self._search_here(number)

    def deflated(self) -> Mapping[Oid, bytes]:
        """Wait until the process has ended. Return the compressed forms of payloads, as in a pack."""
        while self._receive():
            pass
        if not self._sizes:
            return {}
        data = os.pread(self._file, sum(size for _, size in self._sizes), 0)
        found: dict[Oid, bytes] = {}
        at = 0
        for oid, size in self._sizes:
            found[oid] = data[at : at + size]
            at += size
        return found

    def close(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @functools.cached_property
    def _search_here(self) -> Callable[[int], bool]:
        assert self._guard is not None
        return functools.cache(self._guard.lookahead(len(self._records), lambda at: self._records[at].payload))

    def _begin(self, first: int) -> None:
        """Start the process for the records from ``first`` on, if it is worth its start."""
        self._is_begun = True
        records = self._records[first:]
        # The process would move the position of the file in which the payloads of a large file are.
        if isinstance(self._records[0], StoredRecord) or sum(len(each.payload) for each in records) < BYTES_MIN:
            return
        from gitsession.parallel import Ahead  # most imports are small

        if Ahead.is_possible(FLUSH_THREAD):
            portions = list(self._portions(first))
            self._searched = portions[0]
            self._suspects |= self._search(portions[0])
            try:
                self._file = os.memfd_create("gitsession-payloads")
                self._ahead = Ahead(functools.partial(self._work, portions))
            except OSError:  # too many processes or open files, or not enough memory
                self.close()

    def _search(self, portion: range) -> frozenset[int]:
        """Return the indexes of the records in ``portion`` that may contain a secret."""
        assert self._guard is not None
        payloads = [self._records[number].payload for number in portion]
        return frozenset(portion[index] for index in self._guard.scanner.suspects(payloads))

    def _receive(self) -> bool:
        """Wait for the next result of the process; return whether there was one."""
        if self._ahead is None:
            return False
        portion = self._ahead.next()
        if portion is None:
            self._ahead.close()
            self._ahead = None
            return False
        if portion.searched:
            self._searched = range(self._searched.start, portion.searched.stop)
            self._suspects |= portion.suspects
        self._sizes += portion.deflated
        return True

    def _work(self, portions: Sequence[range]) -> Iterator[_Portion]:
        """Yield the results, in the process. The first portion was searched before."""
        suspects = set(self._suspects)
        for portion in portions[1:]:
            found = self._search(portion)
            suspects |= found
            yield _Portion(portion, found)
        for portion in portions:
            parts: list[bytes] = []
            sizes: list[tuple[Oid, int]] = []
            for number in portion:
                payload = self._records[number].payload
                if number not in suspects and len(payload) < STRING_BYTES_MIN:  # otherwise, another payload is stored
                    parts.append(deflate(payload))
                    sizes.append((oid_of("blob", payload), len(parts[-1])))
            with open(self._file, "wb", closefd=False) as file:
                file.write(b"".join(parts))
            yield _Portion(deflated=tuple(sizes))

    def _portions(self, first: int) -> Iterator[range]:
        """Yield ranges of records. The minimum size of a range doubles, up to ``_PORTION_BYTES_MAX``."""
        start, size, size_min = first, 0, _FIRST_PORTION_BYTES
        for number in range(first, len(self._records)):
            size += len(self._records[number].payload)
            if size >= size_min:
                yield range(start, number + 1)
                start, size, size_min = number + 1, 0, min(2 * size_min, _PORTION_BYTES_MAX)
        if start < len(self._records):
            yield range(start, len(self._records))
