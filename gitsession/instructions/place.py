"""The folder whose instructions are loaded, and the user's folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from gitsession.dataclass import dataclass
from gitsession.formats import AgentFolder


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

    def folder(self, folder: AgentFolder) -> Path:
        """Return the folder that an environment variable names, or the default below the home directory."""
        return self.expand(self.environment.get(folder.variable) or f"~/{folder.home}", self.cwd)

    def expand(self, path: str, base: Path) -> Path:
        """Return ``path`` as a path below ``base``. ``~/`` at the start stands for the home directory."""
        is_home = path == "~" or path.startswith("~/")
        return Path(os.path.normpath(self.home / path[2:] if is_home else base / path))

    def shown(self, path: Path) -> str:
        """Return ``path`` as the user would write it: relative to ``cwd``, or below ``~``, if it is there."""
        for folder, short in ((self.cwd, ""), (self.home, "~/")):
            if path.is_relative_to(folder):
                return short + path.relative_to(folder).as_posix()
        return path.as_posix()

    def is_set(self, variable: str) -> bool:
        """Return whether an environment variable has a value that means yes."""
        return self.environment.get(variable, "").lower() in ("1", "true", "yes", "on")

    @property
    def git_root(self) -> Path | None:
        """The root of the git work tree that contains ``cwd``."""
        return next((folder for folder in upwards(self.cwd) if (folder / ".git").exists()), None)

    def boundary(self, folder: Path) -> Path:
        """Return the folder that links below ``folder`` must not leave: the git work tree, otherwise ``folder``."""
        root = self.git_root
        return root if root is not None and folder.is_relative_to(root) else folder

    @property
    def main_root(self) -> Path | None:
        """The root of the main work tree, if ``cwd`` is in a linked work tree; otherwise ``git_root``."""
        root = self.git_root
        if root is None or not (root / ".git").is_file():
            return root
        try:
            git_dir = root / (root / ".git").read_text("utf-8").removeprefix("gitdir:").strip()
            common = real(git_dir / (git_dir / "commondir").read_text("utf-8").strip())
        except (OSError, ValueError):
            return root
        return common.parent if common.name == ".git" else root


def real(path: Path) -> Path:
    """Return ``path`` without symbolic links. Unlike ``Path.resolve``, it accepts a circle of them."""
    return Path(os.path.realpath(path))


def upwards(folder: Path, last: Path | None = None) -> Iterator[Path]:
    """Yield ``folder`` and the folders above, up to ``last``, or to the root if ``last`` is not above."""
    for each in (folder, *folder.parents):
        yield each
        if each == last:
            return


def between(outer: Path, inner: Path) -> list[Path]:
    """Return the folders below ``outer`` that contain ``inner``, and ``inner``, from the outermost."""
    if not inner.is_relative_to(outer):
        return []
    return [folder for folder in reversed([inner, *inner.parents]) if folder != outer and folder.is_relative_to(outer)]
