"""What Claude Code's lines say of files: its ``file-history-snapshot``s, and the results of its Write and Edit.

A snapshot lists every file that the session has touched so far with the newest copy of what it was; one is made at
each prompt, and one more, with the whole list again, at the first touch of a file. Nothing here raises, whatever a
line holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from gitsession.formats.base.file_changes import RecordedBackup, RecordedChange, RecordedCopy, RecordedEdit
from gitsession.formats.base.jsonl import LineFailure, Object, parse
from gitsession.formats.base.times import to_ms
from gitsession.formats.claude.records import results_in, text, uuid_of

_NAME = re.compile(r"[0-9a-f]{16}@v[0-9]{1,9}")
_MARKS = (b"file-history-snapshot", b"toolUseResult")


def noted(payloads: Iterable[bytes]) -> Iterator[RecordedChange]:
    """What the lines of ``payloads``, in the order of the file, say of files."""
    held: dict[str, Any] = {}
    for payload in payloads:
        for line in payload.split(b"\n"):
            if not any(mark in line for mark in _MARKS):
                continue
            said = parse(line)
            if isinstance(said, LineFailure):
                continue
            if said.get("type") == "file-history-snapshot":
                seen = _seen(line, said, held)
                if seen is not None:
                    yield seen
            else:
                edited = _edited(line, said)
                if edited is not None:
                    yield edited


def _seen(line: bytes, said: Object, held: dict[str, Any]) -> RecordedBackup | None:
    """``held``: the list of the snapshot before. Of one that is added to, only what is new in it was looked at then."""
    snapshot = said.get("snapshot")
    listed = snapshot.get("trackedFileBackups") if isinstance(snapshot, dict) else None
    if not isinstance(snapshot, dict) or not isinstance(listed, dict):
        return None
    added = said.get("isSnapshotUpdate") is True
    news = {path: backup for path, backup in listed.items() if not added or held.get(path) != backup}
    held.update(listed)
    files = {path: _copy(backup) for path, backup in sorted(news.items()) if _is_ours(backup)}
    if not files:
        return None
    times = [to_ms(backup.get("backupTime")) for backup in news.values() if isinstance(backup, dict)]
    at_ms = max((at for at in times if at is not None), default=None) if added else to_ms(snapshot.get("timestamp"))
    return RecordedBackup(line, at_ms, text(said.get("messageId")), files)


def _is_ours(backup: object) -> bool:
    """Whether Claude Code would say so: what is named otherwise may be any file."""
    if not isinstance(backup, dict) or "backupFileName" not in backup:
        return False
    name = backup["backupFileName"]
    return name is None or (isinstance(name, str) and _NAME.fullmatch(name) is not None)


def _copy(backup: Any) -> RecordedCopy | None:
    name = backup["backupFileName"]
    return None if name is None else RecordedCopy(name)


def _edited(line: bytes, said: Object) -> RecordedEdit | None:
    """The result of a call that tells all that the file was, and all that it became."""
    result = said.get("toolUseResult")
    path = text(result.get("filePath")) if isinstance(result, dict) else None
    if not isinstance(result, dict) or path is None or result.get("userModified") is True:
        return None
    was, became = result.get("originalFile"), result.get("content")
    rewrites = isinstance(became, str)
    if not isinstance(became, str):
        became = _replaced(result) if isinstance(was, str) else None
    elif was is None and result.get("type") != "create":
        return None
    if became is None or not (was is None or isinstance(was, str)):
        return None
    calls = sorted(results_in(said))
    entry = text(said.get("sourceToolAssistantUUID")) or text(said.get("parentUuid")) or uuid_of(said)
    call = calls[0] if len(calls) == 1 else None
    return RecordedEdit(line, to_ms(said.get("timestamp")), entry, call, path, was, became, rewrites)


def _replaced(result: Object) -> str | None:
    """What an Edit made of a file: what its patch says, which must be what its words say."""
    was, old, new = result.get("originalFile"), result.get("oldString"), result.get("newString")
    if not isinstance(was, str) or not isinstance(old, str) or not isinstance(new, str):
        return None
    if not old:
        return new if not was else None
    count = was.count(old)
    if count == 1 or (count and result.get("replaceAll") is True):
        became = was.replace(old, new)
        return became if _agrees(result, became) else None
    return None


def _agrees(result: Object, became: str) -> bool:
    """Whether each line that the patch says is in the file now stands there where it says."""
    patch = result.get("structuredPatch")
    lines = became.split("\n")
    for hunk in patch if isinstance(patch, list) else ():
        if not isinstance(hunk, dict):
            return False
        start, rows = hunk.get("newStart"), hunk.get("lines")
        if type(start) is not int or not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
            return False
        now = [row[1:] for row in rows if row[:1] in (" ", "+")]
        at = max(start - 1, 0)
        if lines[at : at + len(now)] != now:
            return False
    return True
