"""Commands for the operation log: undo, redo, op."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gitsession.checkpoints import intents
from gitsession.checkpoints.rewinding import RewindResult
from gitsession.cli.commands import checkpoints
from gitsession.cli.commands.checkpoints import HALF_DONE, report_interrupted_rewind, workspace_option
from gitsession.cli.context import App, with_app
from gitsession.cli.output import current_folder, emit, json_option, print_list, say
from gitsession.cli.text import clock, count, paint, shorten, width
from gitsession.errors import Refused
from gitsession.sessions.operation_log import Operation
from gitsession.store import refs


def scope_arguments(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the scope arguments of undo or redo. ``what``: the verb phrase in the help text."""
    every = click.option("--any", "everywhere", is_flag=True, help=f"{what} on any session of the store.")
    argument = click.argument("session", metavar="[SESSION]", required=False)
    return lambda command: argument(every(command))


@click.command()
@scope_arguments("Undo the last command")
@workspace_option
@json_option
@with_app
def undo_command(app: App, session: str | None, everywhere: bool, workspace: Path | None) -> None:
    """Undo the last command that moved branches or wrote files.

    Without SESSION, undo the last command on a session of the current folder or its project. If a file has been
    edited since the command, the edits are kept, and only the changes of the command are reverted. If that is not
    possible, the file is listed and left unchanged.
    """
    refuse_unfinished(app, workspace)
    with report_interrupted_rewind(app):
        done = app.store().undo(workspace, **scope_of(session, everywhere))
    print_done("undo", "undone", done)


@click.command()
@scope_arguments("Redo the last undone command")
@workspace_option
@json_option
@with_app
def redo_command(app: App, session: str | None, everywhere: bool, workspace: Path | None) -> None:
    """Redo the last undone command. SESSION and --any have the same meaning as for `gitsession undo`."""
    refuse_unfinished(app, workspace)
    with report_interrupted_rewind(app):
        done = app.store().redo(workspace, **scope_of(session, everywhere))
    print_done("redo", "redone", done)


@click.group(invoke_without_command=True)
@click.pass_context
def op_command(ctx: click.Context) -> int | None:
    """Show the operation log. `gitsession op` is the same as `gitsession op log`."""
    return ctx.invoke(log) if ctx.invoked_subcommand is None else None


@op_command.command()
@click.option("-n", "number", type=click.IntRange(1), metavar="N", help="Show at most this many commands.")
@json_option
@with_app
def log(app: App, number: int | None) -> int:
    """List the commands that moved branches or wrote files, newest first."""
    operations = app.store().operations()[:number]
    objects, lines = map(as_object, operations), map(as_line, operations)
    return print_list("op-log", "operations", objects, lines, nothing="no operations yet")


def scope_of(session: str | None, everywhere: bool) -> dict[str, str]:
    """Return the scope that the user selected, as arguments of ``Store.undo``."""
    if session is not None and everywhere:
        raise click.UsageError("SESSION and --any cannot be combined")
    if session is not None:
        return {"session": session}
    current = current_folder()
    return {"project": current} if current and not everywhere else {}


def refuse_unfinished(app: App, workspace: Path | None) -> None:
    """Raise ``Refused`` if a rewind in this folder is unfinished, because the log does not contain it yet."""
    current = Path(os.path.realpath(workspace or current_folder() or "/"))
    for one in intents.pending(app.store().objects):
        if current.is_relative_to(one.workspace):
            raise Refused(f"cannot undo: the command {one.description} was interrupted", hint=HALF_DONE)


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


def print_done(schema: str, what: str, done: RewindResult) -> None:
    """Print the result of an undo or redo."""
    operation = done.operation
    assert operation is not None
    stays = [stay._asdict() for stay in operation.stays]
    document = {"operations": [as_object(operation)], "stays": stays, "workspace": done.workspace}
    emit(schema, {**document, "files": checkpoints.outcome_objects(done)})
    say(f"{what}: {operation.command} ({clock(operation.at_ms)}, {count(len(operation.moves), 'ref')})")
    for stay in operation.stays:
        instead = f" ({stay.instead} is at the previous entry and is the active branch)" if stay.instead else ""
        say(f"  {stay.ref.removeprefix(refs.SESSIONS)} is kept, because {stay.remote} may have it{instead}")
    if done.outcomes:
        checkpoints.print_files(done)
