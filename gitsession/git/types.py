"""Types of git's object model: ids, kinds, ref values, and the readers and sinks of objects."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

Kind: TypeAlias = Literal["commit", "tree", "blob"]
Oid: TypeAlias = str
"""git's name of an object: 40 lower-case hexadecimal digits."""

RefValue: TypeAlias = str
"""What a ref holds: an ``Oid``, or ``"ref: <name>"`` where it is symbolic."""


class Reader(Protocol):
    """Objects by id, wherever they lie: in a store, or in what was pushed and is not taken in yet."""

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        """The object whose bytes have the name ``oid``. Raises ``MissingObject`` or ``Corrupt``."""

    def contains(self, oid: Oid) -> bool: ...


class ObjectSink(Protocol):
    """A place to put objects: a transaction, or a list that becomes one."""

    def put(self, kind: Kind, data: bytes) -> Oid: ...
