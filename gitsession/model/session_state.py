"""The state of a session beside its conversation: modes, permissions, the todo list, the plan, and marks.

gitsession's own entries state these values directly. Agents state them in tool calls, in results, and in fields of
their lines, each in another form. No function in this module raises an exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

from gitsession.dataclass import dataclass
from gitsession.model.blocks import Text, ToolCall
from gitsession.model.entries import (
    TODO_STATUSES,
    TYPE_PREFIX,
    Custom,
    Entry,
    Mark,
    Message,
    ModeChange,
    ModelChange,
    Permission,
    PlanChange,
    SessionHeader,
    Todo,
    TodoItem,
)

SERVICE_TIER = "service_tier"
"""The name under which omp's service tier is recorded among the modes, although it is not a mode."""

VALUE_CHARS_MAX = 300
"""Maximum length of a value that is not the todo list or the plan. Longer values are cut."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionState:
    """The state of a session at an entry, beside the settings of the next answer (``Context.state``).

    Attributes:
        modes: The agent's modes by name: ``mode`` (such as ``plan``), ``approval``, ``sandbox``,
            ``permission_profile``, ``service_tier``, ``worktree``.
        permissions: The permissions in force: rules such as ``bash(git push *)``, each with the decision.
        todos: The todo list.
        plan: The plan; ``None`` if there is none.
        marks: The marks by name, such as ``shared`` (with the address), ``archived``, ``tag``, and ``goal``.
        added: The number of lines that the entries up to this one added to files.
        removed: The number of lines that they removed.
        files: The number of files that they changed.
    """

    modes: Mapping[str, str] = field(default_factory=dict)
    permissions: Mapping[str, str] = field(default_factory=dict)
    todos: tuple[TodoItem, ...] = ()
    plan: str | None = None
    marks: Mapping[str, str] = field(default_factory=dict)
    added: int = 0
    removed: int = 0
    files: int = 0


class StateChanges(NamedTuple):
    """The changes that one entry makes to the state. In a mapping, ``None`` removes the value.

    ``todos``: the whole new list; ``None`` if the entry states none. ``tasks``: changes of single items: the id, and
    the new status and the new text, if they change. ``plan``: the new plan; "" removes it.
    """

    modes: Mapping[str, str | None] = {}
    permissions: Mapping[str, str | None] = {}
    marks: Mapping[str, str | None] = {}
    todos: tuple[TodoItem, ...] | None = None
    tasks: tuple[tuple[str, str | None, str | None], ...] = ()
    plan: str | None = None


_NONE = StateChanges()


def changes_in(entry: Entry) -> StateChanges | None:
    """Return the changes of the state that an entry makes; ``None`` if there are none."""
    changes = _of_kind(entry)
    if entry.extra:
        role = entry.role if isinstance(entry, Message) else ""
        modes, marks = _modes_of_line(entry.extra, role), _goal_of_line(entry.extra)
        changes = changes._replace(modes={**changes.modes, **modes}, marks={**changes.marks, **marks})
    return None if changes == _NONE else changes


def _of_kind(entry: Entry) -> StateChanges:
    match entry:
        case Message():
            return _of_message(entry)
        case ModelChange():
            return StateChanges(modes=_modes_of_turn(entry.extra)) if entry.extra else _NONE
        case ModeChange():
            is_tier = entry.mode == SERVICE_TIER
            return StateChanges(modes={SERVICE_TIER: _value(entry.data)} if is_tier else {"mode": _cut(entry.mode)})
        case Permission():
            decision = None if entry.decision == "ask" else _value(entry.decision)
            is_kept = entry.scope in ("session", "always") and (entry.tool or entry.pattern)
            return StateChanges(permissions={rule_of(entry): decision}) if is_kept else _NONE
        case Todo():
            return StateChanges(todos=entry.items)
        case PlanChange():
            return StateChanges(plan=entry.plan or "")
        case Mark():
            return StateChanges(marks={_cut(entry.name): _value(entry.value)})
        case Custom():
            return _of_custom(entry)
        case SessionHeader():
            return _of_header(entry)
    return _NONE


def rule_of(permission: Permission) -> str:
    """Return what a permission is about: ``tool``, ``tool(pattern)``, or "" for everything."""
    return _cut(permission.rule)


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_CHARS_MAX else text[: VALUE_CHARS_MAX - 1] + "…"


def _value(value: Any) -> str | None:
    return _cut(value) if isinstance(value, str) else None if value is None else _cut(str(value))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


# ---- messages


def _of_message(message: Message) -> StateChanges:
    changes = _NONE
    if message.role == "assistant":
        for block in message.content:
            if isinstance(block, ToolCall):
                changes = _with_call(changes, block)
            elif isinstance(block, Text) and "<proposed_plan>" in block.text:  # codex in plan mode
                plan = block.text.partition("<proposed_plan>")[2].partition("</proposed_plan>")[0].strip()
                changes = changes._replace(plan=plan)
    elif message.role == "tool" and not message.is_error and isinstance(message.details, Mapping):
        changes = _of_result(message.details)
    stated = _text(message.extra.get("planContent")) if message.extra else None
    return changes if stated is None else changes._replace(plan=stated)


_LIST_CALLS = {
    "todowrite": "todos",
    "writetodos": "todos",
    "updatetodolist": "todos",
    "todo": "todos",
    "updateplan": "plan",
}
"""The names of tools that replace the todo list, without case and underscores, with the argument that has the list."""

_PLAN_CALLS = frozenset({"exitplanmode", "planexit"})


def _with_call(changes: StateChanges, call: ToolCall) -> StateChanges:
    name, arguments = call.name.lower().replace("_", ""), call.arguments
    if not isinstance(arguments, Mapping):
        return changes
    if name in _LIST_CALLS:
        items = todo_items(arguments.get(_LIST_CALLS[name]))
        return changes if items is None else changes._replace(todos=items, tasks=())
    if name in _PLAN_CALLS:
        return changes._replace(plan=_text(arguments.get("plan")) or changes.plan)
    if name == "taskupdate":
        return changes._replace(tasks=(*changes.tasks, *_task(arguments, "taskId")))
    return changes


def todos_of_call(call: ToolCall) -> tuple[TodoItem, ...] | None:
    """Return the list with which a tool call replaces the todo list; ``None`` if it does not replace the list."""
    return _with_call(_NONE, call).todos


def _of_result(details: Mapping[str, Any]) -> StateChanges:
    """Return the changes in the structured result of a tool, by the shapes that Claude Code, omp and pi write."""
    if isinstance(details.get("phases"), list):  # omp: `todo` changes single items, its result has the whole list
        return StateChanges(todos=_phases(details["phases"]))
    for name in ("newTodos", "todos"):
        items = todo_items(details.get(name))
        if items is not None:
            return StateChanges(todos=items)
    listed = details.get("tasks")
    tasks = [*(listed if isinstance(listed, list | tuple) else ()), details.get("task")]
    changed = tuple(change for task in tasks if isinstance(task, Mapping) for change in _task(task, "id"))
    if changed:
        return StateChanges(tasks=changed)
    return StateChanges(plan=_text(details.get("plan")) if "filePath" in details or "isAgent" in details else None)


def _task(stated: Mapping[str, Any], name: str) -> tuple[tuple[str, str | None, str | None], ...]:
    """Return the change of one of Claude Code's tasks. ``name``: the field with the id."""
    id, status, subject = stated.get(name), stated.get("status"), _text(stated.get("subject"))
    if not isinstance(id, str):
        return ()
    new = "deleted" if status == "deleted" else _status(status) if isinstance(status, str) else None
    return ((_cut(id), new, subject and _cut(subject)),)


def _phases(phases: Sequence[Any]) -> tuple[TodoItem, ...]:
    lists = [phase.get("tasks") for phase in phases if isinstance(phase, Mapping)]
    return tuple(item for tasks in lists for item in todo_items(tasks) or ())


_TEXTS = ("content", "text", "step", "subject", "title", "task", "description")
_STATUSES = {
    "done": "completed",
    "complete": "completed",
    "inprogress": "in_progress",
    "active": "in_progress",
    "doing": "in_progress",
    "canceled": "cancelled",
    "abandoned": "cancelled",
    "dropped": "cancelled",
}


def _status(status: Any) -> str:
    if status in TODO_STATUSES:
        return str(status)
    return _STATUSES.get(str(status).lower().replace("_", "").replace("-", ""), "pending")


def todo_items(value: Any) -> tuple[TodoItem, ...] | None:
    """Return the items of a list in the form of any agent; ``None`` if ``value`` is not such a list."""
    if not isinstance(value, list | tuple):
        return None
    items = []
    for item in value:
        found = {"text": item} if isinstance(item, str) else item
        text = (
            next((t for name in _TEXTS if (t := _text(found.get(name)))), None) if isinstance(found, Mapping) else None
        )
        if text is None:
            return None
        is_done = found.get("done") is True or found.get("completed") is True
        id = found.get("id")
        items.append(
            TodoItem(
                text,
                "completed" if is_done else _status(found.get("status", "pending")),
                _text(found.get("priority")),
                str(id) if isinstance(id, str | int) else None,
            )
        )
    return tuple(items)


# ---- fields of lines


def _modes_of_line(extra: Mapping[str, Any], role: str) -> dict[str, str | None]:
    """Return the modes in the fields of a line: Claude Code's permission mode, or the agent of opencode."""
    modes: dict[str, str | None] = {}
    if isinstance(extra.get("permissionMode"), str):
        modes["mode"] = _cut(extra["permissionMode"])
    elif role == "user" and _text(extra.get("agent")):
        modes["mode"] = _cut(extra["agent"])
    if "worktreeSession" in extra:
        worktree = extra["worktreeSession"]
        modes["worktree"] = _value(worktree.get("worktreePath")) if isinstance(worktree, Mapping) else None
    return modes


GOAL = "thread_goal"
"""The field in which the goal of codex is read: the goal that the accompanying lines of a record state last."""


def without_goal(entry: Entry) -> Entry:
    """Return ``entry`` without the field that its own line does not have, so that it can become another agent's."""
    if GOAL not in entry.extra:
        return entry
    return replace(entry, extra={name: value for name, value in entry.extra.items() if name != GOAL})


def _goal_of_line(extra: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the mark with the status and the objective of codex's goal, such as ``active: Release 2.0``."""
    goal = extra.get(GOAL)
    objective = _text(goal.get("objective")) if isinstance(goal, Mapping) else None
    if objective is None or not isinstance(goal, Mapping):
        return {}
    return {"goal": _cut(f"{_text(goal.get('status')) or 'active'}: {objective[:VALUE_CHARS_MAX]}")}


def _modes_of_turn(extra: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the modes in codex's settings of a turn."""
    modes: dict[str, str | None] = {}
    for name, key, inner in (
        ("approval", "approval_policy", ""),
        ("sandbox", "sandbox_policy", "mode"),
        ("sandbox", "sandbox_policy", "type"),
        ("mode", "collaboration_mode", "mode"),
    ):
        stated = extra.get(key)
        value = _text(stated.get(inner) if isinstance(stated, Mapping) else stated)
        if value is not None:
            modes[name] = _cut(value)
    if isinstance(extra.get("permission_profile"), Mapping):
        modes["permission_profile"] = _profile(extra["permission_profile"])
    return modes


def _profile(profile: Mapping[str, Any]) -> str | None:
    """Return codex's permissions of a turn in a line, such as ``managed, read root, write /w, network restricted``."""
    files, network = profile.get("file_system"), profile.get("network")
    parts = [_text(profile.get("type"))]
    if isinstance(files, Mapping):
        listed = files.get("entries")
        rules = listed[:VALUE_CHARS_MAX] if isinstance(listed, list | tuple) else [{"access": files.get("type")}]
        parts += [_rule_of_files(rule) for rule in rules if isinstance(rule, Mapping)]
    if isinstance(network, Mapping):
        network = "enabled" if network.get("enabled") is True else "restricted"
    parts.append(f"network {network}" if _text(network) else None)
    return _cut(", ".join(filter(None, parts))) or None


def _rule_of_files(rule: Mapping[str, Any]) -> str | None:
    path, access = rule.get("path"), _text(rule.get("access"))
    found = path if isinstance(path, Mapping) else {}
    special = found.get("value")
    names = (found.get("path"), found.get("pattern"), special.get("kind") if isinstance(special, Mapping) else None)
    name = next(filter(None, map(_text, names)), "files")
    return f"{access} {name[:VALUE_CHARS_MAX]}" if access else None


USER_TODO_EDIT = "user_todo_edit"
"""The type of the custom entry with omp's todo list after the user edited it."""


def _of_custom(entry: Custom) -> StateChanges:
    data = entry.data
    if entry.custom_type == "tag":  # Claude Code
        return StateChanges(marks={"tag": _value(data) or None})
    if not isinstance(data, Mapping):
        return _NONE
    if entry.custom_type == USER_TODO_EDIT and isinstance(data.get("phases"), list):  # omp
        return StateChanges(todos=_phases(data["phases"]))
    if entry.custom_type == "plan-mode":  # pi's extension
        mode = {"mode": "plan" if data.get("enabled") is True else None} if "enabled" in data else {}
        return StateChanges(modes=mode, todos=todo_items(data.get("todos")))
    own = _own_entry(entry.custom_type.removeprefix(TYPE_PREFIX), data)
    return _of_kind(own) if own is not None and entry.custom_type.startswith(TYPE_PREFIX) else _NONE


def _own_entry(kind: str, data: Mapping[str, Any]) -> Entry | None:
    """Return gitsession's entry that an export wrote as a custom entry; ``None`` if it does not state a state."""
    texts = {name: value for name, value in data.items() if isinstance(value, str)}
    match kind:
        case Todo.kind:
            items = _own_items(data.get("items"))
            return None if items is None else Todo(items=items)
        case Permission.kind if "decision" in texts:
            tool, pattern, scope = texts.get("tool"), texts.get("pattern"), texts.get("scope", "once")
            return Permission(decision=texts["decision"], tool=tool, pattern=pattern, scope=scope)
        case PlanChange.kind:
            return PlanChange(plan=texts.get("plan"))
        case Mark.kind if "name" in texts:
            return Mark(name=texts["name"], value=texts.get("value"))
        case ModeChange.kind if "mode" in texts:
            return ModeChange(mode=texts["mode"], data=data.get("data"))
    return None


def _own_items(value: Any) -> tuple[TodoItem, ...] | None:
    listed = value if isinstance(value, list | tuple) else [None]
    items = [item for item in listed if isinstance(item, Mapping) and isinstance(item.get("text"), str)]
    return tuple(map(_own_item, items)) if len(items) == len(listed) else None


def _own_item(item: Mapping[str, Any]) -> TodoItem:
    priority, id, extra = (item.get(name) for name in ("priority", "id", "extra"))
    return TodoItem(
        str(item.get("text")),
        _status(item.get("status")),
        priority if isinstance(priority, str) else None,
        id if isinstance(id, str) else None,
        extra if isinstance(extra, Mapping) else {},
    )


def _of_header(header: SessionHeader) -> StateChanges:
    """Return the marks and permissions in the description of a session (opencode)."""
    share, time, rules = (header.extra.get(name) for name in ("share", "time", "permission"))
    marks: dict[str, str | None] = {}
    if isinstance(share, Mapping) and _text(share.get("url")):
        marks["shared"] = _cut(share["url"])
    if isinstance(time, Mapping) and time.get("archived"):
        marks["archived"] = ""
    permissions: dict[str, str | None] = {}
    for rule in rules if isinstance(rules, list | tuple) else ():
        if isinstance(rule, Mapping) and _text(rule.get("permission")) and _text(rule.get("action")):
            stated = Permission(decision="", tool=rule["permission"], pattern=_text(rule.get("pattern")))
            permissions[rule_of(stated)] = _cut(rule["action"])
    return StateChanges(marks=marks, permissions=permissions)
