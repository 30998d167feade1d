"""The bytes of a large session file, read when they are asked for: memory holds only where its lines begin."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, overload

LF = b"\n"
_CHUNK = 1 << 20


class StoredFile:
    """The first ``size`` bytes of a file that nobody changes meanwhile. ``read``: so many of them from an offset."""

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read = read
        self._size = size
        self.newest: tuple[int, Any] = (-1, None)
        """The last value made of a span, by the offset of the span."""

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self._size)
        return self._read(max(stop - start, 0), start)

    def startswith(self, prefix: bytes) -> bool:
        return self[: len(prefix)] == prefix


Data: TypeAlias = bytes | StoredFile


class FileSpan(NamedTuple):
    """A part of a stored file."""

    data: StoredFile
    start: int
    end: int

    def read(self) -> bytes:
        return self.data[self.start : self.end]


class Lines(Sequence[bytes]):
    """The lines of a stored file without their LF. ``tail``: what stands after the last LF."""

    def __init__(self, data: StoredFile) -> None:
        self._data = data
        self._ends = array("Q")
        for start in range(0, len(data), _CHUNK):
            chunk, at = data[start : start + _CHUNK], -1
            while (at := chunk.find(LF, at + 1)) >= 0:
                self._ends.append(start + at)

    @property
    def tail(self) -> bytes:
        return self._data[self._start(len(self._ends)) :]

    def append(self, tail: bytes) -> None:
        """Take ``tail`` as one more line."""
        self._ends.append(self._start(len(self._ends)) + len(tail))

    def joined(self, first: int, last: int) -> FileSpan:
        """The lines from ``first`` up to ``last``, which is not among them, with the line ends between them."""
        return FileSpan(self._data, self._start(first), self._ends[last - 1])

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        number = range(len(self))[at]
        return self._data[self._start(number) : self._ends[number]]

    def __iter__(self) -> Iterator[bytes]:
        return (self[number] for number in range(len(self)))

    def _start(self, number: int) -> int:
        return self._ends[number - 1] + 1 if number else 0


def joined(lines: Sequence[bytes], first: int, last: int) -> bytes | FileSpan:
    """The lines from ``first`` up to ``last``, with the line ends between them; where they are stored, their place."""
    return lines.joined(first, last) if isinstance(lines, Lines) else LF.join(lines[first:last])
