"""A simulated opencode: it writes messages to its database and trees to its own git repository."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opencode_files import Database, Message, answer, folders, info, tool, user

Do = Callable[[], object]


class Agent:
    """A simulated opencode that works in ``work``.

    Args:
        folder: The folder in ``work`` in which the session runs.
        is_old: Use the repository layout of older versions.
    """

    def __init__(self, data: Path, work: Path, *, folder: Path | None = None, is_old: bool = False) -> None:
        self.data, self.work, self.folder = data, work, folder or work
        hashed = hashlib.sha1(os.fsencode(work)).hexdigest()
        self.git_dir = data / "snapshot/p1" if is_old else data / "snapshot/p1" / hashed
        self.git_dir.parent.mkdir(parents=True)
        self._git("init", "-q")
        self.database = Database(data / "opencode.db")
        self.about = info(directory=str(self.folder), path=os.path.relpath(self.folder, work).strip("."))
        self.messages: list[Message] = []
        self.at = 0

    def prompt(self, id: str, words: str = "Do it") -> None:
        self.at += 10
        self.messages.append(user(id, words, at=self.at))

    def step(self, id: str, *calls: tuple[str, Do] | Message, do: Do = bool) -> None:
        """Write an answer with these calls.

        Args:
            calls: A part, or the name of a tool and its action.
            do: Another action before the step ends.
        """
        before, parts = self.track(), []
        for number, call in enumerate(calls):
            if isinstance(call, dict):
                parts.append(call)
                continue
            name, act = call
            act()
            parts.append(tool(f"call_{id}{number}", name=name, at=self.at + 11))
        do()
        self.say(id, before, self.track(), *parts)

    def shell(self, id: str, do: Do) -> None:
        self.step(id, ("bash", do))

    def write(self, id: str, path: str, content: str, *, do: Do = bool) -> None:
        """Write a file with a call that names it.

        Args:
            do: A concurrent action of another program.
        """
        (self.work / path).parent.mkdir(parents=True, exist_ok=True)
        part = tool(f"call_{id}", name="write", at=self.at + 11, input={"filePath": str(self.work / path)})
        self.step(id, part, do=lambda: ((self.work / path).write_text(content), do()))

    def say(self, id: str, before: Any, after: Any, *parts: Message) -> None:
        """Write an answer between two trees."""
        self.at += 10
        ended = {"type": "step-finish", "reason": "stop", "snapshot": after, "cost": 0}
        about = {"cwd": str(self.folder), "root": str(self.work)}
        said = [{"type": "step-start", "snapshot": before}, *parts, ended]
        self.messages.append(answer(id, parts=said, at=self.at, path=about))

    def track(self) -> str:
        """Write the current tree of the project and return its object id."""
        self._git("add", "--all")
        return self._git("write-tree").strip()

    def object(self, kind: str, data: bytes) -> str:
        """Write an object without checking it, and return its object id."""
        return self._git("hash-object", "-w", "--literally", "-t", kind, "--stdin", stdin=data).strip()

    def loose(self, oid: str) -> Path:
        return self.git_dir / "objects" / oid[:2] / oid[2:]

    def save(self, count: int | None = None) -> Path:
        """Write the first ``count`` messages of the session to the database."""
        self.database.put(self.messages[:count], self.about)
        return self.database.path

    def in_folders(self, messages: list[Message]) -> Path:
        """Write the messages as files, as older versions did."""
        return folders(self.data / "storage", messages, self.about)

    def _git(self, *words: str, stdin: bytes | None = None) -> str:
        place = [f"--git-dir={self.git_dir}", f"--work-tree={self.work}"]
        done = subprocess.run(
            ["git", *place, "-c", "core.autocrlf=false", *words], input=stdin, capture_output=True, check=True
        )
        return done.stdout.decode()
