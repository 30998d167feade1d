"""Regular expressions that are compiled when they are first used.

Compiling one takes 0.1 ms, and a command uses few of those in the modules that it imports.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

__all__ = ["pattern"]

if TYPE_CHECKING:
    from re import compile as pattern
else:

    def pattern(text: str | bytes, flags: int = 0) -> Any:
        """Return an object with the attributes of ``re.compile(text, flags)``."""
        return _Pattern(text, flags)


class _Pattern:
    def __init__(self, text: Any, flags: int) -> None:
        self._arguments = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._arguments), name)
        setattr(self, name, found)  # so that the next use is as fast as that of a compiled expression
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _Pattern, self._arguments
