"""Compactions that a provider made on its side: each goes back to it as it came (semantics.md A1, A2, C3).

Nobody else can read all of it, nor may a field be lost: some are signed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gitsession.model.entries import Compaction

REPLAY = "replay"
"""Where a compaction of ours keeps it, in ``preserve``."""

ANTHROPIC = "anthropic"
_TYPES = ("compaction", "compaction_summary")


@dataclass(frozen=True, slots=True)
class Replay:
    """``provider``: who made it. ``items``: the blocks (Anthropic) or items (OpenAI) to send, every field of them."""

    provider: str
    items: tuple[Mapping[str, Any], ...]


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
        preserve={REPLAY: {"provider": provider, "items": [dict(item) for item in items]}},
    )


def _says_something(item: Mapping[str, Any]) -> bool:
    # Anthropic marks one that failed by a content of null, whatever else is in it; OpenAI's has no content.
    return bool(item["content"] if "content" in item else item.get("encrypted_content"))


def replay_of(entry: Compaction) -> Replay | None:
    """What is kept in ``entry``, by us or by omp; ``None`` for any other, and for what is not as either writes it."""
    return _replay(_stated(entry, REPLAY), "items") or openai_history(entry) or _of_omp(entry)


def openai_history(entry: Compaction) -> Replay | None:
    """omp: what OpenAI put in place of the history, all that it kept included (rule 13)."""
    return _replay(_stated(entry, "openaiRemoteCompaction"), "replacementHistory")


def _of_omp(entry: Compaction) -> Replay | None:
    """omp: a block of Anthropic's, taken apart. Other fields than these two it does not keep."""
    stated = _stated(entry, "anthropicCompaction")
    provider, content, sealed = (stated.get(name) for name in ("provider", "content", "encryptedContent"))
    if not isinstance(provider, str) or not isinstance(content, str) or not content:
        return None
    block = {"type": "compaction", "content": content, **({"encrypted_content": sealed} if sealed else {})}
    return Replay(provider, (block,))


def _stated(entry: Compaction, name: str) -> Mapping[str, Any]:
    stated = entry.preserve.get(name) if isinstance(entry.preserve, Mapping) else None
    return stated if isinstance(stated, Mapping) else {}


def _replay(stated: Mapping[str, Any], name: str) -> Replay | None:
    provider, items = stated.get("provider"), stated.get(name)
    if not isinstance(provider, str) or not provider or not isinstance(items, list | tuple):
        return None
    return Replay(provider, tuple(items)) if all(isinstance(item, Mapping) for item in items) else None
