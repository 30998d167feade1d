"""Load the instructions of an agent in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path

from gitsession.errors import NotFound
from gitsession.instructions.loader import Loader
from gitsession.instructions.place import Place, real
from gitsession.model.instructions import InstructionSet

_LOADERS = {
    "aider": "AiderLoader",
    "claude": "ClaudeLoader",
    "codex": "CodexLoader",
    "omp": "OmpLoader",
    "opencode": "OpencodeLoader",
    "pi": "PiLoader",
}
"""The class of each agent, in the module with the name of the agent."""

AGENTS = tuple(_LOADERS)
"""Agents whose instructions can be loaded."""


def load(
    agent: str,
    cwd: Path,
    *,
    home: Path,
    environment: Mapping[str, str],
    touched: Iterable[Path] = (),
    nested: bool = False,
    root: Path = Path("/"),
) -> InstructionSet:
    """Return the instructions that ``agent`` gives its model if it is started in ``cwd``.

    The result also contains the files that are not in force yet: those with patterns. ``in_force`` of
    ``instructions.scopes`` selects the files in force once some paths were touched.

    Args:
        home: The user's home directory.
        environment: Environment variables, with which agents move their folders.
        touched: Paths that the session read or wrote, absolute or below ``cwd``. Files of instructions in the folders
            of these paths are found.
        nested: Also search the folders below ``cwd`` for files of instructions that are in force later.
        root: The folder that contains the system's files, such as ``etc``.

    Raises:
        NotFound: The agent is not one of ``AGENTS``.
    """
    if agent not in AGENTS:
        hint = f"the instructions of these agents can be loaded: {', '.join(AGENTS)}"
        raise NotFound(f"cannot load the instructions of '{agent}': unknown agent", hint=hint)
    resolved = real(cwd)  # an agent sees its working directory without symbolic links
    place = Place(
        cwd=resolved,
        home=home,
        environment=environment,
        touched=tuple(_below(resolved, cwd, path) for path in touched),
        nested=nested,
        root=root,
    )
    loader: type[Loader] = getattr(import_module(f"gitsession.instructions.{agent}"), _LOADERS[agent])
    return loader(place).load()


def _below(resolved: Path, cwd: Path, path: Path) -> Path:
    """Return ``path`` as an absolute path, with the resolved working directory in place of ``cwd``."""
    absolute = Path(os.path.normpath(cwd / path))
    return resolved / absolute.relative_to(cwd) if absolute.is_relative_to(cwd) else absolute
