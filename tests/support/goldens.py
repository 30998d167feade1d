"""Golden sessions, if they are installed beside the checkout: files of pi, and the output of pi for them."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from builders import SHARED

from gitsession.formats import Source

GOLDEN = SHARED / "golden" / "pi-150.json.gz"


def cases() -> list[dict[str, Any]]:
    """Return all golden sessions, or an empty list if they are not installed."""
    found: list[dict[str, Any]] = json.loads(gzip.decompress(GOLDEN.read_bytes())) if GOLDEN.exists() else []
    return found


@pytest.fixture(scope="session")
def golden() -> list[dict[str, Any]]:
    if not GOLDEN.exists():
        pytest.skip("no golden sessions here")
    return cases()


def given_back(source: Source) -> bytes:
    """Return the file, reassembled from the imported lines and the bytes that are still waiting."""
    lines = sorted((*source.meta, *source.records), key=lambda record: record.line)
    taken = b"".join(record.payload + b"\n" for record in lines)
    return (taken if source.ends_with_newline else taken[:-1]) + source.waiting
