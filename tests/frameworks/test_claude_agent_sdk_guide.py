"""Tests of the program in docs/how-to/keep-claude-agent-sdk-sessions.md, with a script in place of Claude Code."""

from __future__ import annotations

import ast
import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from gitsession import Store

pytest.importorskip("claude_agent_sdk")

from claude_agent_sdk import project_key_for_directory

from gitsession.frameworks.claude_agent_sdk import GitSessionStore

PAGE = ROOT / "docs/how-to/keep-claude-agent-sdk-sessions.md"

CLAUDE_CODE = '''
import json, os, signal, sys, uuid
from pathlib import Path
import anyio
from claude_agent_sdk import Transport, project_key_for_directory
from claude_agent_sdk._internal import client


class ScriptedClaudeCode(Transport):
    """Claude Code as the SDK sees it. It writes a transcript, and sends each line of it to the SDK."""

    def __init__(self, prompt, options):
        self._send, self._receive = anyio.create_memory_object_stream(100)
        home = Path(options.env.get("CLAUDE_CONFIG_DIR") or os.environ["CLAUDE_CONFIG_DIR"])
        self._cwd, self._session = options.cwd, options.resume or str(uuid.uuid4())
        self._file = home / "projects" / project_key_for_directory(self._cwd) / f"{self._session}.jsonl"

    async def connect(self):
        self._file.parent.mkdir(parents=True, exist_ok=True)

    async def write(self, data):
        message = json.loads(data)
        if message["type"] == "control_request":
            answer = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            await self._send.send({"type": "control_response", "response": answer})
        elif message["type"] == "user":
            await self._answer(message["message"]["content"])

    async def _answer(self, prompt):
        said = self._file.read_text() if self._file.exists() else ""  # on resume, the SDK has written the file
        parent = json.loads(said.splitlines()[-1])["uuid"] if said else None
        text = "It is heron." if "heron" in said else "I will remember it."
        for role, words in (("user", prompt), ("assistant", text)):
            line = {
                "parentUuid": parent, "isSidechain": False, "type": role, "uuid": str(uuid.uuid4()),
                "sessionId": self._session, "cwd": self._cwd, "version": "2.1.0",
                "timestamp": "2026-01-01T00:00:00.000Z",
                "message": {"role": role, "content": [{"type": "text", "text": words}]},
            }
            parent = line["uuid"]
            with self._file.open("a") as file:
                file.write(json.dumps(line, separators=(",", ":")) + "\\n")
            await self._send.send({"type": "transcript_mirror", "filePath": str(self._file), "entries": [line]})
        if "kill" in sys.argv and text == "It is heron.":
            os.kill(os.getpid(), signal.SIGKILL)
        await self._send.send({
            "type": "result", "subtype": "success", "duration_ms": 1, "duration_api_ms": 1, "is_error": False,
            "num_turns": 1, "session_id": self._session, "result": text,
        })

    async def read_messages(self):
        async for message in self._receive:
            yield message

    async def close(self):
        self._send.close()
        self._receive.close()

    def is_ready(self):
        return True

    async def end_input(self):
        pass


client.SubprocessCLITransport = ScriptedClaudeCode
'''


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (folder / "agent.py").write_text(CLAUDE_CODE + "\n".join(blocks))
    environment = {**os.environ, "CLAUDE_CONFIG_DIR": str(folder / "claude")}
    command = [sys.executable, "agent.py", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_program_of_the_guide_continues_from_the_store(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first, second, listed, subjects = done.stdout.splitlines()
    assert (first, second, listed) == ("I will remember it.", "It is heron.", "True Remember the word heron")
    assert len(ast.literal_eval(subjects)) == 4
    with Store.open(tmp_path / "agent.git") as store:
        [row] = store.sessions()
        assert row.agent == "claude" and store.verify().problems == []
        [file] = (tmp_path / "claude").glob("projects/*/*.jsonl")
        file.write_bytes(store.export(row.sid).data)
        assert [each.new for each in store.import_file(file)] == [0]


def test_a_killed_program_has_stored_the_turn_before(tmp_path: Path) -> None:
    killed = run(tmp_path, "kill")
    assert killed.returncode == -signal.SIGKILL
    with Store.open(tmp_path / "agent.git") as store:
        [row] = store.sessions()
        loaded = asyncio.run(GitSessionStore(store).load(key_of(store, row)))
        assert [line["type"] for line in loaded] == ["user", "assistant"] and store.verify().problems == []


def key_of(store: Store, row: Any) -> Any:
    return {"project_key": project_key_for_directory(row.project), "session_id": row.source_id}
