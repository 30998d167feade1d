"""Where session files lie: the agents' own folders, and folders that the user names."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

from gitsession.formats import FORMATS, ROOTS, Format, InProject, SearchRoot, all_with_capability


def everywhere(
    home: Path, environment: Mapping[str, str], *, unreadable: bool = False
) -> Iterator[tuple[Path, Format]]:
    """Every session file in the agents' own folders, which variables of the ``environment`` may have moved.

    ``unreadable``: also what has the name of one and is no file (a folder, a pipe, a link that leads nowhere), and
    folders that may not be read, for the import to name them.
    """
    for format in FORMATS.values():
        bases = [(root, base_of(root, home, environment)) for root in ROOTS[format.AGENT]]
        if unreadable:
            closed = dict.fromkeys(folder for root, base in bases for folder in _closed(base, root.pattern))
            yield from ((folder, format) for folder in closed)
        for root, base in bases:
            found = {*base.glob(root.pattern)}
            if unreadable and os.path.lexists(base / root.pattern):
                found.add(base / root.pattern)  # a glob of a plain name does not find a link that leads nowhere
            yield from ((path, format) for path in sorted(found) if unreadable or path.is_file())


def _closed(base: Path, pattern: str) -> Iterator[Path]:
    """Yield the folders on the way to ``pattern`` that may not be listed: a glob passes over them."""
    above = [parent.as_posix() for parent in reversed(Path(pattern).parents)]
    for folders in ([base], *(sorted(base.glob(parent)) for parent in above if parent != ".")):
        yield from (folder for folder in folders if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK))


def base_of(root: SearchRoot, home: Path, environment: Mapping[str, str]) -> Path:
    """The folder that the agent's sessions lie below."""
    moved = environment.get(root.variable) if root.variable else None
    return Path(moved).expanduser() if moved else home / root.home


def in_projects(folders: Iterable[Path], *, unreadable: bool = False) -> Iterator[tuple[Path, Format]]:
    """The session files that an agent keeps in the projects themselves: at the top of what each folder belongs to.

    ``unreadable``: also what is called so and is no file.
    """
    tops = dict.fromkeys(found for folder in folders if (found := _top(folder)) is not None)
    for format in all_with_capability(InProject).values():
        files = (folder / format.IN_PROJECT for folder in tops)
        yield from ((path, format) for path in files if path.is_file() or (unreadable and os.path.lexists(path)))


def _top(folder: Path) -> Path | None:
    """A folder is whatever a session says: it need not be one that can be."""
    try:
        return top(folder)
    except (OSError, ValueError):
        return None


def top(folder: Path) -> Path:
    """The top of the repository that ``folder`` is in, without asking git; of none, the folder itself.

    Raises ``OSError`` and ``ValueError`` for what is no name of a folder.
    """
    folder = folder.absolute()
    # One after the other: a session may say a folder of fifty thousand parents.
    return next((place for place in chain([folder], folder.parents) if (place / ".git").exists()), folder)


def under(paths: Iterable[Path]) -> Iterator[Path]:
    """The files that ``paths`` name; of folders, every file below them that is called like a session file."""
    patterns = {pattern for format in FORMATS.values() for pattern in format.FILES}
    for path in paths:
        if path.is_dir():
            found = (file for file in path.rglob("*") if any(fnmatchcase(file.name, pattern) for pattern in patterns))
            yield from sorted(file for file in found if file.is_file())
        else:
            yield path


def called(path: Path, id: str) -> list[Path]:
    """The session files beside ``path`` whose names end in ``id``, also in folders of other days (``2026/11/22``)."""
    top = path.absolute().parent
    while top.name.isdecimal() and len(top.name) in (2, 4):
        top = top.parent
    days = "*/*/*/" if path.absolute().parent != top else ""
    return sorted(file for file in top.glob(f"{days}*{glob.escape(id)}.jsonl") if file.is_file())
