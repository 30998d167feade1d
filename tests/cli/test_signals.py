"""Tests of Ctrl-C and SIGTERM at any time: an exit code, no traceback, and no child process that continues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from builders import pi_file, said

from gitsession import __main__ as begin
from gitsession.cli import app as command_line
from gitsession.cli import exits

LONG = "word after word, " * 40

_INTERRUPTED_AT = """
import os, signal, sys
class Hook:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
        return None
sys.meta_path.insert(0, Hook())
sys.argv = ["gitsession", "init"]
from gitsession.__main__ import main
main()
"""

EARLY = ["gitsession.cli", "gitsession.cli.app", "click", "click.core", "gitsession.errors"]
LATE = ["gitsession.cli.commands.store", "gitsession.api.store"]


def test_the_exit_codes_are_those_of_the_command_line() -> None:
    assert (begin.INTERRUPTED, begin.TERMINATED) == (exits.INTERRUPTED, exits.TERMINATED)


@pytest.mark.parametrize("name", [*EARLY, *LATE])
def test_ctrl_c_while_it_starts_is_quiet(tmp_path: Path, name: str) -> None:
    program = _INTERRUPTED_AT.format(name=name)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_process_started_with_sigint_ignored_keeps_ignoring_it(tmp_path: Path) -> None:
    program = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)" + _INTERRUPTED_AT.format(name="click")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_program_that_summarises_is_ended_with_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [said(f"a{n}", f"a{n - 1}" if n else None, LONG, role=("user", "assistant")[n % 2]) for n in range(10)]
    (tmp_path / "session.jsonl").write_bytes(pi_file(*lines, cwd=str(tmp_path)))
    assert command_line.run(["import", "session.jsonl"]) == 0
    started = tmp_path / "started"
    words = f"sh -c 'cat > /dev/null; echo $$ > {started}.new; mv {started}.new {started}; sleep 600'"
    command = [sys.executable, "-m", "gitsession", "compact", "@", "--keep-tokens", "300"]
    process = subprocess.Popen([*command, "--summarizer-command", words], stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(2400):
            if started.exists():
                break
            time.sleep(0.05)
        child = int(started.read_text())
        os.kill(process.pid, number)
        _, told = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code
    assert "nothing was written" in told
    assert "Traceback" not in told
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert command_line.run(["verify"]) == 0
