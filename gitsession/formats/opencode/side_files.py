"""The data of a session that opencode stores outside of its messages (docs/decisions/0082).

Rows become JSON documents with fixed names: the to-do list, the permissions of the project, and the address of the
shared copy. The secret of a shared copy is not read. Files are the list of changed files, and the complete outputs of
tools, which opencode deletes after seven days.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gitsession.errors import Malformed
from gitsession.formats.base.format import Columns, Query, SideFiles, column_list
from gitsession.formats.base.record import Source
from gitsession.model.entries import Permission
from gitsession.model.session_state import StateChanges, rule_of, todo_items

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "todo": ("session_id", "position", "content", "status", "priority", "time_updated"),
    "permission": ("project_id", "action", "resource"),
    "session_share": ("session_id", "url", "time_updated"),
}
"""The only columns that are read of these tables. ``session_share`` has a secret."""

TODOS, PERMISSIONS, SHARE = "opencode.db/todo", "opencode.db/permission", "opencode.db/session_share"
"""The names of the documents. They cannot be paths of files, because ``opencode.db`` is a file."""

STATES = (TODOS, PERMISSIONS)

_ROWS_MAX = 10_000

_DIFFS, _OUTPUTS = "storage/session_diff", "tool-output"
_SESSION = re.compile(r"[0-9A-Za-z_-]{1,128}")
_STORED_OUTPUT = re.compile(rf"{_OUTPUTS}/tool_[0-9A-Za-z]{{1,64}}")
_STORED_DIFF = re.compile(rf"{_DIFFS}/{_SESSION.pattern}\.json")
_OUTPUT = re.compile(rb"[/\\]tool-output[/\\]{1,4}(tool_[0-9A-Za-z]{1,64})(?![0-9A-Za-z_.-])")


def documents(query: Query, columns: Columns, id: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of the documents of the session ``id``. The content is b"" if there are no rows.

    A table that does not exist or cannot be read yields nothing.
    """
    in_project = "project_id = (SELECT project_id FROM session WHERE id = ?)"
    for name, table, fields, where, order in (
        (TODOS, "todo", ("content", "status", "priority"), "session_id = ?", "position"),
        (PERMISSIONS, "permission", ("action", "resource"), in_project, "action, resource"),
        (SHARE, "session_share", ("url",), "session_id = ?", "url"),
    ):
        existing = columns.get(table, ())
        needed = {*fields, *order.split(", "), where.partition(" ")[0]}
        if not needed <= set(existing) or "project_id" not in {*columns["session"], where}:
            continue
        try:
            select = f"SELECT {column_list(fields, existing)} FROM {table} WHERE {where} ORDER BY {order}"
            found = list(query(f"{select} LIMIT {_ROWS_MAX}", (id,)))
        except Malformed:
            continue  # the import of the messages reports the damage
        rows = [{field: _text(value) for field, value in zip(fields, row, strict=True)} for row in found]
        yield name, f"{json.dumps(rows, ensure_ascii=False, indent=1)}\n".encode("utf-8", "replace") if rows else b""


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def stated(name: str, data: bytes) -> StateChanges:
    """Return the state in a document with rows. A row of permissions is one that the user always allows."""
    try:
        rows = json.loads(data or b"[]")
    except (ValueError, RecursionError):
        return StateChanges()
    if name == TODOS:
        return StateChanges(todos=todo_items(rows))
    allowed = {}
    for row in rows if isinstance(rows, list) else ():
        found = row if isinstance(row, dict) else {}
        action, resource = found.get("action"), found.get("resource")
        if isinstance(action, str) and action and isinstance(resource, str):
            allowed[rule_of(Permission(decision="allow", tool=action, pattern=resource or None))] = "allow"
    return StateChanges(permissions=allowed)


def of_session(name: str, source: Source | None) -> SideFiles | None:
    """Return the files of a session. opencode changes them only together with the session."""
    if source is None:
        return None
    folder, old, _ = name.rpartition("/storage/session/")
    return SideFiles(folder if old else name.rpartition("/")[0], paths(source))


def path_of(name: str, id: str) -> str | None:
    """Return the path below the user's data folder at which the session ``id`` needs the side file ``name``."""
    if _STORED_OUTPUT.fullmatch(name):
        return f"opencode/{name}"
    if _STORED_DIFF.fullmatch(name) and _SESSION.fullmatch(id):
        return f"opencode/{_DIFFS}/{id}.json"
    return None


def paths(source: Source) -> list[str]:
    """Return the paths of the files of a session, relative to opencode's data folder."""
    found = [f"{_DIFFS}/{source.source_id}.json"] if _SESSION.fullmatch(source.source_id) else []
    names = {match.decode() for payload in source.payloads() for match in _OUTPUT.findall(payload)}
    return [*found, *(f"{_OUTPUTS}/{name}" for name in sorted(names))]
