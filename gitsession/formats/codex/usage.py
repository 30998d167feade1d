"""What codex says that answers took: ``token_count``, an event that rides with the item behind the answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitsession.formats.base.jsonl import Object, parse
from gitsession.model.usage import TOKENS_MAX, AnswerUsage


def tokens_in(line: bytes) -> int | None:
    """How much codex takes the context for since the last answer, or since it made it shorter."""
    return _whole(_info(line, "last_token_usage"), "total_tokens")


def counts_in(payload: bytes) -> Iterator[AnswerUsage]:
    """What answers took, each by the sum up to it: codex says the same again when only its limits have moved."""
    for line in payload.split(b"\n"):
        last = _info(line, "last_token_usage")
        tokens, so_far = _whole(last, "total_tokens"), _whole(_info(line, "total_token_usage"), "total_tokens")
        is_guess = last.get("input_tokens") == 0 == last.get("output_tokens")
        if tokens and not is_guess:
            yield AnswerUsage(tokens, str(so_far or ""))


def _info(line: bytes, name: str) -> Object:
    found: Any = parse(line) if b"token_count" in line else None
    for step in ("payload", "info", name):
        found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _whole(usage: Object, name: str) -> int | None:
    stated = usage.get(name)
    return stated if type(stated) is int and 0 < stated < TOKENS_MAX else None
