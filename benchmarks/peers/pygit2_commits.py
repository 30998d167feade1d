"""pygit2 alone: a blob, a tree, a commit and a ref update for each message, as in a straightforward implementation.

It is measured with the default of libgit2, which syncs nothing, and with libgit2's own fsyncs, without which a commit
is lost in a power cut. Each message takes three loose objects, so neither is measured beyond 10,000 messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.data import Said
from benchmarks.peers.peer import Append, Peer


@contextmanager
def opened(place: Path, *, fsynced: bool) -> Iterator[Append]:
    import pygit2

    repository = pygit2.init_repository(place / "peer.git", bare=True)
    pygit2.settings.enable_fsync_gitdir(fsynced)
    who = pygit2.Signature("a", "a@example.org", 1_700_000_000, 0)
    parents: list[pygit2.Oid] = []

    def append(said: Said) -> None:
        data = json.dumps(said.plain).encode()
        builder = repository.TreeBuilder()
        builder.insert("entry.json", repository.create_blob(data), pygit2.enums.FileMode.BLOB)
        parents[:] = [repository.create_commit("refs/heads/s", who, who, "message", builder.write(), parents)]

    try:
        yield append
    finally:
        pygit2.settings.enable_fsync_gitdir(False)


PEERS = (
    Peer("pygit2, a commit per entry", partial(opened, fsynced=False), "pygit2", 10_000),
    Peer("pygit2, a fsynced commit per entry", partial(opened, fsynced=True), "pygit2", 10_000),
)
