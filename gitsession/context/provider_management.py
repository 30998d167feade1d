"""Settings with which a provider compacts and edits contexts itself (rules A1, A3 and A4)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from gitsession.dataclass import dataclass

TRIGGER_MIN = 50_000
"""Minimum of the trigger of Anthropic's compaction, in tokens."""

BETAS = {
    "compact_20260112": "compact-2026-01-12",
    "clear_tool_uses_20250919": "context-management-2025-06-27",
    "clear_thinking_20251015": "context-management-2025-06-27",
}
"""The beta of Anthropic's API that each edit requires."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextManagement:
    """Settings with which a provider manages the context. The session itself keeps its whole history.

    Only ``compact`` and ``trigger_tokens`` apply to OpenAI. The other settings are those of Anthropic's context edits.

    Attributes:
        compact: Whether the provider compacts the context.
        trigger_tokens: Number of input tokens above which the provider compacts; ``None`` for its default. Anthropic's
            minimum is 50,000, and a smaller number is raised to it.
        pause: Whether the answer ends after the compaction, so that the program can add messages.
        instructions: Prompt for the summary, which replaces the provider's own; "" for none.
        keep_tool_uses: Number of newest tool results that are kept when older ones are cleared. If this and the other
            fields about tools have their defaults, no results are cleared.
        tool_trigger_tokens: Number of input tokens above which tool results are cleared; ``None`` for the default.
        tool_trigger_uses: Number of tool uses above which tool results are cleared; replaces ``tool_trigger_tokens``.
        clear_at_least: Minimum number of tokens that must be cleared; ``None`` for no minimum.
        exclude_tools: Names of tools whose results are kept.
        clear_tool_inputs: True to also clear the arguments of calls, or names of tools whose arguments are cleared.
        keep_thinking: Number of the last turns whose reasoning is kept, or ``"all"``. ``None`` for the default of the
            model, without an edit.
    """

    compact: bool = True
    trigger_tokens: int | None = None
    pause: bool = False
    instructions: str = ""
    keep_tool_uses: int | None = None
    tool_trigger_tokens: int | None = None
    tool_trigger_uses: int | None = None
    clear_at_least: int | None = None
    exclude_tools: Collection[str] = ()
    clear_tool_inputs: bool | Collection[str] = False
    keep_thinking: int | Literal["all"] | None = None

    def anthropic(self) -> dict[str, Any]:
        """Return the fields of a request to Anthropic's Messages API."""
        edits = [edit for edit in (self._thinking(), self._tool_uses(), self._compaction()) if edit is not None]
        return {"context_management": {"edits": edits}} if edits else {}

    def openai(self) -> dict[str, Any]:
        """Return the fields of a request to OpenAI's Responses API."""
        threshold = {} if self.trigger_tokens is None else {"compact_threshold": self.trigger_tokens}
        return {"context_management": [{"type": "compaction", **threshold}]} if self.compact else {}

    def _thinking(self) -> dict[str, Any] | None:
        """Return the edit that clears reasoning. It must be the first one (A4)."""
        if self.keep_thinking is None:
            return None
        keep = "all" if self.keep_thinking == "all" else {"type": "thinking_turns", "value": self.keep_thinking}
        return {"type": "clear_thinking_20251015", "keep": keep}

    def _tool_uses(self) -> dict[str, Any] | None:
        edit: dict[str, Any] = {}
        if self.tool_trigger_uses is not None:
            edit["trigger"] = {"type": "tool_uses", "value": self.tool_trigger_uses}
        elif self.tool_trigger_tokens is not None:
            edit["trigger"] = _input_tokens(self.tool_trigger_tokens)
        if self.keep_tool_uses is not None:
            edit["keep"] = {"type": "tool_uses", "value": self.keep_tool_uses}
        if self.clear_at_least is not None:
            edit["clear_at_least"] = _input_tokens(self.clear_at_least)
        if self.exclude_tools:
            edit["exclude_tools"] = list(self.exclude_tools)
        if self.clear_tool_inputs:
            edit["clear_tool_inputs"] = True if self.clear_tool_inputs is True else list(self.clear_tool_inputs)
        return {"type": "clear_tool_uses_20250919", **edit} if edit else None

    def _compaction(self) -> dict[str, Any] | None:
        if not self.compact:
            return None
        edit: dict[str, Any] = {"type": "compact_20260112"}
        if self.trigger_tokens is not None:
            edit["trigger"] = _input_tokens(max(self.trigger_tokens, TRIGGER_MIN))
        if self.pause:
            edit["pause_after_compaction"] = True
        return edit | ({"instructions": self.instructions} if self.instructions else {})


def _input_tokens(value: int) -> dict[str, Any]:
    return {"type": "input_tokens", "value": value}


def anthropic_betas(request: Mapping[str, Any]) -> list[str]:
    """Return the names of the betas that a request to Anthropic's Messages API requires.

    Send them in the header ``anthropic-beta``, or pass them as ``betas`` to ``client.beta.messages.create``. A request
    with a compaction block requires the beta of compactions too.

    Args:
        request: A request that ``Context.request("anthropic")`` returned.

    Returns:
        The names, without duplicates.
    """
    return list(dict.fromkeys(BETAS[name] for name in _features(request) if name in BETAS))


def _features(request: Mapping[str, Any]) -> Iterator[str]:
    for edit in request.get("context_management", {}).get("edits", ()):
        yield edit["type"]
    contents = [message["content"] for message in request.get("messages", ())]
    if any(
        isinstance(content, list) and any(block["type"] == "compaction" for block in content) for content in contents
    ):
        yield "compact_20260112"
