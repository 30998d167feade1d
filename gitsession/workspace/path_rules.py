"""Rules that reject paths before a write, by name, mode, link target, limit and collision. No file is read."""

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
"""Maximum size in bytes of a link's target. No supported system follows a link with a longer target."""


class PlannedChange(NamedTuple):
    """One change to one path, from its ``expected`` state to its ``new`` state."""

    path: str
    expected: State
    new: State


class NameFolding(NamedTuple):
    """The differences between two names that a file system ignores."""

    case: bool
    form: bool
    """True if the file system treats composed and decomposed letters as equal."""

    def key(self, path: str) -> str:
        if path.isascii():
            return path.lower() if self.case else path
        path = unicodedata.normalize("NFC", path) if self.form else path
        path = path.casefold() if self.case else path
        return unicodedata.normalize("NFC", path) if self.form else path


def refusals(changes: Sequence[PlannedChange]) -> dict[str, str]:
    """Return the paths that must not be written, each with the reason."""
    if len(changes) > CHANGES_MAX:
        return dict.fromkeys((change.path for change in changes), f"more than {CHANGES_MAX:,} paths in one operation")
    found: dict[str, str] = {}
    seen: set[str] = set()
    for change in changes:
        reason = names.path_refusal(change.path)
        if not reason and change.new is not None and change.new.mode not in (*FILE_MODES, SUBMODULE_MODE):
            reason = f"unsupported file mode: {change.new.mode[:8]}"
        if not reason and change.path in seen:
            reason = "listed twice in the checkpoint"
        seen.add(change.path)
        if reason:
            found[change.path] = reason
    written = {change.path for change in changes if change.new is not None} - found.keys()
    for path in written:
        for folder in folders_of(path):
            if folder in written:
                found.setdefault(folder, "both a file and a folder")
                found.setdefault(path, "both a file and a folder")
    return found


def collisions(changes: Sequence[PlannedChange], folds: NameFolding) -> dict[str, str]:
    """Return the written paths that a file system with ``folds`` does not distinguish from another path of ``changes``.

    Each is returned with the reason. Paths below such a path are included.
    """
    spelled: dict[str, set[str]] = defaultdict(set)
    files: set[str] = set()
    written = [change.path for change in changes if change.new is not None]
    for path in written:
        files.add(folds.key(path))
        for at in (path, *folders_of(path)):
            spelled[folds.key(at)].add(at)
    colliding = {key for key in files if len(spelled[key]) > 1}
    return {
        path: "this file system does not distinguish it from another path"
        for path in written
        if any(folds.key(at) in colliding for at in (path, *folders_of(path)))
    }


def target_refusal(path: str, target: bytes) -> str | None:
    """Return the reason why a link at ``path`` is not created. A link must stay inside the workspace.

    ``..`` is allowed only at the start of the target. After the name of a folder, ``..`` could lead out of the
    workspace, because that folder may itself be a link.
    """
    if not target:
        return "a link with an empty target"
    if b"\0" in target or len(target) > TARGET_BYTES_MAX:
        return "a link with an invalid target"
    if target.startswith(b"/"):
        return "a link to an absolute path"
    steps = [step for step in target.split(b"/") if step not in (b"", b".")]
    up = next((at for at, step in enumerate(steps) if step != b".."), len(steps))
    if up > path.count("/") or b".." in steps[up:]:
        return "a link that leads out of the workspace"
    if any(names.refusal(step) for step in steps[up:]):
        return "a link to a git directory, or to a name that is not allowed"
    return None


def folders_of(path: str) -> list[str]:
    """Return the folders above ``path`` in a tree, the nearest first."""
    found = []
    while "/" in path:
        path = path.rpartition("/")[0]
        found.append(path)
    return found
