"""How operations of the log look."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitsession.cli import files
from gitsession.cli.context import App
from gitsession.cli.output import clock, count, current_folder, emit, paint, say, shorten, warn, width
from gitsession.errors import Refused
from gitsession.store import refs

if TYPE_CHECKING:
    from gitsession.checkpoints.rewinding import RewindResult
    from gitsession.sessions.operation_log import Operation


def scope_arguments(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments that say which sessions an undo may change."""
    every = click.option("--any", "everywhere", is_flag=True, help="The last command of the whole store.")
    return click.argument("session", metavar="[SESSION]", required=False)(every(command))


def scope_of(session: str | None, everywhere: bool) -> dict[str, str]:
    """Return the scope that the user asks for, as arguments of ``Store.undo``."""
    if session is not None and everywhere:
        raise click.UsageError("SESSION or --any, not both")
    if session is not None:
        return {"session": session}
    here = current_folder()
    return {"project": here} if here and not everywhere else {}


HALF_DONE = "`gitsession rewind --continue` finishes it, `gitsession rewind --abort` takes it back"


def refuse_unfinished(app: App, workspace: Path | None) -> None:
    """Raises ``Refused`` where a rewind of the folder we stand in has not ended: the last command is one before it."""
    from gitsession.checkpoints import intents

    here = Path(os.path.realpath(workspace or current_folder() or "/"))
    for one in intents.pending(app.store().objects):
        if here.is_relative_to(one.workspace):
            raise Refused(f"not done yet: {one.words}", hint=HALF_DONE)


@contextmanager
def told_if_stopped(app: App) -> Iterator[None]:
    """Ctrl-C in the middle of writing files is no secret."""
    try:
        yield
    except KeyboardInterrupt:
        for words in app.store().unfinished():
            warn(f"gitsession: stopped half-way: {words}")
            warn(f"  {HALF_DONE}")
        raise


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
    first, last = f"{operation.id[:8]}  {clock(operation.at_ms)}  ", f"  ({moved})"
    return paint(f"{first}{shorten(operation.command, width() - len(first) - len(last))}{last}")


def tell_done(schema: str, what: str, done: RewindResult, *, as_json: bool) -> None:
    """What undo or redo did."""
    operation = done.operation
    assert operation is not None
    if as_json:
        stays = [stay._asdict() for stay in operation.stays]
        document = {"operations": [as_object(operation)], "stays": stays, "workspace": done.workspace}
        emit(schema, {**document, "files": files.outcome_objects(done)})
        return
    say(f"{what}: {operation.command} ({clock(operation.at_ms)}, {count(len(operation.moves), 'ref')})")
    for stay in operation.stays:
        instead = f"; where it was is {stay.instead}, which is active now" if stay.instead else ""
        say(f"  {stay.ref.removeprefix(refs.SESSIONS)} stays, {stay.remote} may have it{instead}")
    if done.outcomes:
        files.tell(done)
