"""The paths of Claude Code's session files, and the file changes that are recorded in these files.

A ``file-history-snapshot`` line lists every file that Claude Code has changed in the session so far. For each file, the
line names the newest backup of the file's former content. Claude Code writes a snapshot line at each prompt. When
Claude Code changes a file for the first time, it writes another snapshot line, an *update*, which also lists all
changed files. Other states of the files are in the results of the tools Write and Edit. No function in this module
raises an exception.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple

from gitsession.formats.base.fields import to_ms, uuid_from
from gitsession.formats.base.file_changes import RecordedBackup, RecordedChange, RecordedCopy, RecordedEdit
from gitsession.formats.base.jsonl import LineFailure, Object, parse
from gitsession.formats.base.record import Source
from gitsession.formats.claude.records import results_in, text, uuid_of

FOLDER_CHARS_MAX = 200

_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ODD = re.compile("[^A-Za-z0-9]")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class SessionPath(NamedTuple):
    """The parts of a session file's path.

    ``file``: the file name without its suffix. ``session``: the name of the folder above ``subagents``, which is the id
    of the sub-agent's parent session; ``None`` if the path contains no such folder.
    """

    file: str
    session: str | None
    is_subagent: bool


def parse_path(name: str) -> SessionPath:
    """Return the parts of the path of a session file.

    ``name``: the path without the file's suffix, such as ``.../<session>/subagents/.../agent-<id>``.
    """
    *folders, file = name.split("/")
    at = max((at for at, folder in enumerate(folders) if folder == "subagents"), default=0)
    return SessionPath(file, folders[at - 1] if at else None, file.startswith("agent-"))


def session_uuid(source_id: str) -> str:
    """Return Claude Code's id for a session: ``source_id`` if it is a UUID, otherwise a UUID derived from it."""
    return source_id if is_uuid(source_id) else uuid_from(source_id)


def is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


def folder_of(cwd: str) -> str:
    """Return the name of the folder in which Claude Code stores the sessions of the working directory ``cwd``.

    If the name is too long, it is truncated, and a hash of ``cwd`` is appended.
    """
    path = _units(unicodedata.normalize("NFC", cwd))
    folder = _ODD.sub("-", path)
    return folder if len(folder) <= FOLDER_CHARS_MAX else f"{folder[:FOLDER_CHARS_MAX]}-{_base36(_hash(path))}"


def _units(text: str) -> str:
    """Return ``text`` with one character per UTF-16 code unit, as in a JavaScript string."""
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join([chr(int.from_bytes(data[at : at + 2], "little")) for at in range(0, len(data), 2)])


def _hash(path: str) -> int:
    value = 0
    for unit in path:
        value = (value * 31 + ord(unit)) & 0xFFFFFFFF
    return abs(value - (1 << 32) if value >> 31 else value)


def _base36(value: int) -> str:
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


_NAME = re.compile(r"[0-9a-f]{16}@v[0-9]{1,9}")
_MARKS = (b"file-history-snapshot", b"toolUseResult")


def mentions_changes(data: bytes) -> bool:
    """Return whether ``data`` may record a file change."""
    return any(mark in data for mark in _MARKS)


def file_changes(source: Source) -> Iterator[RecordedChange]:
    """Yield the file changes that are recorded in a session, in the order of the session file."""
    known: dict[str, Any] = {}
    for payload in source.payloads():
        for line in payload.split(b"\n"):
            if not mentions_changes(line):
                continue
            record = parse(line)
            if isinstance(record, LineFailure):
                continue
            if record.get("type") == "file-history-snapshot":
                backup = _backup(line, record, known)
                if backup is not None:
                    yield backup
            else:
                edit = _edit(line, record)
                if edit is not None:
                    yield edit


def _backup(line: bytes, record: Object, known: dict[str, Any]) -> RecordedBackup | None:
    """Return the backups that the snapshot line ``record`` names, or ``None`` if there are no valid ones.

    If the line is an update, return only the backups that differ from ``known``, because Claude Code did not read the
    other files when it wrote the update.

    ``known``: the newest backup of each file in the previous snapshot lines. The backups in ``record`` are added.
    """
    snapshot = record.get("snapshot")
    backups = snapshot.get("trackedFileBackups") if isinstance(snapshot, dict) else None
    if not isinstance(snapshot, dict) or not isinstance(backups, dict):
        return None
    is_update = record.get("isSnapshotUpdate") is True
    changed = {path: backup for path, backup in backups.items() if not is_update or known.get(path) != backup}
    known.update(backups)
    names = {path: backup["backupFileName"] for path, backup in sorted(changed.items()) if _is_backup(backup)}
    files = {path: None if name is None else RecordedCopy(name) for path, name in names.items()}
    if not files:
        return None
    times = [to_ms(backup.get("backupTime")) for backup in changed.values() if isinstance(backup, dict)]
    at_ms = max((at for at in times if at is not None), default=None) if is_update else to_ms(snapshot.get("timestamp"))
    return RecordedBackup(line, at_ms, text(record.get("messageId")), files)


def _is_backup(backup: object) -> bool:
    """Return whether ``backup`` contains a valid ``backupFileName``.

    A valid name is null or has the form that Claude Code uses. Any other name could be the path of an unrelated file.
    """
    if not isinstance(backup, dict) or "backupFileName" not in backup:
        return False
    name = backup["backupFileName"]
    return name is None or (isinstance(name, str) and _NAME.fullmatch(name) is not None)


def _edit(line: bytes, record: Object) -> RecordedEdit | None:
    """Return the edit in the tool result of ``record``, or ``None`` if there is none.

    The result is also ``None`` if the user modified the edit, or if the text before or after the edit is unknown.
    """
    result = record.get("toolUseResult")
    path = text(result.get("filePath")) if isinstance(result, dict) else None
    if not isinstance(result, dict) or path is None or result.get("userModified") is True:
        return None
    before, after = result.get("originalFile"), result.get("content")
    rewrites = isinstance(after, str)
    if not isinstance(after, str):
        after = _apply_replacement(result) if isinstance(before, str) else None
    elif before is None and result.get("type") != "create":
        return None
    if after is None or not (before is None or isinstance(before, str)):
        return None
    calls = sorted(results_in(record))
    entry = text(record.get("sourceToolAssistantUUID")) or text(record.get("parentUuid")) or uuid_of(record)
    call = calls[0] if len(calls) == 1 else None
    return RecordedEdit(line, to_ms(record.get("timestamp")), entry, call, path, before, after, rewrites)


def _apply_replacement(result: Object) -> str | None:
    """Return the text of a file after the tool Edit changed the file.

    If the text to replace is missing or ambiguous, or if the new text does not match the recorded patch, return
    ``None``.
    """
    before, old, new = result.get("originalFile"), result.get("oldString"), result.get("newString")
    if not isinstance(before, str) or not isinstance(old, str) or not isinstance(new, str):
        return None
    if not old:
        return new if not before else None
    count = before.count(old)
    if count == 1 or (count and result.get("replaceAll") is True):
        after = before.replace(old, new)
        return after if _matches_patch(result, after) else None
    return None


def _matches_patch(result: Object, after: str) -> bool:
    """Return whether ``after`` contains every context line and every added line of the recorded patch.

    The line numbers must also be the same.
    """
    patch = result.get("structuredPatch")
    lines = after.split("\n")
    for hunk in patch if isinstance(patch, list) else ():
        if not isinstance(hunk, dict):
            return False
        start, rows = hunk.get("newStart"), hunk.get("lines")
        if type(start) is not int or not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
            return False
        expected = [row[1:] for row in rows if row[:1] in (" ", "+")]
        at = max(start - 1, 0)
        if lines[at : at + len(expected)] != expected:
            return False
    return True
