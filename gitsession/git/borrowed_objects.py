"""Objects of a repository that is not ours, as git reads them: its object folders are lent, and nothing else of it.

No configuration, no hook, no ref of it is looked at: git is started in an empty repository of our own, made for as
long as this is open, whose alternates those folders are. What is read must be what its name says.
"""

from __future__ import annotations

import os
import select
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from gitsession.errors import Malformed, Unavailable
from gitsession.git import process
from gitsession.git.objects import oid_of
from gitsession.git.types import Kind, Oid

if TYPE_CHECKING:
    from subprocess import Popen

SILENCE_SECONDS_MAX = 10.0
SECONDS_MAX = 120.0
FAILURES_MAX = 3
_LINE_BYTES_MAX = 256


class Lent:
    """A context. ``folders``: of objects; their own alternates count too."""

    def __init__(self, folders: Iterable[Path]) -> None:
        # One that git's list of folders cannot name is none.
        self._folders = [text for each in folders if "\n" not in (text := os.path.abspath(each))]
        self._made: tempfile.TemporaryDirectory[str] | None = None
        self._git: Popen[bytes] | None = None
        self._failures = 0
        self._until = time.monotonic() + SECONDS_MAX

    def __enter__(self) -> Lent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        if self._made is not None:
            self._made.cleanup()

    def read(self, kind: Kind, oid: Oid, bytes_max: int) -> bytes | str:
        """An object's bytes; else in plain words why there are none. Raises ``Malformed`` where git cannot say."""
        try:
            return self._read(kind, oid, bytes_max)
        except (OSError, EOFError, ValueError):
            self._end()
            self._failures += 1
            if self._failures >= FAILURES_MAX or time.monotonic() > self._until:
                raise Malformed(
                    "git cannot read these objects", where=self._folders[0] if self._folders else ""
                ) from None
            return "damaged"

    def _read(self, kind: Kind, oid: Oid, bytes_max: int) -> bytes | str:
        self._ask(b"info", oid)
        told = self._line().split()
        if told[1:] == [b"missing"]:
            return "not there any more"
        if told[1] != kind.encode():
            return f"no {kind}"
        size = int(told[2])
        if size > bytes_max:
            return f"larger than {bytes_max:,} bytes"
        self._ask(b"contents", oid)
        self._line()
        data = self._take(size + 1)[:-1]
        if oid_of(kind, data) != oid:
            raise ValueError(oid)  # whatever comes next cannot be trusted either
        return data

    def _ask(self, what: bytes, oid: Oid) -> None:
        if self._git is None:
            try:
                self._git = process.start(self._git_dir(), "cat-file", "--batch-command")
            except Unavailable as error:
                raise Malformed(str(error), hint=error.hint) from None
        assert self._git.stdin is not None
        self._git.stdin.write(b"%s %s\n" % (what, oid.encode()))

    def _git_dir(self) -> Path:
        if self._made is None:
            self._made = tempfile.TemporaryDirectory(prefix="gitsession-lent-")
            made = Path(self._made.name)
            (made / "objects/info").mkdir(parents=True)
            (made / "refs").mkdir()
            (made / "HEAD").write_bytes(b"ref: refs/heads/none\n")
            listed = b"".join(os.fsencode(each) + b"\n" for each in self._folders)
            (made / "objects/info/alternates").write_bytes(listed)
        return Path(self._made.name)

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n") and len(line) < _LINE_BYTES_MAX:
            line += self._take(1)
        return line

    def _take(self, size: int) -> bytes:
        """Raises ``EOFError`` where git has ended, or says nothing for too long."""
        assert self._git is not None and self._git.stdout is not None
        parts = []
        while size:
            wait = min(SILENCE_SECONDS_MAX, self._until - time.monotonic())
            if wait <= 0 or not select.select([self._git.stdout], [], [], wait)[0]:
                raise EOFError
            part = self._git.stdout.read(min(size, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _end(self) -> None:
        if self._git is not None:
            self._git.kill()
            self._git.communicate()
            self._git = None
