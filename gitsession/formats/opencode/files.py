"""Functions that read the file changes in opencode's messages, and that change the session id and folder of an export.

The messages contain the object ids of git trees of the whole project. opencode records one tree at the beginning of
each step and one at the end. A step is one answer of the model and the execution of the tool calls in the answer.
opencode also writes ``patch`` parts, but they list only the paths of changed files, whereas the trees also contain the
content. The functions in this module raise no exceptions, even if a record is invalid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha1, sha256
from typing import Any

from gitsession.formats.base.fields import object_in, to_ms
from gitsession.formats.base.file_changes import RecordedRun, RecordedTree
from gitsession.formats.base.jsonl import LineFailure, Object, parse
from gitsession.formats.base.record import Record, Source
from gitsession.formats.opencode.json_text import laid_out, quoted

_ID_CHARS = 16
"""The number of characters in the prefix of an id. The prefix contains the kind and the time.

opencode orders messages by this prefix.
"""

_ID_FIELDS = ("id", "sessionID", "messageID", "parentID", "tail_start_id")
_NOT_COPIED = ("revert", "share", "parentID")
"""The fields of a session that do not apply to a copy of the session under another id."""


def session_id(source_id: str | None) -> str:
    """Return ``source_id`` if it is a session id of opencode, otherwise an id derived from ``source_id``."""
    if source_id is not None and source_id.startswith("ses"):
        return source_id
    return f"ses_{sha256((source_id or '').encode('utf-8', 'surrogatepass')).hexdigest()[:26]}"


def relocate(data: bytes, id: str, cwd: str) -> bytes:
    """Return the export ``data`` with the session id ``session_id(id)`` and the folder ``cwd``.

    Message ids must be unique in opencode's database. If two messages have the same id, ``opencode import`` keeps only
    the first one. So if the session id changes, all messages and parts get new ids, which are derived from the new
    session id and the old ids.
    """
    id = session_id(id)
    document = parse(data)
    info = None if isinstance(document, LineFailure) else document.get("info")
    if isinstance(document, LineFailure) or not isinstance(info, dict):
        return data
    old_id = info.get("id")
    if (old_id, info.get("directory")) == (id, cwd):
        return data
    info["directory"] = cwd
    if old_id != id:
        document["info"] = {**{name: value for name, value in info.items() if name not in _NOT_COPIED}, "id": id}
        document["messages"] = _renamed(document.get("messages"), id)
    return f"{laid_out(quoted(document))}\n".encode()


def _renamed(messages: Any, session: str) -> list[Any]:
    found = [message for message in _objects(messages) if isinstance(message.get("info"), dict)]
    objects = [each for message in found for each in (message["info"], *_objects(message.get("parts")))]
    names = {each["id"]: _derive_id(each["id"], session) for each in objects if isinstance(each.get("id"), str)}
    names |= {each["sessionID"]: session for each in objects if isinstance(each.get("sessionID"), str)}
    return [
        {**message, "info": _replace_ids(message["info"], names),
         "parts": [_with_files(_replace_ids(part, names), names) for part in _objects(message.get("parts"))]}
        for message in found
    ]  # fmt: skip


def _replace_ids(value: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    ids = {name: value[name] for name in _ID_FIELDS if isinstance(value.get(name), str)}
    return {**value, **{name: names.get(id, id) for name, id in ids.items()}}


def _with_files(part: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return ``part`` with the new ids ``names`` in the attachments of a tool result."""
    state = part.get("state")
    if not isinstance(state, dict) or "attachments" not in state:
        return part
    files = [_replace_ids(file, names) for file in _objects(state["attachments"])]
    return {**part, "state": {**state, "attachments": files}}


def _derive_id(id: str, session: str) -> str:
    return id[:_ID_CHARS] + sha256(f"{session}/{id}".encode("utf-8", "backslashreplace")).hexdigest()[:14]


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


_TREE = re.compile(r"[0-9a-f]{40}")
_PROJECT = re.compile(r"[0-9A-Za-z_-]{1,128}")
_ROOTS_MAX = 8

_READ_ONLY_TOOLS = frozenset(
    {"codesearch", "glob", "grep", "invalid", "list", "lsp", "plan_enter", "plan_exit", "question", "read", "skill",
     "todoread", "todowrite", "webfetch", "websearch"}
)  # fmt: skip
_FILE_TOOLS = frozenset({"edit", "multiedit", "write"})
_TASK_TOOL = "task"
"""The tool that starts a sub-agent. The session of the sub-agent contains the sub-agent's file changes."""


def copy_folders(name: str, source: Source) -> Sequence[str]:
    """Return the folders that may contain the git objects of opencode's snapshots.

    opencode stores the objects in ``snapshot/<project>/<sha1 of the worktree>``, older versions in
    ``snapshot/<project>``. The folder ``snapshot`` is beside the database or, in versions without a database, beside
    the folder ``storage``.
    """
    info = _info_of(source)
    project = info.get("projectID")
    if not isinstance(project, str) or not _PROJECT.fullmatch(project):
        return ()
    prefix = "../../.." if "/storage/session/" in name else "."
    roots = dict.fromkeys(root for message in _messages(source.records) if (root := _root(message)) is not None)
    hashed = (sha1(root.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest() for root in roots)
    folders = [f"{project}/{each}" for each in list(hashed)[-_ROOTS_MAX:]]
    return [f"{prefix}/snapshot/{folder}/objects" for folder in (*folders, project)]


def file_changes(source: Source) -> Iterator[RecordedRun]:
    """Yield the file changes in the messages of a session.

    Messages that are older than the session are skipped. opencode copied these messages from another session when the
    user forked that session, and their changes belong to the other session.
    """
    began_ms = to_ms(object_in(_info_of(source), "time").get("created"))
    for record in sorted(source.records, key=lambda record: record.line):
        if b'"step-start"' not in record.payload:
            continue
        for message in _messages([record]):
            at_ms = to_ms(object_in(object_in(message, "info"), "time").get("created"))
            if began_ms is None or at_ms is None or at_ms >= began_ms:
                yield from _steps(record.payload, message, at_ms)


def _steps(payload: bytes, message: Object, at_ms: int | None) -> Iterator[RecordedRun]:
    """Yield the steps of a message in which files were changed. ``payload``: the record that contains the message."""
    info, root = object_in(message, "info"), _root(message)
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
                raw = b"%d\n%s" % (number, payload)
                at_ms = max((at_ms or 0, *(_end_ms(call) for call in calls)))
                call_ids = [call["callID"] for call in calls if isinstance(call.get("callID"), str)]
                call = call_ids[0] if len(call_ids) == 1 else None
                yield RecordedRun(raw, at_ms, id if isinstance(id, str) else None, call, root, before, after, paths)
            before = None


def _paths(calls: Iterable[Object], info: Object) -> tuple[str, ...] | None:
    """Return the paths that the tool calls ``calls`` may have changed, or ``None`` if they may have changed any path.

    If one of the calls started a sub-agent, return only the paths in calls of opencode's file tools.
    """
    found: set[str] = set()
    is_any = is_delegated = False
    folder = object_in(info, "path").get("cwd")
    for call in calls:
        tool = call.get("tool")
        path = object_in(object_in(call, "state"), "input").get("filePath")
        if tool in _FILE_TOOLS:
            if isinstance(path, str) and path:
                found.add(path if path.startswith("/") or not isinstance(folder, str) else f"{folder}/{path}")
        elif tool == _TASK_TOOL:
            is_delegated = True
        elif tool not in _READ_ONLY_TOOLS:
            is_any = True
    return None if is_any and not is_delegated else tuple(sorted(found))


def _messages(records: Iterable[Record]) -> Iterator[Object]:
    """Yield the answers in ``records``, each with its parts."""
    for record in records:
        parsed = parse(record.payload) if b'"assistant"' in record.payload else LineFailure("")
        if isinstance(parsed, LineFailure):
            continue
        listed = parsed.get("messages") if "messages" in parsed else [parsed]
        for message in listed if isinstance(listed, list) else ():
            if isinstance(message, dict) and object_in(message, "info").get("role") == "assistant":
                yield message


def _info_of(source: Source) -> Object:
    """Return the description of the session, which is the first record on ``meta``."""
    description = parse(source.meta[0].payload) if source.meta else LineFailure("")
    return {} if isinstance(description, LineFailure) else object_in(description, "info")


def _root(message: Object) -> str | None:
    """Return the folder to which the recorded trees of ``message`` belong."""
    root = object_in(object_in(message, "info"), "path").get("root")
    return root if isinstance(root, str) and root.startswith("/") else None


def _tree(part: Object) -> RecordedTree | None:
    name = part.get("snapshot")
    return RecordedTree(name) if isinstance(name, str) and _TREE.fullmatch(name) else None


def _end_ms(call: Object) -> int:
    return to_ms(object_in(object_in(call, "state"), "time").get("end")) or 0
