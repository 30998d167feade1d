"""The command ``gitsession search``."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import click

import gitsession
from gitsession.cli import exits
from gitsession.cli.invocation import App, Since, no_such_agent
from gitsession.cli.options import (
    agent_option,
    command,
    file_option,
    here_option,
    most_option,
    option,
    pick_option,
    project_option,
)
from gitsession.cli.output import json_option, print_list, wants_json, warn
from gitsession.cli.session_table import short_ids
from gitsession.cli.text import paint, shell_command, width
from gitsession.index.search_words import ROLES
from gitsession.line_text import ago, clock, columns, count, on_a_line, shorten

OID_CHARS = 12
_TITLE_MIN = 12


@command()
@click.argument("query", nargs=-1, required=True)
@most_option("hits", 20)
@option("--regex", is_flag=True, help="Search for a regular expression in the syntax of Python.")
@agent_option
@project_option
@here_option
@file_option
@option("--role", type=click.Choice(ROLES), help="Search only entries of this role, only summaries, or only titles.")
@option(
    "--since",
    type=Since(),
    default=None,
    help="Search only entries since WHEN: a date (2026-11-21) or an age (12h, 3d, 2w).",
)
@option("--until", type=Since(), default=None, help="Search only entries before WHEN.")
@pick_option("Select a hit with fzf, and show its entry.")
@json_option
@click.pass_context
def search_command(
    ctx: click.Context, /, query: tuple[str, ...], role: str | None, since: int | None, until: int | None, *,
    regex: bool, agent: str, in_folder: bool, picks: bool, most: int, **filters: Any,
) -> int:  # fmt: skip
    """Search all sessions for text.

    An entry matches if it contains all of the words in QUERY, or other forms of them (testing finds tested). Longer
    words match the last word, and log* matches all words that start with log. "Words in quotation marks" match only
    exactly and as a phrase.
    """
    asked = " ".join(query)
    if not regex and not any(char.isalnum() for char in asked):
        raise click.UsageError("the query has no letters or digits")
    app: App = ctx.obj
    app.require()
    if picks:
        from gitsession.cli import picking

        picking.check_terminal()
    store = app.store()
    filters |= {"agent": agent, "folder": os.curdir if in_folder else None, "role": role or ""}
    filters |= {"since_ms": since or 0, "until_ms": until}
    hits = store.search(asked, regex=regex, most=most, **filters)
    nothing, suggestion = "", ""
    if not hits:
        stored = app.catalogue().sessions()
        searched = store.sessions_of(os.curdir, stored) if in_folder else stored
        nothing = no_such_agent(agent, stored) or f"no entries found in {count(len(searched), 'session')}"
        nothing += _archived(store)
        suggestion = "" if regex else store.suggest_query(asked, **filters)
    if hits and picks:
        return _show_one(ctx, hits)
    code = print_list(
        "search",
        "hits",
        map(as_object, hits),
        _lines(hits),
        nothing=nothing,
        query=asked,
        suggestion=suggestion or None,
    )
    if suggestion and not wants_json():
        warn(f"hint: did you mean {shell_command([suggestion])}?")
    app.warn_of_damage()
    return code


def _show_one(ctx: click.Context, hits: Sequence[gitsession.Hit]) -> int:
    from gitsession.cli.picking import pick

    titles = [shorten(hit.session.name, max(width() // 4, _TITLE_MIN)) for hit in hits]
    chosen = pick(
        [f"{title}  {hit.role}  {clock(hit.at_ms)}  {hit.snippet}" for title, hit in zip(titles, hits, strict=True)]
    )
    if chosen is None:
        return exits.NOTHING
    from gitsession.cli.commands.show import show_command

    hit = hits[chosen]
    words = [hit.session.sid, "--side-file", hit.name] if hit.name else [f"{hit.session.sid}@{hit.oid}"]
    with show_command.make_context("show", words, parent=ctx.parent) as showing:
        code: int = show_command.invoke(showing)
    return code


def _archived(store: gitsession.Store) -> str:
    """Return a remark on the archived sessions, which a search does not read; "" if there are none."""
    from gitsession.archive import archive_set

    sessions = len(archive_set.read(store.objects))
    return f" ({count(sessions, 'archived session')} not searched)" if sessions else ""


def as_object(hit: gitsession.Hit) -> dict[str, Any]:
    row = hit.session
    return {
        "session": row.sid,
        "entry": hit.oid,
        "role": hit.role,
        "at": hit.at_ms,
        "snippet": hit.snippet,
        "before": hit.before,
        "line": hit.line,
        "after": hit.after,
        "words": list(hit.words),
        "side_file": hit.name or None,
        "title": row.title,
        "agent": row.agent,
        "project": row.project,
    }


def _lines(hits: Sequence[gitsession.Hit]) -> Iterator[str]:
    """Yield the lines of the hits by session, in the order of the best hit of each session."""
    groups: dict[str, list[gitsession.Hit]] = {}
    for hit in hits:
        groups.setdefault(hit.session.sid, []).append(hit)
    shorts = short_ids(group[0].session for group in groups.values())
    now_ms = time.time_ns() // 1_000_000
    for number, (sid, group) in enumerate(groups.items()):
        if number:
            yield ""
        yield _head(group[0], shorts[sid], now_ms)
        for hit in group:
            if hit.role != "title":  # the line of the session shows the title
                yield from _hit_lines(hit, shorts[sid])


def _head(hit: gitsession.Hit, short_id: str, now_ms: int) -> str:
    row = hit.session
    about = f"  {on_a_line(row.agent)}  {ago(row.updated_ms, now_ms)}"
    title = shorten(row.name, max(width() - len(short_id) - 2 - columns(about), _TITLE_MIN))
    marked = _marked(title, hit.words if hit.role == "title" else (), bold=True)
    return f"{paint(short_id, fg='yellow')}  {marked}{paint(about)}"


def _hit_lines(hit: gitsession.Hit, short_id: str) -> Iterator[str]:
    address = paint(f"{short_id}@{hit.oid[:OID_CHARS]}", fg="yellow")
    side_file = f"  side file  {paint(on_a_line(hit.name), fg='yellow')}"
    yield side_file if hit.name else f"  {address}  {paint(f'{hit.role}  {clock(hit.at_ms)}')}"
    room = width() - 4
    if hit.before:
        yield f"    {paint(shorten(hit.before, room), dim=True)}"
    yield f"    {_marked(shorten(hit.line, room), hit.words)}"
    if hit.after:
        yield f"    {paint(shorten(hit.after, room), dim=True)}"


def _marked(text: str, words: Sequence[str], **style: Any) -> str:
    """Return ``text`` with ``words`` in bold green."""
    pattern = "|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)"
    pieces = re.split(f"({pattern})", text)
    return "".join(
        paint(piece, bold=True, fg="green") if at % 2 else paint(piece, **style) for at, piece in enumerate(pieces)
    )
