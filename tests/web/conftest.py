"""The store of the tests of web pages, and a client of a server of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import Clock
from served import Client, serving

from gitsession import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened


@pytest.fixture
def client(store: Store) -> Iterator[Client]:
    with serving(store) as server:
        yield Client(server)
        assert server.failures == []
