"""The spool: one file for each event until a process ingests it (docs/explanation/live.md, "What a hook does").

The writer runs inside an agent that waits, so nothing slow is loaded and nothing is synced. The reader detects what a
power cut destroyed.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # not from typing, which takes as long to load as this module
if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER = "gitsession/spool"
"""The path below the store, or below the place where the store will be."""

VERSION = 1
EVENT, ASIDE, TEMPORARY = ".event", ".bad", ".tmp"
LEFT = "left"
AGAIN_SECONDS = 60
"""The time in seconds after which events that had to wait are tried again."""
FORGOTTEN = "forgotten"
FAILURES, FAILURES_BEFORE = "failures", "failures.old"
FAILURES_BYTES_MAX = 64 << 10
WORDS_MAX = 500
EVENTS_MAX = 10_000
"""Maximum number of waiting events. More would wait only if nothing is ever ingested, so further ones are refused."""
LITTER_SECONDS = 3600

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def folder(store: str) -> str:
    return f"{store}/{FOLDER}"


def write(store: str, parts: Iterable[bytes]) -> str:
    """Write one event atomically, readable by its owner only; return its name.

    Names are in the order of time. The store and the folders above it may be missing. Raises ``OSError``, also for too
    many events.
    """
    place = folder(store)
    name = f"{time.time_ns():020d}-{os.urandom(6).hex()}"
    temporary = f"{place}/{name}{TEMPORARY}"
    try:
        fd = os.open(temporary, _NEW, 0o600)
    except FileNotFoundError:
        make_folder(place)
        fd = os.open(temporary, _NEW, 0o600)
    try:
        try:
            if len(os.listdir(place)) > EVENTS_MAX:
                raise OSError(f"more than {EVENTS_MAX:,} events are waiting: run `gitsession drain` to ingest them")
            for part in parts:
                _write_all(fd, part)
        finally:
            os.close(fd)
        os.rename(temporary, f"{place}/{name}{EVENT}")
    except BaseException:
        os.unlink(temporary)
        raise
    return name


def raw_head(event: str, agent: str, at_ms: int) -> bytes:
    """Return the first line of an event, before the unchanged JSON of the agent. Check both names with ``fit``."""
    return f'{{"v": {VERSION}, "event": "{event}", "agent": "{agent}", "at_ms": {at_ms}}}\n'.encode()


def fit(name: str) -> str:
    """Return the name of an event or an agent if it is valid, else ``""``."""
    return name if len(name) <= 64 and name.isascii() and name.replace("_", "").replace("-", "").isalnum() else ""


def fail(store: str, what: str) -> None:
    """Record a failure for `doctor`. Does nothing if that is impossible."""
    place = folder(store)
    words = "".join(letter if letter.isprintable() else " " for letter in what[:WORDS_MAX])
    line = f"{time.time_ns() // 1_000_000} {words}\n".encode("utf-8", "replace")
    try:
        make_folder(place)
        fd = os.open(f"{place}/{FAILURES}", _APPEND, 0o600)
        try:
            os.write(fd, line)
            if os.fstat(fd).st_size > FAILURES_BYTES_MAX:
                os.replace(f"{place}/{FAILURES}", f"{place}/{FAILURES_BEFORE}")
        finally:
            os.close(fd)
    except OSError:
        pass


def failures(store: str) -> list[tuple[int, str]]:
    """Return the failures, the oldest first: the Unix time in ms, and the message."""
    found = []
    for name in (FAILURES_BEFORE, FAILURES):
        try:
            with open(f"{folder(store)}/{name}", "rb") as file:
                lines = file.read(2 * FAILURES_BYTES_MAX).decode("utf-8", "replace").splitlines()
        except OSError:
            continue
        for line in lines:
            at, _, words = line.partition(" ")
            if at.isdecimal():
                found.append((int(at), words))
    return found


def forget_failures(store: str) -> None:
    """Delete the failures, and move the events that were set aside to another folder. Raises ``OSError``."""
    aside = set_aside(store)
    kept = f"{folder(store)}/{FORGOTTEN}"
    if aside:
        make_folder(kept)
    for name in aside:
        os.rename(f"{folder(store)}/{name}{ASIDE}", f"{kept}/{name}{ASIDE}")
    for name in (FAILURES_BEFORE, FAILURES):
        try:
            os.unlink(f"{folder(store)}/{name}")
        except FileNotFoundError:
            pass


def waiting(store: str) -> list[str]:
    """Return the names of the events that are not ingested yet, the oldest first."""
    return _names(store, EVENT)


def is_due(store: str) -> bool:
    """Return whether events wait that the last ingestion has not seen, or saw over ``AGAIN_SECONDS`` ago."""
    names = waiting(store)
    if not names:
        return False
    try:
        with open(f"{folder(store)}/{LEFT}") as file:
            seen = file.read(100)
            tried = os.fstat(file.fileno()).st_mtime
    except (OSError, ValueError):
        return True
    return names[-1] > seen or not 0 <= time.time() - tried < AGAIN_SECONDS


def leave(store: str, name: str) -> None:
    """Record the newest event that had to wait. Raises ``OSError``."""
    with open(f"{folder(store)}/{LEFT}", "w") as file:
        file.write(name)


def set_aside(store: str) -> list[str]:
    """Return the names of the events that were set aside because they could not be ingested."""
    return _names(store, ASIDE)


def path(store: str, name: str) -> str:
    return f"{folder(store)}/{name}{EVENT}"


def sweep(store: str) -> None:
    """Remove temporary files of killed hooks."""
    before = time.time() - LITTER_SECONDS
    for name in _names(store, TEMPORARY):
        file = f"{folder(store)}/{name}{TEMPORARY}"
        try:
            if os.stat(file).st_mtime < before:
                os.unlink(file)
        except OSError:
            pass


def put_aside(store: str, name: str) -> None:
    os.rename(path(store, name), f"{folder(store)}/{name}{ASIDE}")


def make_folder(place: str) -> None:
    """Create ``place`` and missing folders above it with mode 0700. Raises ``OSError``."""
    try:
        os.mkdir(place, 0o700)
    except FileExistsError:
        pass
    except FileNotFoundError:
        above = os.path.dirname(place)
        if above == place:
            raise
        make_folder(above)
        make_folder(place)


def _names(store: str, ending: str) -> list[str]:
    try:
        found = os.listdir(folder(store))
    except OSError:
        return []
    return sorted(name.removesuffix(ending) for name in found if name.endswith(ending))


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
