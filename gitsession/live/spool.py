"""The spool: one file for each event that is not yet ingested (docs/explanation/live.md, "What a hook does").

The agent waits while a hook writes an event. So the writer loads no slow modules and does not call fsync. The
reader detects events that a power failure has damaged.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # not imported from typing, which takes as long to load as this module
if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER = "gitsession/spool"
"""Path of the spool, relative to the store. The store need not exist yet."""

VERSION = 1
EVENT, ASIDE, TEMPORARY = ".event", ".bad", ".tmp"
LEFT = "left"
AGAIN_SECONDS = 60
"""Time in seconds after which the events that an ingestion could not complete are tried again."""
FORGOTTEN = "forgotten"
FAILURES, FAILURES_BEFORE = "failures", "failures.old"
FAILURES_BYTES_MAX = 64 << 10
MESSAGE_CHARS_MAX = 500
EVENTS_MAX = 10_000
"""Maximum number of events in the spool. Further events are rejected. The limit is reached only if no event is ever
ingested.
"""
TEMPORARY_SECONDS = 3600

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def folder(store: str) -> str:
    return f"{store}/{FOLDER}"


def write(store: str, parts: Iterable[bytes]) -> str:
    """Write one event atomically, and return its name.

    Only the owner can read the event's file. Sorting the names of events sorts the events by time. The store and its
    parent folders need not exist. Raises ``OSError`` if the event cannot be written, or if the spool is full.
    """
    folder_path = folder(store)
    name = f"{time.time_ns():020d}-{os.urandom(6).hex()}"
    temporary = f"{folder_path}/{name}{TEMPORARY}"
    try:
        fd = os.open(temporary, _NEW, 0o600)
    except FileNotFoundError:
        make_folder(folder_path)
        fd = os.open(temporary, _NEW, 0o600)
    try:
        try:
            if len(os.listdir(folder_path)) > EVENTS_MAX:
                raise OSError(f"more than {EVENTS_MAX:,} events are waiting: run `gitsession drain` to ingest them")
            for part in parts:
                _write_all(fd, part)
        finally:
            os.close(fd)
        os.rename(temporary, f"{folder_path}/{name}{EVENT}")
    except BaseException:
        os.unlink(temporary)
        raise
    return name


def raw_head(event: str, agent: str, at_ms: int) -> bytes:
    """Return the first line of an event file. The agent's unchanged JSON follows this line.

    ``event`` and ``agent`` must be valid names (see ``fit``).
    """
    return f'{{"v": {VERSION}, "event": "{event}", "agent": "{agent}", "at_ms": {at_ms}}}\n'.encode()


def fit(name: str) -> str:
    """Return the name of an event or an agent if it is valid, else ``""``."""
    return name if len(name) <= 64 and name.isascii() and name.replace("_", "").replace("-", "").isalnum() else ""


def fail(store: str, message: str) -> None:
    """Record a failure, which `doctor` reports. If the failure cannot be written, do nothing."""
    folder_path = folder(store)
    text = "".join(character if character.isprintable() else " " for character in message[:MESSAGE_CHARS_MAX])
    line = f"{time.time_ns() // 1_000_000} {text}\n".encode("utf-8", "replace")
    try:
        make_folder(folder_path)
        fd = os.open(f"{folder_path}/{FAILURES}", _APPEND, 0o600)
        try:
            os.write(fd, line)
            if os.fstat(fd).st_size > FAILURES_BYTES_MAX:
                os.replace(f"{folder_path}/{FAILURES}", f"{folder_path}/{FAILURES_BEFORE}")
        finally:
            os.close(fd)
    except OSError:
        pass


def failures(store: str) -> list[tuple[int, str]]:
    """Return the recorded failures, oldest first, each as a Unix time in ms and a message."""
    found = []
    for name in (FAILURES_BEFORE, FAILURES):
        try:
            with open(f"{folder(store)}/{name}", "rb") as file:
                lines = file.read(2 * FAILURES_BYTES_MAX).decode("utf-8", "replace").splitlines()
        except OSError:
            continue
        for line in lines:
            at, _, message = line.partition(" ")
            if at.isdecimal():
                found.append((int(at), message))
    return found


def forget_failures(store: str) -> None:
    """Delete the recorded failures, and move the events that were set aside to ``FORGOTTEN``. Raises ``OSError``."""
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
    """Return the names of the events that are not ingested yet, oldest first."""
    return _names(store, EVENT)


def is_due(store: str) -> bool:
    """Return whether to ingest the spool now.

    True if the spool contains events that the last ingestion did not try. Also true if the last ingestion could not
    complete all events and ended at least ``AGAIN_SECONDS`` ago.
    """
    names = waiting(store)
    if not names:
        return False
    try:
        with open(f"{folder(store)}/{LEFT}") as file:
            newest_tried = file.read(100)
            tried = os.fstat(file.fileno()).st_mtime
    except (OSError, ValueError):
        return True
    return names[-1] > newest_tried or not 0 <= time.time() - tried < AGAIN_SECONDS


def leave(store: str, name: str) -> None:
    """Record the last event that an ingestion could not complete. ``name``: "" if there is none. Raises ``OSError``."""
    with open(f"{folder(store)}/{LEFT}", "w") as file:
        file.write(name)


def set_aside(store: str) -> list[str]:
    """Return the names of the events that were set aside because they could not be ingested."""
    return _names(store, ASIDE)


def path(store: str, name: str) -> str:
    return f"{folder(store)}/{name}{EVENT}"


def sweep(store: str) -> None:
    """Remove temporary files of killed hooks."""
    before = time.time() - TEMPORARY_SECONDS
    for name in _names(store, TEMPORARY):
        file = f"{folder(store)}/{name}{TEMPORARY}"
        try:
            if os.stat(file).st_mtime < before:
                os.unlink(file)
        except OSError:
            pass


def put_aside(store: str, name: str) -> None:
    os.rename(path(store, name), f"{folder(store)}/{name}{ASIDE}")


def make_folder(folder_path: str) -> None:
    """Create ``folder_path`` and its missing parent folders with mode 0700. Raises ``OSError``."""
    try:
        os.mkdir(folder_path, 0o700)
    except FileExistsError:
        pass
    except FileNotFoundError:
        parent = os.path.dirname(folder_path)
        if parent == folder_path:
            raise
        make_folder(parent)
        make_folder(folder_path)


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
