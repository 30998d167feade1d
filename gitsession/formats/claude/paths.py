"""Where Claude Code keeps a session, what a file's place says of it, and how it is told to go on."""

from __future__ import annotations

import glob
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from gitsession.formats.base.session_folders import Sidecar, Workspace
from gitsession.formats.base.uuids import uuid_from
from gitsession.model.entries import SessionHeader

FOLDER_CHARS_MAX = 200

_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ODD = re.compile("[^A-Za-z0-9]")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class SessionPath(NamedTuple):
    """``file``: the name without its ending. ``session``: the one whose sub-agent this is, as far as the place says."""

    file: str
    session: str | None
    is_agents: bool


def place_of(name: str) -> SessionPath:
    """What ``name``, a file's place without its ending, says: ``.../<session>/subagents/.../agent-<id>``."""
    *folders, file = name.split("/")
    at = max((at for at, folder in enumerate(folders) if folder == "subagents"), default=0)
    return SessionPath(file, folders[at - 1] if at else None, file.startswith("agent-"))


def beside(name: str) -> Sequence[Sidecar]:
    """``agent-<id>.meta.json``: which call started a sub-agent. Older versions wrote none."""
    found = place_of(name)
    return (Sidecar(f"{found.file}.meta.json", (f"{found.file}.meta.json",), needed=False),) if found.is_agents else ()


def copies(name: str) -> Sequence[str]:
    """``file-history/<session>``, beside ``projects``; a sub-agent's are with those of the session that began it."""
    found = place_of(name)
    return [f"../../file-history/{found.file}"] if _UUID.fullmatch(found.file) else []


def place(header: SessionHeader, at: Workspace) -> str:
    """Where below ``SearchRoot.home`` the session of ``header`` must lie to be found in ``at``."""
    return f"projects/{folder_of(at.cwd)}/{session_uuid(header.source_id or '')}.jsonl"


def lies(header: SessionHeader, at: Workspace) -> Sequence[str]:
    """The program knows one file for a session and a folder."""
    return (glob.escape(place(header, at)),)


def resume_command(source_id: str, file: str = "") -> list[str]:
    """What goes on with a session, in its working directory."""
    return ["claude", "--resume", session_uuid(source_id)]


def session_uuid(source_id: str) -> str:
    """What Claude Code knows a session by: a UUID, which follows from ``source_id`` where that is none."""
    return source_id if _UUID.fullmatch(source_id) else uuid_from(source_id)


def folder_of(cwd: str) -> str:
    """What Claude Code calls the folder of a working directory. A long one has a hash of the whole at its end."""
    path = _units(unicodedata.normalize("NFC", cwd))
    folder = _ODD.sub("-", path)
    return folder if len(folder) <= FOLDER_CHARS_MAX else f"{folder[:FOLDER_CHARS_MAX]}-{_base36(_hash(path))}"


def _units(text: str) -> str:
    """A character for each of JavaScript's."""
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join([chr(int.from_bytes(data[at : at + 2], "little")) for at in range(0, len(data), 2)])


def _hash(path: str) -> int:
    value = 0
    for unit in path:
        value = (value * 31 + ord(unit)) & 0xFFFFFFFF
    return abs(value - (1 << 32) if value >> 31 else value)


def _base36(value: int) -> str:
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"
