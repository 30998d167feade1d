"""What was about to be pushed: noted before git begins, forgotten when the remote has said what it has.

A push that is killed after the server took it looks unpublished here. Until the next fetch what was about to be pushed
counts as published.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gitsession.durable import make_directories, replace
from gitsession.git.types import Oid
from gitsession.store import create

PLACE = f"{create.CONTROL}/push"


def note(git_dir: Path, remote: str, refs: Mapping[str, Oid]) -> None:
    """Remember ``refs``, beside those that are noted already. Durable when this returns. Raises ``OSError``."""
    make_directories(git_dir / PLACE)
    held = _read(_file(git_dir, remote))
    for name, oid in refs.items():
        held[name] = [*dict.fromkeys([*held.get(name, []), oid])]
    _write(git_dir, remote, held)


def forget(git_dir: Path, remote: str, refs: Iterable[str] | None = None) -> None:
    """Of ``refs``, or of all, the tracking refs say what the remote has. Raises ``OSError``."""
    held = _read(_file(git_dir, remote))
    known = held.keys() if refs is None else set(refs)
    left = {name: oids for name, oids in held.items() if name not in known}
    if left:
        _write(git_dir, remote, left)
    else:
        _file(git_dir, remote).unlink(missing_ok=True)


def noted(git_dir: Path) -> Iterator[tuple[str, str, Oid]]:
    """Remote, ref and value of all that may have been pushed."""
    with contextlib.suppress(OSError):
        for file in sorted((git_dir / PLACE).glob("*.json")):
            for name, oids in _read(file).items():
                yield from ((file.stem, name, oid) for oid in oids)


def _file(git_dir: Path, remote: str) -> Path:
    return git_dir / PLACE / f"{remote}.json"


def _write(git_dir: Path, remote: str, held: Mapping[str, list[Oid]]) -> None:
    file = _file(git_dir, remote)
    replace(file, json.dumps({"version": 1, "refs": held}).encode(), by=file.with_suffix(".tmp"))


def _read(file: Path) -> dict[str, list[Oid]]:
    try:
        found = json.loads(file.read_bytes())["refs"]
        return {str(name): [str(oid) for oid in oids] for name, oids in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
