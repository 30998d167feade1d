"""Selection of the sessions of a folder: those that began in the folder or above it, and those of the same project.

This module imports only the standard library, because ``gitsession ls`` must start fast.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

_TEMPORARY = ("/tmp", "/private/tmp", "/var/tmp", "/private/var/tmp")


class LocatedSession(Protocol):
    """The folder and the project of a session."""

    @property
    def sid(self) -> str: ...
    @property
    def project(self) -> str | None: ...
    @property
    def identity(self) -> str | None: ...


H = TypeVar("H", bound=LocatedSession)


class CurrentFolder(NamedTuple):
    """The folder ``cwd`` on this machine.

    ``shared_folders``: folders that contain unrelated projects. A session that began in such a folder does not belong
    to the folders below it. ``identity``: a function that runs git and returns the project of ``cwd``.
    """

    cwd: str
    shared_folders: frozenset[str] = frozenset()
    identity: Callable[[], str | None] = lambda: None


def shared_folders(home: str, environment: Mapping[str, str]) -> frozenset[str]:
    """Return the root directory, the home directory, and the folders for temporary files."""
    named = (environment.get(name, "") for name in ("TMPDIR", "TMP", "TEMP"))
    return frozenset(path.rstrip("/") for path in ("/", home, *_TEMPORARY, *named))


def is_at_or_above(folder: str | None, here: CurrentFolder) -> bool:
    """Return whether ``folder`` is the current folder, or a folder above it that is not shared."""
    if not folder or not here.cwd:
        return False
    return here.cwd == folder or (_is_in(here.cwd, folder) and folder.rstrip("/") not in here.shared_folders)


def of_folder(rows: Sequence[H], here: CurrentFolder) -> list[H]:
    """Return the sessions of a folder (see ``nearest``) in the order of ``rows``."""
    found = {row.sid for row in nearest(rows, here)}
    return [row for row in rows if row.sid in found]


def is_of(row: LocatedSession, project: str, identity: str | None = None) -> bool:
    """Return whether a session belongs to ``project``.

    ``project``: a folder, the name of a project, or "". The sessions of a folder include those that began below the
    folder. All sessions belong to "". ``identity``: if ``project`` is a folder, the identity of its project. All
    sessions with this identity belong to the folder.
    """
    if not project or (row.identity is not None and row.identity in (identity, f"remote:{project}", project)):
        return True
    return _is_in(row.project or "", os.path.abspath(project))


def nearest(rows: Sequence[H], here: CurrentFolder) -> Iterator[H]:
    """Yield the sessions of the current folder in groups, each in the order of ``rows``.

    1. The sessions that began in the folder, or above it in the same repository. Without a repository, all folders
       above it count.
    2. The other sessions of the same project, for example from another worktree.
    3. The sessions that began in folders above the repository.

    Git runs only when the caller requests more sessions than the first group contains.
    """
    top = _top(here.cwd)
    is_containing = functools.cache(lambda folder: is_at_or_above(folder, here))  # many sessions have the same folder
    containing = [row for row in rows if is_containing(row.project)]
    inside = [row for row in containing if top is None or _is_in(row.project or "", top)]
    yield from inside
    project = here.identity() if any(row.identity for row in rows) else None
    of_project = [row for row in rows if project is not None and row.identity == project]
    yielded = {row.sid for row in inside}
    for row in (*of_project, *containing):
        if row.sid not in yielded:
            yielded.add(row.sid)
            yield row


def _top(folder: str) -> str | None:
    """Return the top of the repository that contains a folder; ``None`` if there is none. Git is not run."""
    while not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return folder


def _is_in(folder: str, above: str) -> bool:
    return f"{folder}/".startswith(f"{above.rstrip('/')}/")
