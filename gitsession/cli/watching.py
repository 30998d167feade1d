"""A line on standard error that says how far long work has come: where a person watches, and only then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gitsession import progress as watched

_SILENT_SECONDS = 0.5
"""What takes less says nothing."""

_PAUSE_SECONDS = 0.1


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[None]:
    """Tells of what is done within. ``quiet``: it does not."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    line = _Line()
    with watched.by(line):
        try:
            yield
        finally:
            line.leave()


class _Line:
    """As git's: it goes back to its start until the work is done."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _SILENT_SECONDS
        self._shown = ""

    def __call__(self, what: str, done: int, of: int) -> None:
        if done < of:
            now = time.monotonic()
            if now < self._next:
                return
            self._next = now + _PAUSE_SECONDS
        elif what != self._shown:
            return
        if self._shown not in ("", what):
            self.leave()
        self._shown = what if done < of else ""
        end = "\r" if done < of else ", done.\n"
        _write(f"{what}: {done * 100 // max(of, 1):3}%{end}")

    def leave(self) -> None:
        """What comes next is a line of its own."""
        if self._shown:
            _write("\n")
        self._shown = ""


def _write(words: str) -> None:
    try:
        sys.stderr.write(words)
        sys.stderr.flush()
    except OSError:
        pass  # nobody watches any more
