"""Token counts of answers, as reported by providers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

TOKENS_MAX = 2**40
"""Maximum number of tokens of an answer.

The maximum is higher than any real count, and prevents the overflow of sums.
"""

_NAMES = (
    ("input", "input_tokens", "prompt_tokens", "promptTokenCount"),
    ("output", "output_tokens", "completion_tokens", "candidatesTokenCount"),
    ("cacheRead", "cache_read_input_tokens", "cached_input_tokens", "cachedContentTokenCount"),
    ("cacheWrite", "cache_creation_input_tokens", "cache_write_input_tokens"),
)
"""Names of each kind of tokens, in the order of ``TokenCounts``.

The names are those of pi, Anthropic, codex, OpenAI's Chat API, and Gemini. OpenAI's Responses API uses some of them.
"""

_INCLUDED = ("cached_input_tokens", "cachedContentTokenCount")
"""Names of counts that the count of the input includes."""


class TokenCounts(NamedTuple):
    """The tokens of an answer by their kind, and its cost.

    Attributes:
        input_tokens: The tokens of the prompt that were not read from or written to a cache.
        output_tokens: The tokens of the answer, including reasoning.
        cache_read_tokens: The tokens of the prompt that were read from a cache.
        cache_write_tokens: The tokens of the prompt that were written to a cache.
        cost: The cost in US dollars, if the agent recorded it; otherwise 0.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float = 0.0


class AnswerUsage(NamedTuple):
    """The tokens of an answer.

    Attributes:
        tokens: The total number of tokens.
        answer: The id of the answer, if several entries may report its usage.
        counts: The tokens by their kind.
    """

    tokens: int
    answer: str = ""
    counts: TokenCounts = TokenCounts()


def answer_id(extra: Mapping[str, Any]) -> str:
    """Return the id of the answer that a message is part of, for agents that split an answer; "" if it has no id."""
    id = extra.get("id")
    return id if isinstance(id, str) else ""


def total_tokens(usage: Mapping[str, Any] | None) -> int:
    """Return the total number of tokens of one answer (semantics.md rule 15)."""
    if not usage:
        return 0
    total = usage.get("totalTokens")
    if type(total) is not int or total <= 0:
        total = sum(token_counts(usage)[:4])
    return min(total, TOKENS_MAX)


def token_counts(usage: Mapping[str, Any] | None, cost: object = None) -> TokenCounts:
    """Return the tokens of one answer by their kind.

    Args:
        usage: The usage that the provider or the agent reported.
        cost: The cost that the agent recorded beside the usage, in US dollars.
    """
    if not usage:
        return TokenCounts(cost=dollars(cost))
    prompt, output, cache_read, cache_write = (
        next((min(count, TOKENS_MAX) for count in map(usage.get, names) if type(count) is int and count > 0), 0)
        for names in _NAMES
    )
    if any(usage.get(name) for name in _INCLUDED):
        prompt = max(prompt - cache_read, 0)
    thoughts = usage.get("thoughtsTokenCount")
    output += thoughts if type(thoughts) is int and 0 < thoughts < TOKENS_MAX else 0
    recorded = usage.get("cost")
    total = recorded.get("total") if isinstance(recorded, Mapping) else recorded
    return TokenCounts(prompt, output, cache_read, cache_write, dollars(total) or dollars(cost))


def dollars(value: object) -> float:
    """Return a recorded cost; 0 if there is none, or if it is negative or not finite."""
    return float(value) if isinstance(value, int | float) and 0 < value < TOKENS_MAX else 0.0
