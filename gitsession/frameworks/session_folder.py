"""The working directory of the sessions of frameworks."""

from __future__ import annotations

import os


def session_folder(cwd: str | None) -> str | None:
    """Return the working directory of a new session: ``cwd``, or else that of this process.

    So the addresses ``@`` and ``-`` find the conversations of a program in the folder in which it runs. The result is
    ``None`` if the working directory of this process was deleted.
    """
    try:
        return os.getcwd() if cwd is None else cwd
    except FileNotFoundError:
        return None
