"""Conversion of the rows of librecode's database to lines, and splitter of exports, which consist of such lines.

The first line represents the session. Each of the following lines represents an entry. The lines of entries are sorted
by time.

librecode only adds rows of entries, so the line of each entry is a record. A line is a JSON object with the values of
the columns by name. Default values are omitted. Values that librecode can compute again, such as the token estimate,
are omitted too. librecode stores the message of an entry twice, but the line contains it only once. librecode does not
define a file format for sessions, so an export consists of these lines. gitsession can import an export. The content of
the lines of entries is FROZEN under view 1.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gitsession.errors import Malformed
from gitsession.formats.base import jsonl
from gitsession.formats.base.fields import storable, to_ms
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
from gitsession.formats.base.jsonl import LineFailure, Object
from gitsession.formats.base.record import (
    NOTHING,
    LineLink,
    Record,
    Source,
    SourceProblem,
    incomplete_line,
    place_nodes,
)

AGENT = "librecode"
TABLES = ("sessions", "session_entries", "session_messages", "session_message_parts")
HEADER = 1

_SESSION = ("id", "cwd", "name", "parent_session", "parent_session_id", "created_at", "updated_at")
_ENTRY = (
    "id", "parent_id", "entry_type", "role", "provider", "model", "content", "custom_type", "summary", "data_json",
    "created_at", "tool_name", "tool_status", "tool_args_json", "model_facing", "display",
    "compaction_first_kept_entry_id", "compaction_tokens_before", "branch_from_entry_id", "operation_id",
)  # fmt: skip
_PART = ("type", "text", "mime_type", "name", "width", "height", "data")
_MESSAGE = ("role", "provider", "model", "content")
"""The columns of the separate row for the message of an entry.

Before migration 23 of librecode's database, the row of the entry contained these columns too.
"""

_DEFAULTS: Mapping[str, Any] = {
    "data_json": "{}", "compaction_tokens_before": 0, "width": 0, "height": 0, "tool_status": "",
}  # fmt: skip


def owns_tables(columns: Columns) -> bool:
    needed = {"sessions": {"id", "created_at"}, "session_entries": {"id", "session_id", "entry_type", "created_at"}}
    return all(names <= set(columns.get(table, ())) for table, names in needed.items())


def session_stamps(query: Query, columns: Columns) -> Iterator[tuple[str, Stamp]]:
    updated = "updated_at" if "updated_at" in columns["sessions"] else "created_at"
    sessions, failure = rows_of(query, f"SELECT id, created_at, {updated} FROM sessions")
    for id, _, changed in sorted(sessions, key=lambda row: (str(row[1]), str(row[0]))):
        if isinstance(id, str):
            yield id, _stamp(query, id, to_ms(changed) or 0)
    if failure is not None:
        raise failure


def _stamp(query: Query, id: str, changed_ms: int) -> Stamp:
    newest = "coalesce(max(CAST(rowid AS INTEGER)), 0)"  # CAST, because a table can contain a text column named rowid
    sql = f"SELECT count(*), {newest}, {sum_expression('rowid')} FROM session_entries WHERE session_id = ?"
    try:
        count, last, total = next(query(sql, (id,)))
    except Malformed:
        return UNKNOWN  # the import of the session reports the damage
    return Stamp(count, (changed_ms + last) & WHOLE_MASK, total)


def session(query: Query, columns: Columns, id: str, *, final: bool = False) -> Source:
    """Return the session ``id`` from the database.

    Raises:
        Malformed: the session is not in the database, or its row cannot be read.
    """
    row = next(query(f"SELECT {column_list(_SESSION, columns['sessions'])} FROM sessions WHERE id = ?", (id,)), None)
    if row is None:
        raise Malformed("no such session", where=id)
    parts = _parts(query, columns, id)
    found = _entries(query, columns, id)
    lines = [_line({"type": "session", **_columns_of(_SESSION, row)})]
    lines += [_line(_entry(entry, parts.get(entry["id"], []))) for entry in sorted(found, key=_order)]
    return split(b"".join(line + b"\n" for line in lines), final=True)


def split(data: bytes, *, name: str = "", final: bool = False) -> Source:
    """Split an export as ``Format.split`` does."""
    lines, waiting, ends_with_newline = jsonl.split_lines(data, final=final)
    header = jsonl.parse(lines[0]) if lines else LineFailure("")
    id = None if isinstance(header, LineFailure) else header.get("id")
    if isinstance(header, LineFailure) or header.get("type") != "session" or not isinstance(id, str):
        raise Malformed("the first line is not a librecode session")
    parsed = [jsonl.parse(line) for line in lines[1:]]
    nodes = [_node(number, line) for number, line in enumerate(parsed, HEADER + 1)]
    problems = [
        SourceProblem(number, line.reason or "blank line")
        for number, line in enumerate(parsed, HEADER + 1)
        if isinstance(line, LineFailure)
    ]
    records = []
    for placed in place_nodes(nodes):
        node = nodes[placed.at]
        payload = lines[placed.line - 1]
        value = parsed[placed.at]
        records.append(Record(placed.line, payload, placed.parent, node.id, placed.claimed, placed.problem, value))
        problems += [SourceProblem(placed.line, placed.problem)] if placed.problem else []
    if waiting:
        problems.append(incomplete_line(len(lines) + 1, waiting))
    return Source(
        agent=AGENT,
        source_id=storable(id),
        started_ms=to_ms(header.get("created_at")) or 0,
        records=tuple(records),
        meta=(Record(HEADER, lines[0]),),
        waiting=waiting,
        ends_with_newline=ends_with_newline,
        problems=tuple(problems),
    )


def _node(number: int, line: Object | LineFailure) -> LineLink:
    if isinstance(line, LineFailure) or not isinstance(line.get("id"), str):
        return NOTHING._replace(line=number)
    parent = line.get("parent_id")
    return LineLink(number, line["id"], parent if isinstance(parent, str) else None)


# ---- rows


def _entries(query: Query, columns: Columns, id: str) -> list[dict[str, Any]]:
    names = column_list(_ENTRY, columns["session_entries"])
    rows = query(f"SELECT {names} FROM session_entries WHERE session_id = ?", (id,))
    found = [dict(zip(_ENTRY, row, strict=True)) for row in rows]
    message_columns = columns.get("session_messages", ())
    if "role" in columns["session_entries"] or "entry_id" not in message_columns:
        return found
    sql = f"SELECT entry_id, {column_list(_MESSAGE, message_columns)} FROM session_messages WHERE entry_id IN "
    of_session = "(SELECT id FROM session_entries WHERE session_id = ?)"
    messages = {row[0]: dict(zip(_MESSAGE, row[1:], strict=True)) for row in query(sql + of_session, (id,))}
    return [{**entry, **messages.get(entry["id"], {})} for entry in found]


def _parts(query: Query, columns: Columns, id: str) -> dict[str, list[Object]]:
    part_columns = columns.get("session_message_parts", ())
    found: dict[str, list[Object]] = {}
    if "entry_id" not in part_columns:
        return found
    sql = f"SELECT entry_id, {column_list(_PART, part_columns)} FROM session_message_parts WHERE entry_id IN "
    of_session = "(SELECT id FROM session_entries WHERE session_id = ?) ORDER BY entry_id, sequence"
    for entry, *values in query(sql + of_session, (id,)):
        found.setdefault(entry, []).append(_columns_of(_PART, values))
    return found


def _entry(row: Mapping[str, Any], parts: Sequence[Object]) -> Object:
    """Return the line of an entry as an object. The parts are omitted if they only repeat the content."""
    texts = [part.get("text", "") for part in parts if part.get("type") == "text"]
    content = row["content"] if row["content"] is not None else "".join(texts)
    derived = {"model_facing": int(_is_model_facing(row)), "display": int(_is_displayed(row))}
    values = [
        content if name == "content" else None if row[name] == derived.get(name, object()) else row[name]
        for name in _ENTRY
    ]
    fields = _columns_of(_ENTRY, values)
    is_same = len(parts) == 1 and parts[0] == {"type": "text", "text": content}
    return fields if not parts or is_same else {**fields, "parts": list(parts)}


def _columns_of(names: Iterable[str], values: Iterable[Any]) -> Object:
    """Return the values by column name. Empty values and default values are omitted."""
    pairs = zip(names, values, strict=True)
    return {name: _plain(value) for name, value in pairs if value not in (None, "", b"", _DEFAULTS.get(name, ""))}


def _plain(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _is_model_facing(row: Mapping[str, Any]) -> bool:
    """Return the default value of the column ``model_facing``: whether librecode sends such an entry to the model."""
    if row["entry_type"] == "message":
        return row["role"] in ("user", "assistant")
    return row["entry_type"] in ("custom_message", "branch_summary", "compaction")


def _is_displayed(row: Mapping[str, Any]) -> bool:
    return row["entry_type"] not in ("model_change", "thinking_level_change", "label", "session_info")


def _line(fields: Object) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _order(row: Mapping[str, Any]) -> tuple[int, str, str]:
    """Return the sort key of a row: the time in seconds, the fraction of the second, and the id.

    Times are not compared as strings, because a time without a fraction would then follow all other times of the same
    second.
    """
    at, id = str(row["created_at"]), str(row["id"])
    fraction = _FRACTION.search(at)
    return (to_ms(at) or 0) // 1000, (fraction[1] if fraction else "").ljust(9, "0"), id


_FRACTION = re.compile(r"\.([0-9]{1,9})Z?$")
