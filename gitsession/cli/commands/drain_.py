"""``gitsession drain``"""

from __future__ import annotations

import dataclasses
import os

import click

from gitsession.cli import exits
from gitsession.cli.context import DRAIN_WAIT_SECONDS, App, with_app
from gitsession.cli.output import count, emit, json_option, say, warn
from gitsession.live import spool


@click.command()
@click.option("--quiet", is_flag=True, help="Say nothing, for a program that nobody looks at.")
@click.option("--forget-failures", is_flag=True, help="What went wrong was read: `doctor` need not tell it again.")
@json_option
@with_app
def command(app: App, quiet: bool, forget_failures: bool, as_json: bool) -> int:
    """Take in what agents' hooks have left. Every other command does so too, before its own work."""
    store = app.store(make=True, drained=False)
    if forget_failures:
        spool.forget_failures(os.fspath(app.path))
    done = store.drain(wait_seconds=DRAIN_WAIT_SECONDS)
    if as_json:
        emit("drain", dataclasses.asdict(done))
    elif not quiet:
        for what in done.failed:
            warn(f"gitsession: {what}")
        words = [count(done.taken, "event") + " taken in", count(done.checkpoints, "checkpoint")]
        words += [f"{count(done.waiting, 'event')} waiting"] if done.waiting else []
        words += ["another program is at it"] if done.busy else []
        say(", ".join(words))
    return exits.TRY_AGAIN if done.busy else exits.OK
