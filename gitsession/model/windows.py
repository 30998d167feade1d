"""Sizes of models' context windows, for automatic compaction."""

from __future__ import annotations

import re

_WINDOWS = (
    (r"claude-.*\[1m\]", 1_000_000),
    (r"claude-", 200_000),
    (r"gpt-4\.1", 1_047_576),
    (r"gpt-4o", 128_000),
    (r"gpt-5", 272_000),
    (r"o[134](-|$)", 200_000),
    (r"gemini-[23]", 1_048_576),
)
"""Beginnings of models' names, each with the number of tokens that a request can have.

If a model has several sizes, the smallest one is listed: a compaction too early costs less than a refused request.
"""


def window_of(model: str | None) -> int | None:
    """Return the context window of a model in tokens; ``None`` if it is unknown.

    Args:
        model: The name of the model, which can follow the name of its provider and a slash.
    """
    name = (model or "").rpartition("/")[2].lower()
    return next((tokens for start, tokens in _WINDOWS if re.match(start, name)), None)
