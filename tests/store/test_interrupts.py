"""Tests of Ctrl-C in a program that continues: no lock is left, and acknowledged entries are present."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.invariants import sound, texts
from raw import append

from gitsession.store.create import LOCK, create
from gitsession.store.git_store import GitStore
from gitsession.store.lock import StoreLock
from gitsession.store.writing import StoreWriter

INTERRUPTS = 150


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    create(tmp_path / "store.git")
    with GitStore.open(tmp_path / "store.git") as opened:
        yield opened


@pytest.mark.parametrize("place", ["begin", "stage", "finish", "end"])
def test_interrupt_at_the_edge_of_a_transaction_releases_the_store(store, monkeypatch, place):
    append(store, "before")
    real = getattr(StoreWriter, place)

    def interrupted(self: StoreWriter, *words: object, **named: object) -> None:
        monkeypatch.undo()
        if place in ("begin", "stage"):
            real(self, *words, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(StoreWriter, place, interrupted)
    try:
        append(store, "interrupted")
    except KeyboardInterrupt:
        pass
    other = StoreLock(store.git_dir / LOCK, wait_seconds=0.05)
    other.acquire()
    other.release()
    append(store, "after")
    assert texts(store)[-1] == "after"


@pytest.mark.promise("P9")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # cbor2 ignores exceptions
def test_interrupts_keep_acknowledged_entries_and_leave_no_lock(store, faults):
    """The timer counts CPU time, so that the signals arrive while Python code runs."""
    draw = random.Random(7)
    acknowledged: list[str] = []

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGVTALRM, interrupt)
    try:
        for turn in range(INTERRUPTS):
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, draw.uniform(0.0001, 0.01))
                for number in range(1000):
                    append(store, f"{turn}.{number}")
                    acknowledged.append(f"{turn}.{number}")
            except KeyboardInterrupt:
                faults.many(1)
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    finally:
        signal.signal(signal.SIGVTALRM, before)
    append(store, "after")
    there = texts(store)
    assert len(there) == len(set(there))
    known = set(acknowledged)
    assert [text for text in there if text in known] == acknowledged
    assert len(there) - len(acknowledged) - 1 <= INTERRUPTS
    store.flush()
    sound(store.git_dir)
