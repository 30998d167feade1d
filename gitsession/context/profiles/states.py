"""The state of a line as all agents know it. Shared."""

from __future__ import annotations

from gitsession.context.history import ContextHistory
from gitsession.context.value import State
from gitsession.model.entries import Instructions, ToolsChange
from gitsession.sessions.history_state import HistoryState


def state(line: ContextHistory, *, model: str | None) -> State:
    """What the whole line says of its state, hidden parts too (rule 7). ``model``: which one the agent goes by."""
    said = line.anchors
    tools = line.entry_at(said.tools) if said.tools else None
    instructions = line.entry_at(said.instructions) if said.instructions else None
    return State(
        model=model,
        models=_models(said, model),
        thinking=said.thinking or "off",
        mode=said.mode,
        tools=tools.tools if isinstance(tools, ToolsChange) else None,
        instructions=instructions if isinstance(instructions, Instructions) else None,
        rules=said.rules,
    )


def _models(said: HistoryState, model: str | None) -> dict[str, str]:
    default = {} if model is None else {"default": model}
    return default | {role: name for role, name in said.models.items() if role != "default"}
