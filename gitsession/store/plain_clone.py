"""Clones of a store that plain git made, and the refspecs of remotes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from gitsession.durable import write_new
from gitsession.git import config
from gitsession.store import create, refs

STORE_PREFIXES = tuple((place, place) for place in (refs.STORE_BRANCHES, refs.SESSIONS, create.MAIN))
"""The refs that stores exchange: pairs of a local prefix and the prefix at the remote."""


def set_up(git_dir: Path) -> bool:
    """Make a store of a clone that `git clone` made of one, as `gitsession clone` does. Return whether it was changed.

    The configuration is completed (``config.complete_clone``). Only the owner can read the store, unless the clone was
    made to be shared with a group.
    """
    if not config.complete_clone(git_dir, refspecs):
        return False
    with suppress(OSError):  # `gitsession doctor` reports the mode
        if not config.value_of(git_dir, "core.sharedRepository"):
            git_dir.chmod(0o700)
        write_new(git_dir / create.ATTRIBUTES, create.ATTRIBUTES_TEXT)
    return True


def refspecs(remote: str) -> dict[str, list[str]]:
    """Return the values of ``fetch`` and ``push`` for a remote that is a store."""
    return {"fetch": [f"+refs/heads/*:refs/remotes/{remote}/*"], "push": push_refspecs(STORE_PREFIXES)}


def push_refspecs(prefixes: Iterable[tuple[str, str]]) -> list[str]:
    """Return the refspecs that push the refs with these local prefixes to those with these prefixes at the remote."""
    stars = ((near, far, "*" if near.endswith("/") else "") for near, far in prefixes)
    return [f"{near}{star}:{far}{star}" for near, far, star in stars]
