"""Test helpers for hooks: a simulated Claude Code that runs its hooks, with or without a store."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

from builders import joined
from claude_code import SESSION, asked, assistant, call, result, user

from gitsession import Store
from gitsession.checkpoints import history
from gitsession.cli import hooking
from gitsession.live import spool
from gitsession.model.entries import Checkpoint
from gitsession.workspace import trees

# The time limits of hooks on a busy machine are not tested here.
hooking.CAPTURE_SECONDS = hooking.WAIT_SECONDS = 120.0


def run(store: Path, event: str, said: bytes | dict[str, Any], *words: str, **how: Any) -> subprocess.CompletedProcess:
    """Run the hook in a process of its own, as an agent does."""
    data = said if isinstance(said, bytes) else json.dumps(said).encode()
    command = [sys.executable, "-m", "gitsession", "--store", str(store), "hook", event, "--from", "claude", *words]
    return subprocess.run(command, input=data, capture_output=True, timeout=60, check=False, **how)


def told(store: Path, event: str, said: bytes | dict[str, Any], agent: str = "claude") -> bool:
    """Run the hook in this process and return whether it would have started the ingest process."""
    data = said if isinstance(said, bytes) else json.dumps(said).encode()
    started: list[str] = []
    with (
        mock.patch.object(hooking, "read_stdin", lambda: (data, True)),
        mock.patch.object(hooking, "_start_drain", started.append),
    ):
        hooking.run(["--store", str(store), "hook", event, "--from", agent])
    return bool(started)


class Agent:
    """A simulated Claude Code in its own folder. It appends to its session file and runs its hooks."""

    def __init__(self, folder: Path, session: str = SESSION, workspace: Path | None = None) -> None:
        self.session = session
        self.workspace = workspace or folder / "work"
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.file = folder / f"{session}.jsonl"
        self.store = folder / "store.git"
        self._lines: list[bytes] = []
        self._last: str | None = None

    def write(self, *lines: bytes) -> None:
        """Append lines to the session file, with the current time."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        said = [re.sub(rb'"timestamp":"[^"]*"', f'"timestamp":"{now}"'.encode(), one) for one in lines]
        self._lines += [one.replace(SESSION.encode(), self.session.encode()) for one in said]
        self.file.write_bytes(joined(*self._lines))

    def tell(self, event: str, **said: Any) -> bool:
        where = {"session_id": self.session, "transcript_path": str(self.file), "cwd": str(self.workspace)}
        return told(self.store, event, {**where, "hook_event_name": event, **said})

    def prompt(self, id: str, words: str) -> None:
        self.tell("UserPromptSubmit", prompt=words)
        self.write(*([] if self._lines else asked()), user(id, self._last, words, at=len(self._lines) + 1))
        self._last = id

    def calls(self, id: str, name: str = "Bash", **given: Any) -> None:
        """Write a call to the session file and run the hook for its start."""
        self.write(assistant(id, self._last, call(f"call_{id}", name, **given), at=len(self._lines) + 1))
        self._last = id
        self.tell("PreToolUse", tool_name=name, tool_input=given, tool_use_id=f"call_{id}")

    def called(self, id: str, name: str = "Bash", event: str = "PostToolUse", **given: Any) -> None:
        """Run the hook for the end of a call and write the result to the session file."""
        self.tell(event, tool_name=name, tool_input=given, tool_use_id=f"call_{id}")
        self.write(result(f"r{id}", self._last, f"call_{id}", at=len(self._lines) + 1))
        self._last = f"r{id}"

    def stops(self) -> bool:
        return self.tell("Stop")

    def fill(self, **files: str | None) -> None:
        """Write files of the workspace. In names, ``__`` is a dot. ``None`` deletes the file."""
        for name, content in files.items():
            path = self.workspace / name.replace("__", ".")
            path.write_text(content) if content is not None else path.unlink()

    def drain(self, at_ms: int | None = None) -> Any:
        Store.create(self.store).close()
        with Store.open(self.store, **({} if at_ms is None else {"clock": lambda: at_ms})) as store:
            return store.drain()

    def points(self, session: str = "") -> list[tuple[str, str | None, dict[str, str]]]:
        """Return the checkpoints, oldest first: phase, call, and the contents of the files."""
        with Store.open(self.store) as store:
            [sid] = [row.sid for row in store.sessions() if row.source_id == (session or self.session)]
            return [
                (point.entry.phase, point.entry.call, contents(store, point.files))
                for point in history.history(store.objects, sid)
            ]

    def entries(self) -> list[Checkpoint]:
        with Store.open(self.store) as store:
            [row] = store.sessions()
            return [point.entry for point in history.history(store.objects, row.sid)]


def contents(store: Store, tree: str | None) -> dict[str, str]:
    return {path: store.objects.read(file.oid)[1].decode() for path, file in trees.walk(store.objects, tree)}


def failures(store: Path) -> list[str]:
    return [words for _, words in spool.failures(os.fspath(store))]


def waiting(store: Path) -> list[str]:
    return spool.waiting(os.fspath(store))
