"""What codex says that answers took: ``token_count``, an event that rides with the item behind the answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitsession.formats.jsonl import Failure, parse
from gitsession.model.usage import TOKENS_MAX, Counted


def count_in(line: bytes) -> Counted | None:
    """The last answer's tokens, by the sum of all so far: codex says the same again when only its limits have moved."""
    found = parse(line) if b"token_count" in line else None
    if found is None or isinstance(found, Failure):
        return None
    last, so_far = (_tokens(found, name) for name in ("last_token_usage", "total_token_usage"))
    return Counted(last, f"{so_far}" if so_far else "") if last else None


def counts_in(lines: bytes) -> Iterator[Counted]:
    """Of each line that says so."""
    return (found for line in lines.split(b"\n") if (found := count_in(line)) is not None)


def _tokens(line: Any, which: str) -> int | None:
    for step in ("payload", "info", which, "total_tokens"):
        line = line.get(step) if isinstance(line, dict) else None
    return line if type(line) is int and 0 < line < TOKENS_MAX else None
