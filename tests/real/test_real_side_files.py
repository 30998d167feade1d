"""The real Claude Code uses the side files that ``resume`` gives back after its folder was deleted.

A scripted model lets the program write a long output, a task, and a changed file. The session is imported, the folder
of the program is deleted, and ``resume`` writes it again. Then the program lists its tasks, reads the long output, and
restores the file.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import Run, document, here, run
from real_claude import MODEL, PROGRAM, can_unshare

__all__ = ["here", "run"]

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not (PROGRAM.exists() and MODEL.exists() and can_unshare()), reason="the real program is not at hand"
    ),
]

PROGRAM_RUN = """
ip link set lo up
"{python}" "{model}" --script "{script}" --log "{log}" --portfile "{port}" --max-seconds 90 > /dev/null &
model=$!
for i in $(seq 600); do [ -s "{port}" ] && break; sleep 0.1; done
export ANTHROPIC_BASE_URL=http://127.0.0.1:$(cat "{port}")
timeout 80 "{program}" {words} < /dev/null
kill $model
"""
TOOLS = '--permission-mode acceptEdits --allowedTools "Bash Read Edit TaskCreate TaskList" --output-format json'


class Claude:
    """The program with its own home, without a network."""

    def __init__(self, tmp_path: Path, work: Path) -> None:
        self.home, self.work, self._number = tmp_path / ".claude", work, 0
        self._folder = tmp_path / "runs"
        self._folder.mkdir()

    def run(self, words: str, *steps: dict[str, Any]) -> str:
        """Run the program, and return the requests that it sent to the model."""
        self._number += 1
        script, log, port = (self._folder / f"{self._number}.{name}" for name in ("script", "log", "port"))
        script.write_text(json.dumps([*steps, {"text": "done"}]))
        text = PROGRAM_RUN.format(
            python=shutil.which("python3"), model=MODEL, script=script, log=log, port=port, program=PROGRAM, words=words
        )
        quiet = ["DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER", "DISABLE_BUG_COMMAND",
                 "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING",
                 "IS_SANDBOX"]  # fmt: skip
        env = {"HOME": str(self.home.parent), "CLAUDE_CONFIG_DIR": str(self.home), "PATH": os.environ["PATH"]}
        env |= {"ANTHROPIC_API_KEY": "mock-not-a-key", **dict.fromkeys(quiet, "1")}
        done = subprocess.run(
            ["unshare", "-n", "bash", "-c", text], cwd=self.work, env=env, capture_output=True, timeout=100
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return log.read_text() if log.exists() else ""

    @property
    def transcript(self) -> Path:
        [found] = self.home.glob("projects/*/*.jsonl")
        return found


def test_claude_code_continues_with_the_side_files_that_were_given_back(
    run: Run, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / ".claude"))
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    subprocess.run(["git", "init", "-q", "."], cwd=here, check=True)
    app = here / "app.py"
    app.write_text("print('one')\n")
    claude = Claude(tmp_path, here)
    claude.run(
        f'-p "Begin" {TOOLS}',
        {"tool": "Bash", "args": {"command": "for i in $(seq 9000); do echo line $i of a long output; done"}},
        {"tool": "TaskCreate", "args": {"subject": "count the zebras", "description": "all of them"}},
        {"tool": "Read", "args": {"file_path": str(app)}},
        {"tool": "Edit", "args": {"file_path": str(app), "old_string": "one", "new_string": "two"}},
    )
    assert app.read_text() == "print('two')\n"
    lines = [json.loads(line) for line in claude.transcript.read_bytes().splitlines()]
    prompt = next(line["uuid"] for line in lines if line["type"] == "user")
    run("import", "--all")
    [row] = document(run("ls", "--json"))["sessions"]
    assert document(run("search", '"line 8999 of"', "--role", "side-file", "--json"))["hits"]
    shutil.rmtree(claude.home)

    run("resume", row["session"])
    [output] = claude.home.glob("projects/*/*/tool-results/*")
    claude.run(f"--resume {claude.transcript.stem} --rewind-files {prompt}")
    assert app.read_text() == "print('one')\n"
    requests = claude.run(
        f'--resume {claude.transcript.stem} -p "Go on" {TOOLS}',
        {"tool": "TaskList", "args": {}},
        {"tool": "Read", "args": {"file_path": str(output), "offset": 8990, "limit": 5}},
    )
    assert "#1 [pending] count the zebras" in requests
    assert "line 8994 of a long output" in requests
