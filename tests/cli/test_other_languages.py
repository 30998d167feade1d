"""The programs of docs/how-to/use-from-another-language.md, run unchanged, killed, and run again: nothing is lost."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from gitsession import Message, Store

PAGE = (ROOT / "docs/how-to/use-from-another-language.md").read_text()
SCRIPT, MODULE, CHAT = re.findall(r"^```(?:sh|js)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs, work = tmp_path / "bin", tmp_path / "work"
    programs.mkdir()
    work.mkdir()
    (programs / "gitsession").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gitsession "$@"\n')
    (programs / "gitsession").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    for name, text in (("session.sh", SCRIPT), ("gitsession.mjs", MODULE), ("chat.mjs", CHAT)):
        (work / name).write_text(text)
    return work


def texts() -> list[list[str]]:
    """Return the texts of the messages of each session. The store must be sound."""
    with Store.open() as store:
        assert store.verify().problems == []
        sessions = [store.session(row.sid) for row in store.sessions()]
        return [
            [entry.text for node in one.history() if isinstance(entry := one.read(node), Message)] for one in sessions
        ]


def test_each_client_has_at_most_60_lines() -> None:
    assert len(SCRIPT.splitlines()) <= 60
    assert len(MODULE.splitlines() + CHAT.splitlines()) <= 60


def test_shell_script_keeps_a_session_and_goes_on_after_a_kill(folder: Path) -> None:
    def run(*words: str) -> str:
        command = ["sh", "session.sh", *words]
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()

    hard = 'a "quoted" \\ text\n\tof two lines, in ümläuts'
    id = run("first", hard)
    # The script is killed while it appends: its pipe stays open, so that the second entry is not answered.
    entry = json.dumps({"kind": "message", "body": {"role": "user", "content": "third"}})
    command = f"(echo '{entry}'; sleep 60) | gitsession append {id}"
    with subprocess.Popen(["sh", "-c", command], cwd=folder, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["session"] == id
        os.killpg(process.pid, signal.SIGKILL)
    assert run("fourth") == id
    assert texts() == [["first", hard, "third", "fourth"]]


@needs_node
def test_node_program_keeps_a_session_and_goes_on_after_a_kill(folder: Path) -> None:
    said: list[str] = []
    for attempt in range(3):
        with subprocess.Popen(
            ["node", "chat.mjs"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            for text in said:
                assert process.stdout.readline().decode() == f"{text}\n"
            for number in range(2):
                said.append(f"message {attempt}.{number} in ümläuts")
                process.stdin.write(f"{said[-1]}\n".encode())
                process.stdin.flush()
                assert process.stdout.readline().startswith(b"stored ")
            os.killpg(process.pid, signal.SIGKILL)
    done = subprocess.run(
        ["node", "chat.mjs"], cwd=folder, input=b"last\n", capture_output=True, check=True, timeout=120
    )
    assert done.stdout.decode().splitlines()[:-1] == said
    assert texts() == [[*said, "last"]]
