"""The size, the number of runs and the folder of a benchmark run, and stores that several rows share."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from benchmarks import realistic
from benchmarks.data import files, made_file, messages
from gitsession import Message, Store
from gitsession.discovery.sources import format_of

T = TypeVar("T")

SIZES = ("tiny", "quick", "full")
"""Sizes of a run. ``tiny`` only checks that a row runs; its figures have no meaning."""


@dataclass(slots=True)
class Workshop:
    """The input of every row.

    ``place`` is an empty folder on the measured disk. ``runs`` is the number of runs of each comparison. ``sessions``
    is the number of sessions of the row ``scale``, if it is not that of the size.
    """

    place: Path
    size: str
    runs: int
    sessions: int | None = None
    _made: int = 0
    _stores: dict[str, Path] = field(default_factory=dict)

    def pick(self, tiny: T, quick: T, full: T) -> T:
        """Return the value for the size of this run."""
        return dict(zip(SIZES, (tiny, quick, full), strict=True))[self.size]

    def files(self) -> Mapping[Path, bytes]:
        """Return the session files to import."""
        made = {Path("made.jsonl"): made_file(0, 20)}
        return made if self.size == "tiny" else files()

    def folder(self) -> Path:
        """Create an empty folder."""
        self._made += 1
        made = self.place / f"{self._made:04}"
        made.mkdir()
        return made

    def copy(self, store: Path) -> Path:
        """Copy a store for a row that changes it."""
        copied = self.folder() / "store.git"
        shutil.copytree(store, copied)
        return copied

    def tidy(self) -> None:
        """Delete everything except the stores that other rows can use."""
        kept = {path.parent for path in self._stores.values()}
        for folder in self.place.iterdir():
            if folder not in kept:
                shutil.rmtree(folder)

    def many_sessions(self, count: int) -> Path:
        """Return a store of ``count`` sessions with two entries each and loose refs. Do not change it."""

        def fill(store: Store) -> None:
            for number in range(count):
                session = store.new_session(agent="bench", cwd=str(self.place))
                session.append(Message.user(f"Question {number}"))
                session.append(Message.assistant(f"Answer {number}"))

        return self._store(f"{count} sessions", fill)

    def long_session(self, entries: int) -> Path:
        """Return a store with one session, after ``maintain``. Do not change it."""

        def fill(store: Store) -> None:
            session = store.new_session(agent="bench", cwd=str(self.place))
            session.append(Message.user("begin"))
            for number in range(entries - 1):
                session.append(messages()[number % len(messages())].message)
            store.maintain()

        return self._store(f"{entries} entries", fill)

    def realistic(self, sessions: int) -> Path:
        """Return a store of realistic sessions without a catalog, after ``maintain``. Do not change it."""
        name = f"{sessions} realistic sessions"
        if name not in self._stores:
            path = self.folder() / "store.git"
            realistic.fill(path, sessions, longest=self.pick(5, 100, 4_000))
            self._stores[name] = path
        return self._stores[name]

    def imported(self) -> Path:
        """Return a store of all session files, after ``maintain``. Do not change it."""

        def fill(store: Store) -> None:
            bring_all(store, self.files())
            store.maintain()

        return self._store("imported", fill)

    def _store(self, name: str, fill: Callable[[Store], None]) -> Path:
        if name not in self._stores:
            path = self.folder() / "store.git"
            Store.create(path).close()
            with Store.open(path, durability="none", flush_on_close=False) as store:
                fill(store)
                store.flush()
                store.catalogue()
            # One pack, so that no command runs maintenance, which would also pack the refs.
            subprocess.run(["git", f"--git-dir={path}", "repack", "-a", "-d", "-q"], check=True)
            self._stores[name] = path
        return self._stores[name]


def bring_all(store: Store, found: Mapping[Path, bytes]) -> None:
    """Import every file."""
    for path, data in found.items():
        format = format_of(path, data)
        assert format is not None, path
        store.agents.import_data(format, data, path=path, name=path.stem)
