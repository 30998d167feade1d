"""Commands that run on a server: server, receive."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from gitsession.cli import exits
from gitsession.cli.invocation import runner
from gitsession.cli.options import command, group, option
from gitsession.cli.output import emit, json_option, say, warn
from gitsession.line_text import count


@group()
def server_command() -> None:
    """Set up validation of pushes to a bare repository.

    See docs/reference/server.md.
    """


@server_command.command("install", short_help="Install the hooks and settings that validate pushes.")
@click.argument("repository", type=click.Path(path_type=Path))
@option(
    "--allow",
    multiple=True,
    metavar="PATTERN",
    help="Accept pushes to refs that match PATTERN without validation. Example: 'refs/heads/*'. Can be repeated.",
)
@json_option
def server_install(repository: Path, allow: tuple[str, ...]) -> int:
    """Install the hooks and settings that validate pushes to a repository.

    Existing hooks are kept and still run.
    """
    from gitsession.server import server

    _print_server("server-install", repository, server.install(repository, runner(), allow))
    return exits.OK


@server_command.command("uninstall", short_help="Restore the previous hooks and settings.")
@click.argument("repository", type=click.Path(path_type=Path))
@json_option
def server_uninstall(repository: Path) -> int:
    """Restore the hooks and settings from before `gitsession server install`. Pushed sessions are kept."""
    from gitsession.server import server

    _print_server("server-uninstall", repository, server.uninstall(repository))
    return exits.OK


@server_command.command("status")
@click.argument("repository", type=click.Path(path_type=Path))
@json_option
def server_status(repository: Path) -> int:
    """Show whether a repository validates pushes.

    The exit code is 1 if pushes are not validated.
    """
    from gitsession.server import server

    state = server.status(repository)
    document = {
        "repository": os.path.abspath(repository),
        "installed": state.is_installed,
        "hooks": dict(state.hooks),
        "kept": list(state.kept),
        "lacking": dict(state.lacking),
        "program": state.program or None,
        "store": state.is_store,
        "allowed": list(state.allowed),
    }
    emit("server-status", document)
    say(
        "pushes to this repository are validated"
        if state.is_installed
        else "pushes to this repository are not validated"
    )
    for name, how in state.hooks.items():
        say(f"  hooks/{name}: {how}")
    for name in state.kept:
        say(f"  hooks/{name}: also run")
    for name, value in state.lacking.items():
        say(f"  {name} is not {value}")
    if not state.program_is_there:
        say(f"  {state.program or 'gitsession'} cannot be run: every push is refused")
    for pattern in state.allowed:
        say(f"  {pattern}: accepted without validation")
    return exits.OK if state.is_installed else exits.NOTHING


def _print_server(what: str, repository: Path, done: list[str]) -> None:
    emit(what, {"repository": os.path.abspath(repository), "done": done})
    for line in done or ["nothing to do"]:
        say(line)


_SHOWN = 50


@command()
@click.argument("when", type=click.Choice(["pre", "post"]))
def receive_command(when: str) -> int:
    """Validate a push, or apply purges, on a server.

    The hooks that `gitsession server install` installs run this command. Standard input has the format of git's
    pre-receive and post-receive hooks. See docs/reference/server.md.
    """
    from gitsession.server import receive

    git_dir = Path(os.path.abspath(os.environ.get("GIT_DIR", ".")))
    with open(sys.stdin.fileno(), encoding="utf-8", errors="surrogateescape", closefd=False) as told:
        moves = receive.moves(told)
    if when == "post":
        applied = receive.post_receive(git_dir)
        if applied is not None and applied.moved:
            warn(f"gitsession: the purge was also applied on this server: {count(len(applied.moved), 'ref')} rewritten")
        return exits.OK
    refusals = receive.pre_receive(git_dir, moves, os.environ)
    for refusal in refusals[:_SHOWN]:
        warn(f"gitsession: {refusal}")
    if len(refusals) > _SHOWN:
        warn(f"gitsession: and {len(refusals) - _SHOWN:,} more")
    if refusals:
        warn(f"gitsession: the push was rejected: {count(len(refusals), 'ref is', 'refs are')} refused")
    return exits.REFUSED if refusals else exits.OK
