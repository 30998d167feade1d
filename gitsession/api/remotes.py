"""Other repositories, as ``Store`` has them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gitsession.store import refs
from gitsession.store.gitstore import GitStore
from gitsession.sync import bundles, cloning, remotes, syncing
from gitsession.sync.remotes import Remote
from gitsession.sync.syncing import SyncReport
from gitsession.sync.transport import Talk


class Remotes:
    """The remotes of one store. ``talk``: how git talks to the user meanwhile; without, it says and asks nothing."""

    def __init__(self, objects: GitStore) -> None:
        self._objects = objects

    def listed(self) -> list[Remote]:
        return remotes.listed(self._objects.git_dir)

    def add(self, name: str, url: str, *, namespace: str, home: bool) -> Remote:
        return remotes.add(self._objects.git_dir, name, url, namespace=namespace, home=home)

    def remove(self, name: str) -> Remote:
        return remotes.remove(self._objects.git_dir, name)

    def pull(self, remote: str, talk: Talk | None) -> SyncReport:
        return syncing.pull(self._objects, self._named(remote), talk or Talk())

    def push(self, remote: str, sessions: Iterable[str], talk: Talk | None) -> SyncReport:
        return syncing.push(self._objects, self._named(remote), talk or Talk(), sessions=sessions)

    def sync(self, remote: str, talk: Talk | None) -> SyncReport:
        return syncing.sync(self._objects, self._named(remote), talk or Talk())

    def bundle(self, path: Path, sessions: Iterable[str]) -> list[str]:
        return sorted({refs.session_of(ref) for ref in bundles.write(self._objects, path, sessions)})

    def unbundle(self, path: Path, talk: Talk | None) -> SyncReport:
        return bundles.take(self._objects, path, talk or Talk())

    def _named(self, remote: str) -> Remote:
        """A remote by its name, or by its address."""
        if "/" in remote or ":" in remote:
            where = os.path.normpath(remotes.address(remote))
            remote = next((one.name for one in self.listed() if os.path.normpath(one.url) == where), remote)
        return remotes.find(self._objects.git_dir, remote)


def clone(url: str, path: Path, talk: Talk | None, *, filter: str, namespace: str) -> SyncReport:
    return cloning.clone(url, path, talk or Talk(), filter=filter, namespace=namespace)
