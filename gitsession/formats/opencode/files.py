"""What opencode's messages say of files: the trees of the whole project that it takes as a step begins and ends.

A step is one answer of the model's and the calls in it. opencode's own ``patch`` parts name the paths that differ, for
its revert; the trees themselves say more. Nothing here raises, whatever a record holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha1
from typing import Any

from gitsession.formats.base.file_changes import RecordedRun, RecordedTree
from gitsession.formats.base.jsonl import LineFailure, Object, parse
from gitsession.formats.base.record import Record, Source
from gitsession.formats.base.times import to_ms

_TREE = re.compile(r"[0-9a-f]{40}")
_PROJECT = re.compile(r"[0-9A-Za-z_-]{1,128}")
_ROOTS_MAX = 8

_CHANGE_NOTHING = frozenset(
    {"codesearch", "glob", "grep", "invalid", "list", "lsp", "plan_enter", "plan_exit", "question", "read", "skill",
     "todoread", "todowrite", "webfetch", "websearch"}
)  # fmt: skip
_NAME_THEIR_FILE = frozenset({"edit", "multiedit", "write"})
_SUB_AGENT = "task"
"""What it does is in a session of its own, which has trees of its own."""


def copies(name: str, source: Source) -> Sequence[str]:
    """``Remembering.copies``: ``snapshot/<project>/<sha1 of the worktree>``, or ``snapshot/<project>`` in older
    versions, each beside the database or the folders of old.
    """
    about = _about(source)
    project = about.get("projectID")
    if not isinstance(project, str) or not _PROJECT.fullmatch(project):
        return ()
    up = "../../.." if "/storage/session/" in name else "."
    roots = dict.fromkeys(root for message in _messages(source.records) if (root := _root(message)) is not None)
    hashed = (sha1(root.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest() for root in roots)
    places = [f"{project}/{each}" for each in list(hashed)[-_ROOTS_MAX:]]
    return [f"{up}/snapshot/{place}/objects" for place in (*places, project)]


def noted(source: Source) -> Iterator[RecordedRun]:
    """What the messages of a session say of files. Of those that it copied from another when it began, nothing: what
    they did is that one's doing.
    """
    began_ms = to_ms(_own(_about(source), "time").get("created"))
    for record in sorted(source.records, key=lambda record: record.line):
        if b'"step-start"' not in record.payload:
            continue
        for message in _messages([record]):
            at_ms = to_ms(_own(_own(message, "info"), "time").get("created"))
            if began_ms is None or at_ms is None or at_ms >= began_ms:
                yield from _steps(record.payload, message, at_ms)


def _steps(payload: bytes, message: Object, at_ms: int | None) -> Iterator[RecordedRun]:
    """``payload``: the record that ``message`` is in."""
    info, root = _own(message, "info"), _root(message)
    id, parts = info.get("id"), message.get("parts")
    if root is None or not isinstance(parts, list):
        return
    before: RecordedTree | None = None
    calls: list[Object] = []
    for number, part in enumerate(parts):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "step-start":
            before, calls = _tree(part), []
        elif kind == "tool":
            calls.append(part)
        elif kind == "step-finish":
            after, paths = _tree(part), _paths(calls, info)
            if before is not None and after is not None and before != after and paths != ():
                said = b"%d\n%s" % (number, payload)
                at_ms = max((at_ms or 0, *(_ended(call) for call in calls)))
                called = [call["callID"] for call in calls if isinstance(call.get("callID"), str)]
                call = called[0] if len(called) == 1 else None
                yield RecordedRun(said, at_ms, id if isinstance(id, str) else None, call, root, before, after, paths)
            before = None


def _paths(calls: Iterable[Object], info: Object) -> tuple[str, ...] | None:
    """The only paths that ``calls`` can have changed; ``None`` where that may be any."""
    found: set[str] = set()
    is_any = is_delegated = False
    folder = _own(info, "path").get("cwd")
    for call in calls:
        tool = call.get("tool")
        path = _own(_own(call, "state"), "input").get("filePath")
        if tool in _NAME_THEIR_FILE:
            if isinstance(path, str) and path:
                found.add(path if path.startswith("/") or not isinstance(folder, str) else f"{folder}/{path}")
        elif tool == _SUB_AGENT:
            is_delegated = True
        elif tool not in _CHANGE_NOTHING:
            is_any = True
    return None if is_any and not is_delegated else tuple(sorted(found))


def _messages(records: Iterable[Record]) -> Iterator[Object]:
    """The answers in ``records``, each with its parts."""
    for record in records:
        said = parse(record.payload) if b'"assistant"' in record.payload else LineFailure("")
        if isinstance(said, LineFailure):
            continue
        listed = said.get("messages") if "messages" in said else [said]
        for message in listed if isinstance(listed, list) else ():
            if isinstance(message, dict) and _own(message, "info").get("role") == "assistant":
                yield message


def _about(source: Source) -> Object:
    """What the session is: the first line on ``meta``."""
    said = parse(source.meta[0].payload) if source.meta else LineFailure("")
    return {} if isinstance(said, LineFailure) else _own(said, "info")


def _root(message: Object) -> str | None:
    """The folder that the trees are of."""
    root = _own(_own(message, "info"), "path").get("root")
    return root if isinstance(root, str) and root.startswith("/") else None


def _tree(part: Object) -> RecordedTree | None:
    name = part.get("snapshot")
    return RecordedTree(name) if isinstance(name, str) and _TREE.fullmatch(name) else None


def _ended(call: Object) -> int:
    return to_ms(_own(_own(call, "state"), "time").get("end")) or 0


def _own(value: Mapping[str, Any], name: str) -> Object:
    found = value.get(name)
    return found if isinstance(found, dict) else {}
