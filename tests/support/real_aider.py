"""The real Aider, offline, in its own repository. A scripted model logs the requests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from builders import SHARED

LAB = Path(os.environ.get("LAB", "/nonexistent"))
PROGRAM = LAB / "aider/v/bin/aider"
PEERS = SHARED / "peers/agents"
NAME = ".aider.chat.history.md"
SECONDS = 120

_OPTIONS = (
    "--model openai/mock-model --weak-model openai/mock-model --yes-always --no-show-model-warnings "
    "--no-check-update --no-analytics --no-show-release-notes --no-detect-urls --no-pretty --no-fancy-input "
    "--no-suggest-shell-commands --edit-format diff --map-tokens 0 --max-chat-history-tokens 8000 --no-gitignore"
)
_RUN = """
ip link set lo up
python3 {peers}/mock_llm.py --script ../script.json --log ../requests.jsonl --portfile ../port --max-seconds {seconds} &
for i in $(seq 1200); do [ -s ../port ] && break; sleep 0.1; done
timeout {seconds} {program} {options} --openai-api-base http://127.0.0.1:$(cat ../port)/v1 {more} < ../typed
code=$?
kill %1
exit $code
"""


def is_there() -> bool:
    """Return whether the program is installed and can run in a network namespace without a connection."""
    if not (PROGRAM.exists() and (PEERS / "mock_llm.py").exists() and shutil.which("unshare")):
        return False
    return subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode == 0


def project(folder: Path) -> Path:
    """Create a repository with one file."""
    work = folder / "work"
    work.mkdir(parents=True)
    (work / "app.py").write_text('print("hi")\n')
    for command in ("init -q .", "config user.email a@b", "config user.name t", "add .", "commit -q -m init"):
        subprocess.run(["git", *command.split()], cwd=work, check=True, capture_output=True)
    return work


def talk(work: Path, typed: Sequence[str], says: Sequence[str], *options: str) -> list[list[dict[str, Any]]]:
    """Type lines into Aider and return the messages of each request, without those that Aider adds anew each time."""
    rules = [{"needle": "commit message", "step": {"text": "feat: update app"}}]
    script = {"rules": rules, "steps": [{"text": text} for text in says]}
    (work.parent / "script.json").write_text(json.dumps(script))
    (work.parent / "typed").write_text("".join(f"{line}\n" for line in [*typed, "/exit"]))
    log = work.parent / "requests.jsonl"
    for path in (log, work.parent / "port"):
        path.unlink(missing_ok=True)
    command = _RUN.format(peers=PEERS, seconds=SECONDS, program=PROGRAM, options=_OPTIONS, more=" ".join(options))
    ran = subprocess.run(
        ["unshare", "-n", "bash", "-c", command],
        cwd=work,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(work.parent),
            "OPENAI_API_KEY": "x",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "AIDER_ANALYTICS": "false",
        },
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
    )
    assert log.exists(), ran.stdout + ran.stderr
    bodies = [json.loads(line)["body"] for line in log.read_text().splitlines()]
    asked = [body["messages"] for body in bodies if isinstance(body, dict) and "messages" in body]
    return [_said(messages) for messages in asked if "commit message" not in json.dumps(messages[:1])]


ANEW_BEFORE = "I switched to a new code base."
"""Start of the last example message before the conversation. An answer follows it."""

ANEW_AMID = ("I have *added these files to the chat*", "I am not sharing any files", "I have not shared any files")
"""Starts of the messages that Aider adds about the files in the chat, after its last change. An answer follows each."""


def _said(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    spoken = [message for message in messages if message["role"] != "system"]
    texts = [message["content"] for message in spoken]
    first = next((at + 2 for at, text in enumerate(texts) if text.startswith(ANEW_BEFORE)), 0)
    amid = next((at for at, text in enumerate(texts) if at >= first and text.startswith(ANEW_AMID)), None)
    return spoken[first:-1] if amid is None else spoken[first:amid] + spoken[amid + 2 : -1]
