"""The interface of a framework: its sessions in a gitsession store, and in the store that the framework ships."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from benchmarks.data import messages
from gitsession import Store


class Sessions(NamedTuple):
    """The sessions in an open store.

    ``put`` appends the message with a number to the session with an id, which is created if it does not exist. ``get``
    returns the number of messages of a session, and ``list`` the number of sessions. ``list`` is ``None`` if the
    framework has no such operation.
    """

    put: Callable[[str, int], object]
    get: Callable[[str], int]
    list: Callable[[], int] | None = None


Open: TypeAlias = Callable[[Path], AbstractContextManager[Sessions]]
"""A function that opens the store in a folder, or creates it."""


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework.

    ``needs``: the distributions that must be installed. ``is_durable``: whether the peer stores sessions in files.
    """

    name: str
    peer: str
    needs: Sequence[str]
    ours: Open
    theirs: Open
    is_durable: bool = True

    @property
    def missing(self) -> list[str]:
        """The distributions that are not installed."""
        found = {each.metadata["Name"].lower() for each in importlib.metadata.distributions()}
        return [name for name in self.needs if name not in found]


@contextmanager
def store_in(place: Path) -> Iterator[Store]:
    path = place / "store.git"
    with Store.open(path) if path.exists() else Store.create(path) as store:
        yield store


def text_of(number: int) -> str:
    """Return a text of about 1 KB that no other number has."""
    found = messages()
    return f"{number} {found[number % len(found)].plain['content']}"
