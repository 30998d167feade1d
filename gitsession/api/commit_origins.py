"""The sessions that wrote the lines of a commit in a code repository."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gitsession.discovery import projects
from gitsession.discovery.file_history import FileHistory, LineOrigin, TrackedFile
from gitsession.index.catalogue import Catalogue
from gitsession.store.interface import ObjectStore
from gitsession.sync.code_commits import CodeCommit, added_lines, changed_files


class FileOrigins(NamedTuple):
    """The origins of the lines that a commit adds to a file.

    Attributes:
        path: The path of the file, relative to the top folder of the repository.
        added: The number of added lines; ``None`` for a binary or very large file.
        lines: The number of added lines of each entry that wrote some of them.
        touched: The ids of the sessions that changed the file since the commit before.
    """

    path: str
    added: int | None
    lines: Mapping[LineOrigin, int]
    touched: frozenset[str]


def commit_origins(catalogue: Catalogue, objects: ObjectStore, commit: CodeCommit) -> list[FileOrigins]:
    """Return the origins of the lines that a commit adds to each file. Later entries are ignored.

    Args:
        catalogue: The up-to-date catalog of the store.
        objects: The store.
        commit: The commit.
    """
    history, identity = FileHistory(catalogue, objects), projects.identity_of(Path(commit.top))
    until_ms = commit.at_ms + 999  # git stores whole seconds
    found = []
    for changed in changed_files(commit):
        file = TrackedFile(os.path.join(commit.top, changed.path), changed.path, identity)
        lines: Counter[LineOrigin] = Counter()
        if history.is_known(file):  # reading all files of a large commit would take long
            text, numbers = added_lines(commit, changed)
            origins = history.blame(file, text, until_ms) if numbers else []
            lines.update(origin for number in numbers if (origin := origins[number - 1]) is not None)
        touched = history.sessions_that_changed(file, commit.parent_ms, until_ms) | {origin.sid for origin in lines}
        found.append(FileOrigins(changed.path, changed.added, lines, frozenset(touched)))
    return found
