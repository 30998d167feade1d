"""Agents whose session files resemble those of a supported agent and cannot be imported."""

from __future__ import annotations

from gitsession.formats.base import jsonl
from gitsession.formats.base.jsonl import Object

LINES_READ = 50

QWEN = "Qwen Code"


def agent_of(head: bytes) -> str:
    """Return the name of the unsupported agent that wrote a file beginning with ``head``; "" if none is recognized."""
    lines = (jsonl.parse(line) for line in head.split(b"\n")[:LINES_READ] if b'"sessionId"' in line)
    return QWEN if any(isinstance(line, dict) and _is_qwen(line) for line in lines) else ""


def _is_qwen(line: Object) -> bool:
    """Claude Code's fields, but messages in Gemini's form: ``parts`` in place of ``content``."""
    if not isinstance(line.get("uuid"), str):
        return False
    message = line.get("message")
    has_parts = isinstance(message, dict) and isinstance(message.get("parts"), list) and "content" not in message
    return has_parts or "systemPayload" in line or "toolCallResult" in line
