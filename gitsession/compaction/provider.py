"""A compaction that a provider made on its side: kept as it came, since it must go back as it came (A1, A2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsession.model.entries import Compaction

ANTHROPIC = "anthropic"


def recorded(
    block: Mapping[str, Any], *, provider: str = ANTHROPIC, tokens_before: int | None = None
) -> Compaction | None:
    """The entry of a ``compaction`` block: nothing before it is seen any more. ``None`` for one that failed.

    The block stands in ``preserve`` under the provider's name, every field of it; its text, if it has one we can read,
    is the summary. Append it before the answer that the block came with.
    """
    text = block.get("content")
    if text is None and not block.get("encrypted_content"):
        return None
    summary = text if isinstance(text, str) else ""
    return Compaction(summary=summary, tokens_before=tokens_before, method=provider, preserve={provider: dict(block)})
