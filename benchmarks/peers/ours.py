"""gitsession, with the same interface as the peers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.peers.peer import Append, Peer
from gitsession import Message, Store
from gitsession.store.git_store import Durability


@contextmanager
def opened(place: Path, durability: Durability) -> Iterator[Append]:
    Store.create(place / "store.git").close()
    with Store.open(place / "store.git", durability=durability) as store:
        session = store.new_session(agent="bench", cwd=str(place))
        session.append(Message.user("begin"))
        yield lambda said: session.append(said.message)


PEERS = (
    Peer("gitsession", partial(opened, durability="entry")),
    Peer("gitsession, durability=turn", partial(opened, durability="turn")),
    Peer("gitsession, durability=none", partial(opened, durability="none")),
)
