"""Installation and removal of gitsession's hooks in a repository.

An existing hook is renamed to ``<name>.local``, and gitsession's hook runs it. Each step can be interrupted and
repeated. If a hook existed before the first step, a hook exists after each step.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

import gitsession
from gitsession.durable import read_regular
from gitsession.errors import Refused

LOCAL = ".local"
_MARK = b"# gitsession: "
_SHIPPED = Path(gitsession.__file__).parent / "hooks"
_SOURCE_HOOKS = Path(gitsession.__file__).parents[1] / "hooks"
"""The folder of the hook scripts: ``_SHIPPED`` in an installed package, ``_SOURCE_HOOKS`` in a checkout.

Each hook has a subfolder.
"""

MISSING, CURRENT, OLDER, OTHER = "missing", "installed", "of another release", "another hook"


def script(name: str) -> bytes:
    """Return the content of this release's script for the hook ``name``."""
    return (_folder(name) / name).read_bytes()


def shipped(name: str) -> Path:
    """Return a folder that contains only the named gitsession hook, for `core.hooksPath`.

    Raises ``Refused`` if the hook in that folder is not executable, because git would ignore it.
    """
    found = _folder(name)
    if not os.access(found / name, os.X_OK):
        hint = f"install gitsession again, or run `chmod +x {found / name}`"
        raise Refused(f"cannot run git: '{found / name}' is not executable", hint=hint)
    return found


def _folder(name: str) -> Path:
    return next((folder / name for folder in (_SHIPPED, _SOURCE_HOOKS) if (folder / name).exists()), _SHIPPED / name)


def state(folder: Path, name: str) -> str:
    """Return the state of a hook: ``MISSING``, ``CURRENT``, ``OLDER`` or ``OTHER``."""
    try:
        content = read_regular(folder / name)
    except OSError:
        return OTHER  # a pipe, a folder, or an unreadable file
    if content is None:
        return MISSING
    if content == script(name):
        return CURRENT
    return OLDER if _MARK in content[:200] else OTHER


def has_local_hook(folder: Path, name: str) -> bool:
    """Return whether ``<name>.local`` exists, to which an earlier hook was renamed."""
    return os.path.lexists(folder / (name + LOCAL))


def install(folder: Path, name: str) -> bool:
    """Install gitsession's hook; return whether anything changed.

    Raises ``Refused`` if an existing hook cannot be renamed.
    """
    found = state(folder, name)
    if found == CURRENT and os.access(folder / name, os.X_OK):
        return False
    folder.mkdir(exist_ok=True)
    if found == OTHER:
        if has_local_hook(folder, name) and not _same(folder / name, folder / (name + LOCAL)):
            raise Refused(
                f"cannot install the hook '{folder / name}': another hook has this name, and '{name}{LOCAL}' exists",
                hint="move one of the two files to another folder",
            )
        with suppress(FileExistsError):
            os.link(folder / name, folder / (name + LOCAL), follow_symlinks=False)
    temporary = folder / f".{name}.{secrets.token_hex(6)}.tmp"
    try:
        temporary.write_bytes(script(name))
        temporary.chmod(0o755)
        os.rename(temporary, folder / name)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    return True


def remove(folder: Path, name: str) -> bool:
    """Remove gitsession's hook and restore the previous hook; return whether anything changed.

    Other hooks are not removed.
    """
    if state(folder, name) not in (CURRENT, OLDER):
        return False
    if has_local_hook(folder, name):
        os.rename(folder / (name + LOCAL), folder / name)
    else:
        (folder / name).unlink()
    return True


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samestat(os.lstat(one), os.lstat(other))
    except FileNotFoundError:
        return False
