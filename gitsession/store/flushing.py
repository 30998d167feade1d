"""What is pending becomes git's: a pack, then refs, then the journal goes.

Under the store's lock, with the journal tailed. Killed anywhere, the journal is still there, and the next flush does
all of it again, to the same end. What it moves is what the journal's chain says is ours to move; a ref that others
moved meanwhile stays theirs, and our line goes on beside it (``store.ref_updates``).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gitsession.errors import GitSessionError, Unavailable
from gitsession.git import pack_writer
from gitsession.git.ref_writer import RefWriter
from gitsession.git.types import Kind, Oid
from gitsession.store import create, flush_record, refs, tip_reflog
from gitsession.store.pending import unavailable
from gitsession.store.reading import Reading
from gitsession.store.ref_updates import Chain, move_to_ends

FLUSH_RECORDS = 256
FLUSH_BYTES = 1 << 20


class Flushing:
    """``last_error``, ``sidestepped``, ``set_aside``: what ``GitStore`` tells of its flushes."""

    def __init__(self, git_dir: Path, reading: Reading, *, sync: bool) -> None:
        self.refs = RefWriter(git_dir, git_dir / create.PROOFS, reading.git.ref_reader, sync=sync)
        self.last_error: Exception | None = None
        self.sidestepped: list[tuple[str, str]] = []
        self.set_aside: list[str] = []
        self._git_dir = git_dir
        self._reading = reading
        self._pending = reading.pending
        self._sync = sync
        self._due_at = (FLUSH_RECORDS, FLUSH_BYTES)

    @property
    def is_due(self) -> bool:
        overlay, (records, size) = self._pending.overlay, self._due_at
        return overlay.records >= records or overlay.size >= size

    def flush_or_remember(self) -> None:
        """The entries are durable already: a flush that fails is tried again later, and fails nobody's append."""
        try:
            self.flush()
        except GitSessionError as error:
            self.last_error = error
            overlay = self._pending.overlay
            self._due_at = (overlay.records + FLUSH_RECORDS, overlay.size + FLUSH_BYTES)

    def flush(self) -> None:
        """Raises ``Unavailable``. A ref that cannot be moved for now stays pending, and is in ``last_error``."""
        overlay, pending = self._pending.overlay, self._pending
        self.last_error = None
        try:
            pending.look_for_damage()
            if not overlay.records and not pending.has_damage:
                return
            if overlay.objects:
                self.write_pack(overlay.objects)
            self.refs.break_dead_locks()
            beside: list[tuple[str, str]] = []
            left, self.last_error = move_to_ends(overlay.chains, self.refs, self._reading.read, beside)
            self.sidestepped += beside
            if left and not overlay.objects and overlay.records == 1 and not pending.has_damage:
                return  # nothing but what was left the last time, and none of it moved
            moved = _moved(overlay.chains, {name for name, _, _ in left}, dict(beside))
            flush_record.append(self._git_dir, moved, journal=overlay.first)
            values = {name: after for name, (_, after) in moved.items()}
            with suppress(OSError):  # no entry depends on it
                tip_reflog.append(self._git_dir, values, lambda: self._reading.refs(refs.SESSIONS))
            self.set_aside += pending.start_afresh(left)
            if not left:
                pack_writer.release_packs(self._git_dir / "objects")
        except OSError as error:
            raise unavailable(self._git_dir, "flush", error) from error
        self._due_at = (FLUSH_RECORDS, FLUSH_BYTES)

    def flush_all(self) -> None:
        """Flush, and begin a new file of the journal: nothing is left in the old ones.

        Raises ``Unavailable`` where another program keeps a ref locked, or the disk says no.
        """
        self.flush()
        if self._pending.overlay.records:
            raise Unavailable(f"cannot hand over to git: {self.last_error}", hint="try again")
        self.set_aside += self._pending.start_afresh([])

    def write_pack(self, objects: Mapping[Oid, tuple[Kind, bytes]]) -> None:
        """A pack of ours that is kept until refs lead to it. Raises ``OSError``."""
        pack_writer.write_pack(self._git_dir / "objects", objects, self._git_dir / create.KEEP, sync=self._sync)


def _moved(chains: Mapping[str, Chain], left: set[str], beside: Mapping[str, str]) -> flush_record.Moved:
    """Return the first and the last value of each chain that has reached a ref, by the name of that ref."""
    return {
        beside.get(name, name): (None if name in beside else chain[0], chain[-1])
        for name, chain in chains.items()
        if name not in left
    }
