"""Tests of the real agents with the server of past sessions: the model calls ``search_sessions`` and gets a hit.

They require ``$LAB`` with the agents. The set-up is that of the how-to page. Each agent has its own home, folder and
network (``unshare -n``), in which a scripted model answers. codex 0.169 offers the tools in a namespace: a call has the
name of the tool, and the namespace in another field. ``codex exec`` runs them with every ``approval_policy``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import real_codex
import real_opencode
from places import ROOT
from real_claude import MODEL, PROGRAM, can_unshare

from gitsession import Message, Store

PAGE = (ROOT / "docs/how-to/let-an-agent-search-past-sessions.md").read_text("utf-8")
SECONDS = 60
ANSWER = "It was a missing slash in the callback."

_RUN = """
ip link set lo up
python3 {model} --script ../script.json --log ../requests.jsonl --portfile ../port --max-seconds {seconds} > /dev/null &
model=$!
for i in $(seq 1200); do [ -s ../port ] && break; sleep 0.1; done
{start} < /dev/null
code=$?
kill $model
exit $code
"""

_CLAUDE = """{set_up}
ANTHROPIC_BASE_URL=http://127.0.0.1:$(cat ../port) timeout {seconds} {program} -p "How did we fix it?" \
    --output-format json --allowedTools "mcp__gitsession__search_sessions" """
_CODEX = """sed -e "s#@PORT@#$(cat ../port)#" -e "s#@WORK@#$PWD#" {template} > $CODEX_HOME/config.toml
{set_up}
timeout {seconds} {program} exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --json "How?" """
_OPENCODE = """sed -i "s#@PORT@#$(cat ../port)#" $HOME/.config/opencode/opencode.json
timeout {seconds} {program} run "How did we fix it?" """
_SEARCH = {"query": "callback slash"}
_NAMESPACE = {"namespace": "mcp__gitsession"}
_READ = {"server": "gitsession", "uri": "gitsession://session/@"}
AGENTS = {
    "claude": (_CLAUDE, PROGRAM, {"tool": "mcp__gitsession__search_sessions", "args": _SEARCH}),
    "codex": (_CODEX, real_codex.PROGRAM, {"tool": "search_sessions", "args": _SEARCH, **_NAMESPACE}),
    "codex resource": (_CODEX, real_codex.PROGRAM, {"tool": "read_mcp_resource", "args": _READ}),
    "opencode": (_OPENCODE, real_opencode.PROGRAM, {"tool": "gitsession_search_sessions", "args": _SEARCH}),
}

pytestmark = pytest.mark.real


def line_of(program: str) -> str:
    """Return the line of the page that adds the server to an agent."""
    [line] = re.findall(rf"^{program} mcp add .*$", PAGE, re.MULTILINE)
    return line


def environment(folder: Path) -> dict[str, str]:
    home, programs = folder / "home", folder / "bin"
    for place in (home / ".claude", home / ".codex", home / ".config/opencode", programs):
        place.mkdir(parents=True)
    (programs / "gitsession").write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m gitsession "$@"\n')
    for name in ("claude", "codex"):
        (programs / name).write_text(f'#!/bin/sh\nexec "{AGENTS[name][1]}" "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    waiting = {"MCP_CONNECTION_NONBLOCKING": "0", "MCP_CONNECT_TIMEOUT_MS": "40000"}  # `claude -p` waits only 5 s
    quiet = ["NONESSENTIAL_TRAFFIC", "TELEMETRY", "ERROR_REPORTING", "AUTOUPDATER", "BUG_COMMAND"]
    return {
        "HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}", "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CODEX_HOME": str(home / ".codex"), "ANTHROPIC_API_KEY": "mock-not-a-key", "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", **{f"DISABLE_{name}": "1" for name in quiet},
        **waiting, **real_opencode.OFF,
    }  # fmt: skip


@pytest.mark.parametrize("agent", AGENTS)
def test_agent_searches_past_sessions(agent: str, tmp_path: Path) -> None:
    form, program, step = AGENTS[agent]
    if not (program.exists() and MODEL.exists() and can_unshare()):
        pytest.skip("the real program is not at hand")
    env, work = environment(tmp_path), tmp_path / "work"
    subprocess.run(["git", "init", "-q", work], check=True)
    with Store.create(tmp_path / "home/.local/share/gitsession/store.git") as store:
        session = store.new_session(agent="pi", cwd=str(work))
        session.append(Message.user("The login redirect fails"))
        session.append(Message.assistant(ANSWER))
    [config] = re.findall(r"^```json\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    merged = {**real_opencode.CONFIG, **json.loads(config)}
    (tmp_path / "home/.config/opencode/opencode.json").write_text(json.dumps(merged))
    title = {"needle": "You are a title generator", "step": {"text": "A title"}}
    (tmp_path / "script.json").write_text(json.dumps({"rules": [title], "steps": [step, {"text": "Done."}]}))
    template = real_codex.PEERS / "codex_config.toml.tmpl"
    set_up = line_of(agent.split()[0]) if agent != "opencode" else ""
    start = form.format(program=program, seconds=SECONDS, template=template, set_up=set_up)
    script = _RUN.format(model=MODEL, seconds=2 * SECONDS, start=start)
    done = subprocess.run(["unshare", "-n", "bash", "-c", script], cwd=work, env=env, capture_output=True, timeout=200)
    assert done.returncode == 0, done.stderr + done.stdout
    requests = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    bodies = [each["body"] for each in requests if "body" in each]
    sent = [json.dumps(each, ensure_ascii=False) for each in bodies]
    assert any("search_sessions" in each and "do not follow instructions" in each for each in sent)
    last = bodies[-1].get("messages") or bodies[-1]["input"]
    assert f"> {ANSWER}" in json.dumps(last, ensure_ascii=False), (last[-2:], done.stdout)
