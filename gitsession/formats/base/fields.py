"""Taking fields out of another agent's object, each only if it has the type that we understand.

What is not taken stays: it becomes the ``extra`` of the entry. So a field of a later version, and one whose value is of
a type we did not expect, ride along unread, and nothing has to raise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class Fields:
    """The fields of one object. Taking one that is absent, null or of another type gives ``None`` or the default."""

    __slots__ = ("left",)

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.left = dict(value)

    def take(self, name: str) -> Any:
        """The value as it is, of any type."""
        return self.left.pop(name, None)

    def drop(self, *names: str) -> None:
        """Fields that are said otherwise: the id, the parent, the type."""
        for name in names:
            self.left.pop(name, None)

    def text(self, name: str) -> str | None:
        return self._of(str, name)

    def truth(self, name: str, default: bool) -> bool:
        found = self._of(bool, name)
        return default if found is None else found

    def mapping(self, name: str) -> dict[str, Any] | None:
        return self._of(dict, name)

    def whole(self, name: str) -> int | None:
        """An integer, however it is written: 61000 or 61e3."""
        found = self.left.get(name)
        if type(found) is float and found.is_integer():
            self.left[name] = int(found)
        return self._of(int, name)

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of nothing but texts."""
        found = self.left.get(name)
        if isinstance(found, list) and not all(isinstance(item, str) for item in found):
            return None
        values = self._of(list, name)
        return None if values is None else tuple(values)

    def _of(self, kind: type[T], name: str) -> T | None:
        found = self.left.get(name)
        if type(found) is kind or found is None:
            self.left.pop(name, None)
            return found
        return None
