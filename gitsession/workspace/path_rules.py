"""What is never written, judged by what a checkpoint says alone: names, modes, links, bounds, and what collides."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from gitsession.git.objects import FILE_MODES, SUBMODULE_MODE
from gitsession.workspace import names
from gitsession.workspace.trees import State

CHANGES_MAX = 100_000
TARGET_BYTES_MAX = 4095
"""Of a link; no system follows a longer one."""



class PlannedChange(NamedTuple):
    """What to do at one path: it is ``expected`` now, and is to be ``new``."""

    path: str
    expected: State
    new: State


class NameFolding(NamedTuple):
    """Which names a file system takes for one and the same."""

    case: bool
    form: bool
    """Composed and decomposed letters."""

    def key(self, path: str) -> str:
        path = unicodedata.normalize("NFC", path) if self.form else path
        path = path.casefold() if self.case else path
        return unicodedata.normalize("NFC", path) if self.form else path


def refusals(changes: Sequence[PlannedChange]) -> dict[str, str]:
    """The paths that are never written, each with the reason in plain words."""
    if len(changes) > CHANGES_MAX:
        return dict.fromkeys((change.path for change in changes), f"one of more than {CHANGES_MAX:,} paths at once")
    found: dict[str, str] = {}
    seen: set[str] = set()
    for change in changes:
        reason = names.path_refusal(change.path)
        if not reason and change.new is not None and change.new.mode not in (*FILE_MODES, SUBMODULE_MODE):
            reason = f"a mode that no file of ours has: {change.new.mode[:8]}"
        if not reason and change.path in seen:
            reason = "twice in one checkpoint"
        seen.add(change.path)
        if reason:
            found[change.path] = reason
    there = {change.path for change in changes if change.new is not None} - found.keys()
    for path in there:
        for above in folders_of(path):
            if above in there:
                found.setdefault(above, "both a file and a folder")
                found.setdefault(path, "both a file and a folder")
    return found


def collisions(changes: Sequence[PlannedChange], folds: NameFolding) -> dict[str, str]:
    """The paths of which a file system that folds names keeps only one, and those below a file of such a name."""
    spelled: dict[str, set[str]] = defaultdict(set)
    files: set[str] = set()
    there = [change.path for change in changes if change.new is not None]
    for path in there:
        files.add(folds.key(path))
        for at in (path, *folders_of(path)):
            spelled[folds.key(at)].add(at)
    lost = {key for key in files if len(spelled[key]) > 1}
    return {
        path: "another path differs only in ways that this disk does not tell apart"
        for path in there
        if any(folds.key(at) in lost for at in (path, *folders_of(path)))
    }


def target_refusal(path: str, target: bytes) -> str | None:
    """Why a link at ``path`` is not made: it must stay inside, whatever it goes through.

    ``..`` only at its start: after a name, that could be a link of its own, it leads nobody knows where.
    """
    if not target:
        return "a link to nothing"
    if b"\0" in target or len(target) > TARGET_BYTES_MAX:
        return "a link that no system would follow"
    if target.startswith(b"/"):
        return "a link to an absolute path"
    steps = [step for step in target.split(b"/") if step not in (b"", b".")]
    up = next((at for at, step in enumerate(steps) if step != b".."), len(steps))
    if up > path.count("/") or b".." in steps[up:]:
        return "a link that leads out of the workspace"
    if any(names.refusal(step) for step in steps[up:]):
        return "a link into git's own folder, or to a name that is refused"
    return None


def folders_of(path: str) -> list[str]:
    """The folders above ``path`` in a tree, the nearest first."""
    found = []
    while "/" in path:
        path = path.rpartition("/")[0]
        found.append(path)
    return found
