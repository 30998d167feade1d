"""Who appends: one module per peer, one table. A peer whose package is not there is told as such, never passed.

A module has ``PEERS``; each opens a session in a folder and gives a function that appends one message and returns when
the peer says that it is kept. Packages are imported when a peer is opened, so that the table can be read without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from benchmarks.peers import (
    jsonl_fdatasync,
    langgraph_saver,
    openai_session,
    ours,
    pygit2_commits,
    sqlite_full,
)
from benchmarks.peers.peer import Peer

__all__ = ["MODULES", "OURS", "PEERS", "Peer"]

MODULES: Sequence[ModuleType] = (sqlite_full, jsonl_fdatasync, langgraph_saver, openai_session, pygit2_commits)

OURS: dict[str, Peer] = {peer.name: peer for peer in ours.PEERS}
"""Ourselves, by how durable an append is."""

PEERS: dict[str, Peer] = {peer.name: peer for module in MODULES for peer in module.PEERS}
"""Peers by name, in the order of the table."""
