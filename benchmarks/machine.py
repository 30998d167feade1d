"""Description of the machine, without its name: the context in which figures are compared."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sqlite3
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers import PEERS


def told(place: Path) -> str:
    """Return the description of the machine.

    Args:
        place: Folder of the stores.
    """
    load = f"load {os.getloadavg()[0]:.1f} at the start"
    return f"{os.cpu_count()} cores ({load}), {_memory()}, {platform.system()}, {_file_system(place)}"


def versions() -> Sequence[str]:
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    needed = dict.fromkeys(peer.needs for peer in PEERS.values() if peer.needs and peer.version)
    return [
        f"gitsession {importlib.metadata.version('gitsession')}",
        f"CPython {platform.python_version()}",
        f"git {git}",
        f"SQLite {sqlite3.sqlite_version}",
        *(f"{name} {importlib.metadata.version(name)}" for name in needed),
    ]


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (OSError, ValueError):
        return "memory unknown"


def _file_system(place: Path) -> str:
    """Return the type of the file system of ``place``, or "file system unknown"."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return "file system unknown"
    held = [(point, kind) for point, kind in mounts if place.resolve().is_relative_to(point)]
    return max(held, key=lambda mount: len(mount[0]))[1] if held else "file system unknown"
