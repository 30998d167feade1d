"""The released opencode, if it is in ``$LAB``, in its own folder, offline and with a scripted model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, TypeAlias

from builders import SHARED

LAB = Path(os.environ.get("LAB", "/nonexistent"))
PROGRAM = LAB / "npm/node_modules/opencode-linux-x64/bin/opencode"
MODEL = SHARED / "peers/agents/mock_llm.py"
NEXT = "NEXT QUESTION"

Messages: TypeAlias = list[dict[str, Any]]

CONFIG = {
    "autoupdate": False, "share": "disabled", "snapshot": False, "model": "mock/mock-model",
    "small_model": "mock/mock-model", "compaction": {"auto": False, "prune": False}, "permission": {"bash": "allow"},
    "provider": {"mock": {
        "npm": "@ai-sdk/openai-compatible", "name": "Mock", "options": {"baseURL": "http://127.0.0.1:@PORT@/v1"},
        "models": {"mock-model": {
            "name": "Mock", "limit": {"context": 1_000_000, "output": 8000}, "tool_call": True, "attachment": True,
            "modalities": {"input": ["text", "image"], "output": ["text"]}}},
    }},
}  # fmt: skip

OFF = {f"OPENCODE_DISABLE_{name}": "1" for name in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")}

RUN = """
ip link set lo up
"{python}" "{model}" --script "{script}" --log "{log}" --portfile "{port}" --max-seconds 150 > /dev/null &
model=$!
for i in $(seq 1200); do [ -s "{port}" ] && break; sleep 0.1; done
sed -i "s/@PORT@/$(cat "{port}")/" "{config}"
{steps}
kill $model
"""


def can_run() -> bool:
    unshare = shutil.which("unshare")
    free = unshare is not None and subprocess.run([unshare, "-n", "true"], capture_output=True).returncode == 0
    return free and PROGRAM.exists() and MODEL.exists()


class Lab:
    """A home directory for the program, below ``place``."""

    def __init__(self, place: Path) -> None:
        self.place, self.work = place, place / "work"
        self.work.mkdir(parents=True)
        self.data = place / "home/data"

    def run(self, *steps: str, answers: str = '[{"text": "ANSWER"}]') -> list[dict[str, Any]]:
        """Run shell commands, in which ``$OC`` is the program, and return the requests to the model."""
        log, port, script = self.place / "requests.jsonl", self.place / "port", self.place / "script.json"
        config = self.place / "home/config/opencode/opencode.json"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(json.dumps(CONFIG))
        script.write_text(answers)
        for path in (log, port):
            path.unlink(missing_ok=True)
        text = RUN.format(
            python=shutil.which("python3"), model=MODEL, script=script, log=log, port=port, config=config,
            steps="\n".join(steps),
        )  # fmt: skip
        kinds = ("DATA", "CONFIG", "STATE", "CACHE")
        home = {f"XDG_{kind}_HOME": str(self.place / "home" / kind.lower()) for kind in kinds}
        env = {
            "HOME": str(self.place / "home"), "PATH": os.environ["PATH"], "OC": f"timeout 60 {PROGRAM}", **home, **OFF,
        }  # fmt: skip
        done = subprocess.run(
            ["unshare", "-n", "bash", "-c", text], cwd=self.work, env=env, capture_output=True, timeout=200
        )
        self.said = (done.stdout + done.stderr).decode("utf-8", "replace")
        lines = log.read_bytes().splitlines() if log.exists() else []
        return [found["body"] for line in lines if "body" in (found := json.loads(line))]

    def resumed(self, export: bytes, id: str) -> Messages:
        """Import an export, resume the session and return the messages sent to the model.

        The system prompt and the new prompt are left out.
        """
        (self.place / "in.json").write_bytes(export)
        requests = self.run(f'$OC import "{self.place}/in.json"', f'$OC run --session {id} "{NEXT}" < /dev/null')
        asked = [found["messages"] for found in requests if NEXT in json.dumps(found["messages"][-1])]
        assert asked, self.said
        return [message for message in asked[0][:-1] if message["role"] != "system"]
