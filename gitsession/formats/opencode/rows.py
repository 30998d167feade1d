"""Conversion of the rows of opencode's database to the content of an export. opencode 1.2 and later use a database.

The row of a session becomes the ``info`` of an export, with the members that opencode writes. If a later version of
opencode adds a column, the column becomes a member at the end, with the name of the column. Only the order of messages
and parts is FROZEN under view 1. The conversion of the session row is not frozen, because ``info`` is stored on the
``meta`` ref.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any

from gitsession.errors import Malformed
from gitsession.formats.base.format import (
    UNKNOWN,
    WHOLE_MASK,
    Columns,
    Query,
    Stamp,
    column_list,
    rows_of,
    sum_expression,
)
from gitsession.formats.base.jsonl import LineFailure, Object, parse
from gitsession.formats.base.record import Source, SourceProblem
from gitsession.formats.opencode import records, side_files
from gitsession.formats.opencode.json_text import Member, checked, members, quoted
from gitsession.formats.opencode.records import OpencodeMessage

_SESSION_TABLES = ("session", "message", "part")
TABLES = (*_SESSION_TABLES, *side_files.COLUMNS)

_NEEDED = {
    "session": {"id", "time_created", "time_updated"},
    "message": {"id", "session_id", "time_created", "data"},
    "part": {"id", "message_id", "data"},
}


def owns_tables(columns: Columns) -> bool:
    return all(needed <= set(columns.get(table, ())) for table, needed in _NEEDED.items())


def session_stamps(query: Query, columns: Columns) -> Iterator[tuple[str, Stamp]]:
    updated = {table: "time_updated" if "time_updated" in columns[table] else "0" for table in _SESSION_TABLES}
    rows = f"SELECT count(*), coalesce(max({{0}}), 0), {sum_expression('{0}')} FROM {{1}} WHERE session_id = ?"
    by_message = "message_id IN (SELECT id FROM message WHERE session_id = ?)"
    of_parts = rows.format(updated["part"], "part")
    if "session_id" not in columns["part"]:
        of_parts = of_parts.replace("session_id = ?", by_message)
    selects = [rows.format(updated["message"], "message"), of_parts]
    selects += [
        rows.format("time_updated", table)
        for table in ("todo", "session_share")
        if {"session_id", "time_updated"} <= set(columns.get(table, ()))
    ]
    sessions, failure = rows_of(query, "SELECT id, time_created, time_updated FROM session")
    for id, _, changed in sorted(sessions, key=lambda row: (_int_or_zero(row[1]), str(row[0]))):
        if isinstance(id, str):
            yield id, _stamp(query, selects, id, _int_or_zero(changed))
    if failure is not None:
        raise failure


def _stamp(query: Query, selects: Iterable[str], id: str, changed: int) -> Stamp:
    try:
        found = [next(query(sql, (id,))) for sql in selects]
    except Malformed:
        return UNKNOWN  # the import of the session reports the damage
    newest = max(changed, *(_int_or_zero(row[1]) for row in found))
    return Stamp(sum(row[0] for row in found), newest, (changed + sum(row[2] for row in found)) & WHOLE_MASK)


def session(query: Query, columns: Columns, id: str, *, final: bool = False) -> Source:
    """Return the session ``id`` from the database.

    Raises:
        Malformed: the session is not in the database, or its row cannot be read.
    """
    later = sorted(set(columns["session"]) - set(_SESSION))
    names = [*_SESSION, *later]
    found = next(query(f"SELECT {column_list(names, columns['session'])} FROM session WHERE id = ?", (id,)), None)
    if found is None:
        raise Malformed("no such session", where=id)
    row = dict(zip(names, found, strict=True))
    problems: list[SourceProblem] = []
    messages = list(_messages(query, id, problems))
    info = _info(row, later)
    task = _task(query, columns, id, row["parent_id"])
    source = records.source_of(info, messages, final=final, task=task, problems=problems)
    if source is None:
        raise Malformed("the session has no id", where=id)
    return source


def _messages(query: Query, session: str, problems: list[SourceProblem]) -> Iterator[OpencodeMessage]:
    """Yield the messages of a session in opencode's order.

    The ids of messages do not suffice to determine this order, because the times in ids wrap around every 795 days.
    """
    parts: dict[str, list[tuple[str, Any]]] = {}
    select = "SELECT message_id, id, data FROM part WHERE message_id IN (SELECT id FROM message WHERE session_id = ?)"
    for message, id, data in query(f"{select} ORDER BY message_id, id", (session,)):
        parts.setdefault(message, []).append((id, data))
    rows = query("SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", (session,))
    for id, data in rows:
        info = _object(data, {"id": id, "sessionID": session}, problems)
        names = {"sessionID": session, "messageID": id}
        own = [_object(data, {"id": part, **names}, problems) for part, data in parts.get(id, ())]
        yield records.build_message(info, own)


def _object(data: Any, ids: dict[str, Any], problems: list[SourceProblem]) -> list[Member]:
    """Return the members of the JSON object ``data`` of a row, with ``ids``.

    ``ids`` are the ids in the other columns of the row. If ``data`` cannot be parsed, a problem is added to
    ``problems``, and the text becomes the member ``data``.
    """
    text = data if isinstance(data, str) else data.decode(errors="replace") if isinstance(data, bytes) else ""
    raw, failure = checked(text)
    if isinstance(failure, LineFailure):
        problems.append(SourceProblem(0, f"cannot parse {ids['id']!s:.60}: {failure.reason or 'empty'}"))
        raw = quoted({"data": text})
    return records.with_ids(members(raw), {name: _plain(value) for name, value in ids.items()})


def _task(query: Query, columns: Columns, id: str, parent: Any) -> str:
    """Return a JSON object with the ids of the tool call that started a session, or "" if no such call is known."""
    if not isinstance(parent, str) or "session_id" not in columns["part"]:
        return ""
    select = "SELECT id, message_id, data FROM part WHERE session_id = ? AND instr(data, ?) ORDER BY id"
    for part, message, data in query(select, (parent, id)):
        found = parse(str(data).encode(errors="replace"))
        if isinstance(found, dict) and begins(found, id):
            ids = {"sessionID": _plain(parent), "messageID": _plain(message), "partID": _plain(part)}
            return _to_json({**ids, "callID": quoted(found.get("callID"))})
    return ""


def begins(part: Object | LineFailure, id: str) -> bool:
    """Return whether ``part`` is a tool call that started the session ``id``."""
    state = None if isinstance(part, LineFailure) else part.get("state")
    metadata = state.get("metadata") if isinstance(state, dict) else None
    return isinstance(metadata, dict) and metadata.get("sessionId") == id


# ---- the session's row


_SESSION = (
    "id", "slug", "project_id", "workspace_id", "directory", "path", "parent_id", "title", "agent", "model", "version",
    "summary_additions", "summary_deletions", "summary_files", "summary_diffs", "cost", "tokens_input", "tokens_output",
    "tokens_reasoning", "tokens_cache_read", "tokens_cache_write", "share_url", "metadata", "revert", "permission",
    "time_created", "time_updated", "time_compacting", "time_archived",
)  # fmt: skip


def _info(row: dict[str, Any], later: list[str]) -> str:
    """Return the ``info`` of an export, without the columns that are null. ``later``: the columns of later versions."""
    plain = {name: None if value is None else _plain(value) for name, value in row.items()}
    json_of = {name: None if row[name] is None else _json(row[name]) for name in _JSON}
    model, revert = _parsed(json_of["model"]), _parsed(json_of["revert"])
    counts = {name: plain[f"summary_{name}"] for name in ("additions", "deletions", "files")}
    summary = None
    if any(value is not None for value in counts.values()):
        summary = _to_json(
            {**{name: value or "0" for name, value in counts.items()}, "diffs": json_of["summary_diffs"]}
        )
    tokens = {name: plain[f"tokens_{name}"] for name in ("input", "output", "reasoning", "cache_read", "cache_write")}
    cache = _to_json({"read": tokens.pop("cache_read"), "write": tokens.pop("cache_write")})
    share = _to_json({"url": plain["share_url"]}) if row["share_url"] else None
    return _to_json({
        "id": plain["id"],
        "slug": plain["slug"],
        "projectID": plain["project_id"],
        "workspaceID": plain["workspace_id"],
        "directory": plain["directory"],
        "path": plain["path"],
        "parentID": plain["parent_id"],
        "title": plain["title"],
        "agent": plain["agent"],
        "model": _select_fields(model, ("id", "providerID", "variant")) or json_of["model"],
        "version": plain["version"],
        "summary": summary,
        "cost": plain["cost"],
        "tokens": _to_json({**tokens, "cache": cache}) if tokens["input"] is not None else None,
        "share": share,
        "metadata": json_of["metadata"],
        "revert": _select_fields(revert, ("messageID", "partID", "snapshot", "diff")) or json_of["revert"],
        "permission": json_of["permission"],
        "time": _to_json({name: plain[f"time_{name}"] for name in ("created", "updated", "compacting", "archived")}),
        **{name: plain[name] for name in later},
    })  # fmt: skip


_JSON = ("model", "summary_diffs", "metadata", "revert", "permission")


def _to_json(found: dict[str, str | None]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{raw}" for name, raw in found.items() if raw is not None) + "}"


def _select_fields(value: Any, names: tuple[str, ...]) -> str | None:
    if not isinstance(value, dict):
        return None
    return _to_json({name: quoted(value[name]) if value.get(name) is not None else None for name in names})


def _plain(value: Any) -> str:
    """Return the value of a column as JSON. Numbers are in JavaScript's notation, so 1.0 is written as 1."""
    if isinstance(value, float) and isfinite(value):
        if value.is_integer() and abs(value) < 1e21:
            return str(int(value))
        mantissa, e, exponent = repr(value).partition("e")
        return f"{mantissa}e{exponent[0]}{exponent[1:].lstrip('0')}" if e else mantissa
    return quoted(value.decode(errors="replace") if isinstance(value, bytes) else value)


def _json(value: Any) -> str:
    """Return the JSON text in a column. If the text is not JSON, return it as a JSON string."""
    text = value if isinstance(value, str) else _plain(value)
    raw, failure = checked(f'{{"":{text}}}')
    found = members(raw) if failure is None else []
    return found[0].raw if len(found) == 1 else quoted(text)


def _parsed(raw: str | None) -> Any:
    found = None if raw is None else parse(f'{{"":{raw}}}'.encode("utf-8", "surrogatepass"))
    return found.get("") if isinstance(found, dict) else None


def _int_or_zero(value: Any) -> int:
    return value if type(value) is int else 0
