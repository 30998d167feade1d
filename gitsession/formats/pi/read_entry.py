"""Reader of lines of pi and omp, with one function for each type of line.

The returned entries are views, which may change between releases. If the type of a line is unknown or a required field
is missing, the line becomes an ``UnknownEntry`` with the literal name of the type.
"""

from __future__ import annotations

from collections.abc import Callable

from gitsession.formats.base.fields import Fields, to_ms
from gitsession.formats.base.jsonl import LineFailure, Object, parse
from gitsession.formats.pi.messages import read_message, take_content
from gitsession.model import entries
from gitsession.model.entries import Entry, Opaque, UnknownEntry


def entry_of(payload: bytes, *, agent: str) -> Entry:
    """Return the entry that ``payload``, a line of a file of ``agent``, represents. Never raises."""
    line = parse(payload)
    if isinstance(line, LineFailure):
        return Opaque(payload=payload, problem=line.reason)
    name = line.get("type")
    own_ms = to_ms(line.get("timestamp"))
    at_ms = _at_ms(line) if own_ms is None else own_ms
    if name == "session":
        return _session(at_ms, _fields_of(line, own_ms, "type"), agent)
    read = _BY_TYPE.get(name) if isinstance(name, str) else None
    if read is not None and (agent != "omp" or name not in _UNKNOWN_TO_OMP):
        found = read(at_ms, _fields_of(line, own_ms, "type", "id", "parentId"))
        if found is not None:
            return found
    return UnknownEntry(at_ms=at_ms, name=name if isinstance(name, str) and name else "unknown", body=line)


def _at_ms(line: Object) -> int:
    """Return the time of the message in ``line``, or 0 if the message has no time."""
    message = line.get("message")
    return (to_ms(message.get("timestamp")) or 0) if isinstance(message, dict) else 0


def _fields_of(line: Object, own_ms: int | None, *names: str) -> Fields:
    fields = Fields(line)
    fields.drop(*names)
    if own_ms is not None:
        fields.drop("timestamp")
    return fields


def _session(at_ms: int, fields: Fields, agent: str) -> Entry:
    return entries.SessionHeader(
        at_ms=at_ms,
        agent=agent,
        source_id=fields.text("id"),
        cwd=fields.text("cwd"),
        title=fields.text("title"),
        parent=fields.text("parentSession") or fields.text("branchedFrom"),
        extra=fields.left,
    )


def _message(at_ms: int, fields: Fields) -> Entry | None:
    message = fields.mapping("message")
    return None if message is None else read_message(at_ms, message, fields)


def _model_change(at_ms: int, fields: Fields) -> Entry | None:
    provider, model, both = fields.text("provider"), fields.text("modelId"), fields.text("model")
    if provider is None or model is None:  # omp writes both values to one field
        if both is None:
            return None
        provider, _, model = both.partition("/") if "/" in both else ("", "", both)
    role = fields.text("role") or "default"
    return entries.ModelChange(at_ms=at_ms, provider=provider, model=model, role=role, extra=fields.left)


def _thinking_change(at_ms: int, fields: Fields) -> Entry | None:
    level = fields.text("thinkingLevel")
    if level is None:
        if fields.left.get("thinkingLevel") is not None:
            return None
        level = "off"  # in a file of omp, a missing level means off
    return entries.ThinkingChange(at_ms=at_ms, level=level, extra=fields.left)


def _compaction(at_ms: int, fields: Fields) -> Entry | None:
    read, modified = _files(fields)
    return entries.Compaction(
        at_ms=at_ms,
        summary=fields.text("summary") or "",
        first_kept=fields.text("firstKeptEntryId"),
        tokens_before=fields.integer("tokensBefore"),
        tokens_after=fields.integer("tokensAfter"),
        method=fields.text("method"),
        read_files=read,
        modified_files=modified,
        preserve=fields.take("preserveData"),
        extra=fields.left,
    )


def _branch_summary(at_ms: int, fields: Fields) -> Entry | None:
    read, modified = _files(fields)
    return entries.BranchSummary(
        at_ms=at_ms,
        summary=fields.text("summary") or "",
        left=fields.text("fromId"),
        read_files=read,
        modified_files=modified,
        extra=fields.left,
    )


def _files(fields: Fields) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the lists of read and modified files in ``details``. Other fields of ``details`` stay in ``fields``."""
    stated = fields.mapping("details")
    if stated is None:
        return (), ()
    details = Fields(stated)
    read, modified = details.texts("readFiles") or (), details.texts("modifiedFiles") or ()
    if details.left:
        fields.left["details"] = details.left
    return read, modified


def _label(at_ms: int, fields: Fields) -> Entry | None:
    target = fields.text("targetId")
    if target is None:
        return None
    return entries.Label(at_ms=at_ms, target=target, label=fields.text("label"), extra=fields.left)


def _session_info(at_ms: int, fields: Fields) -> Entry | None:
    return entries.Title(at_ms=at_ms, title=fields.text("name"), extra=fields.left)


def _title(at_ms: int, fields: Fields) -> Entry | None:
    fields.drop("pad")
    updated_ms = to_ms(fields.left.get("updatedAt"))
    if at_ms == 0 and updated_ms is not None:  # the line is the title slot
        at_ms = updated_ms
        fields.drop("updatedAt")
    return entries.Title(at_ms=at_ms, title=fields.text("title"), extra=fields.left)


def _custom(at_ms: int, fields: Fields) -> Entry | None:
    custom_type = fields.text("customType") or ""
    return entries.Custom(at_ms=at_ms, custom_type=custom_type, data=fields.take("data"), extra=fields.left)


def _custom_message(at_ms: int, fields: Fields) -> Entry | None:
    return entries.CustomMessage(
        at_ms=at_ms,
        custom_type=fields.text("customType") or "",
        content=take_content(fields),
        display=fields.boolean("display", True),
        details=fields.take("details"),
        extra=fields.left,
    )


def _usage(field: str) -> Callable[[int, Fields], Entry]:
    """Return a reader of lines with token counts. ``field``: the name of the field with the purpose of the tokens."""
    return lambda at_ms, fields: _spent(at_ms, fields.text(field) or "", fields)


def _spent(at_ms: int, purpose: str, fields: Fields) -> Entry:
    return entries.Usage(
        at_ms=at_ms,
        purpose=purpose,
        provider=fields.text("provider"),
        model=fields.text("model"),
        usage=fields.take("usage"),
        extra=fields.left,
    )


def _context_edit(at_ms: int, fields: Fields) -> Entry | None:
    target = fields.text("targetId")
    if target is None:
        return None
    replacement = fields.take("replacement")
    return entries.ContextEdit(at_ms=at_ms, target=target, replacement=replacement, extra=fields.left)


def _tools_change(at_ms: int, fields: Fields) -> Entry | None:
    tools = fields.texts("activeToolNames")
    return None if tools is None else entries.ToolsChange(at_ms=at_ms, tools=tools, extra=fields.left)


def _mode_change(at_ms: int, fields: Fields) -> Entry | None:
    mode = fields.text("mode")
    if mode is None:
        return None
    return entries.ModeChange(at_ms=at_ms, mode=mode, data=fields.take("data"), extra=fields.left)


def _service_tier(at_ms: int, fields: Fields) -> Entry | None:
    tier = fields.take("serviceTier")
    return entries.ModeChange(at_ms=at_ms, mode="service_tier", data=tier, extra=fields.left)


def _injection(at_ms: int, fields: Fields) -> Entry | None:
    return entries.Injection(at_ms=at_ms, rules=fields.take("injectedRules"), extra=fields.left)


def _instructions(at_ms: int, fields: Fields) -> Entry | None:
    return entries.Instructions(
        at_ms=at_ms,
        system_prompt=fields.text("systemPrompt"),
        task=fields.text("task"),
        tools=fields.take("tools"),
        output_schema=fields.take("outputSchema"),
        extra=fields.left,
    )


def _reset(at_ms: int, fields: Fields) -> Entry | None:
    return entries.Reset(at_ms=at_ms, extra=fields.left)


_BY_TYPE: dict[str, Callable[[int, Fields], Entry | None]] = {
    "message": _message,
    "model_change": _model_change,
    "thinking_level_change": _thinking_change,
    "compaction": _compaction,
    "branch_summary": _branch_summary,
    "label": _label,
    "session_info": _session_info,
    "title": _title,
    "title_change": _title,
    "custom": _custom,
    "custom_message": _custom_message,
    "usage": _usage("kind"),
    "model_usage": _usage("purpose"),
    "context_edit": _context_edit,
    "active_tools_change": _tools_change,
    "mode_change": _mode_change,
    "service_tier_change": _service_tier,
    "ttsr_injection": _injection,
    "session_init": _instructions,
    "reset_boundary": _reset,
}

_UNKNOWN_TO_OMP = frozenset({"session_info"})
"""The types of pi's lines that omp ignores. omp writes the title of a session to the title slot or to the header."""
