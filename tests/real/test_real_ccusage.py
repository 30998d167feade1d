"""Comparison of ``gitsession stats`` with ccusage on the same files. Skipped if ccusage is not installed.

ccusage counts the first record of an answer, and gitsession the one with the most tokens, which is the last one. So
each answer in this test has one record, or several with the same counts.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from builders import joined
from claude_code import SESSION, assistant, call, result, user
from commands import Run, document

CCUSAGE = shutil.which("ccusage")

pytestmark = pytest.mark.skipif(CCUSAGE is None, reason="ccusage is not installed")


def test_the_tokens_of_each_day_are_those_of_ccusage(
    run: Run, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [user("a", None)]
    for number in range(40):
        above, answer = ("a" if not number else f"e{number - 1}"), f"msg_{number}"
        at = number * 2000
        blocks = ({"type": "text", "text": "words"}, call(f"c{number}", "Bash", command="ls"))
        lines += [
            assistant(f"b{number}", above, blocks[0], answer=answer, at=at, requestId=f"req_{number}"),
            assistant(f"d{number}", f"b{number}", blocks[1], answer=answer, at=at, requestId=f"req_{number}"),
            result(f"e{number}", f"d{number}", f"c{number}", at=at),
        ]
    file = tmp_path / "claude/projects/p" / f"{SESSION}.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(joined(*lines))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    command = [str(CCUSAGE), "daily", "--json", "--offline"]
    theirs = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)["daily"]
    run("import", str(file))
    ours = document(run("stats", "--by", "day", "--json"))["groups"]
    names = {"inputTokens": "input_tokens", "outputTokens": "output_tokens", "cacheReadTokens": "cache_read_tokens"}
    assert theirs
    assert [[row["date"], *(row[name] for name in names)] for row in theirs] == [
        [row["key"], *(row[name] for name in names.values())] for row in ours if row["tokens"]
    ]
