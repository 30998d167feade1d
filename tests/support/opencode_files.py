"""Builders for sessions of opencode: messages, exports, databases, and the folders of older versions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

START_MS = 1_769_900_000_000
SES = "ses_one"

Message = dict[str, Any]

_COLUMNS = (
    "id TEXT PRIMARY KEY, project_id TEXT, workspace_id TEXT, parent_id TEXT, slug TEXT, directory TEXT, path TEXT, "
    "title TEXT, version TEXT, share_url TEXT, summary_additions INTEGER, summary_deletions INTEGER, "
    "summary_files INTEGER, summary_diffs TEXT, metadata TEXT, cost REAL DEFAULT 0, tokens_input INTEGER DEFAULT 0, "
    "tokens_output INTEGER DEFAULT 0, tokens_reasoning INTEGER DEFAULT 0, tokens_cache_read INTEGER DEFAULT 0, "
    "tokens_cache_write INTEGER DEFAULT 0, revert TEXT, permission TEXT, agent TEXT, model TEXT, "
    "time_created INTEGER, time_updated INTEGER, time_compacting INTEGER, time_archived INTEGER"
)
OLD_COLUMNS = (
    "id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, slug TEXT, directory TEXT, title TEXT, version TEXT, "
    "time_created INTEGER, time_updated INTEGER"
)
"""Columns of the first version with a database."""


def info(**fields: Any) -> dict[str, Any]:
    """Return the ``info`` of a session in an export."""
    said: dict[str, Any] = {
        "id": SES,
        "slug": "kind-river",
        "projectID": "p1",
        "directory": "/work",
        "title": "A title",
        "version": "1.18.33",
        "cost": 0.5,
        "tokens": {"input": 1, "output": 2, "reasoning": 0, "cache": {"read": 0, "write": 0}},
        "time": {"created": START_MS, "updated": START_MS + 9},
    }
    return {**said, **fields}


def user(id: str, *words: str, at: int, parts: Iterable[Message] = (), **fields: Any) -> Message:
    """Return a prompt.

    Args:
        at: Time in seconds after the start of the session.
    """
    about = {"role": "user", "time": {"created": START_MS + 1000 * at}, "agent": "build"}
    model = {"model": {"providerID": "mock", "modelID": "m"}}
    said = [{"type": "text", "text": text} for text in words]
    return message(id, {**about, **model, **fields}, [*said, *parts])


def answer(id: str, *words: str, at: int, parts: Iterable[Message] = (), done: bool = True, **fields: Any) -> Message:
    """Return an answer.

    Args:
        done: Whether the answer is finished.
    """
    time = {"created": START_MS + 1000 * at, **({"completed": START_MS + 1000 * at + 500} if done else {})}
    about = {"parentID": "msg_u1", "role": "assistant", "mode": "build", "agent": "build", "cost": 0.25}
    tokens = {"total": 30, "input": 20, "output": 10, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    rest = {"tokens": tokens, "modelID": "m", "providerID": "mock", "time": time, "finish": "stop"}
    said = [{"type": "text", "text": text} for text in words]
    return message(id, {**about, **rest, **fields}, [*said, *parts])


def tool(call: str, output: str = "out", *, name: str = "bash", at: int = 2, **state: Any) -> Message:
    """Return a part with a call and its result."""
    time = {"start": START_MS + 1000 * at, "end": START_MS + 1000 * at + 100, **state.pop("time", {})}
    made = {"status": "completed", "input": {"command": "ls"}, "output": output, "metadata": {}, "title": "ls"}
    return {"type": "tool", "tool": name, "callID": call, "state": {**made, **state, "time": time}}


def message(id: str, about: Message, parts: Iterable[Message]) -> Message:
    found = [{**part, **_ids(part.get("id", f"prt_{id}_{at}"), id)} for at, part in enumerate(parts)]
    for part in found:
        part["id"] = part.pop("id")
        part["sessionID"], part["messageID"] = part.pop("sessionID"), part.pop("messageID")
    return {"info": {**about, "id": id, "sessionID": SES}, "parts": found}


def _ids(part: str, message: str) -> dict[str, str]:
    return {"id": part, "sessionID": SES, "messageID": message}


def compaction(asked: str, summary: str, words: str, *, at: int, tail: str | None = None) -> list[Message]:
    """Return the two messages of a compaction."""
    part = {"type": "compaction", "auto": True, "overflow": False, **({"tail_start_id": tail} if tail else {})}
    said = {"summary": True, "mode": "compaction", "agent": "compaction", "parentID": asked}
    return [user(asked, at=at, parts=[part]), answer(summary, words, at=at + 1, **said)]


def export(messages: Iterable[Message], about: Mapping[str, Any] | None = None) -> bytes:
    """Return the output of ``opencode export``."""
    document = {"info": about or info(), "messages": list(messages)}
    return f"{json.dumps(document, indent=2, ensure_ascii=False)}\n".encode()


class Database:
    """A database of opencode to which sessions are added."""

    def __init__(self, path: Path, *, columns: str = _COLUMNS, log: bool = False) -> None:
        self.path = path
        self.db = sqlite3.connect(path, isolation_level=None)
        if log:
            self.db.execute("PRAGMA journal_mode = WAL")
        times = "time_created INTEGER, time_updated INTEGER, data TEXT NOT NULL"
        self.db.execute(f"CREATE TABLE session ({columns})")
        self.db.execute(f"CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, {times})")
        self.db.execute(f"CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, {times})")
        for secret in ("account", "credential", "control_account", "session_share"):
            self.db.execute(f"CREATE TABLE {secret} (id TEXT, secret TEXT)")
            self.db.execute(f"INSERT INTO {secret} VALUES ('x', 'do not read me')")

    def put(self, messages: Iterable[Message], about: Mapping[str, Any] | None = None, **columns: Any) -> None:
        """Write a session and replace its previous state."""
        said = dict(about or info())
        there = [row[1] for row in self.db.execute("PRAGMA table_info(session)")]
        self.db.execute("BEGIN")
        for table, key in (("session", "id"), ("message", "session_id"), ("part", "session_id")):
            self.db.execute(f"DELETE FROM {table} WHERE {key} = ?", (said["id"],))
        row = {**_row(said), **columns}
        names = [name for name in row if name in there]
        marks = ", ".join("?" * len(names))
        values = [row[name] for name in names]
        self.db.execute(f"INSERT INTO session ({', '.join(names)}) VALUES ({marks})", values)
        for message in messages:
            self._message(said["id"], message)
        self.db.execute("COMMIT")

    def _message(self, session: str, message: Message) -> None:
        about = message["info"]
        created = about["time"]["created"]
        data = _without(about, "id", "sessionID")
        self.db.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (about["id"], session, created, created, data))
        for part in message["parts"]:
            data = _without(part, "id", "sessionID", "messageID")
            row = (part["id"], about["id"], session, created, created, data)
            self.db.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)

    def close(self) -> None:
        self.db.close()


def folders(place: Path, messages: Iterable[Message], about: Mapping[str, Any] | None = None) -> Path:
    """Write a session as files, as versions before the database did. Return the file that describes the session."""
    said = about or info()
    path = _file(place / "session" / "p1" / f"{said['id']}.json", said)
    for message in messages:
        id = message["info"]["id"]
        _file(place / "message" / said["id"] / f"{id}.json", _ids_first(message["info"]))
        for part in message["parts"]:
            _file(place / "part" / id / f"{part['id']}.json", _ids_first(part))
    return path


def _file(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2))
    return path


def _ids_first(value: Mapping[str, Any]) -> dict[str, Any]:
    names = ("id", "sessionID", "messageID")
    return {**{name: value[name] for name in names if name in value}, **value}


def _without(value: Mapping[str, Any], *names: str) -> str:
    rest = {name: item for name, item in value.items() if name not in names}
    return json.dumps(rest, separators=(",", ":"), ensure_ascii=False)


def _row(said: Mapping[str, Any]) -> dict[str, Any]:
    tokens, summary = said.get("tokens", {}), said.get("summary", {})
    cache = tokens.get("cache", {})
    texts = {name: json.dumps(said[name]) for name in ("model", "revert", "permission", "metadata") if name in said}
    return {
        "id": said["id"],
        "project_id": said["projectID"],
        "parent_id": said.get("parentID"),
        "slug": said["slug"],
        "directory": said["directory"],
        "path": said.get("path"),
        "title": said["title"],
        "version": said["version"],
        "agent": said.get("agent"),
        "summary_additions": summary.get("additions"),
        "summary_deletions": summary.get("deletions"),
        "summary_files": summary.get("files"),
        "cost": said.get("cost", 0),
        **{f"tokens_{name}": tokens.get(name, 0) for name in ("input", "output", "reasoning")},
        **{f"tokens_cache_{name}": cache.get(name, 0) for name in ("read", "write")},
        **texts,
        "time_created": said["time"]["created"],
        "time_updated": said["time"]["updated"],
    }
