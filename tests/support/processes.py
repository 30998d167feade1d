"""Test helpers that run functions and git commands in parallel processes."""

from __future__ import annotations

import multiprocessing
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

fork = multiprocessing.get_context("fork")

Work = Callable[[], Any]
Until = Callable[[Callable[[], bool]], Any]


def together(*works: Work) -> list[Any]:
    """Run each function in a process of its own, all at once, and return the results in order.

    Raises:
        AssertionError: One of the processes failed.
    """
    start = fork.Barrier(len(works))
    ends = [fork.Pipe(duplex=False) for _ in works]

    def run(work: Work, number: int) -> None:
        start.wait()
        ends[number][1].send(work())

    children = [fork.Process(target=run, args=(work, number)) for number, work in enumerate(works)]
    for child in children:
        child.start()
    for _, sender in ends:
        sender.close()
    answers = []
    for receiver, _ in ends:
        try:
            answers.append(receiver.recv())
        except EOFError:
            answers.append(None)
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * len(children)
    return answers


@contextmanager
def beside(*works: Until) -> Iterator[list[Any]]:
    """Run each function in a process of its own while the block runs. Yield a list that is filled with the results.

    Each function is called with a function that returns whether the block has ended.
    """
    over: Event = fork.Event()
    ends = [fork.Pipe(duplex=False) for _ in works]
    children = [
        fork.Process(target=lambda work=work, end=end: end[1].send(work(over.is_set)))
        for work, end in zip(works, ends, strict=True)
    ]
    answers: list[Any] = []
    for child in children:
        child.start()
    try:
        yield answers
    finally:
        over.set()
        for _, sender in ends:
            sender.close()
        for receiver, _ in ends:
            try:
                answers.append(receiver.recv())
            except EOFError:
                answers.append(None)
        for child in children:
            child.join()
    assert [child.exitcode for child in children] == [0] * len(children)


def looping(git_dir: Path, *commands: tuple[str, ...], may_fail: bool = False) -> Until:
    """Return a function that repeats git commands and returns how many ran.

    A command that fails also fails the test, unless ``may_fail`` is set: git gives up on a lock after one second.
    """

    def loop(over: Callable[[], bool]) -> int:
        count = 0
        while not over():
            words = commands[count % len(commands)]
            done = subprocess.run(["git", f"--git-dir={git_dir}", *words], capture_output=True, check=False)
            assert may_fail or done.returncode == 0, f"git {' '.join(words)}: {done.stderr.decode()}"
            count += 1
        return count

    return loop


def after(seconds: float) -> Callable[[], bool]:
    """Return a function that returns whether ``seconds`` have passed."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end
