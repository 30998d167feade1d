"""Tests of ``model.usage``: the tokens of an answer by their kind, in the words of each provider."""

from __future__ import annotations

from typing import Any

import pytest

from gitsession.model.usage import TOKENS_MAX, TokenCounts, token_counts, total_tokens


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (
            {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4, "totalTokens": 10, "cost": {"total": 0.5}},
            (1, 2, 3, 4, 0.5),
        ),
        (
            {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4},
            (1, 2, 3, 4, 0),
        ),
        ({"input_tokens": 100, "cached_input_tokens": 80, "output_tokens": 5, "total_tokens": 105}, (20, 5, 80, 0, 0)),
        ({"prompt_tokens": 7, "completion_tokens": 8}, (7, 8, 0, 0, 0)),
        (
            {"promptTokenCount": 9, "cachedContentTokenCount": 4, "candidatesTokenCount": 2, "thoughtsTokenCount": 3},
            (5, 5, 4, 0, 0),
        ),
        ({"input": 1, "cost": 0.125}, (1, 0, 0, 0, 0.125)),
        ({"input": True, "output": -5, "cacheRead": "3", "cost": {"total": float("nan")}}, (0, 0, 0, 0, 0)),
        ({"input": 10**30, "cost": float("inf")}, (TOKENS_MAX, 0, 0, 0, 0)),
        (None, (0, 0, 0, 0, 0)),
    ],
)
def test_the_tokens_of_an_answer(usage: dict[str, Any] | None, counts: tuple[float, ...]) -> None:
    assert token_counts(usage) == TokenCounts(*counts)  # type: ignore[arg-type]


def test_a_cost_beside_the_usage_is_used_if_the_usage_has_none() -> None:
    assert token_counts({"input": 1}, 0.25).cost == 0.25
    assert token_counts({"input": 1, "cost": 0.5}, 0.25).cost == 0.5


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        ({"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4, "totalTokens": 11}, 11),
        ({"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4, "totalTokens": 0}, 10),
        ({"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4}, 10),
        ({"input_tokens": 100, "cached_input_tokens": 80, "output_tokens": 5}, 105),
        ({"input": 0, "output": 0, "prompt_tokens": 7, "completion_tokens": 8}, 15),
        ({"input": 7, "prompt_tokens": 7}, 7),
        ({"promptTokenCount": 9, "cachedContentTokenCount": 4, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}, 14),
        ({"totalTokens": 10**30}, TOKENS_MAX),
        ({}, 0),
        (None, 0),
    ],
)
def test_the_total_is_the_sum_of_the_kinds_unless_it_was_reported(usage: dict[str, Any] | None, total: int) -> None:
    assert total_tokens(usage) == total
