"""A transaction while it is being put together: new objects, and ref moves checked one by one.

Both stores hand out a ``Staging`` as their transaction, so that what is refused, and why, has one home. What the store
itself holds is asked through three functions; nothing here knows a disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from gitsession.errors import InvalidName, MissingObject, RefMoved
from gitsession.git.objects import oid_of
from gitsession.git.ref_names import SYMBOLIC, check_ref_name, check_value, directories
from gitsession.git.types import Kind, Oid, RefValue

if TYPE_CHECKING:
    from gitsession.redaction.original import Original

Move = tuple[str, RefValue | None, RefValue | None]
"""A ref, what it held, and what it holds from now on."""


class Staging:
    """The ``Transaction`` of both stores. ``objects`` and ``moves`` are what the store makes durable at its end.

    ``originals`` go into the vault before.
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
        """What ``name`` holds as this transaction sees it: git may move a ref any time, and is asked once."""
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
