"""pi itself, if its released package is in ``$LAB``. It opens a session file and builds the context itself."""

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
    """Return the version, or ``None`` if pi is not installed."""
    if not (PACKAGE.is_dir() and NODE.exists()):
        return None
    return str(json.loads((PACKAGE / "package.json").read_text())["version"])


@contextmanager
def running(place: Path) -> Iterator[Count]:
    """Start pi, and yield a function that returns the number of messages in the context of a session file.

    Args:
        place: Folder for pi's own files.
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
    """Return a step that starts pi as a new process, which prints the same number and exits."""
    command = (str(NODE), str(DRIVER), str(PACKAGE), str(path))
    return commands.command_of(*command, PI_CODING_AGENT_DIR=str(path.parent / "agent"))
