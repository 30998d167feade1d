"""File changes that are recorded in the lines of codex's rollouts.

codex records an applied patch as a ``patch_apply_end`` event or, in paginated files, as a ``FileChange`` item. For a
file that the patch adds, the line contains only the new text. If the file existed before, codex overwrites it without
recording the former text. So an added file is not reported as a file change. The new text of the file is used only to
apply later patches. No function in this module raises an exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from gitsession.formats.base.fields import object_in, to_ms
from gitsession.formats.base.file_changes import RecordedReplacement, apply_diff
from gitsession.formats.base.jsonl import LineFailure, Object, parse
from gitsession.formats.base.record import TAIL, Source

_PATCHED, _ITEM = "patch_apply_end", "FileChange"
_MARKS = (b'"patch_apply_end"', b'"FileChange"')


def mentions_changes(data: bytes) -> bool:
    """Return whether ``data`` may record a file change."""
    return any(mark in data for mark in _MARKS)


def file_changes(source: Source) -> Iterator[RecordedReplacement]:
    """Yield the file changes of the applied patches.

    Each change belongs to the entry that contains the call that applied the patch.
    """
    if not any(map(mentions_changes, source.payloads())):
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
    """Return the patch in ``parsed`` if codex applied the patch completely, otherwise ``None``."""
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
    """Yield the file changes of one patch.

    ``texts``: the known texts of files, by path. This function updates ``texts`` to the state after the patch.
    """
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

    In older files, a change is an object with one member, and the key of the member is the kind.
    """
    if not isinstance(change, dict):
        return "", {}
    kind = change.get("type")
    if isinstance(kind, str):
        return kind, change
    return next(((name, fields) for name, fields in change.items() if isinstance(fields, dict)), ("", {}))
