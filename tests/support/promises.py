"""The promises about a store (docs/explanation/reliability.md), and a summary of the tests that try to break them.

A test names its promises with ``@pytest.mark.promise("P7")``, and counts the faults that it injects with the fixture
``faults``. At the end, the run prints a line for each promise: tests, faults injected, faults survived.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

PROMISES = {
    "P1": "an acknowledged append is complete after a power cut",
    "P2": "the same if nothing persists but what was fsynced",
    "P3": "the same if another program wrote the same object before, without fsync",
    "P4": "no I/O error is ignored: the result is an acknowledged entry or an error",
    "P5": "a failed fsync is final: it is never repeated on the same bytes",
    "P6": "the number of fsyncs of an append and of a flush is known",
    "P7": "after kill -9 at any system call, an entry is complete or absent",
    "P8": "a change of several refs takes effect completely or not at all",
    "P9": "a killed writer blocks no other process",
    "P10": "a failed append can be retried without a duplicate",
    "P11": "a killed rewind can be finished or taken back: each file is either old or new",
    "P12": "on a full disk the store can be read, reports why it cannot write, and continues when there is space",
    "P13": "no lost update: there are as many entries as acknowledgements",
    "P14": "if two writers create the same name, exactly one succeeds",
    "P15": "a ref leads to complete objects and is never seen to go back",
    "P16": "git gc, repack and pack-refs lose nothing, whenever the user runs them",
    "P17": "deleting a branch never sets another one back",
    "P18": "waiting is limited, and the error names the process that holds the store",
    "P19": "threads can share a store",
    "P20": "the history of a session is linearizable",
    "P21": "no wrong byte is read: damage is an error, never a hang or a crash",
    "P22": "damage affects only the damaged entries, and each gap is marked",
    "P23": "verify detects all damage",
    "P24": "repair restores data from a copy, and moves the damaged file to the quarantine",
    "P25": "a store is a normal git repository after any commands",
    "P26": "restoring files changes nothing outside the workspace or in git's own folder, whatever the tree contains",
    "P27": "the same while another process replaces folders with links",
    "P28": "names that some system misreads are escaped, or rejected by name",
    "P29": "links are restored as links, only if they lead into the workspace, and are never followed",
    "P30": "hostile CBOR is rejected within limits of time and memory",
    "P31": "the size of an object is checked before it is inflated",
    "P32": "no content of a session controls the terminal",
    "P33": "a hostile store runs no code",
    "P34": "what is pushed or fetched and violates the format is rejected, and leaves nothing behind",
    "P35": "no other user can read a store, whatever the umask",
    "P39": "a repository of an unknown kind is reported by name, without a crash",
    "P40": "a new store does not depend on the user's configuration",
    "P41": "a rewind takes back what the session changed and nothing else, and undo restores it",
    "P42": "stores that diverged converge when they synchronize: nothing is lost, and all have the same branches",
}


class Faults:
    """Numbers of faults that one test injected and that the store survived."""

    def __init__(self) -> None:
        self.injected = self.survived = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one fault. It is survived if the block, which checks the store, ends without an error."""
        self.injected += 1
        yield
        self.survived += 1

    def many(self, count: int) -> None:
        """Count ``count`` faults that were checked together and survived."""
        self.injected += count
        self.survived += count


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Iterator[Faults]:
    found = Faults()
    yield found
    request.node.user_properties.append(("faults", [found.injected, found.survived]))


class Account:
    """Totals of all processes of the run, printed at its end."""

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
