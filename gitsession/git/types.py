"""Types of git's object model: ids, kinds, ref values, and the readers and sinks of objects."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

Kind: TypeAlias = Literal["commit", "tree", "blob"]
Oid: TypeAlias = str
"""The id of an object: 40 lower-case hexadecimal digits."""

RefValue: TypeAlias = str
"""The value of a ref: an ``Oid``, or ``"ref: <name>"`` if it is symbolic."""


class Reader(Protocol):
    """Objects by id, in a store or among pushed objects that are not accepted yet."""

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        """Return the object with the id ``oid``. Raises ``MissingObject`` or ``Corrupt``."""

    def contains(self, oid: Oid) -> bool: ...


class ObjectSink(Protocol):
    """A destination for objects: a transaction, or a list that is added to a transaction later."""

    def put(self, kind: Kind, data: bytes) -> Oid: ...
