"""Which ref names a store can keep: git's rules, and ours for what is synced between file systems.

Names under ``refs/heads/sessions/`` are pushed to machines whose file systems fold case or reserve words, so there we
allow only what every one of them keeps apart: lower-case letters, digits and ``._-``.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gitsession.errors import InvalidName, Malformed

NAME_BYTES_MAX = 200
SYMBOLIC = "ref: "

_SESSIONS = "refs/heads/sessions/"
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|[/.]$")
_PORTABLE = re.compile(r"[a-z0-9_][a-z0-9._-]*")
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))})
_OID = re.compile(r"[0-9a-f]{40}")


@lru_cache(maxsize=4096)
def check_ref_name(name: str) -> None:
    """Raises ``InvalidName`` where git, a file system or another machine could not keep ``name``."""
    if not name.startswith("refs/") or name.count("/") < 2:
        raise InvalidName(f"not a full ref name, such as refs/heads/main: {name[:80]!r}")
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidName(f"a ref name is Unicode text: {name[:80]!r}") from None
    if length > NAME_BYTES_MAX:
        raise InvalidName(f"a ref name has at most {NAME_BYTES_MAX} bytes, this one {length}: {name[:40]!r}...")
    found = _FORBIDDEN.search(name)
    if found:
        raise InvalidName(f"git does not allow {found.group()!r} there: {name!r}")
    if name.startswith(_SESSIONS):
        for part in name.removeprefix(_SESSIONS).split("/"):
            _check_portable(part, name)


def check_value(value: str) -> None:
    """Raises ``Malformed`` unless a ref can hold ``value``: an oid, or ``ref: <name>``."""
    if value.startswith(SYMBOLIC):
        check_ref_name(value.removeprefix(SYMBOLIC))
    elif not _OID.fullmatch(value) or value == "0" * 40:
        raise Malformed(f"a ref holds 40 lower-case hexadecimal digits or 'ref: <name>', not {value[:60]!r}")


def directories(name: str) -> list[str]:
    """The names that must be directories for ``name`` to be a file: ``refs/heads/a`` for ``refs/heads/a/b``."""
    parts = name.split("/")
    return ["/".join(parts[:length]) for length in range(3, len(parts))]


def _check_portable(part: str, name: str) -> None:
    if not _PORTABLE.fullmatch(part):
        raise InvalidName(f"only a-z, 0-9 and . _ - (not first) travel safely, not {part!r}: {name!r}")
    if part.split(".")[0] in _DEVICES:
        raise InvalidName(f"{part!r} is the name of a device on some machines: {name!r}")
