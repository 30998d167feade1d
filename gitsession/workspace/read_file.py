"""Reads of one path of a workspace, and the reasons to skip a path."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from gitsession.errors import Malformed, NotFound, Refused, Unavailable
from gitsession.git import process
from gitsession.git.objects import LINK_MODE, oid_of
from gitsession.redaction.original import OPENS
from gitsession.workspace import names
from gitsession.workspace.inspect import Status
from gitsession.workspace.root import WorkspaceRoot
from gitsession.workspace.trees import State, TreeEntry

FILE_BYTES_MAX = 10 << 20
FILES_MAX = 100_000


class Caps(NamedTuple):
    """The limits of a snapshot. Files over a limit are skipped.

    ``secret``: a function that returns the rule by which a file with the given content is skipped; ``None`` otherwise.
    """

    file_bytes: int = FILE_BYTES_MAX
    files: int = FILES_MAX
    secret: Callable[[bytes], str | None] | None = None


USUAL = Caps()

_BEING_WRITTEN = "somebody is writing it"
"""A reason that is stored in checkpoints. If this text changed, an unchanged workspace would get a new checkpoint."""

_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@functools.cache
def caps() -> Caps:
    """Return the limits from the user's git configuration.

    The settings are ``gitsession.checkpointFileSize`` (a number of bytes, or a number with the suffix k, m or g) and
    ``gitsession.checkpointFiles`` (a number of files).
    """
    settings = process.user_settings("gitsession.checkpointfile")
    return Caps(
        _number(settings.get("gitsession.checkpointfilesize", ""), FILE_BYTES_MAX),
        _number(settings.get("gitsession.checkpointfiles", ""), FILES_MAX),
    )


class PathContent(NamedTuple):
    """A path and its current content.

    ``file``: the mode and oid; ``None`` if the path does not exist or is skipped. ``data``: a file's bytes or a link's
    target; empty for a submodule.
    """

    path: str
    file: TreeEntry | None
    data: bytes = b""


class Skipped(NamedTuple):
    """A path that was not captured, and the reason. If it is a folder, none of its content was captured."""

    path: str
    reason: str


class PathReading(NamedTuple):
    """The result of reading one path.

    If ``change`` is ``None``, the path could not be read, and its state in the last snapshot remains valid. A folder
    counts as missing.
    """

    change: PathContent | None
    skipped: Skipped | None = None
    status: Status | None = None


def read_path(root: WorkspaceRoot, raw: bytes, caps: Caps = USUAL, recorded: State = None) -> PathReading:
    """Read the path ``raw``, which is in on-disk form and relative to the workspace.

    ``recorded``: the state of the path in the last checkpoint. What is recorded is not scanned for secrets again.
    """
    path = names.escape_path(raw)
    missing = PathContent(path, None)
    name, rule = display_path(raw, caps.secret if recorded is None else None)
    if rule:
        return PathReading(missing, Skipped(name, secret_reason(rule)))
    reason = names.path_refusal(path)
    if reason:
        return PathReading(missing, Skipped(path, reason))
    try:
        status = root.state(path)
        if status is None:
            return PathReading(missing)
        reason = _reason(raw, status, caps)
        if reason:
            return PathReading(missing, Skipped(path, reason) if status.kind != "folder" else None, status)
        status, data = root.contents(path)
        file = TreeEntry(status.mode, oid_of("blob", data))
        rule_found = caps.secret(data) if caps.secret is not None and file != recorded else None
        if rule_found is not None:
            return PathReading(missing, Skipped(path, secret_reason(rule_found)), status)
    except NotFound:
        return PathReading(missing)
    except Unavailable:
        return PathReading(None, Skipped(path, _BEING_WRITTEN))
    except (Malformed, Refused) as error:
        return PathReading(missing, Skipped(path, str(error).removeprefix(f"{path}: ")))
    except OSError as error:
        return PathReading(missing, Skipped(path, f"it cannot be read: {error.strerror}"))
    return PathReading(PathContent(path, file, data), None, status)


def display_path(raw: bytes, secret: Callable[[bytes], str | None] | None) -> tuple[str, str]:
    """Return a path for display, and the first rule that found a secret in the path, or "".

    Each component that contains a secret is replaced by a placeholder. ``secret``: see ``Caps``.
    """
    parts = raw.split(b"/")
    rules = [secret(part) for part in parts] if secret is not None and secret(b"\n".join(parts)) else []
    rule = next((rule for rule in rules if rule is not None), "")
    if not rule:
        return names.escape_path(raw), ""
    displayed = (
        names.escape(part) if rule is None else f"{OPENS}{rule}]" for part, rule in zip(parts, rules, strict=True)
    )
    return "/".join(displayed), rule


def _reason(raw: bytes, status: Status, caps: Caps) -> str | None:
    if status.kind == "folder":
        return "a folder"
    if status.kind == "special":
        return "a pipe, a socket or a device"
    if status.size > caps.file_bytes:
        return f"larger than {caps.file_bytes:,} bytes"
    if status.mode == LINK_MODE and any(part.lower() == b".gitmodules" for part in raw.split(b"/")):
        return "a link where git reads its submodules from"
    return None


def secret_reason(rule: str) -> str:
    """Return the reason to skip a file in which ``rule`` found a secret."""
    return f"secret: {rule}"


def _number(text: str, usual: int) -> int:
    digits, unit = (text[:-1], text[-1:].lower()) if text[-1:].lower() in _UNITS else (text, "")
    return int(digits) * _UNITS.get(unit, 1) if digits.isdecimal() else usual
