"""What others may have of our refs: what a remote was last seen to hold, and what was about to be pushed to it.

What was published never goes back and never goes away: the next fetch would bring it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from gitsession.errors import GitSessionError
from gitsession.git.types import Oid, RefValue
from gitsession.store import histories, push_intents, refs
from gitsession.store.histories import Read

_HEADS = "refs/heads/"


def holder(git_dir: Path, read: Read, tracking: Mapping[str, RefValue], ref: str, new: RefValue | None) -> str | None:
    """The remote that may have more of ``ref`` than it has at ``new`` (``None``: if it is gone).

    ``tracking``: the tracking refs of all remotes.
    """
    for remote, held in seen(git_dir, tracking, ref):
        try:
            if new is None or not histories.holds(read, new, held):
                return remote
        except GitSessionError:
            return remote  # in doubt it is published
    return None


def seen(git_dir: Path, tracking: Mapping[str, RefValue], ref: str) -> Iterator[tuple[str, Oid]]:
    """What remotes were last seen to hold at ``ref``, and what was about to be pushed there."""
    for name, held in tracking.items():
        remote, _, branch = name.removeprefix(refs.TRACKING).partition("/")
        if _HEADS + branch == ref:
            yield remote, held
    yield from ((remote, oid) for remote, noted, oid in push_intents.noted(git_dir) if noted == ref)
