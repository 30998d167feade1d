"""The real Claude Code, and the scripted model that answers it offline."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from builders import SHARED

LAB = Path(os.environ.get("LAB", "/nonexistent"))
PROGRAM = LAB / "npm/node_modules/@anthropic-ai/claude-code-linux-x64/claude"
MODEL = SHARED / "peers/agents/mock_llm.py"


def can_unshare() -> bool:
    unshare = shutil.which("unshare")
    return unshare is not None and subprocess.run([unshare, "-n", "true"], capture_output=True).returncode == 0
