"""What codex's lines say of files: the ends of its patches, ``patch_apply_end`` or, in paginated files, ``FileChange``.

Of a file that a patch adds they tell the text, and not what it took the place of: codex writes over what is there and
says nothing of it. So that only tells what a later patch finds. Nothing here raises, whatever a line holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from gitsession.formats.base.file_changes import RecordedReplacement
from gitsession.formats.base.jsonl import LineFailure, Object, parse
from gitsession.formats.base.record import TAIL, Source
from gitsession.formats.base.times import to_ms
from gitsession.formats.base.unified_diff import patched

_PATCHED, _ITEM = "patch_apply_end", "FileChange"
_MARKS = (b'"patch_apply_end"', b'"FileChange"')


def noted(source: Source) -> Iterator[RecordedReplacement]:
    """``Remembering.noted``. What a patch did belongs to the entry that makes the call."""
    if not any(mark in payload for payload in source.payloads() for mark in _MARKS):
        return
    calls: dict[str, int] = {}
    texts: dict[str, str] = {}
    numbers = [record.line for record in sorted(source.records, key=lambda record: record.line)]
    for number, payload in zip([*numbers, TAIL], source.payloads(), strict=False):
        for line in payload.split(b"\n"):
            said = parse(line) if b'"call_id"' in line or b'"FileChange"' in line else LineFailure("")
            if isinstance(said, LineFailure):
                continue
            found = _applied(said)
            if found is not None:
                yield from _noted(line, said, found, calls.get(found.call), texts)
            elif said.get("type") == "response_item":
                call = _own(said, "payload").get("call_id")
                if isinstance(call, str):
                    calls.setdefault(call, number)


class _Applied(NamedTuple):
    call: str
    changes: Object


def _applied(said: Object) -> _Applied | None:
    """The end of a patch that was applied, all of it."""
    end = _own(said, "payload") if said.get("type") == "event_msg" else {}
    if end.get("type") == "item_completed":
        item = _own(end, "item")
        is_done = item.get("type") == _ITEM and item.get("status") == "completed"
        call, changes = item.get("id"), item.get("changes")
    else:
        is_done = end.get("type") == _PATCHED and end.get("success") is True
        call, changes = end.get("call_id"), end.get("changes")
    return _Applied(call, changes) if is_done and isinstance(call, str) and isinstance(changes, dict) else None


def _noted(
    line: bytes, said: Object, found: _Applied, entry: int | None, texts: dict[str, str]
) -> Iterator[RecordedReplacement]:
    """``texts``: of the files that are known to have one, by patches up to this one."""
    at_ms = to_ms(said.get("timestamp"))
    for path, change in sorted(found.changes.items()):
        kind, fields = _kind(change)
        content, diff = fields.get("content"), fields.get("unified_diff")
        was = texts.pop(path, None)
        if kind == "add" and isinstance(content, str):
            texts[path] = content
        elif kind == "delete" and isinstance(content, str) and not content.startswith("#!"):
            # Of a script nobody could say whether it was executable.
            yield RecordedReplacement(line, at_ms, entry, found.call, path, content, None)
        elif kind == "update" and isinstance(diff, str) and was is not None and fields.get("move_path") is None:
            became = patched(was, diff)
            if became is not None and became != was:
                texts[path] = became
                yield RecordedReplacement(line, at_ms, entry, found.call, path, was, became)


def _kind(change: Any) -> tuple[str, Object]:
    """Named in a field, or, in older files, by the only member."""
    if not isinstance(change, dict):
        return "", {}
    kind = change.get("type")
    if isinstance(kind, str):
        return kind, change
    return next(((name, fields) for name, fields in change.items() if isinstance(fields, dict)), ("", {}))


def _own(value: Object, name: str) -> Object:
    found = value.get(name)
    return found if isinstance(found, dict) else {}
