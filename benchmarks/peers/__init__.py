"""The peers of the append benchmark: one module for each. A peer whose package is not installed is reported as missing.

A module has ``PEERS``. Each peer opens a session in a folder and returns a function that appends one message and
returns when the message is stored. Packages are imported when a peer is opened, so that the table can be read without
them.
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
"""gitsession, by durability of an append."""

PEERS: dict[str, Peer] = {peer.name: peer for module in MODULES for peer in module.PEERS}
"""Peers by name, in the order of the table."""
