"""Fixtures of the tests of instructions."""

from __future__ import annotations

from pathlib import Path

import pytest
from instruction_files import Folders


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path.resolve() / "all")
