"""Input data: real session files if they are available, otherwise generated ones of the same structure."""

from __future__ import annotations

import functools
import json
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from gitsession.formats.pi.agent import pi
from gitsession.model.entries import Message

ENTRY_BYTES = range(600, 1800)
"""Lengths of lines that count as "1 KB", in bytes."""

_WORDS = ("file", "test", "error", "returns", "value", "session", "branch", "line", "read", "check", "path", "because")


@dataclass(frozen=True, slots=True)
class Said:
    """A message for gitsession, and the same message as plain JSON for the peers."""

    message: Message
    plain: dict[str, Any]


@functools.cache
def folder() -> Path:
    """Return the folder of real session files: ``$GITSESSION_SHARED``, or ``shared`` beside the checkout."""
    return Path(os.environ.get("GITSESSION_SHARED") or Path(__file__).resolve().parents[2] / "shared")


@functools.cache
def real_files() -> dict[Path, bytes]:
    """Return the real files of pi and omp."""
    paths = [path for agent in ("pi", "omp") for path in sorted((folder() / "sessions" / agent).glob("*.jsonl"))]
    return {path: path.read_bytes() for path in paths}


@functools.cache
def files() -> dict[Path, bytes]:
    """Return the real files, or generated ones if there are none."""
    return real_files() or {Path(f"made-{number}.jsonl"): made_file(number, 1500) for number in range(4)}


@functools.cache
def messages() -> Sequence[Said]:
    """Return about a thousand messages of about 1 KB."""
    found = list(islice(_real_messages(), 2000))
    return found if len(found) > 500 else [_taken(made_line(number)) for number in range(1000)]


def provenance() -> str:
    """Return a phrase about the origin of the data."""
    if real_files():
        lines = sum(data.count(b"\n") for data in real_files().values())
        size = sum(map(len, real_files().values())) / 1e6
        return f"{len(real_files())} real session files of pi and omp, {lines:,} lines, {size:.0f} MB"
    return "made session files: no real ones were at hand"


def words(number: int) -> str:
    """Return about 0.7 KB of random words."""
    return " ".join(random.Random(number).choices(_WORDS, k=110))


def made_line(number: int, *, parent: int | None = None) -> bytes:
    """Return a line of a pi file with random words, about 1 KB long."""
    chance = random.Random(number)
    message = {
        "role": "assistant" if number % 2 else "user",
        "content": [{"type": "text", "text": " ".join(chance.choices(_WORDS, k=110))}],
        "timestamp": 1_700_000_000_000 + number * 1000,
    }
    if message["role"] == "assistant":
        usage = {"input": chance.randrange(9999), "output": chance.randrange(999), "cacheRead": number}
        message |= {"provider": "anthropic", "model": "claude-sonnet-4-5", "usage": usage, "stopReason": "stop"}
    seconds = number % 86400
    time = f"2026-02-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.000Z"
    above = None if parent is None else f"{parent:08x}"
    line = {"type": "message", "id": f"{number:08x}", "parentId": above, "timestamp": time, "message": message}
    return json.dumps(line, separators=(",", ":")).encode()


def made_file(seed: int, lines: int) -> bytes:
    """Return a session of pi without branches."""
    start = seed * 1_000_000
    head = {"type": "session", "version": 3, "id": f"made-{seed}", "timestamp": "2026-02-01T00:00:00.000Z", "cwd": "/w"}
    numbers = range(start, start + lines)
    body = [made_line(number, parent=number - 1 if number > start else None) for number in numbers]
    return b"\n".join([json.dumps(head).encode(), *body, b""])


def grown(data: bytes, lines: int) -> bytes:
    """Return a session of pi, extended by ``lines`` messages."""
    last = json.loads(data.rstrip(b"\n").rpartition(b"\n")[2])
    above, added = last["id"], []
    for number in range(lines):
        line = json.loads(made_line(9_000_000 + number)) | {"parentId": above}
        above = line["id"]
        added.append(json.dumps(line).encode() + b"\n")
    return data.rstrip(b"\n") + b"\n" + b"".join(added)


def long_file(agent: str, lines: int) -> tuple[str, bytes]:
    """Return the name and the content of the longest real session file of an agent, or of a generated one.

    The last twenty lines of the file are records. ``lines``: the number of lines of a generated file.
    """
    names = {"pi": "made.jsonl", "claude": "11111111-2222-4333-8444-555555555555.jsonl",
             "codex": "rollout-2026-02-01T00-00-00-01a1ffd1-326d-7a00-aa58-5bfc88e96001.jsonl"}  # fmt: skip
    real = sorted((folder() / "sessions" / agent).rglob("*.jsonl"), key=lambda path: path.stat().st_size)
    name, data = (real[-1].name, real[-1].read_bytes()) if real and lines > 20 else (names[agent], b"")
    if agent == "pi":
        return name, grown(data or made_file(0, lines), 20)
    return name, data + b"".join(_lines_of(agent, data, lines))


def _lines_of(agent: str, data: bytes, lines: int) -> Iterator[bytes]:
    """Yield generated lines of Claude Code or codex: ``lines`` for a new file, or twenty that continue ``data``."""
    last = next((line["uuid"] for line in map(json.loads, reversed(data.splitlines())) if line.get("uuid")), None)
    if not data and agent == "codex":
        header = {"id": "01a1ffd1-326d-7a00-aa58-5bfc88e96001", "timestamp": "2026-02-01T00:00:00.000Z", "cwd": "/w"}
        yield json.dumps({"timestamp": header["timestamp"], "type": "session_meta", "payload": header}).encode() + b"\n"
    for number in range(20 if data else lines):
        role = "assistant" if number % 2 else "user"
        line: dict[str, Any] = {"timestamp": f"2026-02-01T00:{number // 60 % 60:02}:{number % 60:02}.000Z"}
        if agent == "codex":
            content = [{"type": "output_text" if number % 2 else "input_text", "text": words(number)}]
            line |= {"type": "response_item", "payload": {"type": "message", "role": role, "content": content}}
        else:
            message = {"role": role, "content": [{"type": "text", "text": words(number)}]}
            line |= {"type": role, "uuid": f"{number:08x}-0000-4000-8000-000000000000", "parentUuid": last}
            line |= {"sessionId": "11111111-2222-4333-8444-555555555555", "cwd": "/w", "message": message}
            last = line["uuid"]
        yield json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _real_messages() -> Iterator[Said]:
    seen = set()
    for path, data in real_files().items():
        for line in data.split(b"\n") if path.parent.name == "pi" else ():
            if len(line) in ENTRY_BYTES and isinstance(pi.read(line), Message):
                said = _taken(line)
                if json.dumps(said.plain) not in seen:  # the same session may exist in two versions
                    seen.add(json.dumps(said.plain))
                    yield said


def _taken(line: bytes) -> Said:
    message = pi.read(line)
    assert isinstance(message, Message)
    return Said(message, json.loads(line)["message"])
