"""``gitsession redact``"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gitsession.cli import exits
from gitsession.cli.context import App, with_app
from gitsession.cli.output import count, emit, json_option, say, warn

if TYPE_CHECKING:
    from gitsession.sessions.stored_secrets import FoundSecret


@click.command()
@click.argument("session", metavar="[SESSION]", required=False)
@click.option("--dry-run", is_flag=True, help="Only list what holds secrets; exit code 6 where anything does.")
@json_option
@with_app
def command(app: App, session: str | None, dry_run: bool, as_json: bool) -> int:
    """Find secrets in what was stored before there was a rule for them, and hide them: in all, or in one session."""
    from gitsession.purge import tombstone_commits

    sid = app.session(session).id if session else None
    store = app.store()
    search = store.secrets.find(sid)
    found = list(search)
    done = None if dry_run or not found else store.secrets.redact(found)
    if as_json:
        hidden = None if done is None else done.entries
        emit("redact", {"found": [_object(each) for each in found], "hidden": hidden, "unread": search.unread})
    else:
        for each in found:
            what = f"{each.rule} ({each.count})" if each.count > 1 else each.rule
            say(f"{each.session}@{each.node.oid[:12]}  {what}" + (f"  {each.path}" if each.path else ""))
        if not found:
            say("no secrets found")
        if done is not None:
            say(f"hidden: {count(done.entries, 'entry', 'entries')}")
    if search.unread:
        warn(f"{count(len(search.unread), 'entry', 'entries')} cannot be read: `gitsession verify` says why")
    if any(each.path for each in found) and not dry_run:
        warn("files of checkpoints are kept as they are or not at all: `gitsession purge` takes them away")
    if any(each.node.replaces for each in found if not each.path) and tombstone_commits.is_given(store.objects):
        warn("what was redacted before stays as it was in the history of the set: change what is secret there, too")
    return exits.SECRETS if found and dry_run else exits.OK


def _object(found: FoundSecret) -> dict[str, Any]:
    place = {"session": found.session, "id": found.node.oid, "path": found.path or None}
    return {**place, "rule": found.rule, "count": found.count}
