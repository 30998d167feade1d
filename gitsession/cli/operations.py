"""How operations of the log look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gitsession.cli.output import clock, count, paint, say

if TYPE_CHECKING:
    from gitsession.session.oplog import Operation


def as_object(operation: Operation) -> dict[str, Any]:
    return {
        "id": operation.id,
        "at": operation.at_ms,
        "command": operation.command,
        "refs": [{"ref": move.ref, "old": move.old, "new": move.new} for move in operation.moves],
        "undoes": operation.undoes,
        "redoes": operation.redoes,
    }


def as_line(operation: Operation) -> str:
    moved = count(len(operation.moves), "ref")
    return paint(f"{operation.id[:8]}  {clock(operation.at_ms)}  {operation.command}  ({moved})")


def tell(what: str, operation: Operation) -> None:
    say(f"{what}: {operation.command} ({clock(operation.at_ms)}, {count(len(operation.moves), 'ref')})")
