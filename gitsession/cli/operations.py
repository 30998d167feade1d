"""How operations of the log look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gitsession.cli import files
from gitsession.cli.output import clock, count, emit, paint, say

if TYPE_CHECKING:
    from gitsession.rewind.perform import Rewound
    from gitsession.session.oplog import Operation


def as_object(operation: Operation) -> dict[str, Any]:
    return {
        "id": operation.id,
        "at": operation.at_ms,
        "command": operation.command,
        "refs": [{"ref": move.ref, "old": move.old, "new": move.new} for move in operation.moves],
        "undoes": operation.undoes,
        "redoes": operation.redoes,
        "files": operation.files._asdict() if operation.files else None,
    }


def as_line(operation: Operation) -> str:
    moved = count(len(operation.moves), "ref") + (", files" if operation.files else "")
    return paint(f"{operation.id[:8]}  {clock(operation.at_ms)}  {operation.command}  ({moved})")


def tell_done(schema: str, what: str, done: Rewound, *, as_json: bool) -> None:
    """What undo or redo did."""
    operation = done.operation
    assert operation is not None
    if as_json:
        document = {"operations": [as_object(operation)], "workspace": done.workspace}
        emit(schema, {**document, "files": files.outcome_objects(done)})
        return
    say(f"{what}: {operation.command} ({clock(operation.at_ms)}, {count(len(operation.moves), 'ref')})")
    if done.outcomes:
        say(f"in {done.workspace}, {files.summary(done.outcomes)}:")
        for line in files.outcome_lines(done.outcomes):
            click.echo(line)
