"""The paths that may differ from the last snapshot, found with one `git ls-files`.

The user's ignore rules apply. These rules are in the ``.gitignore`` files from the top of the enclosing repository
downward, in that repository's ``info/exclude``, and in the file that ``core.excludesFile`` names. A file in the user's
index or in the last snapshot is captured even if the rules exclude it. A folder that is a separate repository is not
captured. For a submodule, only the checked-out commit is captured.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

from gitsession.workspace import names, user_repository
from gitsession.workspace.private_repository import PrivateRepository, SnapshotState
from gitsession.workspace.read_file import Skipped
from gitsession.workspace.root import WorkspaceRoot
from gitsession.workspace.user_repository import UserRepository

_TAG_OTHER = b"?"
_UNOPENED = re.compile(rb"^warning: could not open directory '(.*)': [^\n]*$", re.MULTILINE)
_GLOB = re.compile(r"([\\*?\[ #!])")


class ChangedPaths(NamedTuple):
    """The paths that git listed, before any file is read.

    ``differing``: the paths that may differ from the last snapshot. The value of a path is True if the path is in that
    snapshot.
    """

    differing: dict[bytes, bool]
    skipped: list[Skipped]
    state: SnapshotState
    """The state of the last snapshot, updated with the current ignore rules and the user's current index."""
    took_ms: int
    rules_differ: bool
    """True if ignore rules in files outside the workspace have changed since the last snapshot."""


def find(private: PrivateRepository, root: WorkspaceRoot) -> ChangedPaths:
    """Return the paths to read. Raises ``Unavailable``."""
    at = str(root.path)
    state = _current_state(private, user_repository.find(at), at)
    began_ns = private.now_ns()
    top = state.beside.top
    rules = ["-c", f"core.excludesFile={user_repository.check(state.excludes)}"]
    patterns = [_exclude_store_option(root.store, os.path.relpath(at, top))] if root.store else []
    state, freed = _with_users_index(state, private, at, rules)
    began = time.monotonic()
    arguments = ("ls-files", "-t", "-z", "-m", "-d", "-o", "--exclude-standard", *patterns)
    output = private.git(top, at, *rules, *arguments)
    took_ms = int((time.monotonic() - began) * 1000)
    differing: dict[bytes, bool] = {}
    skipped: list[Skipped] = []
    submodules = {os.fsencode(path) for path in state.submodules}
    folders: dict[bytes, bool] = {b"": False}
    for row in output.out.split(b"\0"):
        raw = row[2:]
        if raw.endswith(b"/"):
            raw = raw[:-1]
            if raw not in submodules:
                skipped.append(Skipped(names.escape_path(raw), "a repository of its own"))
                continue
        is_new = row[:1] == _TAG_OTHER
        if is_new and state.look and _is_in_repository(os.path.dirname(raw), os.fsencode(at), folders):
            continue  # git lists a folder with files of the last snapshot even if it has become a repository
        if raw and not (submodules and _is_below(raw, submodules)):
            differing[raw] = not is_new
    for path in state.absent:
        if os.path.lexists(f"{at}/{path}"):
            differing.setdefault(os.fsencode(path), False)
    differing |= dict.fromkeys(freed, True)
    skipped += _unreadable_folders(output.warnings, os.fsencode(os.path.relpath(at, top)))
    outside = user_repository.rules(state.beside, at, state.excludes)
    differ = bool(private.state.look) and outside != private.state.rules
    return ChangedPaths(differing, skipped, state._replace(at_ns=began_ns, rules=outside), took_ms, differ)


def _is_in_repository(folder: bytes, at: bytes, known: dict[bytes, bool]) -> bool:
    """Return whether a folder of the workspace is in a separate repository. ``known``: the cached results."""
    if folder not in known:
        git_dir = os.path.join(at, folder, b".git")
        known[folder] = os.path.exists(os.path.join(git_dir, b"HEAD")) or os.path.isfile(git_dir)
        known[folder] = known[folder] or _is_in_repository(os.path.dirname(folder), at, known)
    return known[folder]


def _current_state(private: PrivateRepository, found: UserRepository, at: str) -> SnapshotState:
    """Return the state with the current ignore rules. If the enclosing repository has changed, the state is empty."""
    state = private.state
    if state.apart and found.top != at:
        found = UserRepository(at)
    if state.look and state.beside != found:
        private.forget()
        state = private.state
    if not state.look or state.stamps != user_repository.stamps(found):
        state = _with_rules(state, private, found)
    if not state.look and found.top != at:
        rules = ("-c", f"core.excludesFile={state.excludes}")
        if private.git(found.top, found.top, *rules, "check-ignore", "-q", at, accept=(0, 1)).code == 0:
            state = _with_rules(state._replace(apart=True), private, UserRepository(at))
    return state


def _with_rules(state: SnapshotState, private: PrivateRepository, repository: UserRepository) -> SnapshotState:
    """Return the state with the ignore rules of ``repository``. Pass git those in ``info/exclude``."""
    stamps = user_repository.stamps(repository)  # before the files are read, so that a later change is noticed
    excludes = user_repository.excludes_file(repository)
    private.exclude(user_repository.exclude_text(repository))
    return state._replace(beside=repository, stamps=stamps, excludes=excludes)


def _with_users_index(
    state: SnapshotState, private: PrivateRepository, at: str, rules: list[str]
) -> tuple[SnapshotState, list[bytes]]:
    """Return the state updated with the user's index, and the paths of submodules that are no longer in that index."""
    repository = state.beside
    stamp = user_repository.stamp(repository.index_file) if repository.git_dir else None
    if state.look and stamp == state.users_index:
        return state, []
    files, tracked_submodules = user_repository.tracked(repository, at)
    ignored = _ignored_paths(files, private, repository.top, at, rules) if files else []
    wanted = [*ignored, *tracked_submodules]
    known: set[bytes] = set()
    if state.look and wanted:
        known = set(private.git(repository.top, at, "ls-files", "-z").out.split(b"\0"))
    submodules = {os.fsdecode(path): oid for path, oid in tracked_submodules.items()}
    updated = state._replace(
        users_index=stamp,
        tracked=sorted(map(os.fsdecode, ignored)),
        submodules=submodules,
        absent=sorted(os.fsdecode(path) for path in wanted if path not in known),
    )
    freed = state.submodules.keys() - submodules.keys() - set(state.absent)
    return updated, [os.fsencode(path) for path in freed]


def _ignored_paths(
    paths: Sequence[bytes], private: PrivateRepository, top: str, at: str, rules: list[str]
) -> list[bytes]:
    """Return the paths in ``paths`` that the ignore rules exclude.

    git rejects a path with a symbolic link in place of a folder, so such paths are left out. No such file is in the
    workspace.
    """
    base = os.fsencode(at)
    folders: dict[bytes, bool] = {b"": True}

    def is_plain(folder: bytes) -> bool:
        if folder not in folders:
            folders[folder] = is_plain(os.path.dirname(folder)) and not os.path.islink(base + b"/" + folder)
        return folders[folder]

    requests = b"".join(b"./%b\0" % path for path in paths if is_plain(os.path.dirname(path)))  # ./ prevents ":(magic)"
    output = private.git(top, at, *rules, "check-ignore", "-z", "--no-index", "--stdin", stdin=requests, accept=(0, 1))
    return [path[2:] for path in output.out.split(b"\0")[:-1]]


def _exclude_store_option(store: str, at: str) -> str:
    """Return a git option that excludes the path of the store. No ``.gitignore`` file can override the option."""
    path = os.path.normpath(os.path.join(at, os.fsdecode(names.unescape_path(store))))
    return "--exclude=/" + _GLOB.sub(r"\\\1", path)


def _is_below(raw: bytes, folders: Collection[bytes]) -> bool:
    at = raw.find(b"/")
    while at >= 0:
        if raw[:at] in folders:
            return True
        at = raw.find(b"/", at + 1)
    return False


def _unreadable_folders(warnings: bytes, prefix: bytes) -> list[Skipped]:
    """Return the folders that git could not open according to ``warnings``.

    The paths in the warnings begin with ``prefix``: the path of the workspace relative to the top of the repository.
    """
    start = b"" if prefix == b"." else prefix + b"/"
    found = [path.removeprefix(start).rstrip(b"/") for path in _UNOPENED.findall(warnings)]
    return [Skipped(names.escape_path(raw), "a folder that cannot be read") for raw in found if raw]
