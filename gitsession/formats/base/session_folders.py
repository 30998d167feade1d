"""Where an agent keeps its sessions on a machine: said by each module of this folder, looked up by ``discovery``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class SearchRoot(NamedTuple):
    """``pattern``, a glob, below the folder ``home`` of the user's home directory.

    ``variable``: the environment variable that names another folder in place of ``home``; "" if there is none.
    """

    home: str
    pattern: str
    variable: str = ""

    @property
    def fixed(self) -> str:
        """The part of the place that no wildcard is in, with a slash at both ends: ``/.pi/agent/sessions/``."""
        place = f"/{self.home}/{self.pattern}"
        return place[: place.partition("*")[0].rindex("/") + 1]


class Workspace(NamedTuple):
    """The folder that a session is to go on in: absolute, without links in it, as the other two are.

    ``home``: the user's home directory; ``temporary``: where this machine keeps what is temporary.
    """

    cwd: str
    home: str = ""
    temporary: str = ""


class Sidecar(NamedTuple):
    """A file that belongs to a session and lies beside its own.

    ``name``: what entries call it, and what it is kept under. ``places``: where it can be, relative to the folder of
    the session file; the first that is there counts. ``sha256``: what it must hash to, in hexadecimal; "" if anything
    will do. ``needed``: whether to say so where it is not there. ``home``: where the agent looks for it when it resumes
    the session, below the first of ``Format.ROOTS``; "" if nowhere.
    """

    name: str
    places: Sequence[str]
    sha256: str = ""
    needed: bool = True
    home: str = ""
