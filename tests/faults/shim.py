"""Workloads in processes whose system calls fail at a chosen point, or which are killed there (``fi.c``)."""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
TMPFS = Path("/dev/shm")

ERRORS = {"eio": errno.EIO, "enospc": errno.ENOSPC, "edquot": errno.EDQUOT, "eintr": errno.EINTR}
_CODES = {"kill-before": 1, "kill-after": 2, "torn": 3, "short": 4}
_FAIL_WITH = 5
_FOR_EVER = 1 << 60
_FIELDS = "8q"


def scratch() -> str:
    """Create a directory for stores that are created and removed by the thousand, in memory if possible."""
    fast = TMPFS if os.access(TMPFS, os.W_OK) else None
    return os.path.realpath(tempfile.mkdtemp(prefix="gitsession-faults-", dir=fast))


@functools.cache
def library() -> Path:
    """Build the shim once for each version of its source. The test is skipped with a reason if that is not possible."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler or not sys.platform.startswith("linux"):
        pytest.skip("the fault injector wants Linux and a C compiler")
    source = (HERE / "fi.c").read_bytes()
    name = f"gitsession-fi-{os.geteuid()}-{hashlib.sha256(source).hexdigest()[:16]}.so"
    built = Path(tempfile.gettempdir()) / name
    if not built.exists() or built.stat().st_uid != os.geteuid():
        fresh = built.with_name(f"{name}.{os.getpid()}")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", fresh, HERE / "fi.c", "-ldl"], check=True)
        fresh.rename(built)
    return built


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at system calls.

    ``mode`` is a kill (``kill-before``, ``kill-after``, ``torn``), ``short``, or a name of ``ERRORS``. It affects
    ``length`` calls from number ``at`` on, or all of them if ``mode`` ends with ``-on``. If ``at`` is 0, it affects
    none. With ``group``, a kill includes the git children.
    """

    mode: str = "eio"
    at: int = 0
    group: bool = False
    length: int = 1


@dataclass(frozen=True, slots=True)
class Call:
    """One logged call. For an acknowledgement, ``name`` is ``ack`` and ``data`` its text."""

    name: str
    inode: int
    path: str
    second: str
    offset: int
    data: bytes
    error: int


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a run: its acknowledgements, exit code, number of calls, and faults injected.

    A negative exit code is the number of a signal.
    """

    told: tuple[str, ...]
    code: int
    calls: int
    hits: int
    stderr: str

    @property
    def done(self) -> dict[int, Any]:
        """Return the results of the acknowledged commands by number."""
        return {int(number): json.loads(rest) for word, number, rest in map(_words, self.told) if word == "ok"}

    @property
    def failed(self) -> dict[int, str]:
        """Return the messages of the commands that reported a disk error, by number."""
        return {int(number): rest for word, number, rest in map(_words, self.told) if word == "fail"}


def _words(row: str) -> list[str]:
    return [*row.split(" ", 2), "", ""][:3]


class Shim:
    """A process that has imported all modules and forks a child for each run, with the shim preloaded."""

    def __init__(self) -> None:
        self.place = Path(scratch())
        control = self.place / "control"
        control.write_bytes(bytes(struct.calcsize(_FIELDS) + 4032))
        with control.open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), 0)
        self.log = self.place / "control.log"
        paths = [str(HERE.parent), str(HERE.parent.parent), *sys.path]
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        environment = {
            **inherited,
            "LD_PRELOAD": str(library()),
            "FI_CONTROL": str(control),
            "FI_ACKS": "1",
            "PYTHONPATH": os.pathsep.join(paths),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        self._server = subprocess.Popen(
            [sys.executable, "-m", "faults.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=self.place,
            text=True,
        )

    def run(
        self,
        work: str,
        git_dir: Path | str,
        fault: Fault | None = None,
        *,
        log: bool = False,
        bytes_too: bool = False,
        skip: Sequence[int] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Ran:
        """Run the workload ``work`` (``work.WORKLOADS``) on the store, with a fault among its system calls.

        Args:
            skip: Numbers of commands to leave out.
            log: Whether to log the calls for ``calls``.
        """
        self.log.write_bytes(b"")
        self._arm(f"{git_dir}/", fault or Fault(), 2 if bytes_too else int(log))
        request = {"work": work, "git_dir": str(git_dir), "skip": list(skip), "options": dict(options or {})}
        assert self._server.stdin and self._server.stdout
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        answer = json.loads(self._server.stdout.readline())
        counted, *_, hits = struct.unpack_from(_FIELDS, self._control)
        self._arm("", Fault(), 0)
        return Ran(tuple(answer["told"]), answer["code"], counted, hits, answer["stderr"])

    def calls(self) -> list[Call]:
        """Return the log of the last run."""
        raw, at, found = self.log.read_bytes(), 0, []
        while at < len(raw):
            end = raw.index(b"\n", at)
            name, inode, path, second, offset, length, error = os.fsdecode(raw[at:end]).split("\t")
            size = int(length)
            found.append(Call(name, int(inode), path, second, int(offset), raw[end + 1 : end + 1 + size], int(error)))
            at = end + 1 + (size + 1 if size else 0)
        return found

    def close(self) -> None:
        assert self._server.stdin and self._server.stdout
        self._server.stdin.close()
        self._server.wait(timeout=120)
        self._server.stdout.close()
        self._control.close()
        shutil.rmtree(self.place, ignore_errors=True)

    def _arm(self, root: str, fault: Fault, logging: int) -> None:
        length = _FOR_EVER if fault.mode.endswith("-on") else fault.length
        mode = fault.mode.removesuffix("-on")
        code = _CODES.get(mode, _FAIL_WITH)
        error = ERRORS.get(mode, 0)
        struct.pack_into(_FIELDS, self._control, 0, 0, fault.at, code, error, length, fault.group, logging, 0)
        start = struct.calcsize(_FIELDS)
        raw = os.fsencode(root)
        self._control[start : start + len(raw) + 1] = raw + b"\0"
