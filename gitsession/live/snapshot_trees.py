"""Looks into trees: each says what differs from the look before it, whichever session that was for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from gitsession.durable import read_regular
from gitsession.errors import MissingObject, Unavailable
from gitsession.git.types import Oid
from gitsession.live import spool
from gitsession.live.spooled_events import Event, SpooledSnapshot
from gitsession.store.git_store import GitStore
from gitsession.workspace import workspace_lock
from gitsession.workspace.capture import put, tree_with
from gitsession.workspace.private_repository import PrivateRepository

FILE = "looks.json"


class SnapshotTrees:
    """The trees of looks. A tree is in the store when it is handed out, though no ref leads to it yet."""

    def __init__(self, store: GitStore) -> None:
        self._store = store
        self._known = _load(store.git_dir)
        self._last: dict[str, str] = {}
        self._is_noted = True

    def tree(self, look: SpooledSnapshot) -> Oid | None:
        """Raises ``MissingObject`` where nobody knows what the look goes on from."""
        states = put(self._store, look.changes)
        with self._store.transaction() as to:
            tree = tree_with(self._store, to, self._base(look), states)
        self._is_noted = self._is_noted and self._known.get(look.name, "") == tree
        self._known[look.name] = tree
        self._last[look.workspace] = look.name
        return tree

    def note(self) -> None:
        """Keep what is known, before what it is known from goes. Raises ``OSError``."""
        if not self._is_noted:
            self._write(self._known)
            self._is_noted = True

    def _base(self, look: SpooledSnapshot) -> Oid | None:
        if look.before is None:
            return None
        if look.before in self._known:
            base = self._known[look.before]
        elif look.base is not None:
            [base] = look.base
        else:
            raise MissingObject(f"nothing is known of the look {look.before} that it goes on from")
        if base is not None and not self._store.contains(base):
            raise MissingObject(f"no object {base}, the tree of the look that it goes on from")
        return base

    def forget(self, workspace: str) -> None:
        """The next look there tells all that is there: what this one went on from is lost."""
        folder = workspace_lock.folder_in(self._store.git_dir, Path(workspace))
        if folder.is_dir():
            with PrivateRepository.open(folder, wait_seconds=5) as shadow:
                shadow.forget()

    def save(self, waiting: Iterable[Event]) -> None:
        """Keep what later looks go on from: in each workspace the last one, and what the events that wait name.

        Raises ``OSError``.
        """
        for workspace, name in self._last.items():
            folder = workspace_lock.folder_in(self._store.git_dir, Path(workspace))
            try:
                with PrivateRepository.open(folder, wait_seconds=5) as shadow:
                    shadow.keep_tree(name, self._known[name])
            except Unavailable:  # then the next look by the store is one afresh
                pass
        wanted = {event.look.before for event in waiting if event.look} | set(self._last.values())
        self._write({name: tree for name, tree in self._known.items() if name in wanted})

    def _write(self, kept: Mapping[str, Oid | None]) -> None:
        place = f"{spool.folder(str(self._store.git_dir))}/{FILE}"
        with open(f"{place}.new", "w") as file:
            json.dump(kept, file)
        os.replace(f"{place}.new", place)


def _load(store: Path) -> dict[str, Oid | None]:
    try:
        found = json.loads(read_regular(f"{spool.folder(str(store))}/{FILE}") or b"{}")
    except (OSError, ValueError, RecursionError):
        return {}
    return {str(name): tree for name, tree in found.items()} if isinstance(found, dict) else {}
