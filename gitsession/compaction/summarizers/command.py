"""A program that reads a prompt from standard input and prints the summary, such as ``claude -p``, ``llm`` or a script.

The program runs in its own process group and never through a shell. The process group is ended when the program
finishes, exceeds the time limit or is canceled, when the user presses Ctrl-C, and when this process exits while a
thread in the background waits for the program. It is not ended if a signal kills this process.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import time
from contextlib import suppress
from functools import partial
from threading import Event, Thread
from typing import IO, ClassVar

from gitsession.compaction.prompts import Writer, find_prompt
from gitsession.compaction.summarizers.options import Options
from gitsession.compaction.summary import Progress, Request, Summary, raise_if_cancelled
from gitsession.dataclass import dataclass
from gitsession.errors import SummaryFailed

_LOOK_S = 0.05
_GRACE_S = 1.0
_ERROR_CHARS_MAX = 300


def make(options: Options) -> CommandSummarizer:
    if not options.command:
        raise SummaryFailed(
            "no command is set for the summarizer",
            hint="pass --summarizer-command COMMAND, or set gitsession.summarizerCommand",
        )
    return CommandSummarizer(options.command, options.time_limit_s, find_prompt(options.prompt))


@dataclass(frozen=True, slots=True)
class CommandSummarizer:
    """A summarizer that runs a program for each request.

    Attributes:
        argv: Program and its arguments.
        time_limit_s: Time limit for a run of the program, in seconds.
        write_prompt: Function that returns the prompt for a request.
    """

    NAME: ClassVar[str] = "command"

    argv: tuple[str, ...]
    time_limit_s: float
    write_prompt: Writer

    def summarise(self, request: Request, *, progress: Progress, cancelled: Event) -> Summary:
        prompt = self.write_prompt(request)
        input_data = f"{prompt.system}\n\n{prompt.user}\n".encode(errors="replace")
        program = self.argv[0]
        progress(f"sending {len(input_data):,} bytes to '{program}'")
        try:
            child = subprocess.Popen(
                self.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise SummaryFailed(f"cannot run the summarizer '{program}': {why}") from None
        end_at_exit = partial(_end_in, os.getpid(), child)
        atexit.register(end_at_exit)
        try:
            # A summary must be shorter than its input, and the prompt is longer than this input.
            running = _Running(child, input_data, output_bytes_max=len(input_data))
            ended = running.wait(self.time_limit_s, cancelled)
        finally:
            _end(child)
            atexit.unregister(end_at_exit)
        running.stop_reading()
        raise_if_cancelled(cancelled)
        if running.output.overflowed:
            raise SummaryFailed(f"the output of the summarizer '{program}' is longer than its input")
        if not ended:
            raise SummaryFailed(f"the summarizer '{program}' did not finish within {self.time_limit_s:g} s")
        if child.returncode != 0:
            code, text = child.returncode, " ".join(running.errors.kept.decode(errors="replace").split())
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            tail = f": {text[-_ERROR_CHARS_MAX:]}" if text else ""
            raise SummaryFailed(f"the summarizer '{program}' failed ({how}){tail}")
        return Summary(text=running.output.kept.decode(errors="replace").strip())


class _Running:
    """A child process. One thread serves each of its three pipes, so that no pipe can block the others."""

    def __init__(self, child: subprocess.Popen[bytes], input_data: bytes, *, output_bytes_max: int) -> None:
        assert child.stdin and child.stdout and child.stderr
        self._child = child
        self.output = _Reader(child.stdout, output_bytes_max, keep_last=False)
        self.errors = _Reader(child.stderr, 4 * _ERROR_CHARS_MAX, keep_last=True)
        self._readers = [Thread(target=reader.run, daemon=True) for reader in (self.output, self.errors)]
        self._writer = Thread(target=_write, args=(child.stdin, input_data), daemon=True)
        for thread in (*self._readers, self._writer):
            thread.start()

    def wait(self, time_limit_s: float, cancelled: Event) -> bool:
        """Return whether the child exited by itself, within the time limit and the output limit."""
        deadline = time.monotonic() + time_limit_s
        while self._child.poll() is None:
            if time.monotonic() >= deadline or self.output.overflowed or cancelled.wait(_LOOK_S):
                return False
        return True

    def stop_reading(self) -> None:
        """Read the remaining data from the pipes after the process group has ended."""
        for thread in (*self._readers, self._writer):
            thread.join(_GRACE_S)  # a process that left the group may keep a pipe open forever
        self.output.is_stopped = self.errors.is_stopped = True


def _end_in(pid: int, child: subprocess.Popen[bytes]) -> None:
    """End the child if this is the process ``pid`` that started it, and not a forked copy."""
    if os.getpid() == pid:
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child and its process group."""
    try:
        if child.poll() is None:
            _signal(child, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE_S)
    finally:
        _signal(child, signal.SIGKILL)  # processes that the child started may still be running
        with suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_S)  # a child of another user cannot be killed


def _signal(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


class _Reader:
    """A reader of a pipe that keeps at most about ``bytes_max`` bytes.

    If the pipe has more data, the reader keeps the last bytes (``keep_last``), or it stops and closes the pipe.
    """

    def __init__(self, pipe: IO[bytes], bytes_max: int, *, keep_last: bool) -> None:
        self._pipe = pipe
        self._bytes_max = bytes_max
        self._keep_last = keep_last
        self.kept = bytearray()
        self.overflowed = False
        self.is_stopped = False

    def run(self) -> None:
        with self._pipe, suppress(OSError, ValueError):
            while not self.is_stopped and (data := os.read(self._pipe.fileno(), 65536)):
                self.kept += data
                if len(self.kept) <= self._bytes_max:
                    continue
                self.overflowed = True
                if not self._keep_last:
                    return  # the output exceeds the limit; the pipe is closed, even if the child still writes
                del self.kept[: -self._bytes_max]


def _write(pipe: IO[bytes], data: bytes) -> None:
    with suppress(OSError, ValueError), pipe:  # a program may print its answer before it has read all input
        pipe.write(data)
