"""Commands for the operation log: undo, redo, op."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

import gitsession
from gitsession.cli.commands import checkpoints
from gitsession.cli.commands.checkpoints import HALF_DONE, report_interrupted_rewind, workspace_option
from gitsession.cli.invocation import App
from gitsession.cli.options import command, group, option
from gitsession.cli.output import current_folder, emit, json_option, print_list, say
from gitsession.cli.text import paint, width
from gitsession.errors import Refused
from gitsession.line_text import clock, count, shorten
from gitsession.store import refs


def _arguments(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the arguments of undo and redo. ``what``: a verb phrase for the help texts."""
    everywhere = option("--any", "everywhere", is_flag=True, help=f"{what} on any session of the store.")
    session = click.argument("session", metavar="[SESSION]", required=False)
    return lambda command: session(everywhere(workspace_option(json_option(click.pass_obj(command)))))


@command()
@_arguments("Undo the last command")
def undo_command(app: App, session: str | None, everywhere: bool, workspace: Path | None) -> None:
    """Undo the last command that moved branches or wrote files.

    Without SESSION, undo the last command on a session of the current folder or its project. If a file has been
    edited since the command, the edits are kept, and only the command's own changes are reverted. If that is not
    possible, the file is listed and left unchanged.
    """
    _run(app, "undo", session, everywhere, workspace)


@command()
@_arguments("Redo the last undone command")
def redo_command(app: App, session: str | None, everywhere: bool, workspace: Path | None) -> None:
    """Redo the last undone command. SESSION and --any have the same meaning as for `gitsession undo`."""
    _run(app, "redo", session, everywhere, workspace)


@group(invoke_without_command=True)
@click.pass_context
def op_command(ctx: click.Context) -> int | None:
    """Show the operation log. `gitsession op` is the same as `gitsession op log`."""
    return ctx.invoke(log) if ctx.invoked_subcommand is None else None


@op_command.command()
@option("-n", "number", type=click.IntRange(1), metavar="N", help="Show at most this many commands.")
@json_option
@click.pass_obj
def log(app: App, number: int | None) -> int:
    """List the commands that moved branches or wrote files, newest first."""
    operations = app.store().operations()[:number]
    objects, lines = map(as_object, operations), map(as_line, operations)
    return print_list("op-log", "operations", objects, lines, nothing="no operations yet")


def _run(app: App, verb: str, session: str | None, everywhere: bool, workspace: Path | None) -> None:
    """Undo or redo a command, and print the result."""
    from gitsession.checkpoints import intents

    current = current_folder()
    for one in intents.pending(app.store().objects):  # an unfinished rewind is not in the log yet
        if Path(os.path.realpath(workspace or current or "/")).is_relative_to(one.workspace):
            raise Refused(f"cannot {verb}: an earlier command, {one.description}, was interrupted", hint=HALF_DONE)
    if session is not None and everywhere:
        raise click.UsageError("SESSION and --any cannot be combined")
    project = None if session is not None or everywhere else current or None
    with report_interrupted_rewind(app):
        move = app.store().undo if verb == "undo" else app.store().redo
        done = move(workspace, session=session, project=project)
    operation = done.operation
    assert operation is not None
    stays = [stay._asdict() for stay in operation.stays]
    document = {"operations": [as_object(operation)], "stays": stays, "workspace": done.workspace}
    emit(verb, {**document, "files": checkpoints.outcome_objects(done.outcomes)})
    what = "undone" if verb == "undo" else "redone"
    say(f"{what}: {operation.command} ({clock(operation.at_ms)}, {count(len(operation.moves), 'ref')})")
    for stay in operation.stays:
        instead = f" ({stay.instead} is at the previous entry and is the active branch)" if stay.instead else ""
        say(f"  {stay.ref.removeprefix(refs.SESSIONS)} is kept, because remote {stay.remote} may contain it{instead}")
    if done.outcomes:
        checkpoints.print_files(done)


def as_object(operation: gitsession.Operation) -> dict[str, Any]:
    return {
        "id": operation.id,
        "at": operation.at_ms,
        "command": operation.command,
        "refs": [{"ref": move.ref, "old": move.old, "new": move.new} for move in operation.moves],
        "undoes": operation.undoes,
        "redoes": operation.redoes,
        "files": operation.files._asdict() if operation.files else None,
    }


def as_line(operation: gitsession.Operation) -> str:
    moved = count(len(operation.moves), "ref") + (", files" if operation.files else "")
    first, last = f"{operation.id[:8]}  {clock(operation.at_ms)}  ", f"  ({moved})"
    return paint(f"{first}{shorten(operation.command, width() - len(first) - len(last))}{last}")
