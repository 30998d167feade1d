"""Plain values as our own entries can hold them: what another program's JSON says goes beyond what our CBOR does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gitsession.codec.cbor import DEPTH_MAX, INT_MAX, INT_MIN

_DEPTH_LEFT = 8
"""Of ``DEPTH_MAX``, for what a value is put into."""


def whole(text: str) -> str:
    """``text`` as UTF-8 can say it: halves of a character that belong together are joined, lone ones are U+FFFD."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def sayable(value: Any, *, depth: int = DEPTH_MAX - _DEPTH_LEFT) -> Any:
    """``value`` with ``whole`` texts; numbers out of range become text, no numbers and what lies too deep ``None``."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        return f"{value:#x}"
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        inner = depth - 1
        return {whole(str(key)): sayable(item, depth=inner) for key, item in value.items()} if depth else None
    if isinstance(value, list | tuple):
        return [sayable(item, depth=depth - 1) for item in value] if depth else None
    return value
