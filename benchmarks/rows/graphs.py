"""Keep a growing thread of LangGraph, with gitsession's checkpointer and with ``SqliteSaver`` in turn.

A checkpoint holds a list of messages of about 1 KB that has one message more than its parent's. This is the worst case
for a checkpointer that stores the whole state at each step. Both savers use LangGraph's serializer. *Resume* opens the
store anew and reads the newest checkpoint, whose state the last reader cached in a file. *First resume* has no such
file, and reads all entries. *List* reads the 20 newest checkpoints of an open thread. The size is that
of packs after ``maintain``, and that of the database.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.data import messages
from benchmarks.figures import Line, Spread
from benchmarks.measure import Duel, Step, in_turn
from benchmarks.peers.langgraph_saver import PEERS
from benchmarks.workshop import Workshop
from gitsession import Store
from gitsession.store import create

TITLE = "LangGraph threads"

PEER = "LangGraph SqliteSaver"
PUT_BAR, DISK_BYTES_MAX = 1.0, 1_000_000
CONFIG: Any = {"configurable": {"thread_id": "s", "checkpoint_ns": ""}}


def measure(shop: Workshop) -> Iterator[Line]:
    steps = shop.pick(10, 200, 800)
    if PEERS[0].version is None:
        yield Line(f"put, {steps} steps", PEER, PUT_BAR, why="not installed")
        return
    from langgraph.checkpoint.sqlite import SqliteSaver

    from gitsession.frameworks.langgraph import GitSessionSaver

    put, first, resume, listed = Duel(), Duel(), Duel(), Duel()
    for _ in range(shop.runs):
        ours, theirs = shop.folder() / "store.git", shop.folder() / "peer.db"
        with Store.create(ours) as store, SqliteSaver.from_conn_string(str(theirs)) as peer:
            saver = GitSessionSaver(store)
            put.add(*in_turn(_putting(saver), _putting(peer), steps))
            listed.add(*in_turn(_listing(saver), _listing(peer), 3, warm_up=1))
            store.flush()
            store.maintain()
            store.sessions()

        def resume_ours(_: int, path: Path = ours) -> None:
            with Store.open(path) as store:
                GitSessionSaver(store).get_tuple(CONFIG)

        def first_resume(number: int, path: Path = ours) -> None:
            shutil.rmtree(path / create.THREADS, ignore_errors=True)
            resume_ours(number, path)

        def resume_theirs(_: int, path: Path = theirs) -> None:
            with SqliteSaver.from_conn_string(str(path)) as peer:
                peer.get_tuple(CONFIG)

        first.add(*in_turn(first_resume, resume_theirs, 3))
        resume.add(*in_turn(resume_ours, resume_theirs, 3))
    yield put.line(f"put, {steps} steps", PEER, PUT_BAR, fold=statistics.fmean)
    yield first.line(f"first resume after {steps} steps", PEER)
    yield resume.line(f"resume after {steps} steps", PEER)
    yield listed.line(f"list 20 of {steps} checkpoints", PEER)
    mine = sum(file.stat().st_size for file in (ours / "objects/pack").iterdir())
    database = theirs.stat().st_size
    ratio = mine / database
    bar = DISK_BYTES_MAX / database if shop.size == "full" else None
    yield Line(f"disk, {steps} steps", PEER, bar, Spread(ratio, ratio, ratio), mine, database, "bytes")


def _putting(saver: Any) -> Step:
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.checkpoint.base import empty_checkpoint

    texts = [str(said.plain["content"]) for said in messages()]
    state: list[Any] = []
    config = CONFIG

    def put(number: int) -> None:
        nonlocal config, state
        kind = AIMessage if number % 2 else HumanMessage
        state = [*state, kind(f"{number} {texts[number % len(texts)]}", id=str(number))]
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": state}
        checkpoint["channel_versions"] = {"messages": number + 1}
        config = saver.put(config, checkpoint, {"source": "loop", "step": number}, {"messages": number + 1})

    return put


def _listing(saver: Any) -> Step:
    return lambda _: list(saver.list(CONFIG, limit=20))
