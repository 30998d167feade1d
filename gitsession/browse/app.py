"""The terminal browser as one function."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from textual.screen import Screen

from gitsession.api import Session, Store
from gitsession.browse.browser import Browser
from gitsession.browse.session_list import SessionList
from gitsession.browse.tree import TreeScreen

SWITCH_SECONDS = 0.0005
"""Interval in which threads take turns. While another thread reads a session, the main thread waits this long after
each read of a file. With Python's 5 ms, a page takes twice as long to paint."""


def browse(store: Store, session: Session | None = None, *, folder: str = "") -> tuple[list[str], int]:
    """Run the browser on the terminal.

    Args:
        store: The store.
        session: The session to open first. By default, the list of sessions is shown.
        folder: The current folder. Its sessions are listed first.

    Returns:
        The arguments of `gitsession resume` if it is to run now, or else an empty list; and the exit code.
    """
    browser = Browser(store, lambda: first_screens(session), folder=folder or os.sep)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        command = browser.run()
    finally:
        sys.setswitchinterval(interval)
    for thread in browser.writers:
        thread.join()
    if browser.failure is not None:
        raise browser.failure
    return command or [], browser.return_code or 0


def first_screens(session: Session | None) -> Sequence[Screen[Any]]:
    """Return the list of sessions and, if ``session`` is set, its tree on top of it."""
    return [SessionList()] if session is None else [SessionList(), TreeScreen(session)]
