"""What is promised of a store (docs/reliability.md), and the account of the tests that try to break it.

A test says which promise it is about with ``@pytest.mark.promise("P7")``, and counts what it did to the store with the
fixture ``faults``. At its end the run prints a line for each promise: tests, faults injected, faults survived.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

PROMISES = {
    "P1": "an acknowledged append is whole after a power cut",
    "P2": "the same where nothing persists but what was fsynced",
    "P3": "also where another program wrote the same object before, unfsynced",
    "P4": "no I/O error is swallowed: it is an acknowledged entry or an error",
    "P5": "a failed fsync is final: it is never tried again on the same bytes",
    "P6": "the fsyncs of an append and of a flush are counted",
    "P7": "after kill -9 at any system call an entry is there whole or not at all",
    "P8": "what moves several refs is done or not done, never half",
    "P9": "a killed writer blocks nobody",
    "P10": "an append that failed may be tried again without a duplicate",
    "P11": "a rewind killed anywhere is finished or taken back: each file is the old one or the new one",
    "P12": "a full disk: the store reads, says why it cannot write, and goes on when there is space",
    "P13": "no lost update: as many entries as acknowledgements",
    "P14": "of two creators of one name exactly one wins",
    "P15": "a ref leads to whole objects and is never seen going back",
    "P16": "git gc, repack and pack-refs by the user at any time lose nothing",
    "P17": "deleting a branch never takes another back",
    "P18": "waiting is bounded, and says who holds the store",
    "P19": "threads share a store",
    "P20": "the history of a session is linearizable",
    "P21": "no wrong byte is ever read: damage is an error, never a hang or a crash",
    "P22": "damage costs the damaged entries only, and each gap is marked",
    "P23": "verify finds all damage",
    "P24": "repair heals from a copy, and sets the damaged file aside",
    "P25": "a store is a normal git repository after any commands",
    "P26": "restoring files changes nothing outside the workspace, nor git's own folder, whatever the tree says",
    "P27": "the same while another process swaps folders for links",
    "P28": "names that some system misreads are escaped or refused, by name",
    "P29": "links are restored as links, only where they stay inside, and never followed",
    "P30": "hostile CBOR is refused, within bounds",
    "P31": "objects are size-gated before they are inflated",
    "P32": "nothing in a session drives the terminal",
    "P33": "a hostile store runs no code",
    "P34": "what is pushed or fetched and is not what the format says is refused, and leaves nothing",
    "P35": "nobody else reads a store, whatever the umask",
    "P39": "a repository of an unknown kind is named, not crashed on",
    "P40": "a new store does not depend on the user's configuration",
    "P41": "a rewind takes back what the session wrote and nothing else, and undo brings that back",
    "P42": "stores that go on without each other come together: nothing lost, everywhere the same",
}


class Faults:
    """How many faults one test injected, and how many the store survived."""

    def __init__(self) -> None:
        self.injected = self.survived = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """One fault: survived if the block, which checks that, ends without an error."""
        self.injected += 1
        yield
        self.survived += 1

    def many(self, count: int) -> None:
        """``count`` faults that were judged together, and all survived."""
        self.injected += count
        self.survived += count


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Iterator[Faults]:
    found = Faults()
    yield found
    request.node.user_properties.append(("faults", [found.injected, found.survived]))


class Account:
    """Collects over all processes of the run, and prints."""

    def __init__(self) -> None:
        self.rows: dict[str, list[int]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("promise"):
                unknown = set(mark.args) - set(PROMISES)
                if unknown:
                    raise pytest.UsageError(f"{item.nodeid}: no promise {', '.join(unknown)}")
                item.user_properties.append(("promises", list(mark.args)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = dict(report.user_properties)
        for promise in found.get("promises", ()):
            row = self.rows.setdefault(str(promise), [0, 0, 0, 0])
            if report.when == "call" and not report.skipped:
                row[0] += 1
                row[3] += report.failed
            if report.when == "teardown":
                injected, survived = found.get("faults", (0, 0))
                row[1] += injected
                row[2] += survived

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not any(row[0] for row in self.rows.values()):
            return
        terminalreporter.section("promises")
        terminalreporter.write_line(f"{'':4} {'tests':>5} {'faults':>9} {'survived':>9}")
        for promise, words in PROMISES.items():
            tests, injected, survived, failed = self.rows.get(promise, [0, 0, 0, 0])
            if tests:
                told = f"{promise:4} {tests:5} {injected or '':>9} {survived or '':>9}  {words}"
                terminalreporter.write_line(told + ("  FAILED" if failed else ""))
