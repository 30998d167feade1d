"""The folder whose instructions are loaded, and the user's folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from gitsession.dataclass import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """The folders in which a loader searches.

    Attributes:
        cwd: The working directory of the agent.
        home: The user's home directory.
        environment: Environment variables.
        touched: Absolute paths that the session read or wrote.
        nested: Whether the folders below ``cwd`` are searched.
        root: The folder that contains the system's files, such as ``etc``.
    """

    cwd: Path
    home: Path
    environment: Mapping[str, str]
    touched: tuple[Path, ...] = ()
    nested: bool = False
    root: Path = Path("/")

    def folder(self, variable: str, default: str) -> Path:
        """Return the folder that an environment variable names, or ``default`` below the home directory."""
        return Path(self.environment.get(variable) or self.home / default)

    def git_root(self) -> Path | None:
        """Return the root of the git work tree that contains ``cwd``."""
        return next((folder for folder in self.upwards() if (folder / ".git").exists()), None)

    def upwards(self) -> Iterator[Path]:
        """Yield ``cwd`` and the folders above, from the innermost to the outermost."""
        yield self.cwd
        yield from self.cwd.parents
