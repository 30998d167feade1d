"""The command ``gitsession prompts``."""

from __future__ import annotations

from typing import Any

import click

import gitsession
from gitsession.cli import exits
from gitsession.cli.invocation import App, here
from gitsession.cli.options import command, option
from gitsession.cli.output import json_option, print_list, wants_json
from gitsession.cli.text import paint, width
from gitsession.index.current_folder import of_folder
from gitsession.line_text import shorten
from gitsession.model.headline import clean


@command()
@click.argument("query", nargs=-1)
@option(
    "-n",
    "most",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    default=100,
    help="Show at most this many prompts. Default: 100.",
)
@option(
    "--here",
    "in_folder",
    is_flag=True,
    help="Show only prompts in sessions of the current folder, its parent folders, and its project.",
)
@option("-z", "nul", is_flag=True, help="Print the whole text of each prompt, and end it with a NUL byte.")
@json_option
@click.pass_obj
def prompts_command(app: App, query: tuple[str, ...], most: int, in_folder: bool, nul: bool) -> int:
    """List your recent prompts in all sessions, newest first.

    Prompts with the same text are listed once. Without -z, only the first line of each prompt is shown. If QUERY is
    set, only prompts that contain all of its words are listed, as in a search.
    """
    app.require()
    store = app.store()
    rows = store.sessions()
    found = store.prompts(" ".join(query), among=of_folder(rows, here()) if in_folder else rows, most=most)
    if nul and not wants_json():
        for prompt in found:
            click.echo(clean(prompt.text.strip()).replace("\0", "") + "\0", nl=False)
        return exits.OK if found else exits.NOTHING
    code = print_list("prompts", "prompts", map(_object, found), map(_line, found), nothing="no prompts found")
    app.warn_of_damage()
    return code


def _object(prompt: gitsession.StoredPrompt) -> dict[str, Any]:
    row = prompt.session
    return {
        "session": row.sid,
        "entry": prompt.oid,
        "at": prompt.at_ms,
        "text": prompt.text,
        "agent": row.agent,
        "project": row.project,
    }


def _line(prompt: gitsession.StoredPrompt) -> str:
    first, *others = prompt.text.strip().split("\n")
    return paint(shorten(first if not others else f"{first.rstrip()} …", width()))
