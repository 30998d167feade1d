"""Refs as git stores them: valid names and values, the text of ``packed-refs``, and a reader of loose and packed refs.

Names under ``refs/heads/sessions/`` are pushed to machines whose file systems ignore case or reserve some names. So
names there may contain only lower-case letters, digits and ``._-``, which all file systems keep distinct.

A line of ``packed-refs`` is ``<oid> <name>``. The line of an annotated tag is followed by ``^<oid>``, the peeled
object. A ref to a commit has no such line. All refs that gitsession adds point to commits, so "fully-peeled" in the
header remains true.

For each ref, the loose file is read before ``packed-refs``. ``git pack-refs`` writes the packed ref before it removes
the loose one, so a ref that is packed between the two reads is found. This module reads refs without a library, because
a library would load the user's configuration.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from gitsession.durable import read_regular
from gitsession.errors import Corrupt, InvalidName, Malformed
from gitsession.git.permissions import denied
from gitsession.git.types import Oid, RefValue
from gitsession.pattern import pattern

NAME_BYTES_MAX = 200
SYMBOLIC = "ref: "

_SESSIONS = "refs/heads/sessions/"
_FORBIDDEN = pattern(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|[/.]$")
_PORTABLE = pattern(r"[a-z0-9_][a-z0-9._-]*")
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))})
_OID = pattern(r"[0-9a-f]{40}")

PACKED_REFS = "packed-refs"

_PACKED_LINE = pattern(rb"[0-9a-f]{40} refs/[^\x00-\x20\x7f]+\n|\^[0-9a-f]{40}\n")
_NAME_BYTES = bytes(byte for byte in range(0x21, 0x100) if byte != 0x7F)
_HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"
_HEADER_UNPEELED = b"# pack-refs with: sorted \n"

_VALUE = pattern(rb"([0-9a-f]{40}|ref: [^\x00-\x20\x7f]+)\s*")
_VALUE_BYTES_MAX = 4096
_FRESH_NS = 1_000_000_000

_SEARCHED_BYTES_MIN = 1 << 16
_SEARCHES_MAX = 32
_CACHED_REFS_MIN, _CACHED_LISTS_MAX = 10_000, 2
"""Number of refs from which a list is cached until ``packed-refs`` changes, and maximum number of cached lists."""
_LINE_BYTES_MAX = 1024
"""Limit for the lines that a search in ``packed-refs`` accepts. A name of gitsession has at most 200 bytes."""
_AROUND_BYTES = (8 * _LINE_BYTES_MAX, 64 * _LINE_BYTES_MAX)
"""Numbers of bytes that a search reads where it ends, the larger one for a prefix that many names have."""


# ---- names and values


@lru_cache(maxsize=4096)
def check_ref_name(name: str) -> None:
    """Raise ``InvalidName`` if git, a file system or another machine could not store a ref named ``name``."""
    if not name.startswith("refs/") or name.count("/") < 2:
        raise InvalidName(f"invalid ref name {name[:80]!r}: expected a full name such as refs/heads/main")
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidName(f"invalid ref name {name[:80]!r}: not valid Unicode") from None
    if length > NAME_BYTES_MAX:
        raise InvalidName(f"invalid ref name {name[:40]!r}...: {length} bytes (limit: {NAME_BYTES_MAX})")
    found = _FORBIDDEN.search(name)
    if found:
        raise InvalidName(f"invalid ref name {name!r}: {found.group()!r} is not allowed at this position")
    if name.startswith(_SESSIONS):
        for part in name.removeprefix(_SESSIONS).split("/"):
            _check_portable(part, name)


def check_value(value: str) -> None:
    """Raise ``Malformed`` unless ``value`` is a valid value of a ref: an object id, or ``ref: <name>``."""
    if value.startswith(SYMBOLIC):
        check_ref_name(value.removeprefix(SYMBOLIC))
    elif not _OID.fullmatch(value) or value == "0" * 40:
        raise Malformed(f"invalid ref value {value[:60]!r}: expected 40 lower-case hexadecimal digits or 'ref: <name>'")


def directories(name: str) -> list[str]:
    """Return the names that must be directories if the ref ``name`` is a file.

    For example, ``refs/heads/a`` must be a directory for ``refs/heads/a/b``.
    """
    parts = name.split("/")
    return ["/".join(parts[:length]) for length in range(3, len(parts))]


def _check_portable(part: str, name: str) -> None:
    if not _PORTABLE.fullmatch(part):
        raise InvalidName(f"invalid ref name {name!r}: {part!r} does not match {_PORTABLE.pattern}")
    if part.split(".")[0] in _DEVICES:
        raise InvalidName(f"invalid ref name {name!r}: {part!r} is a device name on some systems")


# ---- packed-refs


def is_packed_line(line: bytes) -> bool:
    """Return whether git could have written ``line`` (with its line ending) as the line of a ref.

    The header is not such a line.
    """
    return _PACKED_LINE.fullmatch(line) is not None


def packed_values(data: bytes) -> dict[str, Oid]:
    """Return the object id of each ref. Raises ``Corrupt``."""
    return {name: lines[:40].decode() for name, lines in _packed_parts(data)[1]}


def changed_packed(data: bytes, *, put: Mapping[str, Oid] | None = None, drop: Collection[str] = ()) -> bytes:
    """Return ``data`` without the refs ``drop`` and with the refs ``put``, sorted by name. Add a header to empty data.

    Raises ``Corrupt`` if a line is damaged: its ref must not be lost, and the line must not be joined with the next
    one.
    """
    comment = data[: data.find(b"\n") + 1] if data.startswith(b"#") else b""
    if _is_sorted(data[len(comment) :]):
        return comment + _with_lines(data[len(comment) :], {**dict.fromkeys(drop), **(put or {})})
    header, rows = _packed_parts(data)
    rows = [(name, lines) for name, lines in rows if name not in drop and name not in (put or {})]
    rows += [(name, f"{oid} {name}\n".encode()) for name, oid in (put or {}).items()]
    rows.sort(key=lambda row: row[0].encode("utf-8", "surrogateescape"))
    return (header or (b"" if data else _HEADER)) + b"".join(lines for _, lines in rows)


def _with_lines(data: bytes, values: Mapping[str, Oid | None]) -> bytes:
    """Return the sorted lines ``data`` with new values of refs; ``None`` removes a ref. Other lines are copied."""
    parts: list[bytes] = []
    at = 0
    for name, oid in sorted((name.encode("utf-8", "surrogateescape"), oid) for name, oid in values.items()):
        start = end = _find_line(data, name)
        while end < len(data) and data.startswith(name + b"\n", end + 41):
            end += 42 + len(name)
        parts += [data[at:start], b"%b %b\n" % (oid.encode(), name) if oid else b""]
        at = end
    return b"".join([*parts, data[at:]])


def rebuilt_packed(data: bytes, put: Mapping[str, Oid]) -> bytes:
    """Return a new file with the refs ``put`` and the intact lines of the damaged ``data``, without peeled tags."""
    good = [line for line in data.splitlines(keepends=True) if is_packed_line(line) and not line.startswith(b"^")]
    return changed_packed(_HEADER_UNPEELED + b"".join(good), put=put)


def _packed_parts(data: bytes) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Return the header, and each ref name with its lines."""
    header = b""
    rows: list[tuple[str, bytes]] = []
    is_valid = _is_sorted(data.partition(b"\n")[2] if data.startswith(b"#") else data)
    for line in data.splitlines(keepends=True):
        if line.startswith(b"#"):
            header += line
        elif not is_valid and not is_packed_line(line):
            what = f"cannot read {PACKED_REFS}: invalid line {line[:60]!r}"
            raise Corrupt(what, hint="run `gitsession repair`")
        elif line.startswith(b"^") and rows:
            rows[-1] = (rows[-1][0], rows[-1][1] + line)
        else:
            rows.append((line[41:].rstrip(b"\n").decode("utf-8", "surrogateescape"), line))
    return header, rows


# ---- reading


class RefReader:
    """The refs of the repository at ``git_dir``."""

    def __init__(self, git_dir: Path) -> None:
        self._root = str(git_dir)
        self._packed_path = f"{git_dir}/{PACKED_REFS}"
        self._searches = 0
        """Number of searches in the file since its lines were last read."""
        self._seen: tuple[int, int, int] | None = None
        self._content: bytes | None = None
        """The content that was read last, if it is compared with the next one."""
        self._packed = b""
        self._bad: list[bytes] = []
        self._cached: tuple[bytes, dict[str, Mapping[str, RefValue]]] = b"", {}
        """Lines of ``packed-refs``, and long lists of the refs in these lines, by the prefix of their names."""

    def read(self, name: str) -> RefValue | None:
        """Return the value of ``name``; do not follow a symbolic ref.

        Raises ``Corrupt`` if git could not have written the file.
        """
        if not name.startswith("refs/") or ".." in name:
            return None
        raw = _content(f"{self._root}/{name}")
        if raw is None:
            return self.read_packed(name)
        value = _value(raw)
        if value is None:
            problem = _problem(raw)
            hint = "run `gitsession repair` to restore the last recorded value"
            raise Corrupt(f"cannot read ref {name}: it {problem}", hint=hint)
        return value

    def read_packed(self, name: str) -> RefValue | None:
        """Return the value of ``name`` in ``packed-refs``."""
        return self._packed_from(f"{name}\n").get(name)  # the line, and not those of the refs below ``name``

    def list(self, prefix: str) -> Mapping[str, RefValue]:
        """Return the values of all refs whose names start with ``prefix``, in order.

        Like git, ignore invalid files. Names that are not valid UTF-8 are ignored too: only git itself creates them.
        The caller must not change the result, which may be returned again.
        """
        loose = self.list_loose(prefix)
        packed = self._packed_from(prefix)
        if not loose:
            return packed
        found = {**packed, **loose}
        return found if len(found) == len(packed) else dict(sorted(found.items()))

    def list_loose(self, prefix: str) -> dict[str, RefValue]:
        """Return the loose refs whose names start with ``prefix``."""
        loose = {}
        for name in self._loose(prefix.rpartition("/")[0], prefix):
            value = _value(_content(f"{self._root}/{name}") or b"")
            if value is not None and is_utf8(os.fsencode(name)):
                loose[name] = value
        return loose

    def _loose(self, directory: str, prefix: str) -> Iterator[str]:
        try:
            with os.scandir(f"{self._root}/{directory}") as found:
                entries = list(found)
        except (FileNotFoundError, NotADirectoryError):
            return
        except PermissionError:
            # This error is not ignored: a session with unreadable refs must not appear to be deleted.
            raise denied(Path(self._root, directory)) from None
        for entry in entries:
            name = f"{directory}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):  # git creates no links among refs, and links may form a cycle
                if name.startswith(prefix) or prefix.startswith(name + "/"):
                    yield from self._loose(name, prefix)
            elif name.startswith(prefix) and not name.endswith(".lock"):
                yield name

    def damage(self) -> dict[str, str]:
        """Return a description of each damaged ref file, by file name. ``list`` ignores the refs in these files."""
        found = {}
        for name in self._loose("refs", "refs/"):
            raw = _content(f"{self._root}/{name}")
            if raw is not None and _value(raw) is None and is_utf8(os.fsencode(name)):
                found[name] = _problem(raw)
        self._packed_refs()
        if self._bad:
            lines = f"{len(self._bad):,} invalid lines; the first one is" if len(self._bad) > 1 else "an invalid line:"
            found[PACKED_REFS] = f"contains {lines} {_excerpt(self._bad[0])}"
        return found

    def list_invalid_names(self, prefix: str) -> Sequence[str]:
        """Return the names that start with ``prefix`` and are not valid UTF-8, with backslash escapes."""
        lines = self._packed_refs()
        packed = [] if is_utf8(lines) else [line[41:] for line in lines.split(b"\n")]
        loose = map(os.fsencode, self._loose(prefix.rpartition("/")[0], prefix))
        invalid = {name for name in (*packed, *loose) if name.startswith(prefix.encode()) and not is_utf8(name)}
        return sorted(name.decode("utf-8", "backslashreplace") for name in invalid)

    def _packed_from(self, prefix: str) -> Mapping[str, RefValue]:
        """Return the packed refs whose names, followed by a line feed, start with ``prefix``, in order.

        Most processes read few refs, and the file has several lines for each session. So the first reads search the
        file, and only further reads load it. A sync lists all refs several times, so long lists are cached.
        """
        if self._searches < _SEARCHES_MAX and self._packed_status() != self._seen:
            self._searches += 1
            found = _lines_around(self._packed_path, prefix)
            if found is not None:
                return _refs_in_lines(found, prefix)
        lines = self._packed_refs()
        of_lines, lists = self._cached
        if prefix in lists and of_lines is lines:
            return lists[prefix]
        listed = _refs_in_lines(lines, prefix)
        if len(listed) >= _CACHED_REFS_MIN:
            older = list(lists.items())[1 - _CACHED_LISTS_MAX :] if of_lines is lines else []
            self._cached = lines, {**dict(older), prefix: listed}
        return listed

    def _packed_refs(self) -> bytes:
        """Return the sorted lines of ``packed-refs``; read the file again if it may have changed.

        A file that was written in the last second is always read again, and its lines are checked again if the content
        differs: within one tick of the clock, it can be replaced by a file with the same time, size and inode.
        """
        seen = self._packed_status()
        if seen is None:
            return b""
        if seen != self._seen:
            self._searches = 0
            fresh = time.time_ns() - _FRESH_NS
            content = read_regular(self._packed_path) or b""
            if content != self._content:
                self._packed, self._bad = _sorted_lines(content)
            self._seen = seen if seen[0] < fresh else None
            self._content = None if self._seen else content
        return self._packed

    def _packed_status(self) -> tuple[int, int, int] | None:
        """Return the time, the size and the inode of ``packed-refs``; ``None`` if there is no such file."""
        try:
            stat = os.stat(self._packed_path)
        except FileNotFoundError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _value(raw: bytes) -> RefValue | None:
    """Return the value in the content of a ref file; ``None`` if git could not have written it, or it is not UTF-8."""
    found = _VALUE.fullmatch(raw)
    return found[1].decode() if found and is_utf8(raw) else None


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _problem(raw: bytes) -> str:
    """Return a description of the problem of a ref file with the content ``raw``."""
    if not raw.strip():
        return "is empty"
    if not raw.strip(b"\0"):
        return "consists of zero bytes"
    return f"contains an invalid value: {_excerpt(raw)}"


def _excerpt(raw: bytes) -> str:
    return raw[:60].decode("ascii", "replace").strip().replace("\0", "\ufffd")


def _sorted_lines(data: bytes) -> tuple[bytes, list[bytes]]:
    """Return the lines of refs, sorted by name, and the damaged lines: a damaged line does not hide other lines.

    Git sorts the lines and marks the file as sorted in the first line, a comment.
    """
    if data.startswith(b"#"):
        data = data.partition(b"\n")[2]
    if _is_sorted(data):
        return data, []
    lines = data.splitlines(keepends=True)
    good = [line for line in lines if is_packed_line(line)]
    bad = [line for line in lines if line[:1] != b"#" and not is_packed_line(line)] if good != lines else []
    refs = [line for line in good if line[:1] != b"^"]
    refs.sort(key=_name_in)  # fast if the lines are already in order
    return b"".join(refs), bad


def _is_sorted(data: bytes) -> bool:
    """Return whether ``data`` consists only of valid lines of refs, sorted by name.

    All lines are checked together, which takes a third of the time of a check of each line. The first command after a
    change reads all of them, and a store has about three lines for each session.
    """
    lines = data.split(b"\n")
    if lines.pop() or not lines:
        return False
    starts, names = b"".join([line[:41] for line in lines]), [line[41:] for line in lines]
    return (
        len(starts) == 41 * len(lines)
        and starts[40::41] == b" " * len(lines)
        and starts.translate(None, b"0123456789abcdef") == b" " * len(lines)
        and names == sorted(names)
        and names[0].startswith(b"refs/")  # and so do the names between the first and the last one
        and names[-1].startswith(b"refs/")
        and names[0] != b"refs/"
        and not b"".join(names).translate(None, _NAME_BYTES)
    )


def _name_in(line: bytes) -> bytes:
    return line[41:]


def _content(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # do not block on a named pipe
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        raise denied(Path(path)) from None
    try:
        return os.read(fd, _VALUE_BYTES_MAX)
    except IsADirectoryError:
        return None
    finally:
        os.close(fd)


def _lines_around(path: str, prefix: str) -> bytes | None:
    """Return the lines of a large sorted file whose names start with ``prefix``, and some lines before and after them.

    As git does, search the file without reading all lines. Return ``None`` if the file must be read as a whole: it is
    small, it is not sorted, a line is damaged, or many lines start with ``prefix``. If a damaged name leads the search
    to a wrong place, the line of that name is next to this place, and the lines there are not sorted.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # do not block on a named pipe
    except OSError:
        return None
    try:
        return _search(fd, os.fstat(fd).st_size, prefix.encode("utf-8", "surrogateescape"))
    except OSError:
        return None
    finally:
        os.close(fd)


def _search(fd: int, size: int, wanted: bytes) -> bytes | None:
    header, _, _ = os.pread(fd, _LINE_BYTES_MAX, 0).partition(b"\n")
    if size < _SEARCHED_BYTES_MIN or not header.startswith(b"# pack-refs with:") or b" sorted " not in header:
        return None
    begin = low = len(header) + 1
    high = size
    while high - low > _LINE_BYTES_MAX:
        middle = (low + high) // 2
        _, *line = os.pread(fd, 2 * _LINE_BYTES_MAX, middle).split(b"\n", 2)
        if len(line) < 2 or not is_packed_line(line[0] + b"\n"):
            return None
        if line[0][41:] + b"\n" < wanted:
            low = middle
        else:
            high = middle
    start = max(low - _LINE_BYTES_MAX, begin)
    for length in _AROUND_BYTES:
        lines = os.pread(fd, length, start)
        lines = lines[0 if start == begin else lines.find(b"\n") + 1 : lines.rfind(b"\n") + 1]
        if not _is_sorted(lines) or (start > begin and lines[41 : lines.find(b"\n") + 1] >= wanted):
            return None
        last = lines[lines.rfind(b"\n", 0, -1) + 42 :]
        if start + length >= size or (last > wanted and not last.startswith(wanted)):
            return lines
    return None


def _refs_in_lines(data: bytes, prefix: str) -> dict[str, RefValue]:
    """Return the packed refs whose names, followed by a line feed, start with ``prefix``, in order.

    Every character of a name is greater than the line feed, so the lines are in the order of the names. Binary searches
    find the first line and the line after the last one. The lines between are decoded together, because some commands
    list hundreds of thousands of refs several times.
    """
    wanted = prefix.encode("utf-8", "surrogateescape")
    start = _find_line(data, wanted)
    if not data.startswith(wanted, start + 41):
        return {}
    bound = wanted.rstrip(b"\xff")  # to increment the last byte gives the first name after all names with the prefix
    end = _find_line(data, bound[:-1] + bytes([bound[-1] + 1])) if bound else len(data)
    found = data[start:end]
    try:
        lines = found.decode().split("\n")
    except UnicodeDecodeError:
        lines = [line.decode() for line in found.split(b"\n") if is_utf8(line)]
    return {line[41:]: line[:40] for line in lines[:-1]}


def _find_line(data: bytes, wanted: bytes) -> int:
    """Return the start of the first line in ``data`` whose name and line feed are not less than ``wanted``."""
    low, high = 0, len(data)
    while low < high:
        middle = data.rfind(b"\n", low, (low + high) // 2) + 1 or low
        end = data.index(b"\n", middle) + 1
        if data[middle + 41 : end] >= wanted:
            high = middle
        else:
            low = end
    return low
