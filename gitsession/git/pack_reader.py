"""A reader of objects in git's packs (docs/decisions/0009).

A pack and its index are not trusted. An index only *locates* an object: the bytes at the offset are accepted only if
their SHA-1 matches the object id. So damage in an index or pack affects only the damaged objects. Git's other files for
packs (multi-pack-index, ``.rev``, ``.bitmap``, commit-graph) are never read. Files are read with pread(2), never
mapped: if a file is truncated while it is open, the result is an error, not a signal.

Objects that verify are read even if git would reject the pack, for example because of a wrong trailer. ``verify``
reports such packs.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from math import inf
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
_WHOLE_BYTES_MAX, _WHOLE_CONTENT_BYTES_MAX, _WHOLE_MAX = 1 << 20, 16 << 20, 4
"""Maximum size of a pack that is read as a whole, of its inflated objects, and maximum number of such cached packs.

A flush writes packs of this size. To read an object with its neighbors takes a third of the time of a single read.
"""

_BASES_COST_MIN, _BASES_COST_FACTOR = 256 << 20, 64
"""Number of inflated bytes that one bulk read may spend on bases of deltas, plus this factor for each byte it returns.

Git makes chains of 50 deltas. In a hostile pack of 1 MB, the chains of a thousand large objects can cost hours.
"""

_RECENT_MAX = 4
"""Number of packs that are searched first. Sessions of one day are usually in one or two packs."""

_Base = tuple[int, bytes]
"""Type number and content of the base object of a delta."""


class Packs:
    """The packs of one object directory. Threads may share it.

    ``broken``: the reason why an index or a pack cannot be used, by file name. Objects in these packs cannot be found.
    """

    def __init__(self, object_dir: str, object_bytes_max: int) -> None:
        self.broken: dict[str, str] = {}
        self._directory = f"{object_dir}/pack"
        self._bytes_max = object_bytes_max
        self._indexes: dict[str, PackIndex] = {}
        self._recent: tuple[str, ...] = ()
        self._reads: dict[str, int] = {}
        self._whole: OrderedDict[str, dict[Oid, tuple[Kind, bytes]]] = OrderedDict()
        self._bodies: OrderedDict[str, RandomAccessFile] = OrderedDict()
        self._bases: OrderedDict[tuple[str, int], _Base] = OrderedDict()
        self._bases_bytes = 0
        self._bases_cost = 0
        self.refresh()

    def refresh(self) -> None:
        """List the packs again, because git may have replaced them. A file stays open while a thread uses it."""
        found = files(self._directory)
        newest_first = [name for name in found if name.endswith(".idx")]
        newest_first.sort(key=lambda name: (found[name][1], name), reverse=True)
        unindexed = {name for name in found if name.endswith(".pack")} - set(map(_pack, newest_first))
        broken = dict.fromkeys(sorted(unindexed), "its index is missing")
        known: dict[str, PackIndex] = {}
        for name in newest_first:
            index = self._indexes.get(name)
            if index is None or index.identity != found[name]:
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
        """Close all packs, so that each is opened again. A pack may have been replaced while it was open."""
        self._bodies, self._bases, self._bases_bytes = OrderedDict(), OrderedDict(), 0
        self._reads, self._whole = {}, OrderedDict()

    @property
    def count(self) -> int:
        """The number of objects that the indexes list."""
        return sum(index.count for index in self._indexes.values())

    def contains(self, oid: Oid) -> bool:
        """Return whether an index lists the object."""
        raw = bytes.fromhex(oid)
        for name, index in self._likely_first():
            if index.find(raw) is not None:
                self._search_first(name)
                return True
        return False

    def read(self, oid: Oid) -> tuple[Kind, bytes] | None:
        """Return an object; ``None`` if no index lists it. Raises ``Corrupt``, and ``Unavailable`` if it is too large.

        If the copy in one pack is damaged, an intact copy in another pack is returned.
        """
        raw = bytes.fromhex(oid)
        problem: GitSessionError | None = None
        for name, index in self._likely_first():
            try:
                offset = index.find(raw)
                if offset is not None:
                    self._search_first(name)
                    return self._object(name, offset, oid)
            except (Corrupt, Unavailable) as error:
                problem = problem or error
            except OSError as error:
                problem = problem or Corrupt(f"cannot read object {oid} from {_pack(name)}: {error.strerror}")
        if problem is not None:
            raise problem
        return None

    def read_all(self, oids: Iterable[Oid]) -> Iterator[tuple[Oid, Kind, bytes]]:
        """Yield, in pack order, the objects in ``oids`` that can be read. Other objects are skipped."""
        wanted: dict[str, list[tuple[int, bytes]]] = {}
        missing = self._locate(map(bytes.fromhex, oids), wanted)
        if missing:  # they may be in a pack that was written since the packs were listed
            self.refresh()
            self._locate(missing, wanted)
        for name, locations in wanted.items():
            yield from self._in_order(name, sorted(locations))

    def _locate(self, oids: Iterable[bytes], wanted: dict[str, list[tuple[int, bytes]]]) -> list[bytes]:
        """Add the offset of each object to ``wanted``, by pack, and return the objects that are in no pack."""
        missing = []
        for raw in oids:
            for name, index in self._likely_first():
                try:
                    offset = index.find(raw)
                except (Corrupt, OSError):
                    continue
                if offset is not None:
                    self._search_first(name)
                    wanted.setdefault(name, []).append((offset, raw))
                    break
            else:
                missing.append(raw)
        return missing

    def commits(self, objects_max: float = inf) -> Iterator[tuple[Oid, Kind, bytes]]:
        """Yield all readable commits in packs, in pack order. Packs with more than ``objects_max`` are skipped."""
        self.refresh()
        for name, index in list(self._indexes.items()):
            if index.count > objects_max:
                continue
            try:
                locations = index.locations()
            except (Corrupt, OSError, struct.error):
                continue
            yield from self._in_order(name, locations, pack_scan.COMMIT)

    def _in_order(
        self, name: str, locations: list[tuple[int, bytes]], only: int = 0
    ) -> Iterator[tuple[Oid, Kind, bytes]]:
        try:
            file = self._open(name)
        except OSError:
            return
        self._bases_cost, cost_max = 0, _BASES_COST_MIN

        def base_at(offset: int) -> _Base:
            if self._bases_cost > cost_max:
                raise Unavailable(f"the deltas in {_pack(name)} are too expensive")
            return self._resolve(name, offset, oid="")

        for oid, kind, data in pack_scan.read(file, locations, base_at, _TOGETHER_BYTES_MAX, only):
            cost_max += _BASES_COST_FACTOR * len(data)
            yield oid, kind, data

    def suspects(self) -> dict[str, str]:
        """Return the packs that may contain a missing object because their index is damaged, each with the damage."""
        found = dict(self.broken)
        for name, index in self._indexes.items():
            what = index.damage()
            if what:
                found[name] = what
        return found

    def oids(self, *, without: Collection[str] = ()) -> Iterator[Oid]:
        """Yield the id of every object that an index lists. An object in several packs is yielded several times.

        ``without``: names of indexes to skip.
        """
        for name, index in list(self._indexes.items()):
            if name not in without:
                yield from (raw.hex() for raw in index.names())

    # -- one object

    def _likely_first(self) -> Iterator[tuple[str, PackIndex]]:
        """Yield the indexes, beginning with those that listed the last objects: related objects share a few packs."""
        indexes, recent = self._indexes, self._recent
        for name in recent:
            if name in indexes:
                yield name, indexes[name]
        for name, index in indexes.items():
            if name not in recent:
                yield name, index

    def _search_first(self, name: str) -> None:
        if self._recent[:1] != (name,):
            self._recent = (name, *(other for other in self._recent if other != name))[:_RECENT_MAX]

    def _object(self, name: str, offset: int, oid: Oid) -> tuple[Kind, bytes]:
        found = self._whole_pack(name).get(oid)
        if found is not None:
            return found
        number, data = self._resolve(name, offset, oid)
        kind = _KINDS.get(number)
        if kind is None:
            raise Corrupt(f"object {oid} is neither a commit, a tree nor a blob")
        if oid_of(kind, data) != oid:
            what = f"the content at offset {offset} of {_pack(name)} does not match the id"
            raise Corrupt(f"cannot read object {oid}: {what}")
        return kind, data

    def _whole_pack(self, name: str) -> Mapping[Oid, tuple[Kind, bytes]]:
        """Return the readable objects of a small pack after a quarter of them were read one by one; else nothing.

        A pack is read as a whole only once, because its objects may be needed in another order than they are stored.
        """
        whole = self._whole.get(name)
        if whole is not None:
            return whole
        reads = self._reads[name] = self._reads.get(name, 0) + 1
        index = self._indexes.get(name)
        if index is None or reads != index.count // 4 or self._open(name).size > _WHOLE_BYTES_MAX:
            return {}
        whole = self._whole[name] = {}
        try:
            locations = index.locations()
        except (Corrupt, OSError, struct.error):
            return whole
        size = 0
        for oid, kind, data in self._in_order(name, locations):
            whole[oid] = kind, data
            size += len(data)
            if size > _WHOLE_CONTENT_BYTES_MAX:  # a hostile pack can be a thousand times larger when it is inflated
                break
        if len(self._whole) > _WHOLE_MAX:
            self._whole.popitem(last=False)
        return whole

    def _resolve(self, name: str, offset: int, oid: Oid) -> _Base:
        """Return the object at ``offset``: follow its deltas to a base that is not a delta, and apply them."""
        file = self._open(name)
        deltas: list[tuple[int, bytes]] = []
        seen: set[int] = set()
        at = offset
        while (base := self._bases.get((name, at))) is None:
            if at in seen or len(deltas) > _DEPTH_MAX:
                raise Corrupt(f"cannot read object {oid}: its delta chain in {_pack(name)} is cyclic or too long")
            seen.add(at)
            number, data, earlier = self._raw(name, file, at, oid)
            self._bases_cost += len(data)
            if earlier is None:
                base = number, data
                self._remember(name, at, base)
                break
            deltas.append((at, data))
            at = earlier
        number, data = base
        for position, instructions in reversed(deltas):
            try:
                data = pack_scan.apply_delta(data, instructions, self._bytes_max)
            except ValueError as error:
                problem = f"invalid delta at offset {position} of {_pack(name)}: {error}"
                raise Corrupt(f"cannot read object {oid}: {problem}") from None
            self._bases_cost += len(data)
            self._remember(name, position, (number, data))
        return number, data

    def _raw(self, name: str, file: RandomAccessFile, offset: int, oid: Oid) -> tuple[int, bytes, int | None]:
        """Return the type and the inflated bytes of an object; for a delta, also the offset of its base."""
        context = f"object {oid} is damaged at offset {offset} of {_pack(name)}"
        head = file.read_cached(offset, _HEAD_BYTES)
        try:
            number, size, at = _entry_head(head)
            base: int | None = None
            if number == _OFFSET_DELTA:
                distance, at = _read_distance(head, at)
                base = offset - distance
                if not 0 < distance < offset:
                    raise ValueError("the base of the delta is outside the pack")
            elif number == _REF_DELTA:
                base = self._indexes[name].find(head[at : at + 20])
                at += 20
                if base is None or at > len(head):
                    raise ValueError("the base of the delta is not in the pack")
        except IndexError:
            raise Corrupt(f"{context}: truncated") from None
        except ValueError as error:
            raise Corrupt(f"{context}: {error}") from None
        except KeyError:
            raise Corrupt(
                f"cannot read object {oid} at offset {offset} of {_pack(name)}: the pack was removed"
            ) from None
        if number not in _KINDS and number != _TAG and base is None:
            raise Corrupt(f"{context}: unknown object type {number}")
        if size > self._bytes_max:
            raise Unavailable(f"object {oid} is too large: {size:,} bytes (limit: {self._bytes_max:,})")
        try:
            return number, _inflate(file, offset + at, size), base
        except zlib.error:
            raise Corrupt(f"{context}: invalid compressed data") from None
        except ValueError as error:
            raise Corrupt(f"{context}: {error}") from None

    # -- open files and cached bases

    def _open(self, name: str) -> RandomAccessFile:
        file = self._bodies.get(name)
        if file is None:
            file = self._bodies[name] = RandomAccessFile(f"{self._directory}/{_pack(name)}")
            while len(self._bodies) > _OPEN_MAX:
                self._bodies.popitem(last=False)  # the file is closed when no thread reads it any longer
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


def files(directory: str) -> dict[str, Identity]:
    """Return the packs and indexes in ``directory``, by name, except those that git is still writing."""
    found: dict[str, Identity] = {}
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.endswith((".pack", ".idx")) and not entry.name.startswith(("tmp_", ".")):
                    try:
                        found[entry.name] = identity_of(entry.stat())
                    except FileNotFoundError:  # git may replace packs at any time
                        continue
    except (FileNotFoundError, NotADirectoryError):
        pass
    return found


def _entry_head(head: bytes) -> tuple[int, int, int]:
    """Return the type and the size of an object, and the end offset of its header."""
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


def _read_distance(head: bytes, at: int) -> tuple[int, int]:
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
    """Inflate exactly ``size`` bytes. Raises ``ValueError`` if the stream is shorter or longer."""
    unpacker = zlib.decompressobj()
    raw = file.read_cached(at, min(size + (size >> 8) + 64, _CHUNK_BYTES))
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
        raise ValueError(f"the data does not have the stated size of {size:,} bytes")
    return b"".join(parts)


def _pack(name: str) -> str:
    return f"{name.removesuffix('.idx')}.pack"
