"""The golden sessions, which lie beside the checkout, if at all: files of pi, and what pi itself makes of them."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from builders import SHARED

from gitsession.formats import Source

GOLDEN = SHARED / "golden" / "pi-150.json.gz"


def cases() -> list[dict[str, Any]]:
    """All of them; none where they are not here."""
    found: list[dict[str, Any]] = json.loads(gzip.decompress(GOLDEN.read_bytes())) if GOLDEN.exists() else []
    return found


@pytest.fixture(scope="session")
def golden() -> list[dict[str, Any]]:
    if not GOLDEN.exists():
        pytest.skip("no golden sessions here")
    return cases()


def given_back(source: Source) -> bytes:
    """The file again: what was taken in, line by line, and what waits."""
    lines = sorted((*source.meta, *source.records), key=lambda record: record.line)
    taken = b"".join(record.payload + b"\n" for record in lines)
    return (taken if source.ends_with_newline else taken[:-1]) + source.waiting
