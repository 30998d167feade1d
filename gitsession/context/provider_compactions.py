"""Compactions that a provider made. They are sent back to the provider unchanged (A1, A2, C3).

Only the provider can read all of their content. Some fields are signed, so no field may be lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitsession.dataclass import dataclass
from gitsession.model.entries import Compaction

REPLAY = "replay"
"""Key in the field ``preserve`` of gitsession's compactions."""

ANTHROPIC = "anthropic"
_TYPES = ("compaction", "compaction_summary")


@dataclass(frozen=True, slots=True)
class Replay:
    """A provider's compaction. ``items``: blocks (Anthropic) or items (OpenAI) to send, with all fields."""

    provider: str
    items: tuple[Mapping[str, Any], ...]


def provider_compaction(
    output: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    provider: str = ANTHROPIC,
    tokens_before: int | None = None,
) -> Compaction | None:
    """Convert a compaction by a provider to an entry.

    The context does not show the entries before this entry. Append this entry before the answer with which
    the compaction arrived.

    Args:
        output: Anthropic's ``compaction`` block, OpenAI's ``compaction`` item, or the whole ``output`` of OpenAI's
            compact endpoint. All fields are kept. If the output contains readable text, other models receive this text
            as the summary.
        provider: Name of the provider, as in ``Message.provider``.
        tokens_before: Number of tokens of the context before the compaction.

    Returns:
        The entry; ``None`` if the compaction failed.
    """
    items = [output] if isinstance(output, Mapping) else list(output)
    compaction = next((item for item in items if item.get("type") in _TYPES and _has_content(item)), None)
    if compaction is None:
        return None
    text = compaction.get("content")
    return Compaction(
        summary=text if isinstance(text, str) else "",
        tokens_before=tokens_before,
        method=provider,
        preserve={REPLAY: {"provider": provider, "items": [dict(item) for item in items]}},
    )


def _has_content(item: Mapping[str, Any]) -> bool:
    # Anthropic marks a failed compaction by null content, whatever its other fields are. OpenAI's items have no
    # content.
    return bool(item["content"] if "content" in item else item.get("encrypted_content"))


def replay_of(entry: Compaction) -> Replay | None:
    """Return the provider's compaction that gitsession or omp stored in ``entry``; ``None`` if none is valid."""
    return _replay(_preserved(entry, REPLAY), "items") or openai_history(entry) or _replay_of_omp(entry)


def openai_history(entry: Compaction) -> Replay | None:
    """Return OpenAI's replacement for the history, including the kept entries, as omp stores it (rule 13)."""
    return _replay(_preserved(entry, "openaiRemoteCompaction"), "replacementHistory")


def _replay_of_omp(entry: Compaction) -> Replay | None:
    """Return Anthropic's block, rebuilt from the two fields that omp stores."""
    preserved = _preserved(entry, "anthropicCompaction")
    provider, content, encrypted = (preserved.get(name) for name in ("provider", "content", "encryptedContent"))
    if not isinstance(provider, str) or not isinstance(content, str) or not content:
        return None
    block = {"type": "compaction", "content": content, **({"encrypted_content": encrypted} if encrypted else {})}
    return Replay(provider, (block,))


def _preserved(entry: Compaction, name: str) -> Mapping[str, Any]:
    value = entry.preserve.get(name) if isinstance(entry.preserve, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _replay(preserved: Mapping[str, Any], name: str) -> Replay | None:
    provider, items = preserved.get("provider"), preserved.get(name)
    if not isinstance(provider, str) or not provider or not isinstance(items, list | tuple):
        return None
    return Replay(provider, tuple(items)) if all(isinstance(item, Mapping) for item in items) else None
