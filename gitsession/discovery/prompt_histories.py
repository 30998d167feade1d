"""Read-only access to the prompt histories of the agents on this machine (``formats.prompt_histories``).

Only the end of a large history is read. A history that cannot be read is reported and left out. A symbolic link, a pipe
or a device is not opened.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.discovery.discover import paths_in, top_folder
from gitsession.discovery.regular_files import opened, require_regular
from gitsession.errors import GitSessionError, Unavailable
from gitsession.formats.base import jsonl
from gitsession.formats.base.jsonl import LineFailure
from gitsession.formats.prompt_histories import (
    AIDER_FILE,
    AIDER_VARIABLE,
    FROM_LINE,
    HISTORY_ROOTS,
    OMP_COLUMNS,
    OMP_TABLE,
    TypedPrompt,
    of_aider,
    of_omp,
)

if TYPE_CHECKING:
    from gitsession.formats.base.format import Row

BYTES_MAX = 16 << 20
"""The number of bytes that are read from the end of a history."""

QUERY_SECONDS_MAX = 5.0

Report = Callable[[str], None]
"""A function that is called with a message for each history that cannot be read, or is damaged."""


def read(
    home: Path, environment: Mapping[str, str], folder: Path, report: Report, *, agent: str = ""
) -> list[Iterator[TypedPrompt]]:
    """Return an iterator over the prompts of each history on this machine, the newest first.

    ``environment``: the environment variables, which can set other folders for agents. ``folder``: the current folder,
    for agents that store the history in the project. ``agent``: the name of the only agent whose prompts are read.
    """
    found = [
        _prompts(name, Path(path), report)
        for name, roots in HISTORY_ROOTS.items()
        if agent in ("", name)
        for root in roots
        for path in paths_in(root, home, environment)
    ]
    if agent in ("", "aider") and (path := _aider_file(environment, folder)) is not None:
        found.append(_prompts("aider", path, report))
    return found


def _aider_file(environment: Mapping[str, str], folder: Path) -> Path | None:
    try:
        custom = environment.get(AIDER_VARIABLE)
        path = Path(custom).expanduser() if custom else top_folder(folder) / AIDER_FILE
    except (OSError, RuntimeError):
        return None  # the current folder was deleted, or the variable names an unknown user
    return path if os.path.lexists(path) else None


def _prompts(agent: str, path: Path, report: Report) -> Iterator[TypedPrompt]:
    """Yield the prompts of one history without commands."""
    try:
        found: Iterable[TypedPrompt]
        if agent == "omp":
            found = _of_database(path)
        elif agent == "aider":
            found = of_aider(_tail(path), os.fspath(path.parent) if path.name == AIDER_FILE else "")
        else:
            found = _of_lines(agent, path, report)
        yield from (prompt for prompt in found if prompt.text.strip() and not prompt.is_command)
    except (GitSessionError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        report(f"cannot read the prompt history '{path}': {reason}")


def _of_lines(agent: str, path: Path, report: Report) -> Iterator[TypedPrompt]:
    def read_beside(name: str) -> str | None:
        with contextlib.suppress(OSError):
            return _tail(path.parent / name).decode("utf-8", "replace")
        return None

    *lines, rest = _tail(path).split(b"\n")
    is_damaged = False
    for line in (rest, *reversed(lines)):
        value = jsonl.parse(line)
        if not isinstance(value, LineFailure):
            yield FROM_LINE[agent](value, read_beside)
        elif value.reason and line is not rest and not is_damaged:  # the agent may be writing the last line
            is_damaged = True
            report(f"a line of the prompt history '{path}' cannot be read: {value.reason}")


def _tail(path: Path) -> bytes:
    """Return the end of a file, without an incomplete line at the start. Raises ``OSError``."""
    with opened(path) as (file, size):
        start = max(size - BYTES_MAX, 0)
        file.seek(start)
        data = file.read(BYTES_MAX)
    return data.partition(b"\n")[2] if start else data


def _of_database(path: Path) -> list[TypedPrompt]:
    """Return the newest prompts in omp's database. Raises the errors of ``rows_of``."""
    found: list[TypedPrompt] = []
    size = 0
    for row in rows_of(path, OMP_TABLE, OMP_COLUMNS, "created_at DESC, id DESC"):
        found.append(of_omp(*row))
        size += len(found[-1].text)
        if size > BYTES_MAX:
            break
    return found


def rows_of(path: Path, table: str, columns: Sequence[str], order: str) -> Iterator[Row]:
    """Yield the rows of a prompt history in a database, with ``NULL`` for the columns that do not exist.

    Raises ``OSError`` if a file of the database is a link or no regular file, ``Unavailable`` if the database is locked
    or the query takes longer than ``QUERY_SECONDS_MAX``, and ``Malformed`` if the database is damaged.
    """
    from gitsession.discovery import databases  # few users have omp
    from gitsession.formats.base.format import column_list

    for name in (path, *(Path(f"{path}{suffix}") for suffix in ("-wal", "-shm", "-journal"))):
        if name == path or os.path.lexists(name):
            require_regular(name, os.lstat(name))
    deadline = time.monotonic() + QUERY_SECONDS_MAX
    with databases.opened(path, (table,)) as database:
        database.db.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
        selected = column_list(columns, database.columns.get(table, ()))
        try:
            yield from database.query(f"SELECT {selected} FROM {table} ORDER BY {order}")
        except GitSessionError:
            if time.monotonic() > deadline:
                raise Unavailable(f"the query took longer than {QUERY_SECONDS_MAX:g} seconds") from None
            raise
