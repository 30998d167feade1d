"""pi itself, where ``$LAB`` holds the released package: its own code opens a session file and builds the context."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from benchmarks import commands
from benchmarks.measure import Step

LAB = Path(os.environ.get("LAB", "/nonexistent"))
PACKAGE = LAB / "pi-087/node_modules/@earendil-works/pi-coding-agent"
NODE = LAB / "node22/node_modules/.bin/node"
DRIVER = Path(__file__).with_suffix(".mjs")

Count: TypeAlias = Callable[[Path], int]


def version() -> str | None:
    """``None``: not installed."""
    if not (PACKAGE.is_dir() and NODE.exists()):
        return None
    return str(json.loads((PACKAGE / "package.json").read_text())["version"])


@contextmanager
def running(place: Path) -> Iterator[Count]:
    """How many messages the model sees at the end of a session file, asked of a process that is up already.

    ``place``: a folder that it may take for its own.
    """
    command = [str(NODE), str(DRIVER), str(PACKAGE)]
    environment = {**os.environ, "PI_CODING_AGENT_DIR": str(place)}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout

        def count(path: Path) -> int:
            process.stdin.write(f"{path}\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        yield count


def whole(path: Path) -> Step:
    """The same as a process that starts, answers and ends."""
    command = (str(NODE), str(DRIVER), str(PACKAGE), str(path))
    return commands.command_of(*command, PI_CODING_AGENT_DIR=str(path.parent / "agent"))
