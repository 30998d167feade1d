"""How big, how often, and where: what every row is handed; and the stores that several rows look at."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from benchmarks.data import files, made_file, messages
from gitsession import Message, Store
from gitsession.discovery.sources import format_of

T = TypeVar("T")

SIZES = ("tiny", "quick", "full")
"""``tiny`` shows that a row runs, and measures nothing."""


@dataclass(slots=True)
class Workshop:
    """``place``: an empty folder, on the disk that is measured. ``runs``: how often a comparison is repeated."""

    place: Path
    size: str
    runs: int
    _made: int = 0
    _stores: dict[str, Path] = field(default_factory=dict)

    def pick(self, tiny: T, quick: T, full: T) -> T:
        """What fits the size of this run."""
        return dict(zip(SIZES, (tiny, quick, full), strict=True))[self.size]

    def files(self) -> Mapping[Path, bytes]:
        """The session files to import."""
        made = {Path("made.jsonl"): made_file(0, 20)}
        return made if self.size == "tiny" else files()

    def folder(self) -> Path:
        """A new empty folder."""
        self._made += 1
        made = self.place / f"{self._made:04}"
        made.mkdir()
        return made

    def copy(self, store: Path) -> Path:
        """A store that a row may change."""
        copied = self.folder() / "store.git"
        shutil.copytree(store, copied)
        return copied

    def tidy(self) -> None:
        """Drop all but the stores that other rows may look at."""
        kept = {path.parent for path in self._stores.values()}
        for folder in self.place.iterdir():
            if folder not in kept:
                shutil.rmtree(folder)

    def many_sessions(self, count: int) -> Path:
        """A store of sessions with two entries each, refs loose. Not to be changed."""

        def fill(store: Store) -> None:
            for number in range(count):
                session = store.new_session(agent="bench", cwd=str(self.place))
                session.append(Message.user(f"Question {number}"))
                session.append(Message.assistant(f"Answer {number}"))

        return self._store(f"{count} sessions", fill)

    def long_session(self, entries: int) -> Path:
        """A store with one session, maintained. Not to be changed."""

        def fill(store: Store) -> None:
            session = store.new_session(agent="bench", cwd=str(self.place))
            session.append(Message.user("begin"))
            for number in range(entries - 1):
                session.append(messages()[number % len(messages())].message)
            store.maintain()

        return self._store(f"{entries} entries", fill)

    def imported(self) -> Path:
        """A store of all session files, maintained. Not to be changed."""

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
            # One pack, so that no command finds that maintenance is due, which would pack the refs too.
            subprocess.run(["git", f"--git-dir={path}", "repack", "-a", "-d", "-q"], check=True)
            self._stores[name] = path
        return self._stores[name]


def bring_all(store: Store, found: Mapping[Path, bytes]) -> None:
    """Import every file."""
    for path, data in found.items():
        format = format_of(path, data)
        assert format is not None, path
        store.agents.import_data(format, data, path=path, name=path.stem)
