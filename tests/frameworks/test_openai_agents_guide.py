"""Tests of the program in docs/how-to/keep-openai-agents-sessions.md, with a scripted model in place of a provider."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from gitsession import Store

pytest.importorskip("agents")

from gitsession.frameworks.openai_agents import GitSession

PAGE = ROOT / "docs/how-to/keep-openai-agents-sessions.md"

MODEL = '''
import json, os, re, signal, sys
from agents import Model, ModelResponse, Usage
from agents.tracing import set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)


class ScriptedModel(Model):
    """A model that writes the word of the prompt to count.txt by the tool, and then answers "Done."."""

    async def get_response(self, system_instructions, input, model_settings, tools, *arguments, **options):
        last, number = input[-1], len(input)
        if last.get("role") == "user":
            command = f"echo {re.search('one|two|three', last['content'])[0]} > count.txt"
            output = ResponseFunctionToolCall(
                arguments=json.dumps({"command": command}), call_id=f"call_{number}", name="run_command",
                type="function_call",
            )
        else:
            if "kill" in sys.argv:
                os.kill(os.getpid(), signal.SIGKILL)
            text = ResponseOutputText(annotations=[], text="Done.", type="output_text")
            output = ResponseOutputMessage(
                id=f"msg_{number}", content=[text], role="assistant", status="completed", type="message"
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *arguments, **options):
        raise NotImplementedError


model = ScriptedModel()
'''


def program() -> str:
    return MODEL + "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE))


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "agent.py").write_text(program())
    return subprocess.run([sys.executable, "agent.py", *words], cwd=folder, capture_output=True, text=True, check=False)


def test_program_of_the_guide_branches_and_rewinds_with_the_files(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    printed = done.stdout.splitlines()
    assert printed[:4] == ["Done.", "Done.", "one", " 4"] and "try-again 5 True" in printed
    assert (tmp_path / "project/count.txt").read_text() == "two\n"
    with Store.open(tmp_path / "agent.git") as store:
        stored = asyncio.run(GitSession("ada", store).get_items())
        assert len(stored) == 9 and stored[5]["content"] == "Write two to count.txt"  # of the compaction session
        assert store.verify().problems == []


def test_a_killed_program_continues_with_what_it_had_stored(tmp_path: Path) -> None:
    killed = run(tmp_path, "kill")
    assert killed.returncode == -signal.SIGKILL and (tmp_path / "project/count.txt").read_text() == "one\n"
    with Store.open(tmp_path / "agent.git") as store:
        session = GitSession("ada", store)
        stored = asyncio.run(session.get_items())
        assert [item.get("type", item.get("role")) for item in stored] == [
            "user",
            "function_call",
            "function_call_output",
        ]
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    with Store.open(tmp_path / "agent.git") as store:
        assert asyncio.run(GitSession("ada", store).get_items())[:3] == stored
        assert store.verify().problems == []
