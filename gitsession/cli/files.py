"""How files look: what a rewind would do to each, or did, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from gitsession.checkpoints.rewind_decisions import AS_IT_WAS, PathDecision
from gitsession.cli.output import columns, count, on_a_line, pad, paint, say, shorten, width

if TYPE_CHECKING:
    from gitsession.checkpoints.planning import RewindPlan
    from gitsession.checkpoints.rewinding import FileOutcome, RewindResult

_COLORS = {
    "write": "green", "merge": "green", "written": "green", "remove": "red", "removed": "red",
    "leave": "yellow", "conflict": "yellow", "left": "yellow",
}  # fmt: skip
_WIDE = 60
_SHOWN_MAX = 200
"""So many lines are shown; ``--json`` has them all."""


def planned_lines(changes: Sequence[PathDecision]) -> list[str]:
    """``write   src/auth.py   the session changed it``"""
    return _lines([(change.action, change.path, change.why) for change in changes if change.why != AS_IT_WAS])


def outcome_lines(outcomes: Sequence[FileOutcome]) -> list[str]:
    return _lines([(one.did, one.path, one.why) for one in outcomes if one.why != AS_IT_WAS])


def tell(done: RewindResult) -> None:
    """What became of the files of a workspace."""
    lines = outcome_lines(done.outcomes)
    say(f"in {done.workspace}, {summary(done.outcomes)}{':' if lines else ''}")
    for line in lines:
        click.echo(line)


def summary(outcomes: Iterable[FileOutcome]) -> str:
    """``files: 2 written, 1 removed, 3 left``; of a file that is as it should be there is nothing to tell."""
    done = [one.did for one in outcomes if one.why != AS_IT_WAS]
    parts = [(done.count("written"), "written"), (done.count("removed"), "removed"), (done.count("left"), "left")]
    said = [f"{number:,} {what}" for number, what in parts if number]
    return f"files: {', '.join(said)}" if said else "all files are as they were"


def planned_objects(plan: RewindPlan) -> list[dict[str, Any]]:
    return [
        {"path": change.path, "action": change.action, "why": change.why,
         "now": _state(change.now), "to": _state(change.to)}
        for change in plan.changes
    ]  # fmt: skip


def outcome_objects(done: RewindResult) -> list[dict[str, Any]]:
    return [{"path": one.path, "did": one.did, "why": one.why} for one in done.outcomes]


def _state(state: tuple[str, str] | None) -> dict[str, str] | None:
    return None if state is None else {"mode": state[0], "oid": state[1]}


def _lines(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    if not rows:
        return []
    shown = [(what, on_a_line(path), why) for what, path, why in rows[:_SHOWN_MAX]]
    first = max(len(what) for what, _, _ in shown)
    middle = min(max(columns(path) for _, path, _ in shown), max(width() - first - _WIDE, 24))
    lines = []
    for what, path, why in shown:
        head = paint(what.ljust(first), fg=_COLORS.get(what))
        lines.append(f"  {head}  {paint(pad(path, middle))}  {shorten(why, _WIDE)}".rstrip())
    if len(rows) > _SHOWN_MAX:
        lines.append(f"  and {count(len(rows) - _SHOWN_MAX, 'more file')}; --json names them all")
    return lines
