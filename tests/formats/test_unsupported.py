"""Tests that session files of unsupported agents are rejected by the agent's name."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Run

from gitsession import Malformed, NotFound, Store
from gitsession.cli import app as command_line
from gitsession.formats import claimed
from gitsession.formats.claude import split_file
from gitsession.formats.claude.agent import claude

WHERE = {"sessionId": "0199a213-81c0-4800-8aa1-bbab2a035b01", "cwd": "/work", "version": "0.2.1"}


def qwen(*messages: dict[str, Any]) -> bytes:
    """Return a chat of Qwen Code: ``~/.qwen/projects/<folder>/chats/<session>.jsonl``."""
    lines = []
    for number, message in enumerate(messages):
        ids = {"uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None}
        lines.append({**ids, **WHERE, "timestamp": f"2026-02-01T00:00:0{number}.000Z", **message})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


CHAT = qwen(
    {"type": "user", "message": {"role": "user", "parts": [{"text": "hi"}]}},
    {"type": "assistant", "model": "q", "message": {"role": "model", "parts": [{"text": "hello"}]}},
)
COMMAND = qwen({"type": "system", "subtype": "slash_command", "systemPayload": {"phase": "invocation"}})


@pytest.mark.parametrize("data", [CHAT, COMMAND])
def test_a_chat_of_qwen_code_is_no_session_of_claude_code(data: bytes) -> None:
    assert split_file.agent_of(data) == "Qwen Code"
    assert claimed(data) is None
    with pytest.raises(Malformed, match="this is a Qwen Code session"):
        claude.split(data, name="x")


@pytest.mark.parametrize("data", [b"", b"{}\n", b'{"sessionId": 1}\n', b'{"sessionId":"a","uuid":"b","message":[]}\n'])
def test_other_files_are_not_recognized(data: bytes) -> None:
    assert split_file.agent_of(data) == ""


def test_an_import_names_the_agent_and_writes_nothing(here: Path, run: Run, isolated_home: Path) -> None:
    file = isolated_home / ".qwen" / "projects" / "-work" / "chats" / "x.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(CHAT)
    told = run("import", str(file), code=3, err=True)
    assert "the Qwen Code session format is not supported" in told
    assert "supported agents: aider, claude," in told
    told = run("import", str(file), "--from", "claude", code=3, err=True)
    assert "this is a Qwen Code session, not a Claude Code session" in told
    assert "1 other file skipped" in run("import", str(isolated_home / ".qwen"), code=1)
    run("import", "--all", code=1)
    assert run("ls", code=1) == ""


def test_the_library_names_it_too(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(CHAT)
    with Store.create(tmp_path / "s.git") as store, pytest.raises(NotFound, match="Qwen Code"):
        store.import_file(file)


PLACES = {
    "aider": ("work", ".aider.chat.history.md"),
    "claude": (".claude/projects/p", "x.jsonl"),
    "codex": (".codex/sessions/2026/02/01", "rollout-2026-02-01T00-00-00-x.jsonl"),
    "librecode": (".librecode", "librecode.db"),
    "omp": (".omp/agent/sessions/b", "2026_x.jsonl"),
    "opencode": (".local/share/opencode", "opencode.db"),
    "pi": (".pi/agent/sessions/b", "2026_x.jsonl"),
}


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(path))


ODD: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
@pytest.mark.parametrize(("folder", "name"), PLACES.values(), ids=PLACES)
def test_import_of_all_names_paths_that_are_not_files(
    make: Callable[[Path], object], folder: str, name: str, run: Run, isolated_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    path = isolated_home / folder / name
    path.parent.mkdir(parents=True)
    monkeypatch.chdir(path.parent)
    make(path)
    assert f"'{path}': " in run("import", "--all", code=3, err=True)


CONTENTS = {
    "nothing": b"", "half a line": b'{"type":"ses', "zeros": bytes(8), "no UTF-8": b"\xff\xfe\x00\n",
    "a list": b"[1]\n", "text": b"text\n", "a chat of Qwen Code": CHAT,
}  # fmt: skip


@pytest.mark.parametrize("data", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize(("folder", "name"), PLACES.values(), ids=PLACES)
def test_import_of_all_reports_each_file(
    data: bytes, folder: str, name: str, isolated_home: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    path = isolated_home / folder / name
    path.parent.mkdir(parents=True)
    monkeypatch.chdir(path.parent)
    path.write_bytes(data)
    command_line.run(["import", "--all", "--json"])
    told = json.loads(capfd.readouterr().out)
    assert [each["path"] for each in (*told["failed"], *told["sessions"])] == [str(path)]


def test_an_import_of_all_names_a_folder_that_may_not_be_listed_once(
    run: Run, isolated_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = isolated_home / ".claude/projects/p"
    closed.mkdir(parents=True)
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, *mode, **how: path != closed and may(path, *mode, **how))
    assert run("import", "--all", code=3, err=True).count(f"'{closed}': ") == 1
