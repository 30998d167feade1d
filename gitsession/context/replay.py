"""A compaction that a provider made on its side: it goes back to that provider as it came (semantics.md A1, A2, C3).

Nobody else can read all of it, nor may a field be lost: some are signed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gitsession.model.entries import Compaction

REPLAY = "replay"
"""Where a compaction of ours keeps it, in ``preserve``."""


@dataclass(frozen=True, slots=True)
class Replay:
    """``provider``: who made it. ``items``: the blocks (Anthropic) or items (OpenAI) to send, every field of them."""

    provider: str
    items: tuple[Mapping[str, Any], ...]


def keep_replay(provider: str, items: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What ``preserve`` of a compaction says, so that ``replay_of`` finds it."""
    return {REPLAY: {"provider": provider, "items": [dict(item) for item in items]}}


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
