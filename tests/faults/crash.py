"""Generator of every disk state that a power cut can leave, from a log of system calls.

Each call of the log becomes *effects*: a name added to or removed from a directory, and bytes or a length of a file. An
effect is volatile until an fsync makes it durable. A power cut after any call leaves the durable effects and some of
the volatile ones. Everything acknowledged before the cut must be present. Two models define the effects of an fsync:

posix: the fsync of a file makes its bytes and its length durable, that of a directory its names. Any subset of all
other effects may be present.

ext4: any fsync makes all earlier changes of names durable (one journal), and the bytes of its own file. Of the other
names, a prefix in order may be present; of the bytes, any subset.

A write is two effects, so every write may be torn in halves. A rename is one effect, because it is atomic within a
directory.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Literal, TypeAlias

from faults.shim import Call

Model: TypeAlias = Literal["posix", "ext4"]

EXHAUSTIVE_BITS = 5
"""Maximum number of volatile effects for which all subsets are tried."""


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect of a call.

    ``what`` is bind, unbind, move, mkdir, rmdir, write, length or extend. ``key`` is the inode or the directory whose
    fsync makes the effect durable.
    """

    what: str
    key: int | str
    path: str = ""
    second: str = ""
    file: int = 0
    offset: int = 0
    data: bytes = b""

    @property
    def is_name(self) -> bool:
        return isinstance(self.key, str)


@dataclass(slots=True)
class Disk:
    """Files and directories, with paths relative to the store and contents by file number."""

    names: dict[str, int] = field(default_factory=dict)
    files: dict[int, bytes] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, root: Path) -> tuple[Disk, dict[int, int]]:
        """Read a store from the disk, with all effects durable, and its file numbers by inode."""
        disk, by_inode = cls(), {}
        for parent, directories, files in os.walk(root):
            at = os.path.relpath(parent, root)
            disk.directories |= {os.path.normpath(f"{at}/{name}") for name in directories}
            for name in files:
                path = Path(parent, name)
                number = by_inode.setdefault(path.stat().st_ino, len(by_inode) + 1)
                disk.names[os.path.normpath(f"{at}/{name}")] = number
                disk.files[number] = path.read_bytes()
        return disk, by_inode

    def with_effects(self, effects: Iterable[Effect]) -> Disk:
        names, files, directories = dict(self.names), dict(self.files), set(self.directories)
        for effect in effects:
            match effect.what:
                case "mkdir":
                    directories.add(effect.path)
                case "rmdir":
                    directories.discard(effect.path)
                case "bind":
                    names[effect.path] = effect.file
                case "unbind":
                    names.pop(effect.path, None)
                case "move":
                    names.pop(effect.path, None)
                    names[effect.second] = effect.file
                case _:
                    files[effect.file] = _changed(files.get(effect.file, b""), effect)
        return Disk(names, files, directories)

    def visible(self) -> tuple[frozenset[str], dict[str, tuple[int, bytes]]]:
        """Return the directories that have all parents, and the number and bytes of the files in them by name."""
        there = {""}
        for path in sorted(self.directories, key=lambda path: path.count("/")):
            if os.path.dirname(path) in there:
                there.add(path)
        files = {
            path: (number, self.files.get(number, b""))
            for path, number in self.names.items()
            if os.path.dirname(path) in there
        }
        return frozenset(there - {""}), files


def _changed(old: bytes, effect: Effect) -> bytes:
    end = effect.offset + len(effect.data)
    match effect.what:
        case "length":
            return old[: effect.offset].ljust(effect.offset, b"\0")
        case "extend":
            return old.ljust(effect.offset, b"\0")
        case _:
            return old[: effect.offset].ljust(effect.offset, b"\0") + effect.data + old[end:]


Step: TypeAlias = Effect | tuple[Literal["sync"], int | str] | tuple[Literal["told"], str]


def steps(calls: Sequence[Call], root: Path, by_inode: dict[int, int]) -> Iterator[Step]:
    """Yield the effects, syncs and acknowledgements of a log. The index is derived data and is left out."""
    numbers = dict(by_inode)
    count = len(numbers)
    for call in calls:
        if call.name == "ack":
            yield "told", call.data.decode()
            continue
        if call.error or is_derived(call.path):
            continue
        path = os.path.relpath(call.path, root) if call.path else ""
        holder = os.path.dirname(path)
        if call.name == "create":
            count += 1
            numbers[call.inode] = count
            yield Effect("bind", holder, path, file=count)
        elif call.name in ("fsync", "fdatasync"):
            yield "sync", numbers.get(call.inode, "" if path == "." else path)
        elif call.name == "link":
            second = os.path.relpath(call.second, root)
            yield Effect("bind", os.path.dirname(second), second, file=numbers[call.inode])
        elif call.name == "rename":
            second = os.path.relpath(call.second, root)
            assert holder == os.path.dirname(second), "a rename between directories is more than one effect"
            yield Effect("move", holder, path, second, file=numbers[call.inode])
        elif call.name == "unlink":
            yield Effect("unbind", holder, path)
        elif call.name in ("mkdir", "rmdir"):
            yield Effect(call.name, holder, path)
        elif call.name in ("write", "fallocate", "ftruncate", "truncate"):
            yield from _of_bytes(call, numbers[call.inode])


def _of_bytes(call: Call, file: int) -> Iterator[Effect]:
    if call.name == "write":
        half = len(call.data) // 2
        for offset, data in ((0, call.data[:half]), (half, call.data[half:])):
            yield Effect("write", file, file=file, offset=call.offset + offset, data=data)
    else:
        what = "extend" if call.name == "fallocate" else "length"
        yield Effect(what, file, file=file, offset=call.offset)


@dataclass(frozen=True, slots=True)
class Crash:
    """One disk state, and the acknowledgements before the power cut. Names with the same number are hard links."""

    told: tuple[str, ...]
    directories: frozenset[str]
    files: dict[str, tuple[int, bytes]]


@dataclass(frozen=True, slots=True)
class Recording:
    """A run without faults: the disk at its start, and its log."""

    base: Disk
    log: list[Step]

    @classmethod
    def of(cls, git_dir: Path, run: Callable[[], Sequence[Call]]) -> Recording:
        """Record ``run``, which works in ``git_dir`` and returns the log of its calls with their bytes."""
        base, by_inode = Disk.read(git_dir)
        base.names = {path: number for path, number in base.names.items() if not is_derived(path)}
        return cls(base, list(steps(run(), git_dir, by_inode)))

    def crashes(self, model: Model, *, samples: int, seed: int = 0) -> Iterator[Crash]:
        """Yield every distinct disk state after every step.

        If there are many volatile effects, ``samples`` subsets are drawn instead of all.
        """
        chance = random.Random(seed)
        solid = self.base
        durable: list[tuple[int, Effect]] = []
        volatile: list[tuple[int, Effect]] = []
        told: tuple[str, ...] = ()
        seen: set[int] = set()
        for place, step in enumerate(self.log):
            if isinstance(step, Effect):
                volatile.append((place, step))
            elif step[0] == "told":
                told = (*told, str(step[1]))
            else:
                synced, rest = step[1], volatile
                durable += [row for row in rest if _persists(row[1], synced, model)]
                volatile = [row for row in rest if not _persists(row[1], synced, model)]
                durable.sort(key=_place)
                first = volatile[0][0] if volatile else place
                solid = solid.with_effects(effect for at, effect in durable if at < first)
                durable = [row for row in durable if row[0] > first]
            for chosen in _subsets(volatile, model, samples, chance):
                rows = sorted([*durable, *chosen], key=_place)
                directories, files = solid.with_effects(effect for _, effect in rows).visible()
                key = hash((len(told), directories, frozenset(files.items())))
                if key not in seen:
                    seen.add(key)
                    yield Crash(told, directories, files)


def is_derived(path: str) -> bool:
    """Return whether the path belongs to the index, which may be lost at any time and is not checked after a crash."""
    return "index.db" in path


def _place(row: tuple[int, Effect]) -> int:
    return row[0]


def _persists(effect: Effect, synced: int | str, model: Model) -> bool:
    return effect.key == synced or (model == "ext4" and effect.is_name)


def _subsets(
    volatile: list[tuple[int, Effect]], model: Model, samples: int, chance: random.Random
) -> Iterator[list[tuple[int, Effect]]]:
    """Yield subsets of the volatile effects.

    Under ext4, changes of names are kept in order and the rest in any subset.
    """
    if model == "posix":
        yield from _some(volatile, samples, chance)
        return
    names = [row for row in volatile if row[1].is_name]
    rest = [row for row in volatile if not row[1].is_name]
    for length in range(len(names) + 1):
        for chosen in _some(rest, samples, chance):
            yield [*names[:length], *chosen]


def _some(rows: list[tuple[int, Effect]], samples: int, chance: random.Random) -> Iterator[list[tuple[int, Effect]]]:
    if len(rows) <= EXHAUSTIVE_BITS:
        for size in range(len(rows) + 1):
            yield from map(list, combinations(rows, size))
        return
    yield []
    yield list(rows)
    for row in rows:
        yield [row]
        yield [other for other in rows if other is not row]
    for _ in range(samples):
        keep = chance.choice((0.2, 0.5, 0.8))
        yield [row for row in rows if chance.random() < keep]


def lay_out(crash: Crash, place: Path) -> Path:
    """Write the disk state of a crash to ``place``, which is emptied first."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(mode=0o700)
    for directory in sorted(crash.directories):
        os.mkdir(f"{place}/{directory}", 0o700)
    first: dict[int, str] = {}
    for path, (number, data) in crash.files.items():
        if first.setdefault(number, path) != path:
            os.link(f"{place}/{first[number]}", f"{place}/{path}")
            continue
        fd = os.open(f"{place}/{path}", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)
    return place
