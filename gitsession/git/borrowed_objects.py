"""Objects of a repository that is not ours, as git reads them: its object folders are lent, and nothing else of it.

No configuration, no hook, no ref of it is looked at: git is started in an empty repository of our own, made for as
long as this is open, whose alternates those folders are. What is read must be what its name says.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from gitsession.errors import Malformed, Unavailable
from gitsession.git.cat_file import CatFile
from gitsession.git.objects import oid_of
from gitsession.git.types import Kind, Oid

SILENCE_SECONDS_MAX = 10.0
SECONDS_MAX = 120.0
FAILURES_MAX = 3


class BorrowedObjects:
    """A context. ``folders``: of objects; their own alternates count too."""

    def __init__(self, folders: Iterable[Path]) -> None:
        # One that git's list of folders cannot name is none.
        self._folders = [text for each in folders if "\n" not in (text := os.path.abspath(each))]
        self._made: tempfile.TemporaryDirectory[str] | None = None
        self._git: CatFile | None = None
        self._failures = 0
        self._until = time.monotonic() + SECONDS_MAX

    def __enter__(self) -> BorrowedObjects:
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
            return _read(self._started(), kind, oid, bytes_max)
        except (Unavailable, OSError, ValueError):
            self._end()
            self._failures += 1
            if self._failures >= FAILURES_MAX or time.monotonic() > self._until:
                raise Malformed(
                    "git cannot read these objects", where=self._folders[0] if self._folders else ""
                ) from None
            return "damaged"

    def _started(self) -> CatFile:
        if self._git is None:
            try:
                self._git = CatFile(self._git_dir(), seconds_left=self._seconds_left)
            except Unavailable as error:
                raise Malformed(str(error), hint=error.hint) from None
        return self._git

    def _seconds_left(self) -> float:
        return min(SILENCE_SECONDS_MAX, self._until - time.monotonic())

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

    def _end(self) -> None:
        if self._git is not None:
            self._git.kill()
            self._git = None


def _read(git: CatFile, kind: Kind, oid: Oid, bytes_max: int) -> bytes | str:
    [head] = git.heads([oid])
    if head is None:
        return "not there any more"
    if head.kind != kind:
        return f"no {kind}"
    if head.size > bytes_max:
        return f"larger than {bytes_max:,} bytes"
    [found] = git.contents([oid])
    if found is None or oid_of(kind, found[1]) != oid:
        raise ValueError(oid)  # whatever comes next cannot be trusted either
    return found[1]
