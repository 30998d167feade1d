"""What looking at a workspace costs, and keeping what changed in it: files of the sizes that source files have.

The peer of a checkpoint is what opencode does after each step: `git add --all` and `git write-tree` in a git directory
beside the workspace. It syncs nothing and leaves loose objects, so its disk is told before and after a `git gc`. Ours
is durable when it returns, and its disk is told before and after `maintain`.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.figures import Line, Spread
from benchmarks.measure import Duel, Step, seconds
from benchmarks.workshop import Workshop
from gitsession import Store
from gitsession.store.base import Oid
from gitsession.store.create import create
from gitsession.store.gitstore import GitStore
from gitsession.store.objects import encode_commit, encode_tree
from gitsession.workspace.capture import capture
from gitsession.workspace.root import Root

TITLE = "Checkpoints"

UNCHANGED_BAR = 1.5
CHANGED = 100
A_FEW = 5
OPENCODE = "opencode: git add --all, git write-tree"
_REF = "refs/heads/sessions/bench/files"


def measure(shop: Workshop) -> Iterator[Line]:
    files, steps = shop.pick((200, 3), (5_000, 50), (50_000, 500))
    place = shop.folder()
    work = _Work(place / "work", files)
    with _Ours(place, work) as ours:
        theirs = _Opencode(place, work)
        words = f"{files:,} files"
        work.read()
        first = Duel([([seconds(ours.keep)], [seconds(theirs.keep)])])
        yield first.line(f"first checkpoint of {words}", OPENCODE)
        unchanged, beside = Duel(), Duel()
        for _ in range(shop.runs):
            unchanged.add(*_in_turn(shop.pick(1, 3, 7), ours.keep, work.status))
            beside.add(*_in_turn(shop.pick(1, 3, 7), ours.keep, theirs.keep))
        yield unchanged.line(f"{words}, nothing changed", "git status --porcelain", UNCHANGED_BAR)
        yield beside.line(f"{words}, nothing changed", OPENCODE)
        changed = Duel()
        for _ in range(shop.runs):
            changed.add(*_in_turn(shop.pick(1, 2, 5), ours.keep, theirs.keep, before=lambda: work.edit(CHANGED)))
        yield changed.line(f"{words}, {CHANGED} changed", OPENCODE)
        sizes = (ours.size(), theirs.size())
        many = Duel()
        many.add(*_in_turn(steps, ours.keep, theirs.keep, before=lambda: work.edit(A_FEW)))
        what = f"{steps} checkpoints of {A_FEW} changed files each"
        yield many.line(f"{what}, one of them", OPENCODE)
        yield _disk(f"{what}, disk", OPENCODE, ours.size() - sizes[0], theirs.size() - sizes[1])
        ours.tidy()
        theirs.tidy()
        yield _disk(f"{words} and all checkpoints, disk, tidied", "the same after git gc", ours.size(), theirs.size())


class _Work:
    """A repository of the user's with ``count`` files."""

    def __init__(self, path: Path, count: int) -> None:
        self.path = path
        self._chance = random.Random(count)
        letters = bytes(self._chance.choices(b"abcdefghijklmnopqrstuvwxyz     ()=:.\n", k=200_000))
        self._files = []
        for number in range(count):
            file = path / f"part{number % 40:02}/module{number // 40 % 50:02}/sub{number // 2000 % 5}/file{number}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            size, at = min(int(self._chance.lognormvariate(8, 1.2)), 150_000), self._chance.randrange(50_000)
            file.write_bytes(b"%d\n" % number + letters[at : at + size])
            self._files.append(file)
        (path / ".gitignore").write_text("node_modules/\n*.pyc\nbuild/\n")
        _git(path, "init", "-q")
        _git(path, "add", "--all")
        _git(path, "-c", "user.name=b", "-c", "user.email=b@example.com", "commit", "-qm", "begin")

    def status(self, _: int = 0) -> None:
        _git(self.path, "status", "--porcelain")

    def read(self) -> None:
        """So that none of the two finds them on the disk, and the other in memory."""
        for file in self._files:
            file.read_bytes()

    def edit(self, count: int) -> None:
        for file in self._chance.sample(self._files, min(count, len(self._files))):
            with file.open("ab") as opened:
                opened.write(b"# %d\n" % self._chance.randrange(10**9))


class _Ours:
    """A store with one line of checkpoints."""

    def __init__(self, place: Path, work: _Work) -> None:
        self._path, self._plain, self._work = place / "store.git", place / "store.git/gitsession/workspaces/w", work
        create(self._path)
        self._store = GitStore.open(self._path)
        self._tree: Oid | None = None

    def __enter__(self) -> _Ours:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def keep(self, _: int = 0) -> None:
        with Root.open(self._work.path, home=None, store=self._path) as root:
            tree = capture(self._store, root, self._plain).tree
        if tree is None or tree == self._tree:
            return
        before = self._store.ref(_REF)
        with self._store.transaction() as to:
            top = to.put("tree", encode_tree({"files": ("40000", tree)}))
            parents = [before] if before else []
            commit = encode_commit(
                tree=top, parents=parents, author_name="b", author_seconds=0, committer_seconds=0, message=b"files\n"
            )
            to.move(_REF, to.put("commit", commit), expected=before)
        self._tree = tree

    def size(self) -> int:
        self._store.flush()
        return _size(self._path)

    def tidy(self) -> None:
        self._store.close()
        with Store.open(self._path) as store:
            store.maintain()
        self._store = GitStore.open(self._path)


class _Opencode:
    """Its snapshots, as it takes them."""

    def __init__(self, place: Path, work: _Work) -> None:
        self._path, self._work = place / "snapshots", work
        _git(place, "init", "-q", "--bare", str(self._path))
        self._git("config", "core.autocrlf", "false")

    def keep(self, _: int = 0) -> None:
        self._git("add", "--all")
        self._git("write-tree")

    def size(self) -> int:
        return _size(self._path)

    def tidy(self) -> None:
        self._git("gc", "-q", "--prune=7.days.ago")

    def _git(self, *words: str) -> None:
        _git(self._work.path, f"--git-dir={self._path}", f"--work-tree={self._work.path}", *words)


def _in_turn(
    rounds: int, ours: Step, theirs: Step, *, before: Callable[[], None] = lambda: None
) -> tuple[list[float], list[float]]:
    """As ``measure.in_turn``, with something done to the workspace before each round."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        before()
        sides = [(ours, times[0]), (theirs, times[1])]
        for step, took in sides if number % 2 else reversed(sides):
            took.append(seconds(step))
    return times[0][1:], times[1][1:]


def _disk(what: str, peer: str, ours: int, theirs: int) -> Line:
    ratio = ours / max(theirs, 1)
    return Line(what, peer, None, Spread(ratio, ratio, ratio), ours, theirs, "bytes")


def _size(folder: Path) -> int:
    """What it takes on the disk: a loose object takes a block, however small."""
    return sum(os.lstat(file).st_blocks * 512 for file in folder.rglob("*"))


def _git(at: Path, *words: str) -> None:
    passed = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}
    subprocess.run(["git", *words], cwd=at, env=passed, check=True, stdout=subprocess.DEVNULL)
