"""The mark of the last clean check: what there was, so that the next check need only look at what is new.

It names refs with what they held, packs by what tells one file from another, and loose objects. It is written only
after all of it was found good, and whatever does not fit it is a doubt: then everything is checked.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from gitsession.durable import replace
from gitsession.git import pack_reader as packs
from gitsession.git.repository import VerifiedRepository
from gitsession.store import create

FILE = f"{create.CONTROL}/verified"
VERSION = 1


@dataclass(frozen=True, slots=True)
class VerifiedState:
    """``packs``: size, time of change in ns and inode of each pack and index, by name. ``loose``: oids."""

    refs: dict[str, str]
    packs: dict[str, list[int]]
    loose: list[str]

    def covers(self, now: VerifiedState) -> bool:
        """Whether all that it names is still there as it was; refs may have moved."""
        return all(now.packs.get(name) == seen for name, seen in self.packs.items())

    def new_packs(self, now: VerifiedState) -> list[str]:
        """The packs and indexes in ``now`` that it does not name."""
        return sorted(now.packs.keys() - self.packs.keys())

    def new_loose(self, now: VerifiedState) -> list[str]:
        return sorted(set(now.loose) - set(self.loose))


def present(git_dir: Path, refs: dict[str, str]) -> VerifiedState:
    """What there is now; ``refs``: what they hold."""
    found = packs.files(f"{git_dir}/objects/pack")
    return VerifiedState(
        refs, {name: list(identity) for name, identity in found.items()}, list(VerifiedRepository(git_dir).loose())
    )


def read(git_dir: Path) -> VerifiedState | None:
    """The mark; ``None`` where there is none that can be read."""
    try:
        value = json.loads((git_dir / FILE).read_bytes())
        if value.pop("version") == VERSION:
            return VerifiedState(dict(value["refs"]), dict(value["packs"]), list(value["loose"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def write(git_dir: Path, mark: VerifiedState) -> None:
    """Keep ``mark``. Raises ``OSError``."""
    data = json.dumps({"version": VERSION, **asdict(mark)}).encode()
    replace(git_dir / FILE, data, by=git_dir / f"{FILE}.{os.getpid()}.tmp")


def forget(git_dir: Path, ref: str) -> None:
    """Take out of the mark a ref that went on purpose. Raises ``OSError``."""
    mark = read(git_dir)
    if mark is not None and mark.refs.pop(ref, None) is not None:
        write(git_dir, mark)
