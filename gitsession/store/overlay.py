"""What is acknowledged and not packed yet: a dict in front of git's objects, and a chain per ref in front of its refs.

A chain is every value a ref has had since the journal's oldest record, the value before it first. While it exists it
hides what the repository says about that ref; at the flush it tells which values there are ours to replace.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitsession.git.types import Kind, Oid, RefValue
from gitsession.store.staging import Move


class Overlay:
    """The sum of the pending records, kept per journal file so that a file that is gone can be taken out again."""

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
