"""Functions that read the fields of Claude Code's lines.

This module is FROZEN under view 1, because these fields determine the records and their parents.

No function in this module raises an exception, whatever a line contains.
"""

from __future__ import annotations

from typing import Any

from gitsession.formats.base.fields import object_in
from gitsession.formats.base.jsonl import LineFailure, Object, parse

MESSAGES = ("user", "assistant")

SYNTHETIC = "<synthetic>"
"""The model name in answers that Claude Code generates itself: API errors and empty answers."""

_TREE = ("user", "assistant", "attachment", "system")
"""The types of lines that Claude Code links into a tree.

Older versions also linked ``progress`` lines, which newer versions skip.
"""

_RECORD_TYPES = frozenset({*_TREE, "custom-title", "ai-title", "summary", "tag", "agent-name", "content-replacement"})
"""The types of lines that are record lines even without a ``uuid``, because they set a name or change the context."""


def text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def uuid_of(line: Object) -> str | None:
    return text(line.get("uuid"))


def is_attached(line: Object) -> bool:
    """Return whether a line is a log line, which accompanies the next record line.

    A log line is not in the tree, sets no name, and does not change the context.
    """
    type_ = line.get("type")
    return uuid_of(line) is None and not (isinstance(type_, str) and type_ in _RECORD_TYPES)


def is_linked(line: Object) -> bool:
    """Return whether Claude Code can continue from a line."""
    return line.get("type") in _TREE and uuid_of(line) is not None


def is_sidechain(line: Object) -> bool:
    return line.get("isSidechain") is True


def is_boundary(line: Object) -> bool:
    """Return whether a line is the boundary line of a compaction, which cuts the history.

    The next line is the summary.
    """
    return line.get("type") == "system" and line.get("subtype") == "compact_boundary" and uuid_of(line) is not None


def is_summary_of(line: Object, boundary: Object) -> bool:
    is_child = text(line.get("parentUuid")) == uuid_of(boundary)
    return is_child and line.get("type") == "user" and line.get("isCompactSummary") is True


def preserved_by(boundary: Object) -> list[str]:
    """Return the ids in the boundary line of the messages before the compaction that stay in the context.

    The result contains the ids of all these messages, or only the id of the last one.
    """
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
    """Return the id of the answer to which an assistant line belongs."""
    return text(message_of(line).get("id")) if line.get("type") == "assistant" else None


def results_in(line: Object) -> set[str]:
    """Return the ids of the calls whose results are in a user line."""
    return _ids_in(line, "user", "tool_result", "tool_use_id")


def calls_in(line: Object) -> set[str]:
    """Return the ids of the calls in an assistant line."""
    return _ids_in(line, "assistant", "tool_use", "id")


def _ids_in(line: Object, speaker: str, block: str, name: str) -> set[str]:
    content = message_of(line).get("content") if line.get("type") == speaker else None
    blocks = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    ids = [each.get(name) for each in blocks if each.get("type") == block]
    return {id for id in ids if isinstance(id, str)}


def boundary_before(line: Object, payload: bytes) -> Object | None:
    """Return the boundary before ``line``, the last line of ``payload``, if ``line`` is the summary of a compaction."""
    if line.get("isCompactSummary") is not True:
        return None
    for attached in reversed(payload.split(b"\n")[:-1]):
        found = parse(attached)
        if not isinstance(found, LineFailure) and is_boundary(found) and is_summary_of(line, found):
            return found
    return None
