"""``gitsession link``"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import click

from gitsession.cli import exits
from gitsession.cli.context import App, with_app
from gitsession.cli.enabling import program
from gitsession.cli.output import emit, json_option, say

SECONDS_MAX = 3.0
"""How long a commit waits for us at most."""


@click.group()
def command() -> None:
    """Have the commits of a project say in which session they were made (docs/server.md)."""


_folder = click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))


@command.command(short_help="Put a hook into the repository of FOLDER.")
@_folder
@click.option("--hours", type=click.FloatRange(0, min_open=True), help="How long a session counts as going on: 4.")
@json_option
@with_app
def enable(app: App, folder: Path, hours: float | None, as_json: bool) -> int:
    """Put a hook into the repository of FOLDER, in front of one that is there."""
    from gitsession.sync import commit_trailers

    _tell("enable", folder, commit_trailers.enable(folder, program(app.path), hours), as_json=as_json)
    return exits.OK


@command.command()
@_folder
@json_option
def disable(folder: Path, as_json: bool) -> int:
    """Take the hook out again. What commits say already stays."""
    from gitsession.sync import commit_trailers

    _tell("disable", folder, commit_trailers.disable(folder), as_json=as_json)
    return exits.OK


@command.command(hidden=True)
@click.argument("file", type=click.Path(path_type=Path))
@with_app
def message(app: App, file: Path) -> int:
    """Add the session that made a commit to the commit message in FILE (run by the hook)."""
    from gitsession.sessions.node import load
    from gitsession.sync import commit_trailers

    signal.signal(signal.SIGALRM, lambda *_: os._exit(exits.TRY_AGAIN))
    signal.setitimer(signal.ITIMER_REAL, SECONDS_MAX)
    here = Path.cwd()
    recent = commit_trailers.going_on(app.catalogue().sessions(), here, time.time_ns() // 1_000_000)
    if not recent:
        return exits.NOTHING
    row = recent[0]
    if len(recent) > 1:
        from gitsession.sync import authorship

        index_file = os.environ.get("GIT_INDEX_FILE", "")
        row = authorship.author(app.objects(), recent, here, index_file and os.path.abspath(index_file))
    node = load(app.objects(), row.branches[row.active])
    return exits.OK if commit_trailers.add(file, commit_trailers.address(row.sid, node)) else exits.NOTHING


def _tell(verb: str, folder: Path, changed: bool, *, as_json: bool) -> None:
    if as_json:
        emit(f"link-{verb}", {"folder": os.path.abspath(folder), "changed": changed})
    elif not changed:
        say("nothing to do")
    else:
        say("commits here name their sessions" if verb == "enable" else "commits here name no sessions any more")
