"""OpenAI Agents' ``SQLiteSession.add_items``, with one message per call, in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.data import Said
from benchmarks.peers.peer import Append, Peer


@contextmanager
def opened(place: Path) -> Iterator[Append]:
    from agents import SQLiteSession

    with asyncio.Runner() as runner, closing(SQLiteSession("s", place / "peer.db")) as session:

        def append(said: Said) -> None:
            runner.run(session.add_items([said.plain]))

        yield append


PEERS = (Peer("OpenAI Agents SQLiteSession.add_items", opened, "openai-agents"),)
