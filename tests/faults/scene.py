"""A prepared folder that is restored before each run. Its path is constant, because its contents depend on it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults.shim import Fault, Ran, Shim, scratch


class Scene:
    """A folder that ``prepare`` fills. Its return value is ``prepared``."""

    def __init__(self, prepare: Callable[[Path], Any]) -> None:
        self.shim = Shim()
        self._folder = Path(scratch())
        self.place = self._folder / "it"
        self.prepared = prepare(self.place)
        shutil.copytree(self.place, self._folder / "kept", symlinks=True)
        self._calls: dict[str, int] = {}

    def run(self, work: str, fault: Fault | None = None) -> Ran:
        self.put_back()
        return self.shim.run(work, self.place, fault)

    def put_back(self) -> None:
        shutil.rmtree(self.place)
        shutil.copytree(self._folder / "kept", self.place, symlinks=True)

    def points(self, work: str, share: float) -> list[int]:
        """Return a ``share`` of the calls of a run without faults, evenly spread."""
        if work not in self._calls:
            ran = self.run(work)
            assert ran.code == 0, ran.stderr
            self._calls[work] = ran.calls
        every = range(1, self._calls[work] + 1)
        return sorted(random.Random(0).sample(every, max(1, round(len(every) * share))))

    def close(self) -> None:
        self.shim.close()
        shutil.rmtree(self._folder, ignore_errors=True)
