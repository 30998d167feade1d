"""Paths of codex's rollouts, and the file changes that are recorded in their lines.

codex records an applied patch as a ``patch_apply_end`` event or, in paginated files, as a ``FileChange`` item. For a
file that the patch adds, the record contains only the new text. The former text is unknown, because codex overwrites an
existing file without recording its content. So the addition of a file yields no file change, and only determines the
text to which later patches apply. No function in this module raises an exception.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from gitsession.formats.base.fields import object_in, to_iso, to_ms
from gitsession.formats.base.file_changes import RecordedReplacement, apply_diff
from gitsession.formats.base.jsonl import LF, LineFailure, Object, parse
from gitsession.formats.base.record import TAIL, Source
from gitsession.formats.codex.split_file import is_header, is_thread_id
from gitsession.model.entries import SessionHeader


def thread_id(source_id: str | None) -> str:
    """Return ``source_id`` if codex accepts it as a thread id, otherwise an id derived from it."""
    if source_id is not None and is_thread_id(source_id):
        return source_id
    digits = sha256((source_id or "").encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"


def base_of(data: bytes) -> str | None:
    """Return the id of the thread that the rollout ``data`` continues, or ``None`` if it continues no thread."""
    stated = _header_in(data).get("history_base")
    thread = stated.get("thread_id") if isinstance(stated, dict) else None
    return thread if isinstance(thread, str) else None


def segment_path(data: bytes, segment: str | None) -> str:
    """Return the path of the rollout ``data`` below ``.codex``.

    ``segment``: the id of the file if it is a later file of the thread; ``None`` if it is the first.
    """
    header = _header_in(data)
    id = header.get("id")
    session = SessionHeader(
        agent="codex", source_id=id if isinstance(id, str) else None, at_ms=to_ms(header.get("timestamp")) or 0
    )
    found = session_path(session)
    return found if segment is None else f"{found.removesuffix('.jsonl')}_{segment}.jsonl"


def _header_in(data: bytes) -> dict[str, Any]:
    """Return the payload of the first header of a rollout."""
    for line in data.split(LF):
        if b"session_meta" in line and is_header(found := parse(line)) and isinstance(found, dict):
            payload: dict[str, Any] = found["payload"]
            return payload
    return {}


def globs(session: SessionHeader) -> Sequence[str]:
    """Return globs, below ``.codex``, for the rollout of a session.

    The globs match any day, because the time zone of the day in a file name is unknown.
    """
    name = f"rollout-*-{glob.escape(thread_id(session.source_id))}.jsonl"
    return (f"sessions/*/*/*/{name}", f"archived_sessions/{name}")


def session_path(session: SessionHeader) -> str:
    """Return the path of a rollout below ``.codex``.

    The path depends on the start time in UTC, and not on the folder of the session.
    """
    time = to_iso(session.at_ms)
    day, clock = time[:10], time[11:19].replace(":", "-")
    return f"sessions/{day.replace('-', '/')}/rollout-{day}T{clock}-{thread_id(session.source_id)}.jsonl"


_PATCHED, _ITEM = "patch_apply_end", "FileChange"
_MARKS = (b'"patch_apply_end"', b'"FileChange"')


def file_changes(source: Source) -> Iterator[RecordedReplacement]:
    """Yield the file changes of the applied patches.

    Each change belongs to the entry with the call that applied the patch.
    """
    if not any(mark in payload for payload in source.payloads() for mark in _MARKS):
        return
    calls: dict[str, int] = {}
    texts: dict[str, str] = {}
    numbers = [record.line for record in sorted(source.records, key=lambda record: record.line)]
    for number, payload in zip([*numbers, TAIL], source.payloads(), strict=False):
        for line in payload.split(b"\n"):
            parsed = parse(line) if b'"call_id"' in line or b'"FileChange"' in line else LineFailure("")
            if isinstance(parsed, LineFailure):
                continue
            found = _applied_patch(parsed)
            if found is not None:
                yield from _replacements(line, parsed, found, calls.get(found.call), texts)
            elif parsed.get("type") == "response_item":
                call = object_in(parsed, "payload").get("call_id")
                if isinstance(call, str):
                    calls.setdefault(call, number)


class _AppliedPatch(NamedTuple):
    call: str
    changes: Object


def _applied_patch(parsed: Object) -> _AppliedPatch | None:
    """Return the patch in ``parsed`` if it was applied completely, otherwise ``None``."""
    end = object_in(parsed, "payload") if parsed.get("type") == "event_msg" else {}
    if end.get("type") == "item_completed":
        item = object_in(end, "item")
        is_applied = item.get("type") == _ITEM and item.get("status") == "completed"
        call, changes = item.get("id"), item.get("changes")
    else:
        is_applied = end.get("type") == _PATCHED and end.get("success") is True
        call, changes = end.get("call_id"), end.get("changes")
    return _AppliedPatch(call, changes) if is_applied and isinstance(call, str) and isinstance(changes, dict) else None


def _replacements(
    line: bytes, parsed: Object, found: _AppliedPatch, entry: int | None, texts: dict[str, str]
) -> Iterator[RecordedReplacement]:
    """Yield the file changes of one patch. ``texts``: the known texts of files before the patch, by path; updated."""
    at_ms = to_ms(parsed.get("timestamp"))
    for path, change in sorted(found.changes.items()):
        kind, fields = _kind(change)
        content, diff = fields.get("content"), fields.get("unified_diff")
        before = texts.pop(path, None)
        if kind == "add" and isinstance(content, str):
            texts[path] = content
        elif kind == "delete" and isinstance(content, str) and not content.startswith("#!"):
            # A deleted script is skipped, because it is unknown whether the script was executable.
            yield RecordedReplacement(line, at_ms, entry, found.call, path, content, None)
        elif kind == "update" and isinstance(diff, str) and before is not None and fields.get("move_path") is None:
            after = apply_diff(before, diff)
            if after is not None and after != before:
                texts[path] = after
                yield RecordedReplacement(line, at_ms, entry, found.call, path, before, after)


def _kind(change: Any) -> tuple[str, Object]:
    """Return the kind and the fields of a change.

    In older files, a change is an object with one member, whose key is the kind.
    """
    if not isinstance(change, dict):
        return "", {}
    kind = change.get("type")
    if isinstance(kind, str):
        return kind, change
    return next(((name, fields) for name, fields in change.items() if isinstance(fields, dict)), ("", {}))
