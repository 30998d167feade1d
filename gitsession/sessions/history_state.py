"""The state of a history: the settings of the next answer, modes, permissions, the todo list, the plan, and marks.

The state at an entry is computed from the entry and the state at its parent. A catalog can therefore store the state
for each entry, so that only one row must be read to resume a session of 100,000 entries.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any, TypeVar

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
    TodoItem,
    ToolsChange,
)
from gitsession.model.session_state import SERVICE_TIER, StateChanges, changes_in
from gitsession.model.todo_lists import progress_of
from gitsession.sessions.node import Node

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
    injected rules, the oldest first. ``mode``: the mode of the newest mode change. It is not ``modes["mode"]``, which
    messages can state too: the digest of a context contains ``mode``, and a context without a catalog reads no messages
    for its state.

    The other fields are those of ``SessionState``. ``todos``: the entry with the todo list. ``tasks``: the list if
    entries change single items of it: the id, the status and the text of each item. ``progress``: the numbers of done
    and of all items; empty if there is no list. ``plan``: the entry with the plan. Mappings and ``tasks`` have only the
    ``VALUES_MAX`` newest values, with at most ``CHARS_MAX`` characters.
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
    modes: Mapping[str, str] = field(default_factory=dict)
    permissions: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)
    todos: Oid | None = None
    tasks: tuple[tuple[str, str, str], ...] = ()
    progress: tuple[int, ...] = ()
    plan: Oid | None = None


VALUES_MAX, CHARS_MAX = 100, 6_000
"""Limits of a mapping or a list in a state. A catalog has such a state for each entry that changes it."""

EMPTY_STATE = HistoryState()


def step(state: HistoryState, oid: Oid, entry: Entry) -> HistoryState:
    """Return the state at ``entry``. ``state``: the state at its parent, which is returned if nothing changes."""
    changes = changes_in(entry)
    if changes is not None:
        state = _changed(state, oid, changes)
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


def _changed(state: HistoryState, oid: Oid, changes: StateChanges) -> HistoryState:
    fields: dict[str, Any] = {}
    for name in ("modes", "permissions", "marks"):
        if getattr(changes, name):
            fields[name] = _merged(getattr(state, name), getattr(changes, name))
    if changes.plan is not None:
        fields["plan"] = oid if changes.plan else None
    if changes.todos is not None:
        progress = progress_of(item.status for item in changes.todos)
        fields |= {"todos": oid if changes.todos else None, "tasks": (), "progress": progress}
    tasks = _with_tasks(state.tasks, changes.tasks)
    if tasks != state.tasks:
        fields |= {"todos": None, "tasks": tasks, "progress": progress_of(status for _, status, _ in tasks)}
    same = all(getattr(state, name) == value for name, value in fields.items())
    return state if same else replace(state, **fields)


def _merged(values: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return ``values`` with the changes, the newest last."""
    kept = {name: value for name, value in values.items() if changes.get(name, value) == value}
    new = {name: value for name, value in changes.items() if value is not None and name not in kept}
    return dict(_newest([*kept.items(), *new.items()]))


_Texts = TypeVar("_Texts", bound=tuple[str, ...])


def _newest(values: list[_Texts]) -> list[_Texts]:
    """Return the newest values, which are the last ones, within the limits. At least one value is kept."""
    newest = values[-VALUES_MAX:]
    sizes = itertools.accumulate(sum(map(len, value)) for value in reversed(newest))
    kept = sum(size <= CHARS_MAX for size in sizes)
    return newest[-max(kept, 1) :]


def _with_tasks(
    tasks: tuple[tuple[str, str, str], ...], changes: Iterable[tuple[str, str | None, str | None]]
) -> tuple[tuple[str, str, str], ...]:
    known = {id: (status, text) for id, status, text in tasks}
    for id, status, text in changes:
        old = known.get(id)
        if status == "deleted":
            known.pop(id, None)
        elif old is not None or text is not None:  # a change of an unknown task has no text
            before = old or ("pending", "")
            known[id] = status or before[0], before[1] if text is None else text
    return tuple(_newest([(id, *value) for id, value in known.items()]))


def walk(
    nodes: Iterable[Node], read: Callable[[Node], Entry], known: Callable[[Node], HistoryState | None] = lambda _: None
) -> HistoryState:
    """Return the state at the end of a history with all fields. Every entry is read, unlike in ``gather``."""
    unread: list[Node] = []
    state = None
    for node in nodes:
        state = known(node)
        if state is not None:
            break
        unread.append(node)
    state = state or EMPTY_STATE
    for node in reversed(unread):
        state = step(state, node.oid, read(node))
    return state


def todos_of(state: HistoryState, read: Callable[[Oid], Entry]) -> tuple[TodoItem, ...]:
    """Return the todo list of a state. ``read``: a function that returns the entry with the list."""
    if state.todos is None:
        return tuple(TodoItem(text, status, id=id) for id, status, text in state.tasks)
    changes = changes_in(read(state.todos))
    return (changes and changes.todos) or ()


def plan_of(state: HistoryState, read: Callable[[Oid], Entry]) -> str | None:
    """Return the plan of a state. ``read``: a function that returns the entry with the plan."""
    changes = changes_in(read(state.plan)) if state.plan is not None else None
    return changes.plan if changes is not None else None


def gather(
    nodes: Iterable[Node], read: Callable[[Node], Entry], known: Callable[[Oid], HistoryState | None] = lambda _: None
) -> HistoryState:
    """Return the state of a history. ``nodes``: the nodes of the history, the tip first.

    ``known``: a function that returns the state at an entry, or ``None``. The history is read back to the nearest entry
    for which ``known`` returns a state. Of each kind in ``NEWEST``, only the newest entry with a value is used.
    Messages are not read. So the fields of ``SessionState`` are complete only in the result of ``walk``.
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
