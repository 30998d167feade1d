"""Folders with files of instructions, and their instructions by the rules of an agent."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from gitsession.instructions.load import load
from gitsession.instructions.scopes import in_force
from gitsession.model.instructions import InstructionSet


class Folders:
    """A home directory, a repository and the system's files below one folder.

    Attributes:
        base: The folder.
        home: The home directory.
        repo: The repository.
    """

    def __init__(self, base: Path) -> None:
        self.base = base
        self.home, self.repo, self.root = base / "home", base / "repo", base / "system"
        for folder in (self.home, self.repo, self.root):
            folder.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(self.repo)], check=True)

    def write(self, files: Mapping[str, str]) -> None:
        """Write files, by their paths below ``base``."""
        for name, text in files.items():
            path = self.base / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def load(
        self,
        agent: str,
        cwd: str = "repo",
        *,
        touched: Sequence[str] = (),
        nested: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> InstructionSet:
        """Return the instructions in the folder ``cwd`` below ``base``."""
        (self.base / cwd).mkdir(parents=True, exist_ok=True)
        return load(
            agent,
            self.base / cwd,
            home=self.home,
            environment=environment or {},
            touched=[Path(path) for path in touched],
            nested=nested,
            root=self.root,
        )

    def texts(self, agent: str, cwd: str = "repo", *, touched: Sequence[str] = ()) -> list[str]:
        """Return the texts in force, stripped."""
        found = self.load(agent, cwd, touched=touched)
        return [file.content.strip() for file in in_force(found, touched)]

    def problems(self, found: InstructionSet) -> dict[str, str]:
        """Return the reason of each problem, by its path below ``base``."""
        return {path.removeprefix(f"{self.base}/"): reason for path, reason in found.problems}
