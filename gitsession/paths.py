"""The path of the user's store.

The path is the first of these values that is set: the path that the caller passes, ``$GITSESSION_DIR``, and
``gitsession.store`` in the user's git configuration. If none is set, the store is in the user's data folder. Parent
directories are never searched.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping

from gitsession.errors import Unavailable

VARIABLE = "GITSESSION_DIR"
SETTING = "gitsession.store"


def store_path(path: str | None, environ: Mapping[str, str], home: str, setting: Callable[[str], str | None]) -> str:
    """Return the path of the store.

    ``setting``: a function that reads a git setting. The function is called only if no other value is set. The working
    directory is not required for an absolute path, because it may have been deleted.

    Raises ``Unavailable`` if the path begins with an unknown home directory.
    """
    chosen = path or environ.get(VARIABLE) or (setting(SETTING) if may_be_configured(environ, home) else None)
    default = os.path.join(environ.get("XDG_DATA_HOME") or f"{home}/.local/share", "gitsession", "store.git")
    found = os.path.expanduser(chosen) if chosen else default
    if found.startswith("~"):
        what = f"cannot find the store '{found}': the home directory is unknown"
        raise Unavailable(what, hint=f"set {VARIABLE} to the path of the store")
    return found if not chosen or os.path.isabs(found) else os.path.join(os.getcwd(), found)


def may_be_configured(environ: Mapping[str, str], home: str) -> bool:
    """Return whether the user's git configuration may contain a setting of gitsession.

    Reading the configuration files is faster than starting git.
    """
    config_home = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    named = environ.get("GIT_CONFIG_GLOBAL")
    return any(map(_mentions, [named] if named else [f"{home}/.gitconfig", f"{config_home}/git/config"]))


def _mentions(file: str) -> bool:
    try:
        if stat.S_ISFIFO(os.stat(file).st_mode):  # git reads the pipe, and only once
            return True
        with open(file, "rb") as opened:
            text = opened.read().lower()
    except OSError:
        return False
    return b"gitsession" in text or b"include" in text
