"""A disk with no space left: what is there can be read, the error says why, and with space it goes on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from faults.full import DISKS
from faults.invariants import assert_kept, assert_whole, line, sound
from raw import LEAF, append

from gitsession.api import Session, Store
from gitsession.compaction.summarizers.extractive import Extractive
from gitsession.compaction.value import Ask
from gitsession.compaction.writing import Writing
from gitsession.errors import Unavailable
from gitsession.model.entries import Message
from gitsession.store.create import create
from gitsession.store.git_store import GitStore

SIZES = {"tmpfs": ("2m", 1_200_000), "ext4": ("4M", 2_200_000)}
"""Of the disk, and of what is removed in the end: a flush wants as much as waits in the journal, compressed."""

FAILURES = 50


@pytest.mark.promise("P12")
@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("entry_bytes", [500, 2000])
def test_a_full_disk_can_be_read_and_goes_on_when_there_is_space(kind: str, entry_bytes: int, faults) -> None:
    fill_disk(kind, entry_bytes)
    faults.many(FAILURES)


def fill_disk(kind: str, entry_bytes: int) -> None:
    size, ballast_bytes = SIZES[kind]
    with DISKS[kind](size) as disk:
        fill(disk, ballast_bytes, entry_bytes)


def fill(disk: Path, ballast_bytes: int, entry_bytes: int) -> None:
    git_dir, ballast = disk / "store.git", disk / "ballast"
    ballast.write_bytes(bytes(ballast_bytes))
    create(git_dir)
    chance = random.Random(0)
    with GitStore.open(git_dir) as store:
        store._opened.flushing._due_at = (40, 1 << 20)
        oids: list[str] = []
        refused = 0
        while refused < FAILURES:
            try:
                oids.append(append(store, chance.randbytes(entry_bytes).hex()))
            except Unavailable as error:
                assert "No space left on device" in str(error)
                assert "space" in error.hint
                refused += 1
                assert line(store, LEAF) == oids
                if refused % 10 == 0:
                    with pytest.raises(Unavailable, match="No space left"):
                        store.flush()
        with GitStore.open(git_dir, flush_on_close=False) as other:
            assert line(other, LEAF) == oids
        ballast.unlink()
        for _ in range(5):
            oids.append(append(store, chance.randbytes(entry_bytes).hex()))
        store.flush()
        assert (store.last_flush_error, store.pending) == (None, 0)
        assert line(store, LEAF) == oids
        assert_kept(store, {LEAF: oids})
        assert_whole(store)
    sound(git_dir)


@pytest.mark.promise("P12")
@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("strategy", ["pi", "from", "leave"])
def test_on_a_full_disk_a_compaction_writes_no_entry_and_the_next_try_works(kind: str, strategy: str, faults) -> None:
    size, ballast_bytes = SIZES[kind]
    with DISKS[kind](size) as disk:
        (disk / "ballast").write_bytes(bytes(ballast_bytes))
        with Store.create(disk / "store.git") as store:
            session = store.new_session(agent="agent")
            session.append(Message.user("begin"))
            side = session.branch("side")
            fill_up(side)
            before = dict(store.objects.refs("refs/"))
            for _ in range(TRIES):
                with faults.one(), pytest.raises(Unavailable, match="No space left on device"):
                    shorten(side, strategy)
                assert dict(store.objects.refs("refs/")) == before
            (disk / "ballast").unlink()
            shorten(side, strategy)
            store.flush()
            changed = {name for name, oid in store.objects.refs("refs/heads/").items() if before.get(name) != oid}
            assert len(changed) == 1
            assert store.verify().problems == []
        sound(disk / "store.git")


TRIES = 5


def fill_up(session: Session) -> None:
    """Append until there is no room for the smallest of entries, in a journal that nobody hands over meanwhile."""
    chance = random.Random(0)
    for length in (50_000, 5_000, 500, 50, 5):
        while True:
            try:
                session.append(Message.user(chance.randbytes(length).hex()))
            except Unavailable:
                break


def shorten(session: Session, strategy: str) -> None:
    if strategy == "leave":
        plan = session.plan_leaving("root")
    else:
        at = session.resolve("leaf~2") if strategy == "from" else None
        plan = session.plan_compaction(strategy, ask=Ask(at=at, keep_tokens=None if at else 1_000))
    session.compact(plan, Writing(summarizer=Extractive()), undoable=True)
