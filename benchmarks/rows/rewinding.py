"""Rewind 100 files of a workspace, compared with ``git checkout <tree> -- <paths>`` of these files.

A call of the session has changed a hundred files, spread over the folders. The rewind reads each
file, records it in a checkpoint and writes it. It can be undone; everything is on the disk when
it returns, and a killed rewind can be finished. git writes the files and its index and syncs
nothing; the previous contents are lost.

- *Undo* is compared with ``git checkout`` of the tree with the changes.
- *In a process*: gitsession runs in a process that has the store open. The peer is the same git
  command.
- *Synced*: after the git command, every file that it wrote and its folder are synced, as by
  gitsession.

Each round adds two checkpoints, so the commands use one session and the process another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks import commands
from benchmarks.figures import Line
from benchmarks.measure import Duel, Step, seconds
from benchmarks.workshop import Workshop
from benchmarks.workspaces import Work, git
from gitsession import Message, Node, Session, Store

TITLE = "Rewind"

BARS = {"": 2.5, ", in a process": 1.3}
FILES = 100
CHECKOUT = "git checkout <tree> -- <paths>"
SYNCED = "the same, synced"


def measure(shop: Workshop) -> Iterator[Line]:
    place, count = shop.folder(), shop.pick(200, 5_000, 50_000)
    work = Work(place / "work", count)
    with Store.create(place / "store.git") as store:
        rounds = shop.pick(1, 3, 7)
        of = f"of {FILES} in {count:,} files"
        for steps, who in ((_as_command, ""), (_inside, ", in a process")):
            session, at, changed = _changing(store, work)
            ours, peer = steps(store, session, at, work), _Git(work, changed)
            back, again, synced = Duel(), Duel(), Duel()
            for _ in range(shop.runs):
                times = [_round(number, ours, peer) for number in range(rounds + 1)][1:]
                rewinds, undos, checkouts, returns, syncs = zip(*times, strict=True)
                back.add(rewinds, checkouts)
                again.add(undos, returns)
                synced.add(rewinds, [one + more for one, more in zip(checkouts, syncs, strict=True)])
            yield back.line(f"rewind {of}{who}", CHECKOUT, BARS[who])
            yield synced.line(f"rewind {of}{who}", SYNCED)
            yield again.line(f"undo of it{who}", CHECKOUT)


def _changing(store: Store, work: Work) -> tuple[Session, Node, list[Path]]:
    """Return a session with a call that changes files, the entry before the call, and the files."""
    session = store.new_session(agent="bench", cwd=str(work.path))
    session.append(Message.user("begin"))
    session.files.take_checkpoint("before", work.path)
    at = session.append(Message.assistant("I change a hundred files"))
    changed = work.edit(FILES)
    session.files.take_checkpoint("after", work.path)
    store.flush()
    return session, at, changed


def _as_command(store: Store, session: Session, at: Node, work: Work) -> tuple[Step, Step]:
    path, spoken = store.objects.git_dir, ("--workspace", str(work.path))
    rewind = commands.ours(path, "rewind", f"{session.id}@{at.oid}", "--files", *spoken)
    return rewind, commands.ours(path, "undo", session.id, *spoken)


def _inside(store: Store, session: Session, at: Node, work: Work) -> tuple[Step, Step]:
    def rewind(_: int) -> None:
        session.files.rewind(session.files.plan_rewind(at, "files", workspace=work.path))

    return rewind, lambda _: store.undo(work.path)


class _Git:
    """The user's own repository. ``HEAD`` has the changes, ``HEAD~`` does not."""

    def __init__(self, work: Work, changed: list[Path]) -> None:
        self._work, self._changed = work, changed
        self._paths = [str(file.relative_to(work.path)) for file in changed]
        git(work.path, "add", "--all")
        git(work.path, "commit", "-qm", "changed")

    def back(self, _: int) -> None:
        git(self._work.path, "checkout", "-q", "HEAD~", "--", *self._paths)

    def again(self, _: int) -> None:
        git(self._work.path, "checkout", "-q", "HEAD", "--", *self._paths)

    def sync(self, _: int) -> None:
        for path in (*self._changed, *{file.parent for file in self._changed}):
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)


def _round(number: int, ours: tuple[Step, Step], peer: _Git) -> tuple[float, float, float, float, float]:
    """Return the times in seconds of a rewind, its undo, a checkout, its reversal, and the syncs after the checkout."""

    def mine() -> tuple[float, float]:
        return seconds(ours[0]), seconds(ours[1])

    def theirs() -> tuple[float, float, float]:
        return seconds(peer.back), seconds(peer.sync), seconds(peer.again)

    if number % 2:
        (back, sync, again), (rewind, undo) = theirs(), mine()
    else:
        (rewind, undo), (back, sync, again) = mine(), theirs()
    return rewind, undo, back, again, sync
