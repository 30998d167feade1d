"""Writer of entries as lines of pi and omp. This is the inverse of ``read_entry.py``.

An entry of a kind without an equivalent becomes a ``custom`` entry, which both agents keep and never send to a model.
Such entries are counted in the notes of the export.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from gitsession.formats.pi import messages
from gitsession.formats.pi.messages import Words
from gitsession.model import entries as kinds
from gitsession.model.entries import CLEARED, SYSTEM, Entry, kind_of

Spelled: TypeAlias = tuple[str, Words]
"""The type of a line and its fields, without the id, the parent, and the time."""

OURS = "gitsession:"
"""The prefix of the type of a ``custom`` entry that represents a kind without an equivalent."""

KNOWN_ROLES = {"user", "assistant", "toolResult", "bashExecution", "custom", "system", "hookMessage"}
OMP_ROLES = KNOWN_ROLES | {"developer", "pythonExecution", "fileMention"}


@dataclasses.dataclass(frozen=True, slots=True)
class PiEntryContext:
    """Values that the lines of an entry depend on.

    ``omp``: whether the file is for omp. ``names``: ids by key. ``own``: the id of the entry. ``model`` and
    ``thinking``: the current values before the entry, for lines that repeat them.
    """

    omp: bool
    names: Mapping[str, str]
    notes: Counter[str]
    own: str
    model: tuple[str, str] | None = None
    thinking: str | None = None

    def name(self, key: str) -> str:
        """Return the id of the entry with this key, or the key itself if there is no such entry."""
        return self.names.get(key, key)


def spell(entry: Entry, to: PiEntryContext) -> list[Spelled]:
    """Return the lines of one entry, in order. Some entries need several lines."""
    how = _BY_KIND.get(entry.kind)
    return (how(entry, to) if how else None) or _custom_of(entry, to)


def _message(entry: kinds.Message, to: PiEntryContext) -> list[Spelled]:
    if entry.role == "tool" and entry.tool_call_id is None:  # a provider would reject it
        to.notes["results without a call id, which its model does not receive"] += 1
        return [("custom", {"customType": OURS + entry.kind, "data": messages.message(entry, omp=to.omp)})]
    if entry.role == "developer" and not to.omp:
        to.notes["developer messages, which pi shows as an extension's"] += 1
        words = {"customType": OURS + entry.role, "content": messages.content(entry.content), "display": True}
        return [("custom_message", words | dict(entry.extra))]
    said = messages.message(entry, omp=to.omp)
    if entry.role == "assistant":
        # Both agents use the model of the last answer. An answer without a model must not change it.
        provider, model = to.model or ("unknown", "unknown")
        said = {**said, "provider": entry.provider or provider, "model": entry.model or model}
    elif entry.role == "custom":
        said = {"customType": OURS + "message", "display": True, **said}
    if str(said["role"]) not in (OMP_ROLES if to.omp else KNOWN_ROLES):
        to.notes[f"messages of role {str(said['role'])[:40]}, which its model does not receive"] += 1
    if to.omp and entry.role == "system":
        to.notes["system messages, which omp replaces with its own"] += 1
    return [("message", {"message": said})]


def _model_change(entry: kinds.ModelChange, to: PiEntryContext) -> list[Spelled] | None:
    if to.omp:
        role = {} if entry.role == "default" else {"role": entry.role}
        model = f"{entry.provider}/{entry.model}" if entry.provider else entry.model
        return [("model_change", {"model": model, **role, **entry.extra})]
    if entry.role != "default":
        return None  # pi has only one model, which a model for another role must not replace
    return [("model_change", {"provider": entry.provider, "modelId": entry.model, **entry.extra})]


def _thinking_change(entry: kinds.ThinkingChange, to: PiEntryContext) -> list[Spelled]:
    return [("thinking_level_change", {"thinkingLevel": entry.level, **entry.extra})]


def _mode_change(entry: kinds.ModeChange, to: PiEntryContext) -> list[Spelled] | None:
    if not to.omp:
        return None
    if entry.mode == "service_tier":
        return [("service_tier_change", {"serviceTier": entry.data, **entry.extra})]
    return [("mode_change", {"mode": entry.mode, **_stated("data", entry.data), **entry.extra})]


def _tools_change(entry: kinds.ToolsChange, to: PiEntryContext) -> list[Spelled]:
    to.notes["changes of tools, which are stored but have no effect"] += 1
    return [("active_tools_change", {"activeToolNames": entry.tools, **entry.extra})]


def _instructions(entry: kinds.Instructions, to: PiEntryContext) -> list[Spelled] | None:
    if not to.omp or entry.files is not None:
        return None
    said = {"systemPrompt": entry.system_prompt, "task": entry.task, "tools": entry.tools}
    said = {**said, "outputSchema": entry.output_schema}
    return [("session_init", {name: value for name, value in said.items() if value is not None} | dict(entry.extra))]


def _injection(entry: kinds.Injection, to: PiEntryContext) -> list[Spelled] | None:
    return [("ttsr_injection", {"injectedRules": entry.rules, **entry.extra})] if to.omp else None


def _compaction(entry: kinds.Compaction, to: PiEntryContext) -> list[Spelled]:
    """Return the line of a compaction.

    If no entries are kept, ``firstKeptEntryId`` is the id of the compaction itself. Values for which pi has no field
    are written to omp's fields.
    """
    told = None if to.omp else _system_message(entry)
    said = {
        "summary": entry.summary,
        "firstKeptEntryId": to.own if entry.first_kept is None else to.name(entry.first_kept),
        "tokensBefore": entry.tokens_before or 0,
        **_details(entry),
        **_stated("systemMessage", told),
        **_stated("tokensAfter", entry.tokens_after),
        **_stated("method", entry.method),
        **_stated("instructions", entry.instructions),
        **_stated("preserveData", entry.preserve),
    }
    return [("compaction", said | _more(entry))]


def _system_message(entry: kinds.Compaction) -> Words | None:
    """Return the preserved system messages merged into one message, because pi keeps only one.

    The newest value of each item is used.
    """
    kept = entry.preserve.get(SYSTEM) if isinstance(entry.preserve, Mapping) else None
    told = [each for each in kept if isinstance(each, Mapping)] if isinstance(kept, list | tuple) else []
    if not told:
        return None
    texts = [text for each in told if isinstance(text := each.get("text"), str) and text]
    sections: Words = {}
    tools: dict[Any, Any] = {}
    for each in told:
        extra = each.get("extra")
        extra = extra if isinstance(extra, Mapping) else {}
        stated = extra.get("sections")
        sections |= stated if isinstance(stated, Mapping) else {}
        for gone in _mappings(extra.get("toolsRemoved")):
            tools.pop(gone.get("name"), None)
        tools |= {tool.get("name"): tool for tool in _mappings(extra.get("toolsAdded"))}
    sections = {name: text for name, text in sections.items() if text is not None}
    more = {**({"sections": sections} if sections else {}), **({"toolsAdded": list(tools.values())} if tools else {})}
    return {"role": "system", "content": "\n\n".join(texts), **more, "timestamp": entry.at_ms}


def _branch_summary(entry: kinds.BranchSummary, to: PiEntryContext) -> list[Spelled]:
    left = "root" if entry.left is None else to.name(entry.left)
    return [("branch_summary", {"fromId": left, "summary": entry.summary, **_details(entry)} | _more(entry))]


def _details(entry: kinds.Compaction | kinds.BranchSummary) -> Words:
    """Return the field ``details``, which is the files merged with the ``details`` in ``extra``."""
    more = entry.extra.get("details")
    if not isinstance(more, Mapping | None):
        return {"details": more}
    files = {"readFiles": entry.read_files, "modifiedFiles": entry.modified_files}
    return {"details": {**files, **(more or {})}}


def _more(entry: Entry) -> Words:
    return {name: value for name, value in entry.extra.items() if name != "details"}


def _context_edit(entry: kinds.ContextEdit, to: PiEntryContext) -> list[Spelled]:
    if to.omp:
        to.notes["context edits, which are stored but have no effect"] += 1
    return [("context_edit", {"targetId": to.name(entry.target), "replacement": entry.replacement, **entry.extra})]


def _prune(entry: kinds.Prune, to: PiEntryContext) -> list[Spelled] | None:
    """Return a context edit for each pruned result. pi 0.87 and later apply these edits one at a time."""
    if to.omp or not entry.targets:
        return None
    to.notes["prunes, which only pi 0.87 and later apply"] += 1
    cleared = {"content": [{"type": "text", "text": CLEARED}]}
    edits = ({"targetId": to.name(target), "replacement": cleared, **entry.extra} for target in entry.targets)
    return [("context_edit", edit) for edit in edits]


def _reset(entry: kinds.Reset, to: PiEntryContext) -> list[Spelled]:
    """Return the lines of a reset. pi starts a second root, at which the current values must be repeated."""
    if to.omp:
        return [("reset_boundary", dict(entry.extra))]
    said: list[Spelled] = [("custom", {"customType": OURS + entry.kind, **entry.extra})]
    if to.model is not None:
        said.append(("model_change", {"provider": to.model[0], "modelId": to.model[1]}))
    if to.thinking is not None:
        said.append(("thinking_level_change", {"thinkingLevel": to.thinking}))
    return said


def _label(entry: kinds.Label, to: PiEntryContext) -> list[Spelled]:
    return [("label", {"targetId": to.name(entry.target), **_stated("label", entry.label), **entry.extra})]


def _title(entry: kinds.Title, to: PiEntryContext) -> list[Spelled]:
    if to.omp:
        return [("title_change", {"title": entry.title or "", "source": "user", **entry.extra})]
    return [("session_info", {"name": entry.title or "", **entry.extra})]


def _custom(entry: kinds.Custom, to: PiEntryContext) -> list[Spelled]:
    return [("custom", {"customType": entry.custom_type, **_stated("data", entry.data), **entry.extra})]


def _custom_message(entry: kinds.CustomMessage, to: PiEntryContext) -> list[Spelled]:
    said = {"customType": entry.custom_type, "content": messages.content(entry.content, omp=to.omp)}
    shown = {"display": entry.display, **_stated("details", entry.details)}
    return [("custom_message", said | shown | dict(entry.extra))]


def _usage(entry: kinds.Usage, to: PiEntryContext) -> list[Spelled] | None:
    if not isinstance(entry.usage, Mapping) or entry.provider is None or entry.model is None:
        return None  # the agent would add the counts to its total
    said = {"provider": entry.provider, "model": entry.model, "usage": messages.usage(entry.usage)}
    if to.omp:
        return [("model_usage", {"purpose": entry.purpose, "api": "", "stopReason": "stop", **said, **entry.extra})]
    return [("usage", {"kind": entry.purpose, **said, **entry.extra})]


def _unknown(entry: kinds.UnknownEntry, to: PiEntryContext) -> list[Spelled] | None:
    """Return a line of an unknown type unchanged if pi or omp wrote it, otherwise ``None``.

    An entry of a kind that a later release of gitsession introduced is not such a line.
    """
    if not isinstance(entry.body, dict) or entry.version is not None or entry.body.get("type") != entry.name:
        return None
    said = ("type", "id", "parentId", "timestamp")
    return [(entry.name, {name: value for name, value in entry.body.items() if name not in said})]


def _custom_of(entry: Entry, to: PiEntryContext) -> list[Spelled]:
    """Return an entry of a kind without an equivalent as a ``custom`` entry."""
    kind = kind_of(entry)
    to.notes[f"{kind[:40]} entries, which are stored as {OURS}{kind[:40]} and have no effect"] += 1
    fields = (field.name for field in dataclasses.fields(entry) if field.name not in ("at_ms", "extra"))
    body = {name: getattr(entry, name) for name in fields if getattr(entry, name) is not None}
    return [("custom", {"customType": OURS + kind, "data": {**body, **entry.extra}})]


def _stated(name: str, value: Any) -> Words:
    return {} if value is None else {name: value}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


_BY_KIND: dict[str, Callable[[Any, PiEntryContext], list[Spelled] | None]] = {
    kinds.Message.kind: _message,
    kinds.ModelChange.kind: _model_change,
    kinds.ThinkingChange.kind: _thinking_change,
    kinds.ModeChange.kind: _mode_change,
    kinds.ToolsChange.kind: _tools_change,
    kinds.Instructions.kind: _instructions,
    kinds.Injection.kind: _injection,
    kinds.Compaction.kind: _compaction,
    kinds.BranchSummary.kind: _branch_summary,
    kinds.ContextEdit.kind: _context_edit,
    kinds.Prune.kind: _prune,
    kinds.Reset.kind: _reset,
    kinds.Label.kind: _label,
    kinds.Title.kind: _title,
    kinds.Custom.kind: _custom,
    kinds.CustomMessage.kind: _custom_message,
    kinds.Usage.kind: _usage,
    kinds.UnknownEntry.kind: _unknown,
}
