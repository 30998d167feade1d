"""Sessions that a program finds by a key: its own id, or the names of which that id consists."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from gitsession.model.entries import Entry, Reset
from gitsession.store.lock import exclusive_lock

if TYPE_CHECKING:
    from gitsession.api.session import Session
    from gitsession.api.store import Store


def find_session(store: Store, id: str, *, agent: str) -> Session | None:
    """Return the session of ``agent`` with the key or the session id ``id``; ``None`` if there is none.

    A session that another program created, such as a fork of the command line, is found by its session id.
    """
    found = store.find_keyed(id, agent=agent)
    if found is None and any(row.sid == id and row.agent == agent for row in store.sessions()):
        return store.session(id)
    return found


def open_session(store: Store, id: str, *, agent: str, cwd: str | None = None) -> Session:
    """Return the same session as ``find_session``. If there is none, create a session with the key ``id``."""
    return find_session(store, id, agent=agent) or store.keyed_session(id, agent=agent, cwd=session_folder(cwd))


def session_folder(cwd: str | None) -> str | None:
    """Return the working directory of a new session: ``cwd``, or else that of this process.

    So the addresses ``@`` and ``-`` find the conversations of a program in the folder in which it runs. The result is
    ``None`` if the working directory of this process was deleted.
    """
    try:
        return os.getcwd() if cwd is None else cwd
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def locked(store: Store, agent: str, mutex: threading.Lock) -> Iterator[None]:
    """Hold ``mutex`` and, in all processes, the lock of an agent's sessions in a store."""
    folder = store.objects.local_dir
    with mutex, contextlib.nullcontext() if folder is None else exclusive_lock(folder / f"{agent}.lock"):
        yield


def key_of(*names: str) -> str:
    """Return the key that consists of names, each quoted as in a URL."""
    return "/".join(quote(name, safe="", errors="surrogatepass") for name in names)


def names_of(key: str) -> tuple[str, ...] | None:
    """Return the names of which a key consists; ``None`` if it is not a key that ``key_of`` returns."""
    try:
        names = tuple(unquote(part, errors="surrogatepass") for part in key.split("/"))
    except UnicodeDecodeError:  # a fetched session can have any key
        return None
    return names if key_of(*names) == key else None


def since_reset(contents: Iterable[Entry]) -> Iterator[Entry]:
    """Return the entries that are newer than the last reset. ``contents``: a history, the newest entry first."""
    return takewhile(lambda entry: not isinstance(entry, Reset), contents)
