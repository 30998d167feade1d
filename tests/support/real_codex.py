"""The real codex, offline. It resumes a rollout, and a scripted model logs the requests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builders import SHARED

LAB = Path(os.environ.get("LAB", "/nonexistent"))
PROGRAM = LAB / "npm/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
PEERS = SHARED / "peers/agents"
ASK = "and now"
SECONDS = 60

_RUN = """
ip link set lo up
git init -q .
python3 {peers}/mock_llm.py --script script.json --log ../requests.jsonl --portfile ../port --max-seconds {seconds} &
for i in $(seq 1200); do [ -s ../port ] && break; sleep 0.1; done
sed -e "s#@PORT@#$(cat ../port)#" -e "s#@WORK@#$PWD#" {peers}/codex_config.toml.tmpl > $CODEX_HOME/config.toml
timeout {seconds} {program} exec resume {thread} --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox \
    --json "{ask}" < /dev/null
code=$?
kill %1
exit $code
"""


def is_there() -> bool:
    """Return whether the program is installed and can run in a network namespace without a connection."""
    if not (PROGRAM.exists() and (PEERS / "mock_llm.py").exists() and shutil.which("unshare")):
        return False
    return subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode == 0


class Answer:
    """The result of a run of codex.

    ``sent`` is the input of the model, ``files`` are the files of codex after the run, by name, and ``error`` is the
    error output of codex.
    """

    def __init__(self, sent: list[dict[str, Any]] | None, error: str, files: dict[str, bytes]) -> None:
        self.sent, self.error, self.files = sent, error, files

    def history(self, count: int) -> list[dict[str, Any]]:
        """Return the first ``count`` items after the instructions, without null fields."""
        assert self.sent is not None, self.error[-2000:]
        return [plain(item) for item in self.sent[1 : count + 1]]

    def told_anew(self, count: int) -> list[str]:
        """Return the role and first tag of each item after the history. The last one is the prompt."""
        assert self.sent is not None
        return [_told(item) for item in self.sent[count + 1 :]]


def plain(item: dict[str, Any]) -> dict[str, Any]:
    """Return the item without null fields."""
    return {name: value for name, value in item.items() if value is not None}


def _told(item: dict[str, Any]) -> str:
    text = item["content"][0]["text"]
    tag = re.match(r"<[a-z_]+>|# AGENTS.md", text)
    return f"{item['role']} {tag[0] if tag else text}"


def resume(
    folder: Path, files: Mapping[str, bytes], thread: str, *, steps: Sequence[Mapping[str, Any]] = ({"text": "Done."},)
) -> Answer:
    """Resume ``thread`` in codex.

    Args:
        files: Rollouts by name.
        steps: Scripted answers of the model.
    """
    home, work = folder / "home/.codex", folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        year, month, day = name.split("-")[1:4]
        place = home / "sessions" / year / month / day[:2] / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    (work / "script.json").write_text(json.dumps(list(steps)))
    script = _RUN.format(peers=PEERS, seconds=SECONDS, program=PROGRAM, thread=thread, ask=ASK)
    ran = subprocess.run(
        ["unshare", "-n", "bash", "-c", script],
        cwd=work,
        env={"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "CODEX_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
    )
    log = folder / "requests.jsonl"
    requests = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    posted = [request["body"] for request in requests if request["path"].endswith("/responses")]
    now = {path.name: path.read_bytes() for path in home.rglob("rollout-*.jsonl")}
    return Answer(posted[0]["input"] if posted else None, ran.stderr, now)


def for_the_script(data: bytes) -> tuple[bytes, str]:
    """Change the model provider of a rollout to the scripted model, because codex resumes with no other.

    Returns the rollout and its thread id.
    """
    head, _, rest = data.partition(b"\n")
    header = json.loads(head)
    header["payload"]["model_provider"] = "mock"
    return json.dumps(header).encode() + b"\n" + rest, header["payload"]["id"]
