"""``gitsession archive``"""

from __future__ import annotations

import click

from gitsession.cli import exits
from gitsession.cli.context import App, with_app
from gitsession.cli.output import clock, count, emit, json_option, say, shorten
from gitsession.cli.time_argument import Since


@click.command()
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@click.option("--older-than", "before", type=Since(), help="Those not gone on with since a date, or 90d, 12w ago.")
@click.option("--keep", type=click.IntRange(0), metavar="N", help="The newest N stay; alone: all others go.")
@click.option("--label", default="", help="A session with an entry of this label stays.")
@click.option("--dry-run", is_flag=True, help="Say which ones would go.")
@json_option
@with_app
def command(
    app: App, sessions: tuple[str, ...], before: int | None, keep: int | None, label: str, dry_run: bool, as_json: bool
) -> int:
    """Archive sessions, named or by age and number: nothing of them goes, one ref keeps them all, and a push no longer
    lists them. `restore`, or going on with one elsewhere, brings it back.
    """
    from gitsession.archive.retention import Retention

    rules = before is not None or keep is not None
    if bool(sessions) == rules:
        raise click.UsageError("which? Name sessions, or give --older-than or --keep")
    store = app.store()
    if sessions:
        rows = [app.row(session)[0] for session in sessions]
    else:
        rows = [each.row for each in store.expired(Retention(before_ms=before, keep=keep, label=label))]
    if rows and not dry_run:
        store.archive.put(*(row.sid for row in rows))
    if as_json:
        found = [{"session": row.sid, "title": row.name, "updated": row.updated_ms} for row in rows]
        emit("archive", {"sessions": found, "dry_run": dry_run})
        return exits.OK if rows else exits.NOTHING
    for row in rows:
        say(f"{row.sid}  {clock(row.updated_ms)}  {shorten(row.name, 60)}")
    where = "would be archived" if dry_run else "archived: `gitsession sync` tells the remotes"
    say(f"{count(len(rows), 'session')}: {where}" if rows else "nothing is to be archived")
    return exits.OK if rows else exits.NOTHING
