"""The command ``gitsession link``."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import click

from gitsession.cli import exits
from gitsession.cli.invocation import App, program
from gitsession.cli.options import group, option
from gitsession.cli.output import emit, json_option, say

SECONDS_MAX = 3.0
"""Maximum time that the hook may delay a commit, in seconds."""


@group()
def link_command() -> None:
    """Record in commit messages which session made the changes.

    `gitsession link enable` installs a hook that adds a line `Session: SESSION@ENTRY` to the commit message. The line
    names the session that changed most of the staged files. If no session changed a staged file, no line is added.
    """


_folder = click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))


@link_command.command(short_help="Install a prepare-commit-msg hook in a repository.")
@_folder
@option(
    "--hours",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Ignore sessions without an entry in the last N hours. Default: 4.",
)
@json_option
@click.pass_obj
def enable(app: App, folder: Path, hours: float | None) -> int:
    """Install a prepare-commit-msg hook in the repository of a folder.

    FOLDER defaults to the current folder. An existing prepare-commit-msg hook is kept and runs first.
    """
    from gitsession.sync import commit_trailers

    _print_link("enable", folder, commit_trailers.enable(folder, program(app.path), hours))
    return exits.OK


@link_command.command(short_help="Remove the prepare-commit-msg hook.")
@_folder
@json_option
def disable(folder: Path) -> int:
    """Remove the hook that `gitsession link enable` installed. Existing commits do not change."""
    from gitsession.sync import commit_trailers

    _print_link("disable", folder, commit_trailers.disable(folder))
    return exits.OK


@link_command.command(hidden=True)
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_obj
def message(app: App, file: Path) -> int:
    """Add a line that names a session to the commit message in FILE. The prepare-commit-msg hook runs this command."""
    from gitsession.sessions.node import load
    from gitsession.sync import commit_trailers

    signal.signal(signal.SIGALRM, lambda *_: os._exit(exits.TRY_AGAIN))
    signal.setitimer(signal.ITIMER_REAL, SECONDS_MAX)
    current = Path.cwd()
    recent = commit_trailers.active_sessions(app.catalogue().sessions(), current, time.time_ns() // 1_000_000)
    if not recent:
        return exits.NOTHING
    index_file = os.environ.get("GIT_INDEX_FILE", "")
    row = commit_trailers.author(app.objects(), recent, current, index_file and os.path.abspath(index_file))
    if row is None:
        say("no session of the last hours changed a staged file: the commit names no session")
        return exits.NOTHING
    node = load(app.objects(), row.branches[row.active])
    return exits.OK if commit_trailers.add(file, commit_trailers.address(row.sid, node)) else exits.NOTHING


def _print_link(verb: str, folder: Path, changed: bool) -> None:
    text = (
        "hook installed: new commits name their sessions"
        if verb == "enable"
        else "hook removed: new commits name no sessions"
    )
    emit(f"link-{verb}", {"folder": os.path.abspath(folder), "changed": changed})
    say(text if changed else "nothing to do")
