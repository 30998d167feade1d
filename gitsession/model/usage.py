"""Token counts of answers, as reported by providers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

TOKENS_MAX = 2**40
"""Maximum number of tokens of an answer.

The maximum is higher than any real count, and prevents the overflow of sums.
"""

_COUNT_NAMES = (
    (
        "input", "output", "cacheRead", "cacheWrite",
        "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
    ),
    ("prompt_tokens", "completion_tokens"),
    ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount"),
)  # fmt: skip
"""Names of the counts in three families of APIs.

The families are pi and Anthropic (OpenAI's Responses API uses some of these names), OpenAI's Chat API, and Gemini.
Counts that other counts include, such as ``cached_tokens``, are not listed.
"""


class AnswerUsage(NamedTuple):
    """The number of tokens of an answer. ``answer``: the id of the answer, if several entries may report its usage."""

    tokens: int
    answer: str = ""


def answer_id(extra: Mapping[str, Any]) -> str:
    """Return the id of the answer that a message is part of, for agents that split an answer; "" if it has no id."""
    id = extra.get("id")
    return id if isinstance(id, str) else ""


def total_tokens(usage: Mapping[str, Any] | None) -> int:
    """Return the total number of tokens of one answer (semantics.md rule 15).

    Providers name the counts differently. All names in ``_COUNT_NAMES`` are supported.
    """
    if not usage:
        return 0
    total = usage.get("totalTokens")
    if type(total) is not int or total <= 0:
        families = ([usage.get(name) for name in names] for names in _COUNT_NAMES)
        sums = (sum(part for part in parts if type(part) is int and part > 0) for parts in families)
        total = next(filter(None, sums), 0)
    return min(total, TOKENS_MAX)
