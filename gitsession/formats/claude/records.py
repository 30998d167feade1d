"""What a line of Claude Code's says of itself. FROZEN with view 1: it decides which records there are, and where.

Nothing here raises, whatever a line holds.
"""

from __future__ import annotations

from typing import Any

from gitsession.formats.base.fields import object_in
from gitsession.formats.base.jsonl import LineFailure, Object, parse

MESSAGES = ("user", "assistant")

_TREE = ("user", "assistant", "attachment", "system")
"""What the agent itself links into a tree. It passes over ``progress``, which older versions linked as well."""

_SPEAKING = frozenset({*_TREE, "custom-title", "ai-title", "summary", "tag", "agent-name", "content-replacement"})
"""What speaks without a ``uuid``: it names something, or changes what the model sees."""


def text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def uuid_of(line: Object) -> str | None:
    return text(line.get("uuid"))


def rides(line: Object) -> bool:
    """Whether a line only logs: it has no place in the tree, names nothing and changes nothing that the model sees."""
    type_ = line.get("type")
    return uuid_of(line) is None and not (isinstance(type_, str) and type_ in _SPEAKING)


def is_linked(line: Object) -> bool:
    """Whether the agent goes on from such a line."""
    return line.get("type") in _TREE and uuid_of(line) is not None


def is_sidechain(line: Object) -> bool:
    return line.get("isSidechain") is True


def is_boundary(line: Object) -> bool:
    """Where a compaction cut the history: its summary is the next line."""
    return line.get("type") == "system" and line.get("subtype") == "compact_boundary" and uuid_of(line) is not None


def is_summary_of(line: Object, boundary: Object) -> bool:
    stands_below = text(line.get("parentUuid")) == uuid_of(boundary)
    return stands_below and line.get("type") == "user" and line.get("isCompactSummary") is True


def preserved_by(boundary: Object) -> list[str]:
    """The ids of messages before a compaction that the model still sees, as far as it lists them: all, or the last."""
    metadata = boundary.get("compactMetadata")
    if not isinstance(metadata, dict):
        return []
    messages, segment = metadata.get("preservedMessages"), metadata.get("preservedSegment")
    if isinstance(messages, dict) and isinstance(messages.get("uuids"), list):
        return [uuid for uuid in messages["uuids"] if text(uuid) is not None]
    tail = text(segment.get("tailUuid")) if isinstance(segment, dict) else None
    return [tail] if tail is not None else []


def message_of(line: Object) -> Object:
    return object_in(line, "message")


def answer_id(line: Object) -> str | None:
    """The id of the answer that an assistant's line is a block of."""
    return text(message_of(line).get("id")) if line.get("type") == "assistant" else None


def results_in(line: Object) -> set[str]:
    """The ids of the calls whose results a user's line holds."""
    return _ids_in(line, "user", "tool_result", "tool_use_id")


def calls_in(line: Object) -> set[str]:
    """The ids of the calls that an assistant's line makes."""
    return _ids_in(line, "assistant", "tool_use", "id")


def _ids_in(line: Object, speaker: str, block: str, name: str) -> set[str]:
    content = message_of(line).get("content") if line.get("type") == speaker else None
    blocks = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    ids = [each.get(name) for each in blocks if each.get("type") == block]
    return {id for id in ids if isinstance(id, str)}


def boundary_before(line: Object, payload: bytes) -> Object | None:
    """The boundary that rides with ``line``, the last of ``payload``, if that is the summary of a compaction."""
    if line.get("isCompactSummary") is not True:
        return None
    for riding in reversed(payload.split(b"\n")[:-1]):
        found = parse(riding)
        if not isinstance(found, LineFailure) and is_boundary(found) and is_summary_of(line, found):
            return found
    return None
