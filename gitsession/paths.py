"""The path of the user's store.

The path is the first of these values that is set: the path that the caller passes, ``$GITSESSION_DIR``, and
``gitsession.store`` in the user's git configuration. If none is set, the store is in the user's data folder. Parent
directories are never searched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

VARIABLE = "GITSESSION_DIR"
SETTING = "gitsession.store"


def store_path(path: str | None, environ: Mapping[str, str], home: Path, setting: Callable[[str], str | None]) -> Path:
    """Return the path of the store.

    ``setting``: a function that reads a git setting. The function is called only if no other value is set.
    """
    chosen = path or environ.get(VARIABLE) or (setting(SETTING) if _may_be_set(environ, home) else None)
    if chosen:
        return Path(chosen).expanduser().absolute()
    data = Path(environ["XDG_DATA_HOME"]) if environ.get("XDG_DATA_HOME") else home / ".local" / "share"
    return data / "gitsession" / "store.git"


def _may_be_set(environ: Mapping[str, str], home: Path) -> bool:
    """Return whether the user's git configuration may contain the path of a store.

    Reading the configuration files is faster than starting git.
    """
    config_home = Path(environ["XDG_CONFIG_HOME"]) if environ.get("XDG_CONFIG_HOME") else home / ".config"
    files = [Path(environ["GIT_CONFIG_GLOBAL"])] if environ.get("GIT_CONFIG_GLOBAL") else []
    files = files or [home / ".gitconfig", config_home / "git" / "config"]
    return any(_mentions(file) for file in files)


def _mentions(file: Path) -> bool:
    try:
        text = file.read_bytes().lower()
    except OSError:
        return False
    return b"gitsession" in text or b"include" in text
