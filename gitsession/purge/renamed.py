"""What commits were called before a purge gave them another name: so that an old address still leads somewhere."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from gitsession.git.types import Oid
from gitsession.store import create

FILE = f"{create.CONTROL}/renamed"
_LINE = re.compile(rb"([0-9a-f]{40}) ([0-9a-f]{40})\n")
_PREFIX = re.compile(r"[0-9a-f]{4,40}")


def add(git_dir: Path, mapped: Mapping[Oid, Oid]) -> None:
    """Keep old to new, each once. A line that a power cut tore is passed over by who reads. Raises ``OSError``."""
    known = _known(git_dir)
    lines = "".join(f"{old} {new}\n" for old, new in sorted(mapped.items()) if known.get(old) != new)
    if lines:
        fd = os.open(git_dir / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, b"\n" + lines.encode())
            os.fsync(fd)
        finally:
            os.close(fd)


def look_up(git_dir: Path, prefix: str) -> list[tuple[Oid, Oid]]:
    """The commits that began with ``prefix`` (4 digits or more), and what each is called now."""
    if not _PREFIX.fullmatch(prefix):
        return []
    known = _known(git_dir)
    return [(old, _newest(known, old)) for old in sorted(known) if old.startswith(prefix)]


def _newest(known: Mapping[Oid, Oid], oid: Oid) -> Oid:
    seen = {oid}
    while (new := known.get(oid)) is not None and new not in seen:
        seen.add(new)
        oid = new
    return oid


def _known(git_dir: Path) -> dict[Oid, Oid]:
    try:
        data = (git_dir / FILE).read_bytes()
    except FileNotFoundError:
        return {}
    return {old.decode(): new.decode() for old, new in _LINE.findall(data)}
