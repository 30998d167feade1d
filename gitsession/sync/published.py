"""What others may have of our refs: what a remote was last seen to hold, and what was about to be pushed to it.

What was published never goes back and never goes away: the next fetch would bring it again.
"""

from __future__ import annotations

from gitsession.errors import GitSessionError
from gitsession.store import lines
from gitsession.store.base import Oid, RefValue
from gitsession.store.gitstore import GitStore
from gitsession.sync import intents, remotes


def holder(store: GitStore, ref: str, new: RefValue | None) -> str | None:
    """The remote that may have more of ``ref`` than it would have at ``new`` (``None``: if it were gone)."""
    for name, held in _seen(store, ref):
        try:
            if new is None or not lines.holds(store.read, new, held):
                return name
        except GitSessionError:
            return name  # in doubt it is published
    return None


def _seen(store: GitStore, ref: str) -> list[tuple[str, Oid]]:
    found = []
    for remote in remotes.listed(store.git_dir):
        held = store.ref(remote.tracking(ref))
        if held is not None:
            found.append((remote.name, held))
    return found + [(name, oid) for name, noted, oid in intents.noted(store.git_dir) if noted == ref]
