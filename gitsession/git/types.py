"""Types of git's object model: ids, kinds, ref values, and the readers and sinks of objects."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

Kind: TypeAlias = Literal["commit", "tree", "blob"]
Oid: TypeAlias = str
"""The id of an object: 40 lower-case hexadecimal digits."""

RefValue: TypeAlias = str
"""The value of a ref: an ``Oid``, or ``"ref: <name>"`` if it is symbolic."""


class Reader(Protocol):
    """A source of objects by id: a store, or pushed objects that are not accepted yet."""

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        """Return the object with the id ``oid``. Raises ``MissingObject`` or ``Corrupt``."""

    def contains(self, oid: Oid) -> bool: ...


class ObjectSink(Protocol):
    """A destination for objects: a transaction, or a list of objects that are added to a transaction later."""

    def put(self, kind: Kind, data: bytes) -> Oid: ...
