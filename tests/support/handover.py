"""The real agents, offline: each resumes an exported session with the printed command."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import real_opencode
from builders import SHARED

from gitsession.exporting.resume import ResumePlan

LAB = Path(os.environ.get("LAB", "/nonexistent"))
PEERS = SHARED / "peers/agents"
MODEL = PEERS / "mock_llm.py"
SECONDS = 60
NEXT = "NEXT QUESTION"

Told: TypeAlias = list[tuple[str, str]]

_MODULES = LAB / "npm/node_modules"
_PI = "node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js"
PROGRAMS = {
    "claude": [_MODULES / "@anthropic-ai/claude-code-linux-x64/claude"],
    "codex": [_MODULES / "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"],
    "aider": [LAB / "aider/v/bin/aider"],
    "opencode": [_MODULES / "opencode-linux-x64/bin/opencode"],
    "omp": [LAB / "bun2/node_modules/bun/bin/bun.exe", LAB / "omp/node_modules/@oh-my-pi/pi-coding-agent/dist/cli.js"],
    "pi": [LAB / "node22/node_modules/node/bin/node", LAB / "pi-087" / _PI],
}
"""Program of each agent."""

_BEFORE = {"codex": ["exec"], "opencode": ["run"]}
_BEHIND = {
    "aider": [
        "--message", NEXT, "--model", "openai/mock-model", "--map-tokens", "0", "--max-chat-history-tokens", "8000",
        "--yes-always", "--no-check-update", "--no-analytics", "--no-show-release-notes", "--no-show-model-warnings",
        "--no-detect-urls", "--no-pretty", "--no-fancy-input", "--no-gitignore",
    ],
    "claude": ["-p", NEXT],
    "codex": ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json", NEXT],
    "omp": ["--provider", "mock", "--model", "mock-model", "-p", NEXT],
    "opencode": ["--model", "mock/mock-model", NEXT],
    "pi": ["--provider", "mock", "--model", "mock-model", "-p", NEXT],
}  # fmt: skip
"""Arguments with which each agent answers one question and exits."""

_RUN = """
ip link set lo up
git rev-parse --git-dir > /dev/null 2>&1 || git init -q .
python3 "{model}" --script "{base}/script.json" --log "{base}/log" --portfile "{base}/port" \
    --max-seconds {lifetime} > /dev/null &
model=$!
for i in $(seq 1200); do [ -s "{base}/port" ] && break; sleep 0.1; done
port=$(cat "{base}/port")
export ANTHROPIC_BASE_URL=http://127.0.0.1:$port OPENAI_API_BASE=http://127.0.0.1:$port/v1
mkdir -p "$HOME/.codex" "$HOME/.pi/agent" "$HOME/.omp/agent" "$HOME/.config/opencode"
sed -e "s#@PORT@#$port#" "{base}/opencode.tmpl" > "$HOME/.config/opencode/opencode.json"
sed -e "s#@PORT@#$port#" -e "s#@WORK@#$PWD#" "{peers}/codex_config.toml.tmpl" > "$HOME/.codex/config.toml"
echo '{{"providers": {{"mock": {{
    "baseUrl": "http://127.0.0.1:'$port'/v1", "api": "openai-completions", "apiKey": "none",
    "models": [{{"id": "mock-model", "input": ["text", "image"]}}]
}}}}}}' | tee "$HOME/.pi/agent/models.json" > "$HOME/.omp/agent/models.yml"
{before}timeout {seconds} "$@" < /dev/null
kill $model
"""


def is_there(agent: str) -> bool:
    """Return whether the program is installed and can run in a network namespace without a connection."""
    if not (MODEL.exists() and all(part.exists() for part in PROGRAMS[agent]) and shutil.which("unshare")):
        return False
    return subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode == 0


def asked(found: ResumePlan, home: Path) -> Told:
    """Return the messages that the agent sends to its model when it resumes ``found``.

    Args:
        home: Home directory of the agent.
    """
    agent, base = found.export.agent, home.parent
    (base / "script.json").write_text('[{"text": "ANSWER"}]')
    (base / "opencode.tmpl").write_text(json.dumps(real_opencode.CONFIG))
    start = list(map(str, PROGRAMS[agent]))
    log = base / "log"
    for path in (log, base / "port"):
        path.unlink(missing_ok=True)
    *first, last = found.commands
    before = "".join(f"timeout {SECONDS} {shlex.join([*start, *words[1:]])} < /dev/null\n" for words in first)
    # The last command sends the request. Each earlier command may take SECONDS.
    lifetime = SECONDS * (len(found.commands) + 1)
    run = _RUN.format(model=MODEL, base=base, peers=PEERS, seconds=SECONDS, lifetime=lifetime, before=before)
    quiet = ["TELEMETRY", "ERROR_REPORTING", "AUTOUPDATER", "BUG_COMMAND"]
    env = {
        "HOME": str(home), "PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": "mock-not-a-key", "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", **{f"DISABLE_{name}": "1" for name in quiet},
        "PI_OFFLINE": "1", "OPENAI_API_KEY": "x", "LITELLM_LOCAL_MODEL_COST_MAP": "True", **real_opencode.OFF,
    }  # fmt: skip
    program = [*start, *_BEFORE.get(agent, []), *last[1:], *_BEHIND[agent]]
    words = ["unshare", "-n", "bash", "-c", run, "bash", *program]
    done = subprocess.run(words, cwd=found.cwd, env=env, capture_output=True, timeout=lifetime)
    lines = log.read_bytes().splitlines() if log.exists() else []
    requests = [json.loads(line).get("body") or {} for line in lines]
    posted = [request for request in requests if NEXT in json.dumps(request)]
    assert posted, (done.stdout + done.stderr)[-3000:].decode("utf-8", "replace")
    return list(_told(posted[0].get("messages") or posted[0]["input"]))


def _told(messages: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the author and the text of each message, for any of the three APIs."""
    for message in messages:
        match message.get("type"), message.get("role"):
            case "function_call", _:
                yield "call", f"{message['name']} {message['arguments']}"
            case "function_call_output", _:
                yield "result", json.dumps(message["output"])
            case _, "tool":
                yield "result", json.dumps(message["content"])
            case _, str(role):
                yield from _blocks(role, message.get("content"))
                for call in message.get("tool_calls") or ():
                    yield "call", f"{call['function']['name']} {call['function']['arguments']}"


def _blocks(role: str, content: Any) -> Iterator[tuple[str, str]]:
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content or ():
        match block["type"]:
            case "tool_use":
                yield "call", f"{block['name']} {json.dumps(block['input'])}"
            case "tool_result":
                yield "result", json.dumps(block["content"])
            case "image" | "image_url" | "input_image":
                yield role, "PICTURE"
            case "text" | "input_text" | "output_text":
                yield role, block["text"]
