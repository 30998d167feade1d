"""A session file of each agent: the largest real one that is available, or a generated one.

Each file can be extended by a record and read with a minimal parser. Generated files have the structure that the agent
writes, with random words. Random words compress worse than real text.
"""

from __future__ import annotations

import functools
import json
import random
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.data import folder, made_file, made_line, words

_REAL = {
    "pi": "*.jsonl", "omp": "*.jsonl", "claude": "*.jsonl", "codex": "*.jsonl", "opencode": "*.db",
    "aider": "*history.md", "librecode": "*.db",
}  # fmt: skip
THREAD = "01a1ffd1-326d-7a00-aa58-5bfc88e96001"
START = "2026-02-01T00:00:00.000Z"

Lines = Iterator[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class AgentFile:
    """A session file. Call ``grow`` only on a copy.

    ``name`` is its name on the page.
    """

    agent: str
    name: str
    path: Path

    def copy(self, place: Path) -> AgentFile:
        """Copy the file to the folder ``place``."""
        return replace(self, path=Path(shutil.copyfile(self.path, place / self.path.name)))

    def parse(self) -> Sequence[bytes]:
        """Read the file with a minimal parser of the agent's format and return the unmodified records."""
        return _PARSERS.get(self.path.suffix, _parse_lines)(self.path)

    def keep(self) -> None:
        """Parse and compress every record, which any program must do that keeps the content."""
        for record in self.parse():
            zlib.compress(record)

    def grow(self) -> None:
        """Append one record, as the agent does."""
        _GROWN[self.agent](self.path)

    def said(self) -> int:
        """Return the size of the messages and parts in a database of opencode, in bytes. Duplicates are not counted."""
        with sqlite3.connect(self.path) as db:
            return sum(db.execute(f"SELECT sum(length(data)) FROM {table}").fetchone()[0] for table in _SAID)


def all_of(place: Path, turns: int, *, real: bool) -> Iterator[AgentFile]:
    """Yield a file of each agent. Generated files are written below ``place``.

    Args:
        place: An empty folder.
        turns: Number of turns of a generated session.
        real: Whether to use real files if they are available.
    """
    for agent, pattern in _REAL.items():
        found = (folder() / "sessions" / agent).rglob(pattern) if real else ()
        largest = max(found, key=lambda path: path.stat().st_size, default=None)
        if largest is None:
            path = place / agent / _made_name(agent)
            path.parent.mkdir()
            _MADE[agent](path, turns)
            yield AgentFile(agent, f"{agent} (made)", path)
        else:
            yield AgentFile(agent, agent, largest)


def compacted(place: Path, turns: int, compactions: int) -> AgentFile:
    """Generate a session of codex that writes its whole history again at each compaction."""
    path = place / "compacted" / _made_name("codex")
    path.parent.mkdir()
    _codex(path, turns, compactions)
    return AgentFile("codex", f"codex (made), {compactions} compactions", path)


def large(agent: str, place: Path, size: int) -> AgentFile:
    """Generate a session of Claude Code or codex of about ``size`` bytes, 11 KB per line."""
    path = place / _made_name(agent)
    _write(path, _LARGE[agent](size // 11_200))
    return AgentFile(agent, f"{agent} (made)", path)


# ---- generated files


def _made_name(agent: str) -> str:
    names = {"codex": f"rollout-2026-02-01T00-00-00-{THREAD}.jsonl", "aider": ".aider.chat.history.md"}
    return names.get(agent) or ("made.db" if _REAL[agent] == "*.db" else "made.jsonl")


def _pi(path: Path, turns: int) -> None:
    path.write_bytes(made_file(0, turns * 2))


def _claude(path: Path, turns: int) -> None:
    _write(path, (_claude_line(number, words(number)) for number in range(turns * 2)))


def _claude_line(number: int, text: str) -> dict[str, Any]:
    role = "assistant" if number % 2 else "user"
    answer = {"id": f"msg_{number}", "type": "message", "model": "m", "content": [{"type": "text", "text": text}]}
    return {
        "parentUuid": _uuid(number - 1) if number else None, "isSidechain": False, "userType": "external",
        "cwd": "/w", "sessionId": _uuid(1 << 40), "version": "2.1.0", "type": role,
        "message": {"role": role, **(answer if number % 2 else {"content": text})},
        "uuid": _uuid(number), "timestamp": START,
    }  # fmt: skip


def _codex(path: Path, turns: int, compactions: int = 0) -> None:
    _write(path, _codex_lines(turns, turns // compactions if compactions else turns + 1))


def _codex_lines(turns: int, between: int) -> Lines:
    about = {"id": THREAD, "timestamp": START, "cwd": "/w", "originator": "codex_exec", "cli_version": "0.169.0"}
    yield _codex_line("session_meta", **about, source="exec")
    history: list[dict[str, Any]] = []
    for number in range(turns):
        history.append(_codex_said("user", "input_text", number * 2))
        yield _codex_line("response_item", **history[-1])
        yield _codex_line("response_item", **_codex_said("assistant", "output_text", number * 2 + 1))
        if number % between == between - 1:
            summary = _codex_said("user", "input_text", 1_000_000 + number)
            yield _codex_line("compacted", message="", replacement_history=[*history, summary])


def _codex_said(role: str, kind: str, number: int) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": words(number)}]}


def _codex_line(kind: str, **payload: object) -> dict[str, Any]:
    return {"timestamp": START, "type": kind, "payload": payload}


def _long(number: int) -> str:
    """Return a text of about 11 KB that differs for each number."""
    return f"{number} " + " ".join(_paragraph((number * 7 + each * 31) % 1000) for each in range(16))


_paragraph = functools.cache(words)


def _large_claude(lines: int) -> Lines:
    return (_claude_line(number, _long(number)) for number in range(lines))


def _large_codex(lines: int) -> Lines:
    yield from _codex_lines(0, 1)
    for number in range(lines):
        content = [{"type": "output_text", "text": _long(number)}]
        yield _codex_line("response_item", type="message", role="assistant", content=content)


_LARGE: dict[str, Callable[[int], Lines]] = {"claude": _large_claude, "codex": _large_codex}


def _aider(path: Path, turns: int) -> None:
    parts = ["\n# aider chat started at 2026-02-01 00:00:00\n\n> Aider v0.86.1  \n"]
    for number in range(turns):
        parts.append(f"\n#### {words(number * 2)}  \n\n{words(number * 2 + 1)}\n\n> Tokens: 1k sent.  \n")
    path.write_text("".join(parts))


_SAID = ("message", "part")


def _opencode(path: Path, turns: int) -> None:
    """Write a database with an event table that duplicates each part."""
    with sqlite3.connect(path) as db:
        times = "time_created INTEGER, time_updated INTEGER"
        db.execute(f"CREATE TABLE session (id TEXT PRIMARY KEY, directory TEXT, title TEXT, version TEXT, {times})")
        db.execute(f"CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, {times}, data TEXT)")
        db.execute(f"CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, {times}, data TEXT)")
        db.execute("CREATE TABLE event (id TEXT PRIMARY KEY, type TEXT, data TEXT)")
        db.execute("INSERT INTO session VALUES ('ses_made', '/w', 'Made', '1.18.33', 0, 0)")
        for number in range(turns * 2):
            _opencode_message(db, "ses_made", number)


def _opencode_message(db: sqlite3.Connection, session: str, number: int) -> None:
    id = f"msg_{number:08}"
    about = {"role": "assistant" if number % 2 else "user", "time": {"created": number, "completed": number}}
    db.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (id, session, number, number, json.dumps(about)))
    part = json.dumps({"type": "text", "text": words(number)})
    db.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", (f"prt_{number:08}", id, session, number, number, part))
    db.execute("INSERT INTO event VALUES (?, 'message.part.updated', ?)", (f"evt_{number:08}", part))


def _librecode(path: Path, turns: int) -> None:
    with sqlite3.connect(path) as db:
        columns = ("entry_type", "role", "content", "provider", "model", "data_json", "created_at")
        texts = ", ".join(f"{name} TEXT" for name in columns)
        db.execute("CREATE TABLE sessions (id TEXT PRIMARY KEY, cwd TEXT, name TEXT, created_at TEXT, updated_at TEXT)")
        db.execute(f"CREATE TABLE session_entries (id TEXT PRIMARY KEY, session_id TEXT, parent_id TEXT, {texts})")
        db.execute("INSERT INTO sessions VALUES ('made', '/w', '', ?, ?)", (START, START))
        for number in range(turns * 2):
            _librecode_entry(db, number)


def _librecode_entry(db: sqlite3.Connection, number: int) -> None:
    above = f"e{number - 1}" if number else None
    role = "assistant" if number % 2 else "user"
    time = f"2026-02-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}.000Z"  # entries are sorted by time
    values = (f"e{number}", "made", above, "message", role, words(number), "p", "m", "{}", time)
    db.execute(f"INSERT INTO session_entries VALUES ({', '.join('?' * len(values))})", values)


def _write(path: Path, lines: Lines) -> None:
    with path.open("w") as file:
        file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def _uuid(number: int) -> str:
    text = f"{random.Random(number).getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_MADE: dict[str, Callable[[Path, int], None]] = {
    "pi": _pi, "omp": _pi, "claude": _claude, "codex": _codex, "aider": _aider, "opencode": _opencode,
    "librecode": _librecode,
}  # fmt: skip


# ---- growth


def _grow_pi(path: Path) -> None:
    last = _last(path, "id")
    _add(path, json.dumps(json.loads(made_line(9_000_000)) | {"parentId": last["id"]}) + "\n")


def _grow_claude(path: Path) -> None:
    last = _last(path, "uuid")
    more = _claude_line(9_000_001, words(9_000_001)) | {"parentUuid": last["uuid"], "sessionId": last["sessionId"]}
    _add(path, json.dumps(more) + "\n")


def _last(path: Path, name: str) -> dict[str, Any]:
    """Return the last line that can be the parent of others."""
    lines = reversed(path.read_bytes().splitlines())
    return next(line for line in map(json.loads, lines) if name in line)


def _grow_codex(path: Path) -> None:
    said = _codex_line("response_item", **_codex_said("user", "input_text", 9_000_000))
    _add(path, json.dumps(said | {"timestamp": "2026-12-01T00:00:00.000Z"}) + "\n")


def _grow_aider(path: Path) -> None:
    _add(path, f"\n#### {words(9_000_000)}  \n\n{words(9_000_001)}\n")


def _grow_opencode(path: Path) -> None:
    with sqlite3.connect(path) as db:
        longest = "SELECT session_id, max(time_created) FROM message GROUP BY session_id ORDER BY count(*) DESC"
        session, newest = db.execute(longest).fetchone()
        now = newest + 1000
        about = {"role": "assistant", "time": {"created": now, "completed": now}}
        part = {"type": "text", "text": words(9_000_000)}
        for table, id, names, values, data in (
            ("message", "msg_zzz", "", (), about), ("part", "prt_zzz", ", message_id", ("msg_zzz",), part),
        ):  # fmt: skip
            row = (id, session, now, now, json.dumps(data), *values)
            columns = f"id, session_id, time_created, time_updated, data{names}"
            db.execute(f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(row))})", row)
        db.execute("UPDATE session SET time_updated = ? WHERE id = ?", (now, session))


def _grow_librecode(path: Path) -> None:
    with sqlite3.connect(path) as db:
        _librecode_entry(db, db.execute("SELECT count(*) FROM session_entries").fetchone()[0])


def _add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


_GROWN: dict[str, Callable[[Path], None]] = {
    "pi": _grow_pi, "omp": _grow_pi, "claude": _grow_claude, "codex": _grow_codex, "aider": _grow_aider,
    "opencode": _grow_opencode, "librecode": _grow_librecode,
}  # fmt: skip


# ---- plain parsers


def _parse_lines(path: Path) -> Sequence[bytes]:
    lines = [line for line in path.read_bytes().split(b"\n") if line]
    for line in lines:
        json.loads(line)
    return lines


def _parse_markdown(path: Path) -> Sequence[bytes]:
    """Split at the prompts: a record is a prompt, or the text between two prompts."""
    records: list[list[str]] = [[]]
    was_user = False
    for line in path.read_text().splitlines(keepends=True):
        is_user = line.startswith("#### ")
        if is_user != was_user:
            records.append([])
        records[-1].append(line)
        was_user = is_user
    return ["".join(record).encode() for record in records]


def _parse_database(path: Path) -> Sequence[bytes]:
    """Read the rows of the sessions and parse their JSON, without other data of the agent."""
    with sqlite3.connect(path) as db:
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'session_entries'").fetchone():
            rows = db.execute("SELECT data_json, content, * FROM session_entries").fetchall()
        else:
            rows = [row for table in _SAID for row in db.execute(f"SELECT data, id FROM {table}")]
    for row in rows:
        json.loads(row[0])
    return [f"{row[0]}{row[1]}".encode() for row in rows]


_PARSERS: dict[str, Callable[[Path], Sequence[bytes]]] = {".db": _parse_database, ".md": _parse_markdown}
