"""Run whole commands, compared with ``python -c pass``.

Any program in Python needs that time before its first line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks import commands
from benchmarks.figures import Line
from benchmarks.measure import duel
from benchmarks.workshop import Workshop
from gitsession import Store

TITLE = "Start-up"

BARS = {
    "gitsession --version": 2.0,
    "gitsession hook SessionStart": 2.0,
    "gitsession hook PreToolUse of a tool that reads": 2.0,
    "gitsession ls -n 10": 5.0,
    "gitsession log -n 10": 11.0,
}
SAID = b'{"session_id": "x", "cwd": "/work", "tool_name": "Read", "tool_input": {"file_path": "/work/a"}}'
PEER = "python -c pass"


def measure(shop: Workshop) -> Iterator[Line]:
    many = shop.copy(shop.many_sessions(shop.pick(5, 1000, 1000)))
    told = shop.copy(many)
    long = shop.copy(shop.long_session(shop.pick(20, 1000, 1000)))
    with Store.open(long) as opened:
        sid = opened.sessions()[0].sid
    steps = (
        commands.ours(many, "--version"),
        commands.hook(told, "SessionStart", SAID),
        commands.hook(told, "PreToolUse", SAID),
        commands.ours(many, "ls", "-n", "10"),
        commands.ours(long, "log", sid, "-n", "10"),
    )
    nothing = commands.command_of(sys.executable, "-c", "pass")
    for (what, bar), ours in zip(BARS.items(), steps, strict=True):
        found = duel(ours, nothing, runs=shop.runs, rounds=shop.pick(1, 9, 15), warm_up=2)
        yield found.line(what, PEER, bar)
