"""Comparison of contexts with the real Claude Code, which resumes sessions. It requires ``$LAB`` with the program.

Each run has its own home and folder and no network except its own loopback (``unshare -n``), where a scripted model
answers. Text that the program adds anew at each start is removed from both sides:

- messages of role ``system`` and blocks that begin with ``<system-reminder>``: the date, agents, skills, files, tasks;

- after an interruption, ``Continue from where you left off.`` and ``No response requested.``;

- a line end after a prompt that another prompt follows.

Differences that the provider makes for every agent are removed too: results are in the order of their calls, an empty
result has a text, and a thought without a signature is text. The tool ``Task`` of older sessions is called ``Agent``
today.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from builders import SHARED, Clock, bring, joined, session
from claude_author import Author
from claude_cases import CASES, Case, told
from claude_code import SESSION, talk
from claude_handover import HANDED_OVER
from real_claude import MODEL, PROGRAM, can_unshare

from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.context.providers import anthropic
from gitsession.context.providers.conversation import NO_OUTPUT
from gitsession.exporting import export_session
from gitsession.formats.base.format import Workspace
from gitsession.formats.claude.agent import claude
from gitsession.model.entries import CustomMessage, Message, SessionHeader
from gitsession.sessions.entry_addresses import resolve
from gitsession.store.memory import MemoryStore

SESSIONS = sorted((SHARED / "sessions/claude").glob("*.jsonl"))
SESSIONS += sorted((SHARED / "sessions/claude/generated").glob("projects/*/*.jsonl"))
REFUSED = ("Dicklesworthstone", "Sinity", "jazzyalex")
"""Files that the program does not accept, because their authors generated or cut them."""

NEXT = "NEXT QUESTION"
SAID_ANEW = ("Continue from where you left off.", "No response requested.")

Messages: TypeAlias = list[dict[str, Any]]
Ask: TypeAlias = Callable[[bytes, str], Messages]


pytestmark = pytest.mark.skipif(
    not (PROGRAM.exists() and MODEL.exists() and can_unshare()), reason="the real program is not at hand"
)

RUN = """
ip link set lo up
"{python}" "{model}" --script "{script}" --log "{log}" --portfile "{port}" --max-seconds 90 > /dev/null &
model=$!
for i in $(seq 1200); do [ -s "{port}" ] && break; sleep 0.1; done
export ANTHROPIC_BASE_URL=http://127.0.0.1:$(cat "{port}")
timeout 60 "{program}" --resume "{id}" -p "{prompt}" --output-format json < /dev/null
kill $model
"""


@pytest.fixture
def resumed(tmp_path: Path) -> Ask:
    """Return a function that resumes a session file in the program and returns the messages sent to the model."""

    def ask(data: bytes, id: str) -> Messages:
        home, work, log = tmp_path / "home", tmp_path / "work", tmp_path / "requests.jsonl"
        work.mkdir()
        file = (
            home
            / ".claude"
            / claude.session_path(SessionHeader(agent="claude", source_id=id), Workspace(str(work.resolve())))
        )
        file.parent.mkdir(parents=True)
        file.write_bytes(data)
        script = tmp_path / "script.json"
        script.write_text('[{"text": "ANSWER"}]')
        run = RUN.format(python=shutil.which("python3"), model=MODEL, script=script, log=log, port=tmp_path / "port",
                         program=PROGRAM, id=id, prompt=NEXT)  # fmt: skip
        quiet = ["NONESSENTIAL_TRAFFIC", "TELEMETRY", "ERROR_REPORTING", "AUTOUPDATER", "BUG_COMMAND"]
        env = {
            "HOME": str(home), "PATH": os.environ["PATH"], "CLAUDE_CONFIG_DIR": str(home / ".claude"),
            "ANTHROPIC_API_KEY": "mock-not-a-key", "IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            **{f"DISABLE_{name}": "1" for name in quiet},
        }  # fmt: skip
        done = subprocess.run(["unshare", "-n", "bash", "-c", run], cwd=work, env=env, capture_output=True, timeout=100)
        requests = [json.loads(line)["body"] for line in log.read_bytes().splitlines() if b'"messages"' in line]
        asked = [found["messages"] for found in requests if NEXT in json.dumps(found["messages"])]
        assert asked, done.stdout + done.stderr
        return without_what_is_said_anew(asked[0])

    return ask


def without_what_is_said_anew(messages: Messages) -> Messages:
    found = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        kept = [
            {**block, "text": block["text"].rstrip("\n")} if block["type"] == "text" else block
            for block in blocks
            if not (block["type"] == "text" and is_said_anew(block["text"]))
        ]
        if message["role"] != "system" and kept:
            found.append({"role": message["role"], "content": kept})
    return found


def is_said_anew(text: str) -> bool:
    return text.startswith("<system-reminder>") or text.rstrip("\n") in (*SAID_ANEW, NEXT)


def ours(data: bytes, name: str) -> Messages:
    """Return the messages of the profile, without those of attachments, which the program words differently."""
    store = MemoryStore()
    sid = bring(store, data, name=name).session
    context = build.context(ContextHistory(store, resolve(store, sid, "leaf").oid), "claude")
    items = [item for item in context.items if not is_attached(item.entry)]
    request = anthropic.request(build.Context(context.profile, tuple(items), context.state, context.tokens))
    return without_what_is_said_anew(request["messages"])


def is_attached(entry: Any) -> bool:
    return isinstance(entry, CustomMessage) and entry.custom_type != "local_command"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_program_sends_the_expected_context_of_each_case(resumed: Ask, case: Case) -> None:
    assert told(resumed(joined(*case.lines), SESSION)) == case.told


@pytest.mark.parametrize("seed", range(25))
def test_program_sends_the_context_of_random_sessions(resumed: Ask, seed: int) -> None:
    data = joined(*Author(seed).session())
    assert told(resumed(data, SESSION)) == told(ours(data, SESSION))


@pytest.mark.parametrize(("make", "expected"), HANDED_OVER.values(), ids=HANDED_OVER)
def test_model_receives_the_conversation_of_another_agent(resumed: Ask, make: Any, expected: list[str]) -> None:
    store = MemoryStore()
    sid = make(store).id
    id = claude.resume_command(sid)[-1]
    assert told(resumed(export_session.export(store, sid, "claude").data, id)) == expected


PI = sorted((SHARED / "sessions/pi").glob("*.v3.jsonl"))


@pytest.mark.parametrize("path", PI, ids=lambda path: path.name[:40])
def test_session_of_pi_is_continued_in_the_program(resumed: Ask, path: Path) -> None:
    store = MemoryStore()
    sid = bring(store, path.read_bytes(), agent="pi", name=path.stem).session
    data = export_session.export(store, sid, "claude").data
    id = claude.resume_command(sid)[-1]
    assert in_one_spelling(resumed(data, id)) == in_one_spelling(ours(data, id))


def test_program_continues_with_entries_added_after_its_own(resumed: Ask) -> None:
    store = MemoryStore()
    sid = bring(store, joined(*talk("a", "b")), name=SESSION).session
    held = session(store, sid, clock=Clock())
    held.append(Message.user("ours"))
    held.append(Message.assistant("yes"))
    data = export_session.export(store, sid, "claude").data
    assert told(resumed(data, SESSION)) == ["u words of a", "a words of b", "u ours", "a yes"]


def in_one_spelling(messages: Messages) -> list[str]:
    found = []
    for said in told(messages):
        words = re.sub(rf" -> {re.escape(NO_OUTPUT)}$", " -> ", said)
        words = re.sub(r"^a Task (toolu_\w+)$", r"a Agent \1", words)
        found.append(re.sub(r"^a \((.*)\)$", r"a \1", words, flags=re.DOTALL).rstrip("\n"))
    return found


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.name[:40])
def test_program_sends_the_context_of_a_real_session(resumed: Ask, path: Path) -> None:
    if path.name.startswith(REFUSED):
        pytest.skip("the program does not take this file")
    stated = re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", path.stem)
    id = stated[0] if stated else str(uuid.uuid5(uuid.NAMESPACE_URL, path.name))
    data = path.read_bytes()
    theirs = in_one_spelling(resumed(data, id))
    assert theirs == in_one_spelling(ours(data, id))
    assert theirs
