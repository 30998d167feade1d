"""Run whole commands, compared with ``python -c pass``.

Any program in Python needs that time before its first line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks import commands, imports
from benchmarks.figures import Line, Table
from benchmarks.measure import duel
from benchmarks.workshop import Workshop
from gitsession import Message, Store

TITLE = "Start-up"

SAID = b'{"session_id": "x", "cwd": "/work", "tool_name": "Read", "tool_input": {"file_path": "/work/a"}}'
PEER = "python -c pass"


def measure(shop: Workshop) -> Iterator[Line | Table]:
    """Yield the rows and the table of imported modules.

    Every command except ``hook`` and ``--version`` imports click, so ``import click`` alone is a row. In the table, a
    module of the standard library belongs to the package that imports it first.
    """
    many = shop.copy(shop.many_sessions(shop.pick(5, 1000, 1000)))
    told = shop.copy(many)
    long = shop.copy(shop.long_session(shop.pick(20, 1000, 1000)))
    with Store.open(long) as opened:
        sid = opened.sessions()[0].sid
    small, of_small, before = _small_session(shop.folder())
    steps = (
        ('python -c "import click"', None, commands.command_of(sys.executable, "-c", "import click")),
        ("gitsession --version", 2.0, commands.ours(many, "--version")),
        ("gitsession hook SessionStart", 1.4, commands.hook(told, "SessionStart", SAID)),
        ("gitsession hook PreToolUse of a tool that reads", 1.4, commands.hook(told, "PreToolUse", SAID)),
        ("gitsession status-line, as Claude Code runs it", 4.0, commands.status_line(many, session_id="x")),
        ("gitsession ls -n 10", 4.0, commands.ours(many, "ls", "-n", "10")),
        ("gitsession log -n 10", 5.0, commands.ours(long, "log", sid, "-n", "10")),
        ("gitsession show", 6.0, commands.ours(long, "show", sid)),
        ("gitsession context", 8.0, commands.ours(small, "context", of_small)),
        ("gitsession rewind --dry-run", 8.0, commands.ours(small, "rewind", before, "--dry-run")),
        ("gitsession tree", None, commands.ours(small, "tree", of_small)),
        ("gitsession search", None, commands.ours(small, "search", "begin")),
    )
    nothing = commands.command_of(sys.executable, "-c", "pass")
    for what, bar, ours in steps:
        found = duel(ours, nothing, runs=shop.runs, rounds=shop.pick(1, 9, 15), warm_up=2)
        yield found.line(what, PEER, bar)
    measured = (
        (many, "ls"), (long, "log", sid), (small, "show", of_small), (small, "context", of_small),
        (small, "rewind", before, "--dry-run"),
    )  # fmt: skip
    yield _table([(words[0], imports.times(store, words, runs=shop.pick(1, 3, 9))) for store, *words in measured])


def _small_session(folder: Path) -> tuple[Path, str, str]:
    """Return a store with one session, the session, and the address of an entry before a change of a file."""
    work = folder / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    with Store.create(folder / "store.git") as store:
        session = store.new_session(agent="bench", cwd=str(work))
        session.append(Message.user("begin"))
        session.files.take_checkpoint("before", work)
        before = session.append(Message.assistant("I change a file"))
        (work / "a.txt").write_text("two\n")
        session.files.take_checkpoint("after", work)
        store.search("begin")
    return folder / "store.git", session.id, f"{session.id}@{before.oid}"


def _table(found: list[tuple[str, Mapping[str, tuple[int, int]]]]) -> Table:
    shown = [group for group in imports.GROUPS if any(times[group][0] for _, times in found)]
    rows = [
        [name, *(f"{times[group][0]}: {times[group][1] / 1000:.1f} ms" for group in shown),
         f"{sum(time_us for _, time_us in times.values()) / 1000:.1f} ms"]
        for name, times in found
    ]  # fmt: skip
    return Table("Imported modules, and their time", ["command", *shown, "all"], rows)
