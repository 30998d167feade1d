"""``gitsession enable``"""

from __future__ import annotations

import os
from pathlib import Path

import click

from gitsession.cli.context import App, with_app
from gitsession.cli.enabling import carry_out, dry_run_option, force_option, program, yes_option
from gitsession.cli.output import json_option


@click.command()
@click.argument("agent")
@yes_option
@force_option
@dry_run_option
@json_option
@with_app
def command(app: App, agent: str, yes: bool, force: bool, dry_run: bool, as_json: bool) -> int:
    """Have AGENT (claude, codex, omp, opencode, pi) tell what it does, so that sessions and files are kept as it works.

    Its settings are changed in few places, which are shown first. `gitsession disable AGENT` takes that back.
    """
    from gitsession.live import hook_locations, settings_edits

    told = hook_locations.find(agent)
    file = hook_locations.file_of(told, Path.home(), os.environ)
    edit = settings_edits.plan_enable(app.path, told, file, program(app.path), force=force)
    return carry_out(app, "enable", edit, told.then, yes=yes, dry_run=dry_run, as_json=as_json)
