"""What a provider says one answer took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

TOKENS_MAX = 2**40
"""More than any answer takes: a hostile count must not overflow a sum."""

_PARTS = (
    "input", "output", "cacheRead", "cacheWrite",
    "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
)  # fmt: skip
"""As pi calls them, and as Anthropic does."""


class AnswerUsage(NamedTuple):
    """What an answer took, in tokens. ``answer``: what names it, where several entries can tell of the same one."""

    tokens: int
    answer: str = ""


def answer_of(extra: Mapping[str, Any]) -> str:
    """The answer that a message with ``extra`` is of, for agents that write one in several; "" where nothing says."""
    named = extra.get("id")
    return named if isinstance(named, str) else ""


def total_tokens(usage: Mapping[str, Any] | None) -> int:
    """All tokens of one answer, whatever the provider calls the parts (semantics.md rule 15)."""
    if not usage:
        return 0
    total = usage.get("totalTokens")
    if type(total) is not int or total <= 0:
        parts = (usage.get(name) for name in _PARTS)
        total = sum(part for part in parts if type(part) is int and part > 0)
    return min(total, TOKENS_MAX)
