"""An export on its way into opencode's database: where it waits, as which session, and what takes it in."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from gitsession.formats.base.jsonl import LineFailure, parse
from gitsession.formats.opencode.json_text import laid_out, quoted
from gitsession.model.entries import SessionHeader

_ID_CHARS = 16
"""Of an id, the kind and the time: by them opencode puts messages in order."""

_NAMES = ("id", "sessionID", "messageID", "parentID", "tail_start_id")
_STAYS = ("revert", "share", "parentID")
"""What is said of the session that another one begins like, and not of that one."""


def session_id(source_id: str | None) -> str:
    """The session's id for opencode: its own if that is one of opencode's, else one that follows from it."""
    if source_id is not None and source_id.startswith("ses"):
        return source_id
    return f"ses_{sha256((source_id or '').encode('utf-8', 'surrogatepass')).hexdigest()[:26]}"


def place(header: SessionHeader) -> str:
    """Below the folder for data, where ours lies too: opencode only reads the file, and once."""
    called = "".join(char if char.isalnum() or char in "-_" else "-" for char in session_id(header.source_id))
    return f"gitsession/opencode/{called}.json"


def moved(data: bytes, id: str, cwd: str) -> bytes:
    """``Resumable.moved``. Messages have ids that the whole database knows, and of two with one id it keeps the first:

    so in a session of another id they have others, which follow from it.
    """
    document = parse(data)
    about = None if isinstance(document, LineFailure) else document.get("info")
    if isinstance(document, LineFailure) or not isinstance(about, dict):
        return data
    was = about.get("id")
    if (was, about.get("directory")) == (id, cwd):
        return data
    about["directory"] = cwd
    if was != id:
        document["info"] = {**{name: value for name, value in about.items() if name not in _STAYS}, "id": id}
        document["messages"] = _renamed(document.get("messages"), id)
    return f"{laid_out(quoted(document))}\n".encode()


def _renamed(messages: Any, session: str) -> list[Any]:
    found = [message for message in _objects(messages) if isinstance(message.get("info"), dict)]
    every = [each for message in found for each in (message["info"], *_objects(message.get("parts")))]
    names = {each["id"]: _other(each["id"], session) for each in every if isinstance(each.get("id"), str)}
    names |= {each["sessionID"]: session for each in every if isinstance(each.get("sessionID"), str)}
    return [
        {**message, "info": _called(message["info"], names),
         "parts": [_with_files(_called(part, names), names) for part in _objects(message.get("parts"))]}
        for message in found
    ]  # fmt: skip


def _called(value: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    ids = {name: value[name] for name in _NAMES if isinstance(value.get(name), str)}
    return {**value, **{name: names.get(id, id) for name, id in ids.items()}}


def _with_files(part: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """What a tool gave back besides words are parts too."""
    state = part.get("state")
    if not isinstance(state, dict) or "attachments" not in state:
        return part
    files = [_called(file, names) for file in _objects(state["attachments"])]
    return {**part, "state": {**state, "attachments": files}}


def _other(id: str, session: str) -> str:
    return id[:_ID_CHARS] + sha256(f"{session}/{id}".encode("utf-8", "backslashreplace")).hexdigest()[:14]


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
