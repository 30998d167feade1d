"""Tests of the files with agents' prompt histories: where they are, and files that cannot be read."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from places import SHARED

from gitsession.discovery import databases, prompt_histories
from gitsession.discovery.prompt_histories import BYTES_MAX, read
from gitsession.formats.prompt_histories import TypedPrompt


def claude_line(text: str, at_ms: int = 1_000) -> str:
    return (
        json.dumps({"display": text, "timestamp": at_ms, "project": "/w", "sessionId": "s", "pastedContents": {}})
        + "\n"
    )


def omp_history(
    path: Path, *prompts: str, columns: str = "prompt TEXT, created_at INTEGER, cwd TEXT, session_id TEXT"
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"CREATE TABLE history (id INTEGER PRIMARY KEY AUTOINCREMENT, {columns})")
    db.execute("CREATE INDEX idx_history_created_at ON history(created_at DESC)")
    db.executemany(
        "INSERT INTO history (prompt, created_at) VALUES (?, ?)", [(each, 5 + at) for at, each in enumerate(prompts)]
    )
    db.commit()
    db.close()


class Histories:
    """The histories below a home directory. ``problems``: the reported problems."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.problems: list[str] = []

    def write(self, path: str, text: str) -> Path:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def texts(self, environment: dict[str, str] | None = None, *, agent: str = "") -> list[str]:
        return [prompt.text for prompt in self.prompts(environment, agent=agent)]

    def prompts(self, environment: dict[str, str] | None = None, *, agent: str = "") -> Iterable[TypedPrompt]:
        for history in read(self.home, environment or {}, self.home, self.problems.append, agent=agent):
            yield from history


@pytest.fixture
def histories(tmp_path: Path) -> Histories:
    return Histories(tmp_path)


def test_the_history_of_each_agent_is_found(histories: Histories) -> None:
    histories.write(".claude/history.jsonl", claude_line("a") + claude_line("/clear") + claude_line("b"))
    histories.write(".codex/history.jsonl", '{"session_id": "x", "ts": 7, "text": "codex"}\n')
    histories.write(".local/state/opencode/prompt-history.jsonl", '{"input": "opencode", "parts": []}\n')
    histories.write(".aider.input.history", "\n# 2026-11-21 20:43:39.249252\n+aider\n")
    omp_history(histories.home / ".omp/agent/history.db", "omp 1", "omp 2", "!ls")
    omp_history(histories.home / ".omp/profiles/work/agent/history.db", "profile")
    assert histories.texts() == ["b", "a", "codex", "omp 2", "omp 1", "profile", "opencode", "aider"]
    assert histories.texts(agent="codex") == ["codex"] and histories.texts(agent="pi") == []
    assert next(iter(histories.prompts(agent="aider"))).project == str(histories.home)
    assert histories.problems == []


def test_variables_move_the_histories(histories: Histories) -> None:
    histories.write("c/history.jsonl", claude_line("claude"))
    histories.write("x/history.jsonl", '{"text": "codex"}\n')
    histories.write("s/opencode/prompt-history.jsonl", '{"input": "opencode"}\n')
    histories.write("i.history", "\n# 2026-11-21 20:43:39.249252\n+aider\n")
    omp_history(histories.home / "p/history.db", "omp")
    omp_history(histories.home / "d/omp/history.db", "data")
    names = {"CLAUDE_CONFIG_DIR": "c", "CODEX_HOME": "x", "PI_CODING_AGENT_DIR": "p", "XDG_DATA_HOME": "d",
             "XDG_STATE_HOME": "s", "AIDER_INPUT_HISTORY_FILE": "i.history"}  # fmt: skip
    environment = {name: str(histories.home / path) for name, path in names.items()}
    assert histories.texts(environment) == ["claude", "codex", "omp", "data", "opencode", "aider"]
    assert histories.texts() == []


def test_a_history_that_aider_wrote_is_read(histories: Histories) -> None:
    sample = SHARED / "sessions/aider/generated/aider.input.history"
    if not sample.exists():
        pytest.skip("requires the shared samples")
    (prompt,) = histories.prompts({"AIDER_INPUT_HISTORY_FILE": str(sample)})
    assert prompt == TypedPrompt("aider", "Add a fib function", 1795293819249)


def test_a_database_is_read_with_its_log_and_not_changed(histories: Histories) -> None:
    path = histories.home / ".omp/agent/history.db"
    omp_history(path, "first")
    with sqlite3.connect(path) as writer:
        writer.execute("INSERT INTO history (prompt, created_at) VALUES ('in the log', 99)")
        writer.commit()
        before = path.read_bytes()
        assert histories.texts() == ["in the log", "first"]
        assert path.read_bytes() == before


def test_old_omp_has_no_session_id(histories: Histories) -> None:
    omp_history(histories.home / ".omp/agent/history.db", "old", columns="prompt TEXT, created_at INTEGER, cwd TEXT")
    assert histories.texts() == ["old"]


def test_only_the_end_of_a_huge_history_is_read(histories: Histories) -> None:
    path = histories.write(".claude/history.jsonl", "")
    with path.open("ab") as file:
        file.truncate(1 << 30)
        file.write(b"\n" + claude_line("old" + "x" * BYTES_MAX).encode() + claude_line("new").encode())
    begun = time.process_time()
    assert histories.texts() == ["new"]
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("kind", ["symlink", "fifo", "folder", "socket"])
@pytest.mark.parametrize("name", [".claude/history.jsonl", ".omp/agent/history.db", ".aider.input.history"])
def test_only_regular_files_are_opened(
    histories: Histories, kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = histories.write(name, "")
    path.unlink()
    match kind:
        case "symlink":
            path.symlink_to(histories.write("elsewhere", claude_line("secret")))
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "socket":
            monkeypatch.chdir(path.parent)
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(path.name)
    assert histories.texts() == []
    assert histories.problems == [f"cannot read the prompt history '{path}': not a regular file"]


def test_a_pipe_in_place_of_a_log_is_not_opened(histories: Histories) -> None:
    path = histories.home / ".omp/agent/history.db"
    omp_history(path, "first")
    os.mkfifo(f"{path}-wal")
    assert histories.texts() == [] and "not a regular file" in histories.problems[0]


def test_a_damaged_line_is_reported_and_a_torn_line_is_not(histories: Histories) -> None:
    path = histories.write(
        ".claude/history.jsonl", claude_line("a") + "{torn\n\n" + '"text"\n' + claude_line("b") + '{"disp'
    )
    assert histories.texts() == ["b", "a"]
    assert histories.problems == [f"a line of the prompt history '{path}' cannot be read: not an object"]


def test_a_damaged_database_is_reported(histories: Histories) -> None:
    histories.write(".omp/agent/history.db", "SQLite format 3\0" + "x" * 5_000)
    assert histories.texts() == []
    assert "damaged" in histories.problems[0]


def test_a_database_without_the_table_is_reported(histories: Histories) -> None:
    path = histories.home / ".omp/agent/history.db"
    omp_history(path, "x")
    with sqlite3.connect(path) as db:
        db.execute("ALTER TABLE history RENAME TO other")
        db.execute("CREATE VIEW history AS SELECT prompt, created_at, cwd, session_id, id FROM other")
    assert histories.texts() == []
    assert len(histories.problems) == 1


def test_a_locked_database_is_reported(histories: Histories, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "PATIENCE_SECONDS", 0.01)
    path = histories.home / ".omp/agent/history.db"
    omp_history(path, "x")
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("BEGIN EXCLUSIVE")
        assert histories.texts() == []
    assert "locked by its agent" in histories.problems[0]


def test_a_slow_query_is_ended(histories: Histories, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_histories, "QUERY_SECONDS_MAX", 0.0)
    path = histories.home / ".omp/agent/history.db"
    omp_history(path, *(f"prompt {number}" for number in range(20_000)))
    with sqlite3.connect(path) as db:
        db.execute("DROP INDEX idx_history_created_at")
    assert histories.texts() == []
    assert "took longer" in histories.problems[0]


def test_only_the_newest_prompts_of_a_large_database_are_read(
    histories: Histories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_histories, "BYTES_MAX", 100)
    omp_history(histories.home / ".omp/agent/history.db", "w", "x" * 60, "y" * 60, "z" * 30)
    assert histories.texts() == ["z" * 30, "y" * 60, "x" * 60]


def test_a_file_without_permission_is_reported(histories: Histories) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads every file")
    histories.write(".claude/history.jsonl", claude_line("a")).chmod(0)
    assert histories.texts() == [] and "Permission denied" in histories.problems[0]
