"""Tests of a full disk: the store can be read, the error names the cause, and writing works once there is space."""

from __future__ import annotations

import random

import pytest
from faults.full import DISKS, FAILURES, SIZES, fill_disk
from faults.invariants import sound

from gitsession.api import Session, Store
from gitsession.compaction.plan import CompactionRequest
from gitsession.compaction.summarizers.extractive import Extractive
from gitsession.compaction.write_summary import SummaryOptions
from gitsession.errors import Unavailable
from gitsession.model.entries import Message


@pytest.mark.promise("P12")
@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("entry_bytes", [500, 2000])
def test_full_disk_can_be_read_and_written_once_there_is_space(kind: str, entry_bytes: int, faults) -> None:
    fill_disk(kind, entry_bytes)
    faults.many(FAILURES)


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
    """Append until there is no space for the smallest entry. The journal is not flushed meanwhile."""
    chance = random.Random(0)
    for length in (50_000, 5_000, 500, 50, 5):
        while True:
            try:
                session.append(Message.user(chance.randbytes(length).hex()))
            except Unavailable:
                break


def shorten(session: Session, strategy: str) -> None:
    if strategy == "leave":
        plan = session.compaction.plan_leaving("root")
    else:
        at = session.resolve("leaf~2") if strategy == "from" else None
        plan = session.compaction.plan(strategy, request=CompactionRequest(at=at, keep_tokens=None if at else 1_000))
    session.compact(plan, SummaryOptions(summarizer=Extractive()), undoable=True)
