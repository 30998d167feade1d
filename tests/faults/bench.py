"""Test bench for faults: a prepared store, the states that a run may leave, and the checks."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import pytest

from faults import work
from faults.crash import Crash, Recording, lay_out
from faults.invariants import State, judge, subjects
from faults.shim import Call, Fault, Ran, Shim, scratch
from gitsession.store.git_store import GitStore


class Bench:
    """Stores prepared by ``work.prepare``, run with faults in ``shim`` and checked afterwards."""

    def __init__(self) -> None:
        self.shim = Shim()
        self.place = Path(scratch())
        self.base = self.place / "base.git"
        work.prepare(self.base)
        self._count = 0
        self._states: dict[tuple[str, tuple[int, ...]], list[State]] = {}
        self._calls: dict[str, list[Call]] = {}
        self._subjects: dict[str, list[list[str]]] = {}
        self._recordings: dict[str, Recording] = {}

    @contextmanager
    def store(self) -> Iterator[Path]:
        """Yield a fresh copy of the prepared store, which is removed afterwards.

        Its path always has the same length.
        """
        self._count += 1
        path = self.place / f"{self._count:08d}.git"
        shutil.copytree(self.base, path, copy_function=shutil.copyfile)
        try:
            yield path
        finally:
            shutil.rmtree(path)

    def states(self, name: str, skip: Sequence[int] = ()) -> list[State]:
        """Return the values of the refs before the first command and after each one.

        Commands in ``skip`` have no effect.
        """
        key = name, tuple(skip)
        if key not in self._states:
            with self.store() as git_dir:
                ran = self.shim.run(name, git_dir, skip=skip, options={"states": True})
            assert ran.code == 0 and not ran.failed, ran
            states = [ran.done[0]]
            for number in range(1, len(work.WORKLOADS[name]) + 1):
                states.append(ran.done.get(number) or states[-1])
            self._states[key] = states
        return self._states[key]

    def calls(self, name: str) -> list[Call]:
        """Return the calls that a run without faults makes below the store, in order."""
        if name not in self._calls:
            with self.store() as git_dir:
                ran = self.shim.run(name, git_dir, log=True)
            calls = [call for call in self.shim.calls() if call.name != "ack"]
            assert ran.code == 0 and len(calls) == ran.calls, ran
            self._calls[name] = calls
        return self._calls[name]

    def points(self, name: str, mode: str, share: float, seed: int = 0) -> list[int]:
        """Return the calls of a workload to which ``mode`` applies: a ``share`` of them, evenly spread."""
        calls = self.calls(name)
        halves = mode in ("torn", "short")
        numbers = [n for n, call in enumerate(calls, 1) if call.name == "write" or not halves]
        count = max(1, round(len(numbers) * share))
        if count >= len(numbers):
            return numbers
        return sorted(random.Random(f"{name} {mode} {seed}").sample(numbers, count))

    def kill(self, name: str, fault: Fault) -> None:
        """Kill a run.

        Acknowledged commands must be present; the interrupted one must be present completely or not at all.
        """
        with self.store() as git_dir:
            ran = self.shim.run(name, git_dir, fault)
            assert ran.code in (0, -9), ran.stderr
            self._judge(git_dir, self.after(name, ran))

    def fail(self, name: str, fault: Fault) -> None:
        """Run with a failing disk.

        Acknowledged commands must be present; failed ones must be present completely or not at all.
        """
        with self.store() as git_dir:
            ran = self.shim.run(name, git_dir, fault)
            assert ran.code == 0, ran.stderr
            self._judge(git_dir, self.after(name, ran))

    def recording(self, name: str) -> Recording:
        """Return the recording of a run without faults, for ``crash``."""
        if name not in self._recordings:
            with self.store() as git_dir:

                def run() -> list[Call]:
                    self.shim.run(name, git_dir, log=True, bytes_too=True)
                    return self.shim.calls()

                self._recordings[name] = Recording.of(git_dir, run)
        return self._recordings[name]

    def cut(self, name: str, crash: Crash) -> None:
        """Check a store after a power cut.

        Commands acknowledged before it must be present, and the store must be usable.
        """
        done = int(crash.told[-1].split()[1]) if crash.told else 0
        self._judge(lay_out(crash, self.place / "cut.git"), self.states(name)[done : done + 2], git_too=False)

    def retry(self, name: str, fault: Fault) -> None:
        """Run and retry the commands that failed.

        If all are acknowledged in the end, every branch must be as without faults.
        """
        with self.store() as git_dir:
            ran = self.shim.run(name, git_dir, fault, options={"retry": True})
            assert ran.code == 0, ran.stderr
            if 0 in ran.done and all(number in ran.done for number in range(1, len(work.WORKLOADS[name]) + 1)):
                with GitStore.open(git_dir) as store:
                    assert subjects(store) == self.subjects(name), ran.told

    def subjects(self, name: str) -> list[list[str]]:
        """Return the branches after a run without faults, as the subjects of their commits."""
        if name not in self._subjects:
            with self.store() as git_dir:
                self.shim.run(name, git_dir)
                with GitStore.open(git_dir) as store:
                    self._subjects[name] = subjects(store)
        return self._subjects[name]

    def after(self, name: str, ran: Ran) -> list[State]:
        """Return the states that a run may leave, the likeliest first.

        Any failed command may or may not have taken effect.
        """
        if 0 in ran.failed or not ran.told:
            return self.states(name)[:1]
        last = max(int(row.split(" ")[1]) for row in ran.told)
        failed = [number for number in sorted(ran.failed) if self._moves(name, number)]
        wholes = [
            self.states(name, [number for number in failed if number not in taken])
            for size in range(min(3, len(failed) + 1))
            for taken in combinations(failed, size)
        ]
        return [states[at] for states in wholes for at in (last, last + 1) if at < len(states)]

    def _judge(self, git_dir: Path, states: Sequence[State], *, git_too: bool = True) -> None:
        with work.small():
            judge(git_dir, states, git_too=git_too)

    def _moves(self, name: str, number: int) -> bool:
        """Return whether the command changes refs, which a flush does not do."""
        states = self.states(name)
        return states[number] != states[number - 1]

    def close(self) -> None:
        self.shim.close()
        shutil.rmtree(self.place, ignore_errors=True)


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()
