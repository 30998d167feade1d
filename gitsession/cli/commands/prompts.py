"""The command ``gitsession prompts``."""

from __future__ import annotations

import os
from typing import Any

import click

import gitsession
from gitsession.cli import exits, picking
from gitsession.cli.invocation import App, no_such_agent
from gitsession.cli.options import agent_option, command, here_option, most_option, option, pick_option
from gitsession.cli.output import json_option, print_list, wants_json, warn
from gitsession.cli.text import paint, width
from gitsession.line_text import shorten
from gitsession.model.headline import clean


@command()
@click.argument("query", nargs=-1)
@most_option("prompts", 100)
@agent_option
@here_option
@option("--stored", is_flag=True, help="Do not read the agents' own prompt histories.")
@option("-z", "nul", is_flag=True, help="Print the whole text of each prompt, and end it with a NUL byte.")
@pick_option("Select a prompt with fzf, and print its whole text.")
@json_option
@click.pass_obj
def prompts_command(
    app: App, query: tuple[str, ...], most: int, agent: str, in_folder: bool, stored: bool, nul: bool, picks: bool
) -> int:
    """List your recent prompts in all sessions, newest first.

    The list includes the prompts in the agents' own prompt histories. Prompts with the same text are listed once.
    Without -z, only the first line of each prompt is shown. If QUERY is set, only prompts that contain all of its words
    are listed, as in a search.
    """
    app.require()
    if picks:
        picking.check_terminal()
    store = app.store()
    found = store.prompts(
        " ".join(query),
        folder=os.curdir if in_folder else None,
        agent=agent,
        most=most,
        histories=not stored,
        on_problem=lambda problem: warn(f"warning: {problem}"),
    )
    nothing = "" if found else no_such_agent(agent, store.sessions()) or "no prompts found"
    if found and picks:
        chosen = picking.pick([prompt.text for prompt in found])
        found = [] if chosen is None else [found[chosen]]
    if (nul or picks) and found and not wants_json():
        for prompt in found:
            click.echo(clean(prompt.text.strip()).replace("\0", "") + ("\0" if nul else "\n"), nl=False)
        return exits.OK
    code = print_list("prompts", "prompts", map(_object, found), map(_line, found), nothing=nothing)
    app.warn_of_damage()
    return code


def _object(prompt: gitsession.RecentPrompt) -> dict[str, Any]:
    return {
        "session": prompt.session.sid if prompt.session is not None else None,
        "entry": prompt.oid,
        "at": prompt.at_ms,
        "text": prompt.text,
        "agent": prompt.agent,
        "project": prompt.project,
    }


def _line(prompt: gitsession.RecentPrompt) -> str:
    first, *others = prompt.text.strip().split("\n")
    return paint(shorten(first if not others else f"{first.rstrip()} …", width()))
