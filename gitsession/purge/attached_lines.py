"""Removal of purged text from the attached lines of a record. The record's message is kept (docs/decisions/0014).

A codex or Claude Code record consists of a line of the conversation and the lines attached before it. The attached
lines repeat the previous message for display, or contain counts and settings. If the text occurs only in attached
lines, it belongs to another message, and the message of this record is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gitsession.codec.holes import PURGED
from gitsession.formats import Format
from gitsession.formats.base import jsonl
from gitsession.formats.base.jsonl import LF, record_line
from gitsession.redaction.guard import Guard
from gitsession.redaction.rule import Rule
from gitsession.redaction.scan import Scanner
from gitsession.sessions import commit_writer
from gitsession.sessions.tombstone_set import Replacement


def redact_attached(form: str, payload: bytes, text: str, contains: Callable[[bytes], bool]) -> Replacement | None:
    """Return the record ``payload`` with ``text`` removed from its attached lines.

    Returns ``None`` if the whole record must be removed: it has no attached lines, its own line contains the text
    according to ``contains``, or the redaction would change the kind of an attached line.
    """
    own = record_line(payload)
    attached = payload[: len(payload) - len(own)]
    if form != Format.FORM or not attached or contains(own):
        return None
    pattern = re.escape(text.encode("utf-8", "surrogatepass"))
    redacted = Guard(Scanner((), [Rule(PURGED, pattern, ())])).redact(form, attached)
    if contains(redacted.payload) or not _have_same_kinds(attached, redacted.payload):
        return None
    return Replacement(form, commit_writer.cut(form, redacted.payload + own, redacted.rows))


def _have_same_kinds(before: bytes, after: bytes) -> bool:
    """Return whether the lines of ``after`` have the same kinds as the lines of ``before``. All lines must be JSON."""
    lines, others = before.split(LF)[:-1], after.split(LF)[:-1]
    pairs = zip(map(jsonl.parse, lines), map(jsonl.parse, others), strict=False)
    return len(lines) == len(others) and all(_has_same_structure(one, other) for one, other in pairs)


def _has_same_structure(before: Any, after: Any, key: str = "") -> bool:
    """Return whether two JSON values differ at most in strings, except keys and the values of ``type``."""
    if isinstance(before, dict) and isinstance(after, dict):
        has_same_keys = before.keys() == after.keys()
        return has_same_keys and all(_has_same_structure(value, after[name], name) for name, value in before.items())
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_has_same_structure, before, after))
    if isinstance(before, str) and isinstance(after, str) and key != "type":
        return True
    return type(before) is type(after) and bool(before == after)
