"""The command ``gitsession search``."""

from __future__ import annotations

import re
from typing import Any

import click

import gitsession
from gitsession.cli.invocation import App, Since, no_such_agent
from gitsession.cli.options import command, option
from gitsession.cli.output import json_option, print_list
from gitsession.cli.text import clock, count, paint, shorten, width
from gitsession.index.search_words import ROLES

OID_CHARS = 12


@command()
@click.argument("query", nargs=-1, required=True)
@option(
    "-n",
    "most",
    type=click.IntRange(1, 10_000),
    metavar="N",
    default=20,
    help="Show at most this many hits. Default: 20.",
)
@option("--agent", metavar="AGENT", default="", help="Search only sessions of this agent.")
@option(
    "--project",
    metavar="PROJECT",
    default="",
    help="Search only sessions of this project: a folder, or an identity such as github.com/owner/name.",
)
@option("--role", type=click.Choice(ROLES), help="Search only entries of this role, only summaries, or only titles.")
@option(
    "--since",
    type=Since(),
    default=None,
    help="Search only entries since WHEN: a date (2026-11-21) or an age (12h, 3d, 2w).",
)
@json_option
@click.pass_obj
def search_command(
    app: App,
    query: tuple[str, ...],
    most: int,
    agent: str,
    project: str,
    role: str | None,
    since: int | None,
) -> int:
    """Search all sessions for text.

    An entry matches if it contains all of the words in QUERY. "Words in quotation marks" match only as a phrase. log*
    matches all words that start with log.
    """
    asked = " ".join(query)
    if not any(char.isalnum() for char in asked):
        raise click.UsageError("the query has no letters or digits")
    app.require()
    hits = app.store().search(asked, agent=agent, project=project, role=role or "", since_ms=since or 0, most=most)
    nothing = ""
    if not hits:
        searched = app.catalogue().sessions()
        nothing = no_such_agent(agent, searched) or f"no entries found in {count(len(searched), 'session')}"
        nothing += _archived(app.store())
    lines = (line for hit in hits for line in _lines(hit, asked))
    code = print_list("search", "hits", map(_object, hits), lines, nothing=nothing, query=asked)
    app.warn_of_damage()
    return code


def _archived(store: gitsession.Store) -> str:
    """Return a remark on the archived sessions, which a search does not read; "" if there are none."""
    from gitsession.archive import archive_set

    sessions = len(archive_set.read(store.objects))
    return f" ({count(sessions, 'archived session')} not searched)" if sessions else ""


def _object(hit: gitsession.Hit) -> dict[str, Any]:
    row = hit.session
    return {
        "session": row.sid,
        "entry": hit.oid,
        "role": hit.role,
        "at": hit.at_ms,
        "snippet": hit.snippet,
        "title": row.title,
        "agent": row.agent,
        "project": row.project,
    }


def _lines(hit: gitsession.Hit, query: str) -> list[str]:
    address = paint(f"{hit.session.sid}@{hit.oid[:OID_CHARS]}", fg="yellow")
    about = f"{hit.role}  {clock(hit.at_ms)}  {hit.session.agent}"
    head = f"{address}  {paint(shorten(f'{about}  {hit.session.name}', width() - 40))}"
    return [head, f"    {_marked(shorten(hit.snippet, width() - 4), query)}"]


def _marked(text: str, query: str) -> str:
    """Return ``text`` with the words of the query in bold."""
    pattern = "|".join(map(re.escape, sorted(re.findall(r"\w+", query), key=len, reverse=True)))
    if not pattern:
        return paint(text)
    pieces = re.split(rf"(?i)(\b(?:{pattern}))", text)
    return "".join(paint(piece, bold=True) if at % 2 else paint(piece) for at, piece in enumerate(pieces))
