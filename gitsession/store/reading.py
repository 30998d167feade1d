"""What a store holds at this moment: staged by this thread, pending, or git's.

The journal is tailed first, and git is asked after: what leaves the journal is in git before it goes. An object that is
in neither was flushed between the two looks, so it is looked for once more.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gitsession.errors import Corrupt, MissingObject
from gitsession.git.repository import VerifiedRepository
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.store.pending import Pending
from gitsession.store.staging import Staging


class StoreReader:
    """Objects and refs of one store. ``staging``: the transaction that is open, of whichever thread."""

    def __init__(self, git_dir: Path, pending: Pending) -> None:
        self.pending = pending
        self.git = VerifiedRepository(git_dir)
        self.staging: Staging | None = None

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        """See ``Reader``."""
        found = self._in_memory(oid)
        if found:
            return found
        try:
            return self.git.read(oid)
        except (MissingObject, Corrupt):
            self.pending.tail()
        return self._in_memory(oid) or self.git.read(oid)

    def contains(self, oid: Oid) -> bool:
        """See ``Reader``."""
        if self._in_memory(oid) or self.git.contains(oid):
            return True
        self.pending.tail()
        return self._in_memory(oid) is not None or self.git.contains(oid)

    def oids(self) -> Iterator[Oid]:
        """See ``ObjectStore``."""
        self.pending.tail()
        return itertools.chain(list(self.pending.overlay.objects), self.git.oids())

    def ref(self, name: str) -> RefValue | None:
        """See ``ObjectStore``."""
        staging = self._own_staging()
        if staging:
            return staging.value(name)
        self.pending.tail()
        return self.value(name)

    def refs(self, prefix: str) -> Mapping[str, RefValue]:
        """See ``ObjectStore``."""
        staging = self._own_staging()
        if not staging:
            self.pending.tail()
        ends: dict[str, RefValue | None] = {name: chain[-1] for name, chain in self.pending.overlay.chains.items()}
        ends |= staging.ends() if staging else {}
        found = {**self.git.refs(prefix), **{name: end for name, end in ends.items() if name.startswith(prefix)}}
        return {name: value for name, value in sorted(found.items()) if value is not None}

    def value(self, name: str) -> RefValue | None:
        """What a ref holds, with the journal tailed."""
        chain = self.pending.overlay.chains.get(name)
        return chain[-1] if chain else self.git.ref(name)

    def names_below(self, prefix: str) -> Iterable[str]:
        """The refs whose names begin so, with the journal tailed; also those that are gone as soon as it is flushed."""
        return {*self.git.refs(prefix), *(name for name in self.pending.overlay.chains if name.startswith(prefix))}

    def _in_memory(self, oid: Oid) -> tuple[Kind, bytes] | None:
        staging = self._own_staging()
        return self.pending.overlay.objects.get(oid) or (staging.objects.get(oid) if staging else None)

    def _own_staging(self) -> Staging | None:
        staging = self.staging
        return staging if staging is not None and staging.thread == threading.get_ident() else None
