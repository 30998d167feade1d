"""Commands that archive, remove and restore sessions: archive, rm, restore, prune."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import click

import gitsession
from gitsession.cli import exits
from gitsession.cli.invocation import App, Since
from gitsession.cli.options import command, option
from gitsession.cli.output import confirm_purge, consent_option, emit, json_option, progress, say
from gitsession.cli.text import archived_text
from gitsession.errors import Ambiguous, NotFound
from gitsession.line_text import clock, count, shorten

Command = TypeVar("Command", bound=Callable[..., object])


def retention_options(command: Command) -> Command:
    """Add the options that select sessions by age and number."""
    for add in (
        option("--dry-run", is_flag=True, help="Only list the selected sessions."),
        option("--label", metavar="LABEL", default="", help="Protect sessions with an entry that has this label."),
        option(
            "--keep",
            type=click.IntRange(0),
            metavar="N",
            help="Protect the newest N sessions. If this is the only criterion, select all the rest.",
        ),
        option(
            "--older-than",
            "before",
            type=Since(),
            help="Select sessions without entries since WHEN: a date (2026-11-21) or an age (90d, 12w).",
        ),
    ):
        command = add(command)
    return command


@command()
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@retention_options
@json_option
@click.pass_obj
def archive_command(
    app: App, sessions: tuple[str, ...], before: int | None, keep: int | None, label: str, dry_run: bool
) -> int:
    """Move old sessions to the archive.

    Archived sessions stay complete and share one ref. `gitsession search` does not list them, and
    `gitsession ls` lists them only with --archived. To restore a session from the archive, run `gitsession restore
    SESSION`, or name it by at least seven characters of its id in another command.
    """
    rules = before is not None or keep is not None
    if bool(sessions) == rules:
        raise click.UsageError("expected either SESSION arguments, or --older-than or --keep")
    store = app.store()
    if sessions:
        rows = [app.listed_row(session) for session in sessions]
    else:
        rows = [each.row for each in store.expired(gitsession.Retention(before_ms=before, keep=keep, label=label))]
    if rows and not dry_run:
        store.archive.put(*(row.sid for row in rows))
    found = [{"session": row.sid, "title": row.name, "updated": row.updated_ms} for row in rows]
    emit("archive", {"sessions": found, "dry_run": dry_run})
    for row in rows:
        say(f"{row.sid}  {clock(row.updated_ms)}  {shorten(row.name, 60)}")
    if not rows:
        say("no session matches: nothing to archive")
    elif dry_run:
        say(f"would archive {count(len(rows), 'session')}")
    else:
        say(archived_text(len(rows), has_remotes=bool(store.remotes.list())))
    return exits.OK if rows else exits.NOTHING


@command()
@click.argument("session")
@json_option
@click.pass_obj
def rm_command(app: App, session: str) -> None:
    """Move a session to the trash.

    To restore the session, run `gitsession restore SESSION` or `gitsession undo`. Sessions on remotes are not changed.
    """
    sid = app.listed_row(session).sid  # a restore would be sent to others by the next sync
    app.store().trash.put(sid)
    emit("rm", {"session": sid})
    say(f"{sid} was moved to the trash (remotes keep their copy); `gitsession restore {sid}` restores it")


@command()
@click.argument("session")
@json_option
@click.pass_obj
def restore_command(app: App, session: str) -> None:
    """Restore a session from the trash or the archive.

    SESSION is a unique part of an id that `gitsession ls --trash` or `gitsession ls --archived` lists.
    """
    from gitsession.sessions import active_branch, graph

    store = app.store()
    try:
        sid = store.trash.restore(session)
    except Ambiguous:
        raise
    except NotFound:
        try:
            sid = store.archive.restore(session)
        except Ambiguous:
            raise
        except NotFound:
            hint = "run `gitsession ls --trash` or `gitsession ls --archived` to list their sessions"
            raise NotFound(f"no session {session[:80]!r} in the trash or the archive", hint=hint) from None
    chosen = active_branch.selected_branch(store.objects, sid)
    emit("restore", {"session": sid})
    if len(graph.branches(store.objects, sid)) < 2:
        say(f"{sid} was restored")
    else:
        unknown = (
            "" if chosen else f" (no active branch is recorded: run `gitsession switch {sid} BRANCH` to select one)"
        )
        say(f"{sid} was restored, on branch {chosen or active_branch.active(store.objects, sid)}{unknown}")


_SIZE = re.compile(r"([0-9]{1,12})([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


class Size(click.ParamType[int]):
    """A size: a number of bytes, or a number with the unit k, m, g or t, such as 500m. The value is in bytes."""

    name = "size"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = _SIZE.fullmatch(value)
        if not found:
            self.fail(f"{value!r} is not a size, such as 500m or 2g", param, ctx)
        return int(found[1]) << _UNITS[found[2].lower()]


@command()
@retention_options
@option(
    "--max-bytes",
    type=Size(),
    metavar="SIZE",
    help="Select the oldest sessions until the others use at most SIZE on disk. Example: 500m or 2g.",
)
@option(
    "--checkpoints",
    is_flag=True,
    help="Purge old checkpoints instead of sessions. The newest state of each file is kept.",
)
@option("--purge", "for_good", is_flag=True, help="Purge the sessions instead of moving them to the trash.")
@consent_option
@json_option
@click.pass_obj
def prune_command(
    app: App, before: int | None, keep: int | None, max_bytes: int | None, label: str, checkpoints: bool,
    for_good: bool, dry_run: bool, consent: bool,
) -> int:  # fmt: skip
    """Move old sessions to the trash by age, number, or size.

    To restore sessions from the trash, run `gitsession restore SESSION` or `gitsession undo`.
    """
    if checkpoints:
        if before is None or (keep, max_bytes, label) != (None, None, ""):
            raise click.UsageError("--checkpoints requires --older-than, and no other criterion")
        return _prune_checkpoints(app.store(), before, dry_run=dry_run, consent=consent)
    if before is None and keep is None and max_bytes is None:
        raise click.UsageError("missing option: pass --older-than, --keep or --max-bytes")
    store = app.store()
    expired = store.expired(gitsession.Retention(before_ms=before, keep=keep, bytes_max=max_bytes, label=label))
    for each in expired:
        say(_expired_line(each))
    if expired and not dry_run:
        if for_good:
            confirm_purge(f"purge {count(len(expired), 'session')}?", consent=consent)
            for each in expired:
                store.purges.apply(store.purges.plan(each.row.sid))
        else:
            store.trash.put(*(each.row.sid for each in expired))
    emit(
        "prune",
        {
            "sessions": [_expired_object(each) for each in expired],
            "checkpoints": [],
            "purged": for_good,
            "dry_run": dry_run,
        },
    )
    outcome = "would be moved to the trash" if dry_run else "purged" if for_good else "moved to the trash"
    say(f"{count(len(expired), 'session')} {outcome}" if expired else "no session matches: nothing to move")
    return exits.OK if expired else exits.NOTHING


def _prune_checkpoints(store: gitsession.Store, before_ms: int, *, dry_run: bool, consent: bool) -> int:
    """Purge the checkpoints before ``before_ms`` that are no longer needed; return the exit code."""
    with progress():
        plan = store.purges.plan_checkpoints(before_ms)
    numbers = Counter(hit.session for hit in plan.entries)
    what = count(len(plan.entries), "checkpoint")
    for sid, number in sorted(numbers.items()):
        say(f"{sid}  {count(number, 'checkpoint')}")
    if plan.entries and not dry_run:
        confirm_purge(f"purge {what}? this cannot be undone", consent=consent)
        with progress():
            store.purges.apply(plan)
    found = [{"session": sid, "checkpoints": number} for sid, number in sorted(numbers.items())]
    emit("prune", {"sessions": [], "checkpoints": found, "purged": True, "dry_run": dry_run})
    outcome = "would be purged" if dry_run else "purged"
    say(f"{what} {outcome}" if plan.entries else "no checkpoint has expired: nothing to purge")
    return exits.OK if plan.entries else exits.NOTHING


def _expired_line(each: gitsession.ExpiredSession) -> str:
    size = "" if each.size_bytes is None else f"{each.size_bytes:>12,} B  "
    return f"{each.row.sid}  {clock(each.row.updated_ms)}  {each.why:<6}  {size}{shorten(each.row.name, 60)}"


def _expired_object(each: gitsession.ExpiredSession) -> dict[str, object]:
    row = each.row
    return {"session": row.sid, "title": row.name, "updated": row.updated_ms, "why": each.why, "bytes": each.size_bytes}
