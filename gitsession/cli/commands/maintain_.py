"""``gitsession maintain``"""

from __future__ import annotations

import click

from gitsession.cli.context import App, with_app
from gitsession.cli.output import count, emit, json_option, say


@click.command()
@json_option
@with_app
def command(app: App, as_json: bool) -> None:
    """Merge packs, pack refs, clean up after processes that were killed. Safe at any time; loses nothing."""
    done = app.store().maintain()
    if as_json:
        emit(
            "maintain",
            {
                "packs_before": done.packs_before,
                "packs_after": done.packs_after,
                "dead_locks": done.dead_locks,
                "removed": list(done.removed),
            },
        )
        return
    say(f"{count(done.packs_before, 'pack')} before, {done.packs_after:,} now")
    if done.dead_locks or done.removed:
        say(f"cleaned up: {count(done.dead_locks, 'dead lock')}, {count(len(done.removed), 'file')} of killed runs")
