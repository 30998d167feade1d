"""LangGraph's ``SqliteSaver.put``: a checkpoint for each message, in a database opened with its own ``setup``.

A checkpoint holds the whole state. Two states are therefore measured. The first has only the newest message, which is
the minimum for ``put``. The second has all messages so far, as in a graph over ``MessagesState``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.data import Said
from benchmarks.peers.peer import Append, Peer


@contextmanager
def opened(place: Path, *, whole_state: bool) -> Iterator[Append]:
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(str(place / "peer.db")) as saver:
        config: Any = {"configurable": {"thread_id": "s", "checkpoint_ns": ""}}
        messages: list[object] = []
        step = 0

        def append(said: Said) -> None:
            nonlocal config, step
            if not whole_state:
                messages.clear()
            messages.append(said.plain)
            step += 1
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": messages}
            checkpoint["channel_versions"] = {"messages": step}
            config = saver.put(config, checkpoint, {"source": "loop", "step": step}, {"messages": step})

        yield append


NEEDS = "langgraph-checkpoint-sqlite"
PEERS = (
    Peer("LangGraph SqliteSaver.put", partial(opened, whole_state=False), NEEDS, 100_000),
    Peer("LangGraph SqliteSaver.put, all messages in the state", partial(opened, whole_state=True), NEEDS, 1000),
)
