"""Published values of local refs: values that a remote had when last contacted, or that were about to be pushed to it.

A published ref is never moved back or deleted, because the next fetch would restore it. A value about to be pushed is
noted before git begins the push, and the note is removed when the remote has reported the values of its refs. If a push
is killed after the server accepted it, the remote-tracking ref does not have the new value. Because of the note, the
value counts as published until the next fetch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gitsession.durable import make_directories, replace
from gitsession.errors import GitSessionError
from gitsession.git.types import Oid, RefValue
from gitsession.store import create, histories, refs
from gitsession.store.histories import Read

FOLDER = f"{create.CONTROL}/push"

_HEADS = "refs/heads/"


def find_remote(
    git_dir: Path, read: Read, tracking: Mapping[str, RefValue], ref: str, new: RefValue | None
) -> str | None:
    """Return a remote that may have commits of ``ref`` that are not in ``new``; ``None`` if there is no such remote.

    ``new``: the new value of ``ref``; ``None`` for a deletion. ``tracking``: the remote-tracking refs of all remotes.
    """
    for remote, value in list_values(git_dir, tracking, ref):
        try:
            if new is None or not histories.holds(read, new, value):
                return remote
        except GitSessionError:
            return remote  # the history cannot be read: assume that the value is published
    return None


def list_values(git_dir: Path, tracking: Mapping[str, RefValue], ref: str) -> Iterator[tuple[str, Oid]]:
    """Yield each remote with a value of ``ref``: its last known value, or a value that a push was about to give it."""
    for name, value in tracking.items():
        remote, _, branch = name.removeprefix(refs.TRACKING).partition("/")
        if _HEADS + branch == ref:
            yield remote, value
    yield from ((remote, oid) for remote, name, oid in list_records(git_dir) if name == ref)


def record(git_dir: Path, remote: str, values: Mapping[str, Oid]) -> None:
    """Record that ``values`` are about to be pushed; keep earlier records.

    The record is durable on return. Raises ``OSError``.
    """
    make_directories(git_dir / FOLDER)
    recorded = _read(_file(git_dir, remote))
    for name, oid in values.items():
        recorded[name] = [*dict.fromkeys([*recorded.get(name, []), oid])]
    _write(git_dir, remote, recorded)


def forget(git_dir: Path, remote: str, names: Iterable[str] | None = None) -> None:
    """Remove the records of the refs ``names``, or of all refs. Call this after the remote-tracking refs were updated.

    Raises ``OSError``.
    """
    recorded = _read(_file(git_dir, remote))
    known = recorded.keys() if names is None else set(names)
    left = {name: oids for name, oids in recorded.items() if name not in known}
    if left:
        _write(git_dir, remote, left)
    else:
        _file(git_dir, remote).unlink(missing_ok=True)


def list_records(git_dir: Path) -> Iterator[tuple[str, str, Oid]]:
    """Yield the remote, ref and value of each push that may have reached the remote."""
    with contextlib.suppress(OSError):
        for file in sorted((git_dir / FOLDER).glob("*.json")):
            for name, oids in _read(file).items():
                yield from ((file.stem, name, oid) for oid in oids)


def _file(git_dir: Path, remote: str) -> Path:
    return git_dir / FOLDER / f"{remote}.json"


def _write(git_dir: Path, remote: str, recorded: Mapping[str, list[Oid]]) -> None:
    import json  # slow to import, and required only after a push

    file = _file(git_dir, remote)
    replace(file, json.dumps({"version": 1, "refs": recorded}).encode(), by=file.with_suffix(".tmp"))


def _read(file: Path) -> dict[str, list[Oid]]:
    import json

    try:
        found = json.loads(file.read_bytes())["refs"]
        return {str(name): [str(oid) for oid in oids] for name, oids in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
