"""Record the files of a workspace, and later their changes.

The files have the sizes of source files. The peer is what opencode does after each step:
`git add --all` and `git write-tree` in a git directory beside the workspace. It syncs nothing
and leaves loose objects, so its disk usage is shown before and after a `git gc`. A checkpoint is
durable when it returns; its disk usage is shown before and after `maintain`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Line, Spread
from benchmarks.measure import Duel, seconds
from benchmarks.workshop import Workshop
from benchmarks.workspaces import Work, git, in_turn
from gitsession import Message, Store

TITLE = "Checkpoints"

UNCHANGED_BAR = 1.5
CHANGED = 100
A_FEW = 5
OPENCODE = "opencode: git add --all, git write-tree"


def measure(shop: Workshop) -> Iterator[Line]:
    files, steps = shop.pick((200, 3), (5_000, 50), (50_000, 500))
    place = shop.folder()
    work = Work(place / "work", files)
    with _Ours(place, work) as ours:
        theirs = _Opencode(place, work)
        words = f"{files:,} files"
        work.read()
        first = Duel([([seconds(ours.keep)], [seconds(theirs.keep)])])
        yield first.line(f"first checkpoint of {words}", OPENCODE)
        unchanged, beside = Duel(), Duel()
        for _ in range(shop.runs):
            unchanged.add(*in_turn(shop.pick(1, 3, 5), ours.keep, work.status))
            beside.add(*in_turn(shop.pick(1, 3, 5), ours.keep, theirs.keep))
        yield unchanged.line(f"{words}, nothing changed", "git status --porcelain", UNCHANGED_BAR)
        yield beside.line(f"{words}, nothing changed", OPENCODE)
        changed = Duel()
        for _ in range(shop.runs):
            changed.add(*in_turn(shop.pick(1, 2, 5), ours.keep, theirs.keep, before=lambda: work.edit(CHANGED)))
        yield changed.line(f"{words}, {CHANGED} changed", OPENCODE)
        sizes = (ours.size(), theirs.size())
        many = Duel()
        many.add(*in_turn(steps, ours.keep, theirs.keep, before=lambda: work.edit(A_FEW)))
        what = f"{steps} checkpoints of {A_FEW} changed files each"
        yield many.line(f"{what}, one of them", OPENCODE)
        yield _disk(f"{what}, disk", OPENCODE, ours.size() - sizes[0], theirs.size() - sizes[1])
        ours.tidy()
        theirs.tidy()
        yield _disk(f"{words} and all checkpoints, disk, tidied", "the same after git gc", ours.size(), theirs.size())


class _Ours:
    """The store with one session in which the checkpoints are recorded."""

    def __init__(self, place: Path, work: Work) -> None:
        self._path, self._work = place / "store.git", work
        self._store = Store.create(self._path)
        self._session = self._store.new_session(agent="bench", cwd=str(work.path))
        self._session.append(Message.user("begin"))

    def __enter__(self) -> _Ours:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def keep(self, _: int = 0) -> None:
        self._session.files.take_checkpoint("after", self._work.path)

    def size(self) -> int:
        self._store.flush()
        return _size(self._path)

    def tidy(self) -> None:
        self._store.maintain()


class _Opencode:
    """Snapshots in the way of opencode."""

    def __init__(self, place: Path, work: Work) -> None:
        self._path, self._work = place / "snapshots", work
        git(place, "init", "-q", "--bare", str(self._path))
        self._git("config", "core.autocrlf", "false")

    def keep(self, _: int = 0) -> None:
        self._git("add", "--all")
        self._git("write-tree")

    def size(self) -> int:
        return _size(self._path)

    def tidy(self) -> None:
        self._git("gc", "-q", "--prune=7.days.ago")

    def _git(self, *words: str) -> None:
        git(self._work.path, f"--git-dir={self._path}", f"--work-tree={self._work.path}", *words)


def _disk(what: str, peer: str, ours: int, theirs: int) -> Line:
    ratio = ours / max(theirs, 1)
    return Line(what, peer, None, Spread(ratio, ratio, ratio), ours, theirs, "bytes")


def _size(folder: Path) -> int:
    """Return the disk usage in bytes. A loose object takes at least one block."""
    return sum(os.lstat(file).st_blocks * 512 for file in folder.rglob("*"))
