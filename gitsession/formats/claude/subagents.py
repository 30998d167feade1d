"""Which call of a session of Claude Code's began one of its sub-agents."""

from __future__ import annotations

from collections.abc import Mapping

from gitsession.formats.base.groups import spoken
from gitsession.formats.base.jsonl import Failure, parse
from gitsession.formats.claude.records import calls_in, results_in, text


def began(payload: bytes, id: str, beside: Mapping[str, bytes]) -> str:
    """``Delegating.began``: the call that the file beside the sub-agent's names; without one, whose result names it."""
    agent = id.rpartition("agent-")[2]
    named = {call for data in beside.values() if (call := _named(data)) is not None}
    if not any(word.encode("utf-8", "surrogatepass") in payload for word in named or {agent}):
        return ""
    line = parse(spoken(payload))
    if isinstance(line, Failure):
        return ""
    result = line.get("toolUseResult")
    is_its = isinstance(result, dict) and result.get("agentId") == agent
    return min(calls_in(line) & named if named else results_in(line) if is_its else (), default="")


def is_delegated(source_id: str) -> bool:
    """``Delegating.is_delegated``: the id is ``<session>/agent-<id>``."""
    return source_id.rpartition("/")[2].startswith("agent-")


def _named(data: bytes) -> str | None:
    said = parse(data)
    return None if isinstance(said, Failure) else text(said.get("toolUseId"))
