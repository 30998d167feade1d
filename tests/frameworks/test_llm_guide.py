"""Tests of the program for llm in docs/how-to/keep-framework-conversations.md, with a scripted model."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

pytest.importorskip("llm")

from gitsession import Message, Store

PAGE = ROOT / "docs/how-to/keep-framework-conversations.md"

MODEL = '''
import os, re, signal, sys
import llm
from llm.plugins import pm


class ScriptedModel(llm.Model):
    """A model that writes the word of the prompt to count.txt by the tool, and then answers "Done."."""

    model_id, can_stream, supports_tools = "scripted", False, True

    def execute(self, prompt, stream, response, conversation):
        if prompt.tool_results:
            if "kill" in sys.argv:
                os.kill(os.getpid(), signal.SIGKILL)
            yield f"Done, after {len(prompt.messages)} messages."
            return
        word = re.search("one|two|three", prompt.prompt)[0]
        arguments = {"command": f"echo {word} > count.txt"}
        response.add_tool_call(llm.ToolCall(name="run_command", arguments=arguments, tool_call_id=f"call_{word}"))
        yield ""


class Plugin:
    @llm.hookimpl
    def register_models(self, register):
        register(ScriptedModel())


pm.register(Plugin())
model = llm.get_model("scripted")
'''


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    [program] = [block for block in blocks if "import_llm" in block]
    (folder / "agent.py").write_text(MODEL + program)
    environment = {**os.environ, "LLM_USER_PATH": str(folder / "llm")}
    command = [sys.executable, "agent.py", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_agent_of_the_guide_rewinds_and_branches_with_the_files(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "Done, after 3 messages.", "9 entries two", "", "5 entries one", "", "Done, after 7 messages.",
        "['main', 'rewind-1']",
    ]  # fmt: skip
    assert (tmp_path / "project/count.txt").read_text() == "three\n"
    with Store.open(tmp_path / "llm.git") as store:
        assert store.verify().problems == []


def test_a_killed_agent_continues_with_what_was_logged(tmp_path: Path) -> None:
    killed = run(tmp_path, "kill")
    assert killed.returncode == -signal.SIGKILL and (tmp_path / "project/count.txt").read_text() == "one\n"
    with Store.open(tmp_path / "llm.git") as store:
        [row] = store.sessions()
        entries = [entry for _, entry in store.session(row.sid).entries() if isinstance(entry, Message)]
        assert [entry.role for entry in entries] == ["assistant", "user"]
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    with Store.open(tmp_path / "llm.git") as store:
        assert [each.sid for each in store.sessions()] == [row.sid]
        assert store.verify().problems == []
