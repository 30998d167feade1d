"""Functions that read the fields of Claude Code's lines.

This module is FROZEN under view 1, because these fields determine the records and the parent of each record. No
function in this module raises an exception.
"""

from __future__ import annotations

from typing import Any

from gitsession.formats.base.fields import object_in
from gitsession.formats.base.jsonl import LineFailure, Object, parse

MESSAGES = ("user", "assistant")

SYNTHETIC = "<synthetic>"
"""The model name in answers that Claude Code generates itself: API errors and empty answers."""

_TREE = ("user", "assistant", "attachment", "system")
"""The types of lines that form Claude Code's tree.

In files of older versions, ``progress`` lines are also part of the tree. Newer versions skip these lines.
"""

_RECORD_TYPES = frozenset({*_TREE, "custom-title", "ai-title", "summary", "tag", "agent-name", "content-replacement"})
"""The types of lines that are record lines even without a ``uuid``.

Such a line is part of the conversation, sets a name, or changes the context.
"""


def text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def uuid_of(line: Object) -> str | None:
    return text(line.get("uuid"))


def is_attached(line: Object) -> bool:
    """Return whether ``line`` is a log line. A log line accompanies the next record line.

    A log line contains no ``uuid``, and its type is not in ``_RECORD_TYPES``.
    """
    type_ = line.get("type")
    return uuid_of(line) is None and not (isinstance(type_, str) and type_ in _RECORD_TYPES)


def is_linked(line: Object) -> bool:
    """Return whether ``line`` is in Claude Code's tree. Claude Code can continue only from such a line."""
    return line.get("type") in _TREE and uuid_of(line) is not None


def is_sidechain(line: Object) -> bool:
    return line.get("isSidechain") is True


def is_boundary(line: Object) -> bool:
    """Return whether ``line`` is the boundary line of a compaction.

    The boundary line cuts the history. Normally, the summary is in the next line.
    """
    return line.get("type") == "system" and line.get("subtype") == "compact_boundary" and uuid_of(line) is not None


def is_summary_of(line: Object, boundary: Object) -> bool:
    is_child = text(line.get("parentUuid")) == uuid_of(boundary)
    return is_child and line.get("type") == "user" and line.get("isCompactSummary") is True


def preserved_by(boundary: Object) -> list[str]:
    """Return the ids of the messages that a compaction keeps in the context.

    If the boundary line does not list these messages, return only the id of the last one.
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
    """Return the id of the answer to which ``line`` belongs, or ``None`` if ``line`` contains no such id."""
    return text(message_of(line).get("id")) if line.get("type") == "assistant" else None


def results_in(line: Object) -> set[str]:
    """Return the ids of the calls whose results are in ``line``."""
    return _ids_in(line, "user", "tool_result", "tool_use_id")


def calls_in(line: Object) -> set[str]:
    """Return the ids of the calls in ``line``."""
    return _ids_in(line, "assistant", "tool_use", "id")


def _ids_in(line: Object, speaker: str, block: str, name: str) -> set[str]:
    content = message_of(line).get("content") if line.get("type") == speaker else None
    blocks = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    ids = [each.get(name) for each in blocks if each.get("type") == block]
    return {id for id in ids if isinstance(id, str)}


def boundary_before(line: Object, payload: bytes) -> Object | None:
    """Return the boundary line of the compaction whose summary is ``line``, or ``None`` if there is none.

    ``payload``: the record whose last line is ``line``.
    """
    if line.get("isCompactSummary") is not True:
        return None
    for attached in reversed(payload.split(b"\n")[:-1]):
        found = parse(attached)
        if not isinstance(found, LineFailure) and is_boundary(found) and is_summary_of(line, found):
            return found
    return None
