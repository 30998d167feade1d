"""Search for session files in the agents' own folders and in folders that the user specifies."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase, translate
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.formats import FORMATS, SearchRoot, all_with_capability, roots_of

if TYPE_CHECKING:
    from gitsession.formats import Format


def find_all(
    home: Path, environment: Mapping[str, str], *, agent: str | None = None, unreadable: bool = False
) -> Iterator[tuple[Path, Format]]:
    """Yield every session file in the agents' own folders.

    ``environment``: the environment variables, which can set other folders for agents. ``agent``: the name of the only
    agent whose files are yielded. ``unreadable``: whether to also yield paths that cannot be read, so that the import
    reports them. Such a path is a folder without read permission, or has the name of a session file but is not a file
    (a folder, a pipe, a broken link).
    """
    found = find_paths(home, environment, agent=agent, unreadable=unreadable)
    return ((Path(path), format) for path, format in found)


def find_paths(
    home: Path, environment: Mapping[str, str], *, agent: str | None = None, unreadable: bool = False
) -> Iterator[tuple[str, Format]]:
    """Yield the same files as ``find_all``, with their paths as strings, which takes a third of the time."""
    for name in FORMATS if agent is None else FORMATS.keys() & {agent}:
        format = FORMATS[name]
        bases = [(root, base_of(root, home, environment)) for root in roots_of(format)]
        if unreadable:
            closed = dict.fromkeys(folder for root, base in bases for folder in _unreadable_folders(base, root.pattern))
            yield from ((os.fspath(folder), format) for folder in closed)
        for root, base in bases:
            for path in _matches(os.fspath(base), root.pattern.split("/")):
                if unreadable or os.path.isfile(path):
                    yield path, format


def paths_in(root: SearchRoot, home: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths that match the glob of ``root``, whether or not they are files."""
    return _matches(os.fspath(base_of(root, home, environment)), root.pattern.split("/"))


def _matches(folder: str, pattern: Sequence[str]) -> Iterator[str]:
    """Yield the paths below ``folder`` that match ``pattern``, the parts of a glob. They are sorted by their parts.

    The part ``**``, before a part with a wildcard, stands for any number of folders. Symbolic links to folders are not
    followed there, so that the search ends.
    """
    is_deep = pattern[0] == "**"
    part, *rest = pattern[is_deep:]
    if not glob.has_magic(part):
        path = os.path.join(folder, part)
        yield from _matches(path, rest) if rest else [path] if os.path.lexists(path) else []
        return
    is_match = re.compile(translate(part)).match
    for entry in _entries(folder):
        if is_match(entry.name):
            yield from [entry.path] if not rest else _matches(entry.path, rest)
        if is_deep and entry.is_dir(follow_symlinks=False):
            yield from _matches(entry.path, pattern)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []  # no such folder, or one that cannot be read (``_unreadable_folders``)


def _unreadable_folders(base: Path, pattern: str) -> Iterator[Path]:
    """Yield the folders that a search for ``pattern`` below ``base`` must list but cannot list.

    A glob skips such folders silently.
    """
    parents = [parent.as_posix() for parent in reversed(Path(pattern).parents)]
    for folders in ([base], *(sorted(base.glob(parent)) for parent in parents if parent != ".")):
        yield from (folder for folder in folders if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK))


def base_of(root: SearchRoot, home: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder to which the glob ``root.pattern`` is relative."""
    custom = environment.get(root.variable) if root.variable else None
    return Path(custom).expanduser() if custom else home / root.home


def in_projects(folders: Iterable[Path], *, unreadable: bool = False) -> Iterator[tuple[Path, Format]]:
    """Yield the session files that agents store in the top folders of the projects that contain ``folders``.

    ``unreadable``: whether to also yield paths that have the name of a session file but are not files.
    """
    from gitsession.formats import InProject  # commands that only look for a project do not need it

    tops = dict.fromkeys(found for folder in folders if (found := _find_top_folder(folder)) is not None)
    for format in all_with_capability(InProject).values():
        files = (folder / format.IN_PROJECT for folder in tops)
        yield from ((path, format) for path in files if path.is_file() or (unreadable and os.path.lexists(path)))


def _find_top_folder(folder: Path) -> Path | None:
    """Return the top folder of the project that contains ``folder``, or ``None`` if ``folder`` is not a valid path.

    ``folder`` may not be valid, because the folder in a session's header can be any string.
    """
    try:
        return top_folder(folder)
    except (OSError, ValueError):
        return None


def top_folder(folder: Path) -> Path:
    """Return the top folder of the repository that contains ``folder``, or ``folder`` if there is no repository.

    git is not run. Raises ``OSError`` or ``ValueError`` if ``folder`` is not a valid path.
    """
    folder = folder.absolute()
    # The parents are tested one by one, because the folder in a session's header can have fifty thousand parents.
    return next((parent for parent in chain([folder], folder.parents) if (parent / ".git").exists()), folder)


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files in ``paths``.

    For each folder in ``paths``, yield the files below it that have the name of a session file.
    """
    for path in paths:
        if path.is_dir():
            patterns = {pattern for format in FORMATS.values() for pattern in format.FILES}
            found = (file for file in path.rglob("*") if any(fnmatchcase(file.name, pattern) for pattern in patterns))
            yield from sorted(file for file in found if file.is_file())
        else:
            yield path


def files_with_id(path: Path, id: str) -> list[Path]:
    """Return the session files beside ``path`` whose names end in ``id``.

    If ``path`` is in a folder for a day (``2026/11/22``), the folders of all days are searched.
    """
    root = path.absolute().parent
    while root.name.isdecimal() and len(root.name) in (2, 4):
        root = root.parent
    days = "*/*/*/" if path.absolute().parent != root else ""
    return sorted(file for file in root.glob(f"{days}*{glob.escape(id)}.jsonl") if file.is_file())
