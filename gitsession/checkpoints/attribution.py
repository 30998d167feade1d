"""Attribution of changes by the rules of docs/explanation/checkpoints.md, in pure functions.

A rewind may revert the changes that are attributed to the session. So a change is not attributed to the session if it
is doubtful who made the change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from gitsession.dataclass import dataclass
from gitsession.model.entries import Checkpoint
from gitsession.workspace.trees import State

BEFORE, AFTER, REWIND = "before", "after", "rewind"
"""The phases of a checkpoint."""

WORKSPACE, EDITED = "workspace", "edited"
"""The modes of a checkpoint."""


@dataclass(frozen=True, slots=True)
class CheckpointStep:
    """One checkpoint, and the paths that differ from the previous checkpoint, each with its old and new state."""

    entry: Checkpoint
    changes: Mapping[str, tuple[State, State]]


@dataclass(frozen=True, slots=True)
class PathAttribution:
    """One change to one path. ``is_by_session``: True if the change is attributed to the session.

    ``since_ms`` and ``at_ms`` are the times of the checkpoints before and after the change, as Unix times in ms.
    """

    was: State
    now: State
    is_by_session: bool
    since_ms: int = field(default=0, compare=False)
    at_ms: int = field(default=0, compare=False)


def touches(steps: Sequence[CheckpointStep], since: int) -> dict[str, list[PathAttribution]]:
    """Return the paths that the session changed after a step, each with all changes to the path after that step.

    The changes to a path are in chronological order and include changes that the session did not make.

    ``since``: the index of that step; -1 for the changes in all steps.
    """
    found: dict[str, list[PathAttribution]] = {}
    for index, (step, by_session) in enumerate(zip(steps, attributed(steps), strict=True)):
        if index > since:
            before_ms = steps[index - 1].entry.at_ms if index else 0
            for path, (old, new) in step.changes.items():
                found.setdefault(path, []).append(
                    PathAttribution(old, new, path in by_session, before_ms, step.entry.at_ms)
                )
    return {path: changes for path, changes in found.items() if any(change.is_by_session for change in changes)}


def attributed(steps: Sequence[CheckpointStep]) -> Iterator[frozenset[str]]:
    """Yield, for each step, the paths that the session changed."""
    covered: set[str] = set()  # the paths that earlier checkpoints covered, whether or not the paths existed
    covers_all = False
    before: Checkpoint | None = None
    for step in steps:
        entry = step.entry
        if before is not None and before.workspace != entry.workspace:
            covered, covers_all, before = set(), False, None
        if before is None or entry.phase not in (AFTER, REWIND):
            yield frozenset()
        else:
            left_out = {path for path, _ in before.skipped}
            is_narrower = entry.mode == WORKSPACE and before.mode != WORKSPACE  # ``before`` covers only some paths
            yield frozenset(
                path
                for path, (old, _) in step.changes.items()
                if path not in entry.appeared
                and not _is_within(path, left_out)
                and (old is not None or covers_all or path in covered)
                and (not is_narrower or path in before.paths)
            )
        covers_all = covers_all or entry.mode == WORKSPACE
        covered |= {*entry.paths, *step.changes}
        before = entry


def _is_within(path: str, folders: set[str]) -> bool:
    """Return whether ``path`` is one of ``folders`` or below one of them."""
    if not folders:
        return False
    while path not in folders:
        path, slash, _ = path.rpartition("/")
        if not slash:
            return False
    return True
