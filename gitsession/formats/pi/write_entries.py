"""Conversion of entries to lines of pi and omp. This module is the inverse of ``read_entry.py``.

If the agent has no equivalent of an entry, the entry becomes a ``custom`` entry. Both agents keep ``custom`` entries
and never send them to a model. The notes of the export contain the number of such entries.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeAlias

from gitsession.dataclass import dataclass
from gitsession.formats.pi import messages
from gitsession.formats.pi.messages import Json
from gitsession.model import entries as kinds
from gitsession.model.entries import CLEARED, SYSTEM, TYPE_PREFIX, Entry, kind_of
from gitsession.model.session_state import USER_TODO_EDIT

TypedFields: TypeAlias = tuple[str, Json]
"""The type of a line, and the fields of the line without the id, the parent id, and the time."""

KNOWN_ROLES = {"user", "assistant", "toolResult", "bashExecution", "custom", "system", "hookMessage"}
OMP_ROLES = KNOWN_ROLES | {"developer", "pythonExecution", "fileMention"}


@dataclass(frozen=True, slots=True)
class PiEntryContext:
    """The values, besides the entry itself, on which the lines of an entry depend.

    ``omp``: whether the file is for omp. ``names``: the ids of entries by key. ``notes``: the notes of the export, to
    which counts are added. ``own``: the id of the entry. ``model`` and ``thinking``: the model and the thinking level
    before the entry, for lines that repeat these values.
    """

    omp: bool
    names: Mapping[str, str]
    notes: Counter[str]
    own: str
    model: tuple[str, str] | None = None
    thinking: str | None = None

    def name(self, key: str) -> str:
        """Return the id of the entry whose key is ``key``, or ``key`` itself if there is no such entry."""
        return self.names.get(key, key)


def lines_of(entry: Entry, context: PiEntryContext) -> list[TypedFields]:
    """Return the lines that represent one entry, in order. Some entries need several lines."""
    return _lines_of(entry, context) or _custom_of(entry, context)


def _lines_of(entry: Entry, context: PiEntryContext) -> list[TypedFields] | None:
    """Return the lines of an entry, or ``None`` if the agent has no equivalent of the entry."""
    match entry:
        case kinds.Message():
            return _message(entry, context)
        case kinds.ModelChange():
            return _model_change(entry, context)
        case kinds.ThinkingChange():
            return [("thinking_level_change", {"thinkingLevel": entry.level, **entry.extra})]
        case kinds.ModeChange(mode="service_tier") if context.omp:
            return [("service_tier_change", {"serviceTier": entry.data, **entry.extra})]
        case kinds.ModeChange() if context.omp:
            return [("mode_change", {"mode": entry.mode, **_optional_field("data", entry.data), **entry.extra})]
        case kinds.ToolsChange():
            context.notes["written without effect: changes of tools"] += 1
            return [("active_tools_change", {"activeToolNames": entry.tools, **entry.extra})]
        case kinds.Instructions(files=None) if context.omp:
            return _instructions(entry)
        case kinds.Injection() if context.omp:
            return [("ttsr_injection", {"injectedRules": entry.rules, **entry.extra})]
        case kinds.Compaction():
            return _compaction(entry, context)
        case kinds.BranchSummary():
            left = "root" if entry.left is None else context.name(entry.left)
            return [("branch_summary", {"fromId": left, "summary": entry.summary, **_details(entry)} | _more(entry))]
        case kinds.ContextEdit():
            return _context_edit(entry, context)
        case kinds.Prune():
            return _prune(entry, context)
        case kinds.Reset():
            return _reset(entry, context)
        case kinds.Label():
            target = context.name(entry.target)
            return [("label", {"targetId": target, **_optional_field("label", entry.label), **entry.extra})]
        case kinds.Title() if context.omp:
            return [("title_change", {"title": entry.title or "", "source": "user", **entry.extra})]
        case kinds.Title():
            return [("session_info", {"name": entry.title or "", **entry.extra})]
        case kinds.Todo() if context.omp:
            return _todo(entry)
        case kinds.Custom():
            data = _optional_field("data", entry.data)
            return [("custom", {"customType": entry.custom_type, **data, **entry.extra})]
        case kinds.CustomMessage():
            return _custom_message(entry, context)
        case kinds.Usage():
            return _usage(entry, context)
        case kinds.UnknownEntry():
            return _unknown(entry)
    return None


def _message(entry: kinds.Message, context: PiEntryContext) -> list[TypedFields]:
    if entry.role == "tool" and entry.tool_call_id is None:  # a provider would reject such a result
        context.notes["results without a call id, which its model does not receive"] += 1
        return [("custom", {"customType": TYPE_PREFIX + entry.kind, "data": messages.message(entry, omp=context.omp)})]
    if entry.role == "developer" and not context.omp:
        context.notes["developer messages, which pi shows as an extension's"] += 1
        fields = {"customType": TYPE_PREFIX + entry.role, "content": messages.content(entry.content), "display": True}
        return [("custom_message", fields | dict(entry.extra))]
    message_fields = messages.message(entry, omp=context.omp)
    if entry.role == "assistant":
        # Both agents use the model of the last answer. An answer without a model must not change it.
        provider, model = context.model or ("unknown", "unknown")
        message_fields = {**message_fields, "provider": entry.provider or provider, "model": entry.model or model}
    elif entry.role == "custom":
        message_fields = {"customType": TYPE_PREFIX + "message", "display": True, **message_fields}
    if str(message_fields["role"]) not in (OMP_ROLES if context.omp else KNOWN_ROLES):
        context.notes[f"messages of role {str(message_fields['role'])[:40]}, which its model does not receive"] += 1
    if context.omp and entry.role == "system":
        context.notes["system messages, which omp replaces with its own"] += 1
    return [("message", {"message": message_fields})]


def _model_change(entry: kinds.ModelChange, context: PiEntryContext) -> list[TypedFields] | None:
    if context.omp:
        role = {} if entry.role == "default" else {"role": entry.role}
        model = f"{entry.provider}/{entry.model}" if entry.provider else entry.model
        return [("model_change", {"model": model, **role, **entry.extra})]
    if entry.role != "default":
        return None  # pi supports only one model, which a model for another role must not replace
    return [("model_change", {"provider": entry.provider, "modelId": entry.model, **entry.extra})]


def _instructions(entry: kinds.Instructions) -> list[TypedFields]:
    fields = {"systemPrompt": entry.system_prompt, "task": entry.task, "tools": entry.tools}
    fields = {**fields, "outputSchema": entry.output_schema}
    return [("session_init", {name: value for name, value in fields.items() if value is not None} | dict(entry.extra))]


def _compaction(entry: kinds.Compaction, context: PiEntryContext) -> list[TypedFields]:
    """Return the line of a compaction.

    If the compaction keeps no entries, ``firstKeptEntryId`` is the id of the compaction itself. Values that pi does not
    support are written to the fields that omp uses.
    """
    system_message = None if context.omp else _system_message(entry)
    fields = {
        "summary": entry.summary,
        "firstKeptEntryId": context.own if entry.first_kept is None else context.name(entry.first_kept),
        "tokensBefore": entry.tokens_before or 0,
        **_details(entry),
        **_optional_field("systemMessage", system_message),
        **_optional_field("tokensAfter", entry.tokens_after),
        **_optional_field("method", entry.method),
        **_optional_field("instructions", entry.instructions),
        **_optional_field("preserveData", entry.preserve),
    }
    return [("compaction", fields | _more(entry))]


def _system_message(entry: kinds.Compaction) -> Json | None:
    """Return one message that combines the preserved system messages, because pi keeps only one system message.

    If several messages contain the same section or tool, the value in the newest message is used.
    """
    stored = entry.preserve.get(SYSTEM) if isinstance(entry.preserve, Mapping) else None
    system_messages = [each for each in stored if isinstance(each, Mapping)] if isinstance(stored, list | tuple) else []
    if not system_messages:
        return None
    texts = [text for message in system_messages if isinstance(text := message.get("text"), str) and text]
    sections: Json = {}
    tools: dict[Any, Any] = {}
    for message in system_messages:
        extra = message.get("extra")
        extra = extra if isinstance(extra, Mapping) else {}
        stated = extra.get("sections")
        sections |= stated if isinstance(stated, Mapping) else {}
        for removed in _mappings(extra.get("toolsRemoved")):
            tools.pop(removed.get("name"), None)
        tools |= {tool.get("name"): tool for tool in _mappings(extra.get("toolsAdded"))}
    sections = {name: text for name, text in sections.items() if text is not None}
    more = {**({"sections": sections} if sections else {}), **({"toolsAdded": list(tools.values())} if tools else {})}
    return {"role": "system", "content": "\n\n".join(texts), **more, "timestamp": entry.at_ms}


def _details(entry: kinds.Compaction | kinds.BranchSummary) -> Json:
    """Return the field ``details``, which combines the lists of files with the ``details`` in ``extra``."""
    more = entry.extra.get("details")
    if not isinstance(more, Mapping | None):
        return {"details": more}
    files = {"readFiles": entry.read_files, "modifiedFiles": entry.modified_files}
    return {"details": {**files, **(more or {})}}


def _more(entry: Entry) -> Json:
    return {name: value for name, value in entry.extra.items() if name != "details"}


def _context_edit(entry: kinds.ContextEdit, context: PiEntryContext) -> list[TypedFields]:
    if context.omp:
        context.notes["written without effect: context edits"] += 1
    return [("context_edit", {"targetId": context.name(entry.target), "replacement": entry.replacement, **entry.extra})]


def _prune(entry: kinds.Prune, context: PiEntryContext) -> list[TypedFields] | None:
    """Return one context edit for each pruned tool result. Only pi 0.87 and later apply these edits."""
    if context.omp or not entry.targets:
        return None
    context.notes["prunes, which only pi 0.87 and later apply"] += 1
    cleared = {"content": [{"type": "text", "text": CLEARED}]}
    edits = ({"targetId": context.name(target), "replacement": cleared, **entry.extra} for target in entry.targets)
    return [("context_edit", edit) for edit in edits]


def _reset(entry: kinds.Reset, context: PiEntryContext) -> list[TypedFields]:
    """Return the lines of a reset.

    In a file of pi, these lines start a second root, so they repeat the current model and thinking level.
    """
    if context.omp:
        return [("reset_boundary", dict(entry.extra))]
    lines: list[TypedFields] = [("custom", {"customType": TYPE_PREFIX + entry.kind, **entry.extra})]
    if context.model is not None:
        lines.append(("model_change", {"provider": context.model[0], "modelId": context.model[1]}))
    if context.thinking is not None:
        lines.append(("thinking_level_change", {"thinkingLevel": context.thinking}))
    return lines


def _todo(entry: kinds.Todo) -> list[TypedFields] | None:
    """Return the entry with which omp records a list that the user edited; ``None`` if it cannot represent the list.

    omp's model does not receive this entry.
    """
    if any(not item.text or item.extra or item.priority == "" for item in entry.items) or entry.extra:
        return None
    tasks = [
        {
            "content": item.text,
            "status": "abandoned" if item.status == "cancelled" else item.status,
            **_optional_field("priority", item.priority),
            **_optional_field("id", item.id),
        }
        for item in entry.items
    ]
    phases = [{"name": "Todos", "tasks": tasks}] if tasks else []
    return [("custom", {"customType": USER_TODO_EDIT, "data": {"phases": phases}})]


def _custom_message(entry: kinds.CustomMessage, context: PiEntryContext) -> list[TypedFields]:
    fields = {"customType": entry.custom_type, "content": messages.content(entry.content, omp=context.omp)}
    display_fields = {"display": entry.display, **_optional_field("details", entry.details)}
    return [("custom_message", fields | display_fields | dict(entry.extra))]


def _usage(entry: kinds.Usage, context: PiEntryContext) -> list[TypedFields] | None:
    if not isinstance(entry.usage, Mapping) or entry.provider is None or entry.model is None:
        return None  # the agent would add the counts of a usage line to its totals
    fields = {"provider": entry.provider, "model": entry.model, "usage": messages.usage(entry.usage)}
    if context.omp:
        return [("model_usage", {"purpose": entry.purpose, "api": "", "stopReason": "stop", **fields, **entry.extra})]
    return [("usage", {"kind": entry.purpose, **fields, **entry.extra})]


def _unknown(entry: kinds.UnknownEntry) -> list[TypedFields] | None:
    """Return the line of an entry of an unknown kind, or ``None`` if the entry does not contain a line.

    An entry whose kind was introduced by a later release of gitsession contains no line.
    """
    if not isinstance(entry.body, dict) or entry.version is not None or entry.body.get("type") != entry.name:
        return None
    omitted = ("type", "id", "parentId", "timestamp")
    return [(entry.name, {name: value for name, value in entry.body.items() if name not in omitted})]


def _custom_of(entry: Entry, context: PiEntryContext) -> list[TypedFields]:
    """Return a ``custom`` entry that represents an entry without an equivalent."""
    kind = kind_of(entry)
    context.notes[f"written without effect: {kind[:40]} entries, as {TYPE_PREFIX}{kind[:40]}"] += 1
    fields = (field.name for field in dataclasses.fields(entry) if field.name not in ("at_ms", "extra"))
    body = {name: getattr(entry, name) for name in fields if getattr(entry, name) is not None}
    if isinstance(entry, kinds.Todo):
        body["items"] = [dataclasses.asdict(item) for item in entry.items]
    return [("custom", {"customType": TYPE_PREFIX + kind, "data": {**body, **entry.extra}})]


def _optional_field(name: str, value: Any) -> Json:
    return {} if value is None else {name: value}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []
