"""Objects out of git's packs, read by our own few lines (docs/decisions/0009).

Nothing that a pack or its index says is taken on trust. An index is used to *find* an object; what comes back is that
object only if its SHA-1 says so. So a damaged index or pack costs what is damaged in it and no more, and no other file
of git's (multi-pack-index, ``.rev``, ``.bitmap``, commit-graph) is ever looked at. Files are read with pread(2), never
mapped: a file that is cut short while we have it open is an error, not a signal.

What git itself would refuse, such as a pack whose trailer is wrong, is no reason not to read what verifies: that is
for ``verify`` to tell.
"""

from __future__ import annotations

import functools
import os
import struct
import zlib
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from gitsession.errors import Corrupt, GitSessionError, Unavailable
from gitsession.git import pack_scan
from gitsession.git.objects import oid_of
from gitsession.git.pack_index import Identity, PackIndex, RandomAccessFile, identity_of
from gitsession.git.types import Kind, Oid

_KINDS: Final[dict[int, Kind]] = {1: "commit", 2: "tree", 3: "blob"}
_TAG, _OFFSET_DELTA, _REF_DELTA = 4, 6, 7
_HEAD_BYTES = 32
_CHUNK_BYTES = 1 << 16
_DEPTH_MAX = 4096
_OPEN_MAX = 64
_CACHE_BYTES = 32 << 20
_CACHED_BYTES_MAX = 1 << 20
_TOGETHER_BYTES_MAX = 1 << 18

_Base = tuple[int, bytes]
"""Type number and bytes of an object that deltas are made against."""


class Packs:
    """All packs of one object directory. Safe to share between threads.

    ``broken`` tells of packs whose index cannot be used, by file name: what they hold cannot be found.
    """

    def __init__(self, object_dir: str, object_bytes_max: int) -> None:
        self.broken: dict[str, str] = {}
        self._directory = f"{object_dir}/pack"
        self._bytes_max = object_bytes_max
        self._indexes: dict[str, PackIndex] = {}
        self._bodies: OrderedDict[str, RandomAccessFile] = OrderedDict()
        self._bases: OrderedDict[tuple[str, int], _Base] = OrderedDict()
        self._bases_bytes = 0
        self.refresh()

    def refresh(self) -> None:
        """Look which packs there are now. git replaces them at any time; a file in use stays open until it is not."""
        known: dict[str, PackIndex] = {}
        listed, broken = self._listed()
        for name, identity in listed:
            index = self._indexes.get(name)
            if index is None or index.identity != identity:
                try:
                    index = PackIndex(f"{self._directory}/{name}")
                except FileNotFoundError:
                    continue
                except (Corrupt, OSError) as error:
                    broken[name] = str(error)
                    continue
            known[name] = index
        changed = any(known.get(name) is not index for name, index in self._indexes.items())
        self._indexes, self.broken = known, broken
        if changed:
            self.forget()

    def forget(self) -> None:
        """Open every pack anew: what was read before came from a file that may have been replaced since."""
        self._bodies, self._bases, self._bases_bytes = OrderedDict(), OrderedDict(), 0

    def contains(self, oid: Oid) -> bool:
        """Whether an index names it."""
        raw = bytes.fromhex(oid)
        return any(index.find(raw) is not None for index in self._indexes.values())

    def read(self, oid: Oid) -> tuple[Kind, bytes] | None:
        """The object; ``None`` where no index names it. Raises ``Corrupt``, and ``Unavailable`` for one too large.

        Where one pack's copy is damaged and another's is whole, it is the whole one.
        """
        raw = bytes.fromhex(oid)
        problem: GitSessionError | None = None
        for name, index in list(self._indexes.items()):
            try:
                offset = index.find(raw)
                if offset is not None:
                    return self._object(name, offset, oid)
            except (Corrupt, Unavailable) as error:
                problem = problem or error
            except OSError as error:
                problem = problem or Corrupt(f"object {oid}: {_body(name)} cannot be read: {error.strerror}")
        if problem is not None:
            raise problem
        return None

    def read_all(self, oids: Iterable[Oid]) -> Iterator[tuple[Oid, Kind, bytes]]:
        """Those of ``oids`` that can be read in the order in which they lie, without a word of the others."""
        wanted: dict[str, list[tuple[int, bytes]]] = {}
        indexes = list(self._indexes.items())
        for raw in map(bytes.fromhex, oids):
            for name, index in indexes:
                try:
                    offset = index.find(raw)
                except (Corrupt, OSError):
                    continue
                if offset is not None:
                    wanted.setdefault(name, []).append((offset, raw))
                    break
        for name, places in wanted.items():
            yield from self._in_order(name, sorted(places))

    def commits(self) -> Iterator[tuple[Oid, Kind, bytes]]:
        """The commits of all packs, in the order in which they lie, as ``read_all`` finds them."""
        for name, index in list(self._indexes.items()):
            try:
                places = index.places()
            except (Corrupt, OSError, struct.error):
                continue
            yield from self._in_order(name, places, pack_scan.COMMIT)

    def _in_order(
        self, name: str, places: list[tuple[int, bytes]], only: int = 0
    ) -> Iterator[tuple[Oid, Kind, bytes]]:
        try:
            file = self._open(name)
        except OSError:
            return
        base_at = functools.partial(self._resolve, name, oid="")
        yield from pack_scan.read(file, places, base_at, _TOGETHER_BYTES_MAX, only)

    def suspects(self) -> dict[str, str]:
        """The packs that may hold an object that was not found, with the reason: those whose index is not whole."""
        found = dict(self.broken)
        for name, index in self._indexes.items():
            what = index.damage()
            if what:
                found[name] = what
        return found

    def oids(self, *, without: Collection[str] = ()) -> Iterator[Oid]:
        """The name of every object that an index lists; one that is in several packs comes several times.

        ``without``: the indexes, by name, that are passed over.
        """
        for name, index in list(self._indexes.items()):
            if name not in without:
                yield from (raw.hex() for raw in index.names())

    # -- one object

    def _object(self, name: str, offset: int, oid: Oid) -> tuple[Kind, bytes]:
        number, data = self._resolve(name, offset, oid)
        kind = _KINDS.get(number)
        if kind is None:
            raise Corrupt(f"object {oid} is neither a commit, a tree nor a blob")
        if oid_of(kind, data) != oid:
            raise Corrupt(f"object {oid}: what {_body(name)} holds at {offset} is something else")
        return kind, data

    def _resolve(self, name: str, offset: int, oid: Oid) -> _Base:
        """The object at ``offset``: its delta, the delta that is made against, and so on to a whole one, applied."""
        file = self._open(name)
        deltas: list[tuple[int, bytes]] = []
        seen: set[int] = set()
        at = offset
        while (base := self._bases.get((name, at))) is None:
            if at in seen or len(deltas) > _DEPTH_MAX:
                raise Corrupt(f"object {oid}: its deltas in {_body(name)} go round in a circle")
            seen.add(at)
            number, data, earlier = self._raw(name, file, at, oid)
            if earlier is None:
                base = number, data
                self._remember(name, at, base)
                break
            deltas.append((at, data))
            at = earlier
        number, data = base
        for place, instructions in reversed(deltas):
            try:
                data = pack_scan.apply_delta(data, instructions, self._bytes_max)
            except ValueError as error:
                raise Corrupt(f"object {oid}: a delta in {_body(name)} at {place}: {error}") from None
            self._remember(name, place, (number, data))
        return number, data

    def _raw(self, name: str, file: RandomAccessFile, offset: int, oid: Oid) -> tuple[int, bytes, int | None]:
        """Type, inflated bytes, and for a delta the offset of what it is made against."""
        where = f"object {oid} is damaged in {_body(name)} at {offset}"
        head = file.read_among(offset, _HEAD_BYTES)
        try:
            number, size, at = _entry_head(head)
            base: int | None = None
            if number == _OFFSET_DELTA:
                distance, at = _offset_back(head, at)
                base = offset - distance
                if not 0 < distance < offset:
                    raise ValueError("a delta against something outside of the pack")
            elif number == _REF_DELTA:
                base = self._indexes[name].find(head[at : at + 20])
                at += 20
                if base is None or at > len(head):
                    raise ValueError("a delta against an object that is not in the pack")
        except IndexError:
            raise Corrupt(f"{where}: what is there ends too early") from None
        except ValueError as error:
            raise Corrupt(f"{where}: {error}") from None
        except KeyError:
            raise Corrupt(f"{where}: the pack has gone") from None
        if number not in _KINDS and number != _TAG and base is None:
            raise Corrupt(f"{where}: no type of object has the number {number}")
        if size > self._bytes_max:
            raise Unavailable(f"object {oid} has {size:,} bytes, and the limit is {self._bytes_max:,}")
        try:
            return number, _inflate(file, offset + at, size), base
        except zlib.error:
            raise Corrupt(f"{where}: what is there cannot be unpacked") from None
        except ValueError as error:
            raise Corrupt(f"{where}: {error}") from None

    # -- what is open and what is remembered

    def _open(self, name: str) -> RandomAccessFile:
        file = self._bodies.get(name)
        if file is None:
            file = self._bodies[name] = RandomAccessFile(f"{self._directory}/{_body(name)}")
            while len(self._bodies) > _OPEN_MAX:
                self._bodies.popitem(last=False)  # closed when no thread reads from it any more
        return file

    def _remember(self, name: str, offset: int, base: _Base) -> None:
        size = len(base[1])
        if size > _CACHED_BYTES_MAX:
            return
        self._bases[name, offset] = base
        self._bases_bytes += size
        while self._bases_bytes > _CACHE_BYTES:
            try:
                self._bases_bytes -= len(self._bases.popitem(last=False)[1][1])
            except KeyError:
                self._bases_bytes = 0

    def _listed(self) -> tuple[list[tuple[str, Identity]], dict[str, str]]:
        """The indexes, the newest first, and packs that have none."""
        found = files(self._directory)
        indexes = [name for name in found if name.endswith(".idx")]
        indexes.sort(key=lambda name: (found[name][1], name), reverse=True)
        alone = {name for name in found if name.endswith(".pack")} - {_body(name) for name in indexes}
        return [(name, found[name]) for name in indexes], dict.fromkeys(sorted(alone), "it has no index")


def files(directory: str) -> dict[str, Identity]:
    """The packs and the indexes that lie in ``directory``, by name; what git is still writing has other names."""
    found: dict[str, Identity] = {}
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.endswith((".pack", ".idx")) and not entry.name.startswith(("tmp_", ".")):
                    try:
                        found[entry.name] = identity_of(entry.stat())
                    except FileNotFoundError:  # git replaces packs at any time
                        continue
    except (FileNotFoundError, NotADirectoryError):
        pass
    return found


def _entry_head(head: bytes) -> tuple[int, int, int]:
    """Type, size, and where the head ends."""
    byte = head[0]
    number, size, shift, at = byte >> 4 & 7, byte & 15, 4, 1
    while byte & 128:
        byte = head[at]
        at += 1
        size |= (byte & 127) << shift
        shift += 7
        if shift > 67:
            raise ValueError("a size of more than 64 bits")
    return number, size, at


def _offset_back(head: bytes, at: int) -> tuple[int, int]:
    byte = head[at]
    at += 1
    distance = byte & 127
    while byte & 128:
        byte = head[at]
        at += 1
        distance = (distance + 1) << 7 | byte & 127
        if distance >> 63:
            raise ValueError("an offset of more than 63 bits")
    return distance, at


def _inflate(file: RandomAccessFile, at: int, size: int) -> bytes:
    """Exactly ``size`` bytes, inflated: a stream that goes on after that, or ends before, is none."""
    unpacker = zlib.decompressobj()
    raw = file.read_among(at, min(size + (size >> 8) + 64, _CHUNK_BYTES))
    data = unpacker.decompress(raw, size + 1)
    if unpacker.eof and len(data) == size:
        return data
    parts = [data]
    made = len(data)
    at += len(raw)
    while not unpacker.eof and made <= size:
        raw = unpacker.unconsumed_tail
        if not raw:
            raw = file.read(at, _CHUNK_BYTES)
            at += len(raw)
            if not raw:
                break
        data = unpacker.decompress(raw, size - made + 1)
        parts.append(data)
        made += len(data)
    if not unpacker.eof or made != size:
        raise ValueError(f"holds other than the {size:,} bytes that it says")
    return b"".join(parts)


def _body(name: str) -> str:
    return f"{name.removesuffix('.idx')}.pack"
