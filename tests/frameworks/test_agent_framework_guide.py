"""Tests of the programs in docs/how-to/keep-agent-framework-sessions.md, with a scripted chat client."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from framework_items import run_programs
from places import ROOT

from gitsession import Store

pytest.importorskip("agent_framework")

from gitsession.frameworks.agent_framework import GitSessionHistoryProvider

PAGE = "keep-agent-framework-sessions.md"

CLIENT = '''
import json, os, re, signal, sys
from agent_framework import BaseChatClient, ChatMiddlewareLayer, ChatResponse, Content, FunctionInvocationLayer, Message


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """A client that writes the word of the prompt to count.txt by the tool, and then answers "Done."."""

    def _inner_get_response(self, *, messages, stream, options, **arguments):
        async def answer():
            last = messages[-1]
            if last.role == "user":
                command = f"echo {re.search('one|two|three', last.text)[0]} > count.txt"
                call = f"call_{len(messages)}"
                content = Content.from_function_call(call, "run_command", arguments=json.dumps({"command": command}))
            else:
                if "kill" in sys.argv:
                    os.kill(os.getpid(), signal.SIGKILL)
                content = Content.from_text("Done.")
            usage = {"input_token_count": 10, "output_token_count": 2}
            return ChatResponse(messages=[Message("assistant", [content])], usage_details=usage, model="scripted")

        return answer()


client = ScriptedClient()
'''


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/how-to" / PAGE).read_text(), re.DOTALL | re.MULTILINE)
    (folder / "agent.py").write_text(CLIENT + "\n".join(blocks[:2]))
    return subprocess.run([sys.executable, "agent.py", *words], cwd=folder, capture_output=True, text=True, check=False)


def test_agent_of_the_guide_branches_and_rewinds_with_the_files(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n")[:3] == ["Done.", "Done.", "one"]
    assert done.stdout.splitlines()[-3:] == ["Done.", "main 8", "rewind-1 8"]
    assert (tmp_path / "project/count.txt").read_text() == "three\n"
    with Store.open(tmp_path / "agent.git") as store:
        assert store.verify().problems == []


def test_a_killed_agent_continues_with_what_it_had_stored(tmp_path: Path) -> None:
    killed = run(tmp_path, "kill")
    assert killed.returncode == -signal.SIGKILL and (tmp_path / "project/count.txt").read_text() == "one\n"
    with Store.open(tmp_path / "agent.git") as store:
        stored = asyncio.run(GitSessionHistoryProvider(store).get_messages("ada"))
        assert [message.role for message in stored] == ["user", "assistant"]
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    with Store.open(tmp_path / "agent.git") as store:
        messages = asyncio.run(GitSessionHistoryProvider(store).get_messages("ada"))
        assert [message.to_dict() for message in messages[:2]] == [message.to_dict() for message in stored]
        assert store.verify().problems == []


def test_an_agent_continues_a_fork_and_the_branch_to_which_the_command_line_switched(tmp_path: Path) -> None:
    def gitsession(*words: str) -> str:
        command = [sys.executable, "-m", "gitsession", "--store", str(tmp_path / "agent.git"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout

    def ask(prompt: str, session_id: str) -> list[str]:
        program = (tmp_path / "agent.py").read_text().partition("\nwith Store.create(")[0]
        lines = [
            "with Store.open('agent.git') as store:",
            f"    session = AgentSession(session_id={session_id!r})",
            f"    asyncio.run(helper(store).run({prompt!r}, session=session))",
            "    history = GitSessionHistoryProvider(store).get_messages",
            "    found = asyncio.run(history(session.session_id))",
            "    print([message.text for message in found if message.role == 'user'])",
        ]
        (tmp_path / "ask.py").write_text("\n".join([program, *lines]))
        command = [sys.executable, "ask.py"]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.splitlines()

    assert run(tmp_path).returncode == 0
    one, two, three = (f"Write {word} to count.txt" for word in ("one", "two", "three"))
    fork = gitsession("fork", "agent-framework:ada@user").split()[0]
    gitsession("switch", "agent-framework:ada", "main")
    assert ask(three, "ada") == [str([one, two, three])]
    with Store.open(tmp_path / "agent.git") as store:
        sid = next(row.sid for row in store.sessions() if row.key is None)
        assert sid.startswith(fork)
    assert ask(two, sid) == [str([one, three, two])]
    assert ask(two, "ada") == [str([one, two, three, two])]


def test_workflow_of_the_guide_is_resumed_from_the_same_checkpoint_twice(tmp_path: Path) -> None:
    output = run_programs(PAGE, "import asyncio\nfrom dataclasses", "async def resume", folder=tmp_path)
    assert output == "['A page on git is published']\n['A page on git is rejected']\n2 branches\n"
