"""What a provider says one answer took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TOKENS_MAX = 2**40
"""More than any answer takes: a hostile count must not overflow a sum."""


def total_tokens(usage: Mapping[str, Any] | None) -> int:
    """All tokens of one answer, whatever the provider calls the parts (semantics.md rule 15)."""
    if not usage:
        return 0
    total = usage.get("totalTokens")
    if type(total) is not int or total <= 0:
        parts = (usage.get(name) for name in ("input", "output", "cacheRead", "cacheWrite"))
        total = sum(part for part in parts if type(part) is int and part > 0)
    return min(total, TOKENS_MAX)
