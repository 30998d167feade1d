"""Tests of the program in docs/how-to/keep-smolagents-memory.md, with a scripted model in place of a provider."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from gitsession import Store

pytest.importorskip("smolagents")

from smolagents.memory import ActionStep, TaskStep

from gitsession.frameworks.smolagents import GitSessionMemory

PAGE = ROOT / "docs/how-to/keep-smolagents-memory.md"

MODEL = '''
import json, os, re, signal, sys
from smolagents import Model
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole


class ScriptedModel(Model):
    """A model that writes the word of the task to count.txt by the tool, and then answers "Done."."""

    def generate(self, messages, *arguments, **options):
        last = messages[-1].content[0]["text"]
        if last.startswith("New task"):
            word = re.search("one|two|three", last)[0]
            function = ChatMessageToolCallFunction({"command": f"echo {word} > count.txt"}, "run_command")
        else:
            if "kill" in sys.argv and len(messages) > 6:
                os.kill(os.getpid(), signal.SIGKILL)
            function = ChatMessageToolCallFunction({"answer": "Done."}, "final_answer")
        call = ChatMessageToolCall(function, f"call_{len(messages)}", "function")
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


model = ScriptedModel()
'''


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (folder / "agent.py").write_text(MODEL + "\n".join(blocks))
    return subprocess.run([sys.executable, "agent.py", *words], cwd=folder, capture_output=True, text=True, check=False)


def test_agent_of_the_guide_rewinds_branches_and_forks_with_the_files(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "0 steps", "Done.", "Done.", "one", " 3", "Done.", "['main', 'rewind-1']", "6",
    ]  # fmt: skip
    assert (tmp_path / "project/count.txt").read_text() == "three\n"
    with Store.open(tmp_path / "agent.git") as store:
        assert store.verify().problems == []


def test_a_killed_agent_continues_with_the_steps_that_were_complete(tmp_path: Path) -> None:
    killed = run(tmp_path, "kill")
    assert killed.returncode == -signal.SIGKILL and (tmp_path / "project/count.txt").read_text() == "two\n"
    with Store.open(tmp_path / "agent.git") as store:
        steps = GitSessionMemory("ada", store).steps
        assert [type(step) for step in steps] == [TaskStep, ActionStep, ActionStep, TaskStep, ActionStep]
        last = steps[-1]
        assert isinstance(last, ActionStep) and last.tool_calls is not None
        assert last.tool_calls[0].arguments == {"command": "echo two > count.txt"}
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.splitlines()[0] == "5 steps"
    with Store.open(tmp_path / "agent.git") as store:
        assert store.verify().problems == []
