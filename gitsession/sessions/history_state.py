"""The state of a history: the model, its thinking level, the mode, tools, instructions and rules.

The state at an entry is computed from the entry and the state at its parent. A catalog can therefore store the state
for each entry, so that only one row must be read to resume a session of 100,000 entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from gitsession.dataclass import dataclass
from gitsession.git.types import Oid
from gitsession.model.entries import (
    BranchSummary,
    Compaction,
    ContextEdit,
    CustomMessage,
    Entry,
    Injection,
    Instructions,
    Message,
    ModeChange,
    ModelChange,
    Prune,
    Reset,
    ThinkingChange,
    ToolsChange,
)
from gitsession.sessions.node import Node

SERVICE_TIER = "service_tier"
"""The name under which omp's service tier is recorded among the modes, although it is not a mode."""

NEWEST = frozenset({ThinkingChange.kind, ToolsChange.kind, Instructions.kind, Compaction.kind, Reset.kind})
"""Kinds for which only the newest entry is relevant."""

CUMULATIVE = frozenset({ModelChange.kind, ModeChange.kind, Injection.kind})
"""Kinds for which older entries can also be relevant."""


CONTEXT_KINDS = frozenset(
    kind.kind for kind in (Message, CustomMessage, BranchSummary, Compaction, Reset, ContextEdit, Prune, Injection)
)
"""The kinds that can add content to the context, or change the content of another entry."""


@dataclass(frozen=True, slots=True)
class HistoryState:
    """The state of a history at one entry. A long value is represented by the oid of the entry with the value.

    ``model``: the model of the newest model change or answer. ``assistant``: the model of the newest answer.
    ``models``: the newest model changes by role. Models are written as ``provider/model``. ``rules``: the names of
    injected rules, the oldest first.
    """

    thinking: str | None = None
    model: str | None = None
    assistant: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    mode: str | None = None
    tools: Oid | None = None
    instructions: Oid | None = None
    compaction: Oid | None = None
    reset: Oid | None = None
    rules: tuple[str, ...] = ()


EMPTY_STATE = HistoryState()


def step(state: HistoryState, oid: Oid, entry: Entry) -> HistoryState:
    """Return the state at ``entry``. ``state``: the state at its parent, which is returned if nothing changes."""
    match entry:
        case Message(role="assistant"):
            model = name_of_model(entry.provider, entry.model)
            if model is None or state.model == state.assistant == model:
                return state
            return replace(state, model=model, assistant=model)
        case ModelChange():
            model = name_of_model(entry.provider, entry.model)
            if model is None:
                return state
            return replace(state, model=model, models={**state.models, entry.role: model})
        case ThinkingChange():
            return state if state.thinking == entry.level else replace(state, thinking=entry.level)
        case ModeChange():
            return state if entry.mode == SERVICE_TIER else replace(state, mode=entry.mode)
        case Injection():
            return replace(state, rules=tuple(dict.fromkeys([*state.rules, *_names(entry.rules)])))
        case ToolsChange():
            return replace(state, tools=oid)
        case Instructions():
            return replace(state, instructions=oid)
        case Compaction():
            return replace(state, compaction=oid)
        case Reset():
            return replace(state, reset=oid)
    return state


def gather(
    nodes: Iterable[Node], read: Callable[[Node], Entry], known: Callable[[Oid], HistoryState | None] = lambda _: None
) -> HistoryState:
    """Return the state of a history. ``nodes``: the nodes of the history, the tip first.

    ``known``: a function that returns the state at an entry, or ``None``. The history is read back to the nearest entry
    for which ``known`` returns a state. Of each kind in ``NEWEST``, only the newest entry with a value is used.
    """
    relevant: list[Node] = []
    found: set[str] = set()
    state = EMPTY_STATE
    for node in nodes:
        earlier = known(node.oid)
        if earlier is not None:
            state = earlier
            break
        kind = node.role if node.kind == Message.kind else node.kind
        is_once = kind in NEWEST or (kind == "assistant" and node.model)
        if kind in CUMULATIVE or (is_once and kind not in found):
            relevant.append(node)
            if step(EMPTY_STATE, node.oid, read(node)) != EMPTY_STATE:
                found.add(kind)
    for node in reversed(relevant):
        state = step(state, node.oid, read(node))
    return state


def name_of_model(provider: str | None, model: str | None) -> str | None:
    """Return ``provider/model``; if only one of the two is set, return it alone."""
    return "/".join(filter(None, (provider, model))) or None


def _names(rules: Any) -> list[str]:
    return [rule for rule in rules if isinstance(rule, str)] if isinstance(rules, list | tuple) else []
