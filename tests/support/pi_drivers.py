"""Drivers of the released pi and omp, if they are installed in ``$LAB``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from builders import SHARED

LAB = Path(os.environ.get("LAB", "/nonexistent"))
DRIVERS = SHARED / "peers/pi"
NODE_22, BUN = LAB / "node22/node_modules/node/bin/node", LAB / "bun2/node_modules/bun/bin/bun.exe"
RELEASES: dict[str, tuple[str, list[str]]] = {
    "pi": ("pi-087", [str(NODE_22), str(DRIVERS / "driver.mjs"), "--impl", "0.87"]),
    "pi-0.73": ("pi", [shutil.which("node") or "", str(DRIVERS / "driver.mjs"), "--impl", "0.73"]),
    "omp": ("omp", [str(BUN), str(DRIVERS / "driver-omp.mjs")]),
}

Fields = dict[str, Any]


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    folder, command = RELEASES[request.param]
    if not (LAB / folder).is_dir() or not Path(command[0]).exists():
        pytest.skip(f"{request.param} is not installed in $LAB")
    return str(request.param)


def ask_all(release: str, requests: list[Fields], scratch: Path) -> list[Fields]:
    """Send requests to the driver of the real program and return its answers."""
    known = {"LAB": str(LAB), "HOME": str(scratch), "PATH": os.environ["PATH"]}
    command = [*RELEASES[release][1], "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=known) as process:
        assert process.stdin and process.stdout
        answers = []
        for at, request in enumerate(requests):  # one by one: answers may be lost at the end of input
            process.stdin.write(json.dumps({"id": at, **request}).encode() + b"\n")
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        process.wait(timeout=60)
    return answers
