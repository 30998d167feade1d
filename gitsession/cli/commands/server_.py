"""``gitsession server``"""

from __future__ import annotations

import os
from pathlib import Path

import click

from gitsession.cli import exits
from gitsession.cli.enabling import runner
from gitsession.cli.output import emit, json_option, say


@click.group()
def command() -> None:
    """Make a bare repository check the sessions that are pushed to it (docs/server.md)."""


@command.command(short_help="Put our hooks into REPOSITORY.")
@click.argument("repository", type=click.Path(path_type=Path))
@click.option("--allow", multiple=True, metavar="PATTERN", help="Other refs that may be pushed: 'refs/heads/*'.")
@json_option
def install(repository: Path, allow: tuple[str, ...], as_json: bool) -> int:
    """Put our hooks into REPOSITORY, in front of those that are there, and settings under which nothing is lost."""
    from gitsession.server import server

    _tell("server-install", repository, server.install(repository, runner(), allow), as_json=as_json)
    return exits.OK


@command.command()
@click.argument("repository", type=click.Path(path_type=Path))
@json_option
def uninstall(repository: Path, as_json: bool) -> int:
    """Bring back hooks and settings as they were before. What was pushed stays."""
    from gitsession.server import server

    _tell("server-uninstall", repository, server.uninstall(repository), as_json=as_json)
    return exits.OK


@command.command()
@click.argument("repository", type=click.Path(path_type=Path))
@json_option
def status(repository: Path, as_json: bool) -> int:
    """Say whether REPOSITORY checks what is pushed to it. Ends with 1 where it does not."""
    from gitsession.server import server

    state = server.status(repository)
    if as_json:
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
        return exits.OK if state.is_installed else exits.NOTHING
    say("what is pushed here is checked" if state.is_installed else "what is pushed here is not checked")
    for name, how in state.hooks.items():
        say(f"  hooks/{name}: {how}")
    for name in state.kept:
        say(f"  hooks/{name}: run too")
    for name, value in state.lacking.items():
        say(f"  {name} is not {value}")
    if not state.program_is_there:
        say(f"  {state.program or 'gitsession'} cannot be run: everything that is pushed is refused")
    for pattern in state.allowed:
        say(f"  {pattern}: taken in unchecked")
    return exits.OK if state.is_installed else exits.NOTHING


def _tell(what: str, repository: Path, done: list[str], *, as_json: bool) -> None:
    if as_json:
        emit(what, {"repository": os.path.abspath(repository), "done": done})
        return
    for line in done or ["nothing to do"]:
        say(line)
