"""Paths of the checkout, its tests and the shared sample files."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
SHARED = Path(os.environ.get("GITSESSION_SHARED") or ROOT.parent / "shared")
