"""``gitsession seal``"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gitsession.cli import exits
from gitsession.cli.context import App, with_app
from gitsession.cli.output import clock, count, emit, json_option, say

if TYPE_CHECKING:
    from gitsession.verify.findings import SealCheck

WORDS = {
    "good": "good, by {by}",
    "untrusted": "good, by {by}, a key that is not said to be its owner's",
    "unknown": "by a key that is not known: {by}",
    "expired": "by {by}, a key or signature that has expired",
    "revoked": "by {by}, a key that was revoked",
    "bad": "bad: the signature is not of what the seal says",
    "unchecked": "not checked: nobody is named whose signatures count, or the program is missing",
    "gone": "the line that it seals is no longer there; signed by {by}",
    "misplaced": "it does not say what stands here; signed by {by}",
    "altered": "something else stands on the line, and no purge says so; signed by {by}",
}


@click.command()
@click.argument("session", metavar="SESSION")
@click.option("--branch", metavar="NAME", help="Another branch than the active one.")
@click.option("--key", metavar="KEY", default="", help="Another key than git's user.signingKey.")
@click.option("--check", is_flag=True, help="Sign nothing; say what the seals are worth.")
@json_option
@with_app
def command(app: App, session: str, branch: str | None, key: str, check: bool, as_json: bool) -> int:
    """Sign a branch as it is, with your key of git's; or check what was signed."""
    found = app.session(session)
    if not check:
        made = found.seal(branch, key=key)
        if as_json:
            emit("seal", {"session": found.id, "branch": made.branch, "leaf": made.leaf, "entries": made.entries})
        else:
            say(f"{found.id} {made.branch}: {count(made.entries, 'entry', 'entries')} sealed, to {made.leaf[:12]}")
        return exits.OK
    seals = [sealed for sealed in found.seals() if branch in (None, sealed.entry.branch)]
    if as_json:
        emit("seal", {"session": found.id, "seals": [row(sealed) for sealed in seals]})
    elif not seals:
        say(f"{found.id} has no seal")
    else:
        for sealed in seals:
            say(words(sealed))
    if any(sealed.is_wrong for sealed in seals):
        return exits.INTEGRITY
    return exits.OK if seals else exits.NOTHING


def words(sealed: SealCheck) -> str:
    entry = sealed.entry
    after = "" if not sealed.after else f", {count(sealed.after, 'entry', 'entries')} after it"
    gone = "" if not sealed.purged else f", {sealed.purged:,} of them purged or redacted"
    worth = WORDS[sealed.state].format(by=sealed.by or "somebody")
    return f"{clock(entry.at_ms)}  {entry.branch}  {count(entry.entries, 'entry', 'entries')}{gone}{after}  {worth}"


def row(sealed: SealCheck) -> dict[str, Any]:
    entry = sealed.entry
    return {
        "id": sealed.node.oid,
        "session": sealed.sid,
        "branch": entry.branch,
        "leaf": entry.leaf,
        "entries": entry.entries,
        "after": sealed.after,
        "purged": sealed.purged,
        "at": entry.at_ms,
        "state": sealed.state,
        "by": sealed.by or None,
    }
