"""A compaction that a provider made on its side, as an entry: it is sent back as it came (semantics.md A1, A2, C3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitsession.context.replay import keep_replay
from gitsession.model.entries import Compaction

ANTHROPIC = "anthropic"

_TYPES = ("compaction", "compaction_summary")


def provider_compaction(
    given: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    provider: str = ANTHROPIC,
    tokens_before: int | None = None,
) -> Compaction | None:
    """The entry of a compaction by ``provider``: nothing before it is seen any more. ``None`` for one that failed.

    ``given``: Anthropic's ``compaction`` block, OpenAI's ``compaction`` item, or all of the ``output`` of its compact
    endpoint. It is kept with every field; its text, if it has one that we can read, is the summary that others see.
    Append the entry before the answer that it came with. ``provider``: as in ``Message.provider``.
    """
    items = [given] if isinstance(given, Mapping) else list(given)
    made = next((item for item in items if item.get("type") in _TYPES and _says_something(item)), None)
    if made is None:
        return None
    text = made.get("content")
    return Compaction(
        summary=text if isinstance(text, str) else "",
        tokens_before=tokens_before,
        method=provider,
        preserve=keep_replay(provider, items),
    )


def _says_something(item: Mapping[str, Any]) -> bool:
    # Anthropic marks one that failed by a content of null, whatever else is in it; OpenAI's has no content.
    return bool(item["content"] if "content" in item else item.get("encrypted_content"))
