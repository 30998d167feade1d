"""A program in a terminal, for tests of programs that read keys."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence

_CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()#][0-9A-Z]|[^\[\]])")


class Terminal:
    """A program with a controlling terminal of 200 columns. ``piped``: whether its standard output is a pipe."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], *, piped: bool = False) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))

        def attach() -> None:
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

        out = subprocess.PIPE if piped else theirs
        self.program = subprocess.Popen(
            words, stdin=theirs, stdout=out, stderr=theirs, env=dict(environment), preexec_fn=attach
        )
        os.close(theirs)
        self.shown = ""

    def wait_for(self, pattern: str, seconds: float = 30) -> str:
        """Return what was shown since the last call, without control sequences, once it matches ``pattern``."""
        shown = b""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if select.select([self._ours], [], [], 0.1)[0]:
                data = os.read(self._ours, 65_536)
                self.shown += data.decode(errors="replace")
                shown += data
                text = _CONTROL.sub("", shown.decode(errors="replace"))
                if re.search(pattern, text):
                    return text
        raise AssertionError(f"{pattern!r} was not shown: {shown!r}")

    def keys(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def end(self) -> tuple[str, int]:
        """Wait for the program, and return the text in the pipe and the exit code."""
        out = self.program.communicate(timeout=30)[0]
        os.close(self._ours)
        return (out or b"").decode(), self.program.returncode

    def kill(self) -> None:
        self.program.kill()
        self.program.wait()
        os.close(self._ours)
