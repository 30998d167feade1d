"""What codex itself puts between the words of user and model, and what a turn is. FROZEN under view 1.

A roll-back drops turns, so where the lines behind it hang follows from this (``codex_file``). The words are those by
which codex 0.169 tells its own insertions from what a person typed (observed, one by one).
"""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase
from typing import Any

from gitsession.formats.base.jsonl import Object

_INJECTED = (
    ("# agents.md instructions", "</instructions>", "AGENTS.md"),
    ("<environment_context>", "</environment_context>", "environment_context"),
    ("<skill>", "</skill>", "skill"),
    ("<user_shell_command>", "</user_shell_command>", "user_shell_command"),
    ("<turn_aborted>", "</turn_aborted>", "turn_aborted"),
    ("<subagent_notification>", "</subagent_notification>", "subagent_notification"),
    ("<goal_context>", "</goal_context>", "goal_context"),
    ("<codex_internal_context", "</codex_internal_context>", "codex_internal_context"),
    ("<recommended_plugins>", "</recommended_plugins>", "recommended_plugins"),
    ("<hook_prompt", "</hook_prompt>", "hook_prompt"),
)
"""How text that is put in as the user's begins and ends, in lower case, and what it is called."""

_UPDATES = (
    "<permissions instructions>", "<collaboration_mode>", "<model_switch>", "<realtime_conversation>",
    "<personality_spec>", "<skills_instructions>", "<apps_instructions>", "<plugins_instructions>",
    "<multi_agent_mode>", "<token_budget>", "<context_window>", "<git_attribution>", "<persistent_mode>",
    "<environments_instructions>", "<context_window_guidance>", "<rollout_budget>", "approved command prefix saved:",
)  # fmt: skip
"""How a developer message begins that tells of a change before a turn, and goes with the turn when it is dropped."""

_BLANK = " \t\r\n\f\v"


def injected(item: Object) -> str | None:
    """What codex calls the user message ``item`` if it put it in by itself; ``None`` for what a person said."""
    if not _is_message(item, "user"):
        return None
    for text in _texts(item):
        inner = text.strip(_BLANK)
        head, end = _lower(inner[:64]), _lower(inner[-64:])
        for start, close, name in _INJECTED:
            if head.startswith(start) and end.endswith(close):
                return name
    return None


def starts_turn(item: Object) -> bool:
    """Whether the response item ``item`` is what a person said."""
    return _is_message(item, "user") and injected(item) is None


def is_update(item: Object) -> bool:
    """Whether ``item`` tells the model what changed before a turn, and belongs to that turn."""
    if _is_message(item, "developer"):
        return any(_lower(text.lstrip(_BLANK)[:64]).startswith(_UPDATES) for text in _texts(item))
    return injected(item) is not None


def _lower(text: str) -> str:
    """ASCII only: what ``str.lower`` does to the rest grows with Unicode."""
    return text.translate(_LOWER)


_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def _is_message(item: Object, role: str) -> bool:
    return item.get("type") == "message" and item.get("role") == role


def _texts(item: Object) -> list[str]:
    content: Any = item.get("content")
    if not isinstance(content, list):
        return []
    texts = [block.get("text") for block in content if isinstance(block, dict)]
    return [text for text in texts if isinstance(text, str)]
