"""A reader for objects that only git can find, such as the objects in git's quarantine.

One `git cat-file` process serves all reads. The size of an object is read before its content, so an object that exceeds
the caller's limit is never inflated.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, NamedTuple, Self

from gitsession.errors import Malformed, Unavailable
from gitsession.git import process
from gitsession.git.objects import oid_of
from gitsession.git.types import Kind, Oid

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SILENCE_SECONDS_MAX = 10.0
SECONDS_MAX = 120.0
FAILURES_MAX = 3

_BUFFER_BYTES = 1 << 16
_LINE_BYTES_MAX = 256
_AT_ONCE = 512
"""Number of requests that are written before git's output is read. Git reads all of them before it writes output."""


class ObjectHeader(NamedTuple):
    """Type and size of an object. ``kind``: ``commit``, ``tree``, ``blob`` or ``tag``."""

    kind: str
    size: int


class CatFile:
    """The objects that git finds in ``git_dir``.

    ``variables``: git variables that name more object folders (``process.quarantine``). ``seconds_left``: called before
    each wait for output; returns the maximum wait in seconds. If ``seconds_left`` is ``None``, there is no limit.

    The constructor and all methods raise ``Unavailable``. After this error, do not use the object again, because its
    output cannot be trusted.
    """

    def __init__(
        self,
        git_dir: Path,
        variables: Mapping[str, str] | None = None,
        *,
        seconds_left: Callable[[], float] | None = None,
    ) -> None:
        arguments = ("cat-file", "--batch-command", "--buffer")
        self._process = process.start(git_dir, *arguments, variables=variables)
        stdin, stdout = self._process.stdin, self._process.stdout
        assert isinstance(stdin, io.FileIO) and isinstance(stdout, io.FileIO)
        raw = stdout if seconds_left is None else _TimedReader(stdout, seconds_left)
        self._input, self._output = io.BufferedWriter(stdin), io.BufferedReader(raw, _BUFFER_BYTES)

    def heads(self, oids: Sequence[Oid]) -> Iterator[ObjectHeader | None]:
        """Yield the header of each object, or ``None`` if it does not exist. The caller must read all headers."""
        for requests in _batches(oids):
            output = self._request("info", requests)
            yield from (_parse_header(output.readline(_LINE_BYTES_MAX)) for _ in requests)

    def contents(self, oids: Sequence[Oid]) -> Iterator[tuple[str, bytes] | None]:
        """Yield type and content of each object, or ``None`` if it does not exist. The caller must read all items."""
        for requests in _batches(oids):
            output = self._request("contents", requests)
            for _ in requests:
                head = _parse_header(output.readline(_LINE_BYTES_MAX))
                if head is None:
                    yield None
                    continue
                data = output.read(head.size + 1)
                if len(data) != head.size + 1:
                    raise Unavailable("`git cat-file` ended in the middle of an object")
                yield head.kind, data[:-1]

    def kill(self) -> None:
        """Kill git and call ``close``."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._input.close()
        self._output.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _request(self, verb: str, oids: Iterable[Oid]) -> IO[bytes]:
        try:
            self._input.write("".join(f"{verb} {oid}\n" for oid in oids).encode() + b"flush\n")
            self._input.flush()
        except OSError as error:
            raise Unavailable(f"cannot write to `git cat-file`: {error.strerror}") from None
        return self._output


class _TimedReader(io.RawIOBase):
    """Git's output, read with a wait of at most ``seconds_left()`` seconds."""

    def __init__(self, pipe: io.FileIO, seconds_left: Callable[[], float]) -> None:
        self._pipe, self._seconds_left = pipe, seconds_left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        wait = self._seconds_left()
        if wait <= 0 or not select.select([self._pipe], [], [], wait)[0]:
            raise Unavailable("`git cat-file` did not answer in time")
        return self._pipe.readinto(buffer)

    def close(self) -> None:
        self._pipe.close()
        super().close()


def _batches(oids: Sequence[Oid]) -> Iterator[Sequence[Oid]]:
    return (oids[at : at + _AT_ONCE] for at in range(0, len(oids), _AT_ONCE))


def _parse_header(line: bytes) -> ObjectHeader | None:
    fields = line.split()
    if len(fields) == 3 and fields[2].isdigit():
        return ObjectHeader(fields[1].decode(), int(fields[2]))
    if len(fields) == 2 and fields[1] in (b"missing", b"ambiguous"):
        return None
    raise Unavailable(f"unexpected output of `git cat-file`: {line[:80]!r}")


class BorrowedObjects:
    """A context manager that reads objects of another repository through git.

    ``folders``: the object folders of the other repository. Git also reads the alternates of these folders. The other
    repository's configuration, hooks and refs are not read. Git runs in an empty temporary repository whose alternates
    are these folders. The content of each object is checked against its id.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        # Git's list of alternates cannot contain a folder whose name has a line feed, so such a folder is ignored.
        self._folders = [text for each in folders if "\n" not in (text := os.path.abspath(each))]
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._git: CatFile | None = None
        self._failures = 0
        self._until = time.monotonic() + SECONDS_MAX

    def __enter__(self) -> BorrowedObjects:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        if self._scratch is not None:
            self._scratch.cleanup()

    def read(self, kind: Kind, oid: Oid, bytes_max: int) -> bytes | str:
        """Return the content of an object, or the reason why the object cannot be read.

        The reason is part of a checkpoint's payload, so its words must not change. Raises ``Malformed`` if git fails
        too often.
        """
        try:
            return _read_checked(self._started(), kind, oid, bytes_max)
        except (Unavailable, OSError, ValueError):
            self._end()
            self._failures += 1
            if self._failures >= FAILURES_MAX or time.monotonic() > self._until:
                raise Malformed(
                    "`git cat-file` failed repeatedly", where=self._folders[0] if self._folders else ""
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
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="gitsession-lent-")
            scratch = Path(self._scratch.name)
            (scratch / "objects/info").mkdir(parents=True)
            (scratch / "refs").mkdir()
            (scratch / "HEAD").write_bytes(b"ref: refs/heads/none\n")
            listed = b"".join(os.fsencode(each) + b"\n" for each in self._folders)
            (scratch / "objects/info/alternates").write_bytes(listed)
        return Path(self._scratch.name)

    def _end(self) -> None:
        if self._git is not None:
            self._git.kill()
            self._git = None


def _read_checked(git: CatFile, kind: Kind, oid: Oid, bytes_max: int) -> bytes | str:
    [head] = git.heads([oid])
    if head is None:
        return "not there any more"
    if head.kind != kind:
        return f"no {kind}"
    if head.size > bytes_max:
        return f"larger than {bytes_max:,} bytes"
    [found] = git.contents([oid])
    if found is None or oid_of(kind, found[1]) != oid:
        raise ValueError(oid)  # the output that follows cannot be trusted either
    return found[1]
