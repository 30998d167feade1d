"""Test that the validation of a push reads about a kilobyte per entry for any content (docs/reference/server.md)."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from builders import on_disk

from gitsession.model.entries import Fork, SessionHeader
from gitsession.sessions import commit_writer
from gitsession.sessions.node import Node
from gitsession.store import refs
from gitsession.validation.quarantine_reader import GitReader, Proposed
from gitsession.validation.validate import validate_moves

MANY = 1500


@pytest.mark.promise("P34")
def test_chain_of_forks_costs_as_much_as_any_history(tmp_path: Path, faults) -> None:
    with on_disk(tmp_path / "store.git") as store:
        with store.transaction() as tx:
            leaf: Node | None = None
            for number in range(MANY):
                sid = "19700101-" + f"{number:013d}".translate(str.maketrans("0123456789", "abcdefghij"))
                entry = Fork(at_ms=0, session=sid, agent="a") if number else SessionHeader(at_ms=0, agent="a", view=1)
                leaf = commit_writer.put(tx, leaf, commit_writer.draft_own(entry, number.to_bytes(16, "big"), None))
            assert leaf is not None
        store.flush()
        with GitReader(store.git_dir, {}) as read, faults.one():
            tracemalloc.start()
            try:
                assert validate_moves(read, [Proposed(refs.leaf(sid), None, leaf.oid)]) == []
                most = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        assert most < 16 << 20
