"""Commands that delete data permanently: purge, redact."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import gitsession
from gitsession.cli import exits
from gitsession.cli.invocation import App, here, split
from gitsession.cli.options import command, option
from gitsession.cli.output import (
    complain,
    confirm_purge,
    consent_option,
    emit,
    json_option,
    progress,
    say,
    wants_json,
    warn,
)
from gitsession.cli.text import first
from gitsession.errors import NotFound
from gitsession.line_text import count

if TYPE_CHECKING:
    from gitsession.purge.finding import EntryHit

_SHOWN = 20
_ALWAYS = (
    "the memory of running processes",
    "copies of the store, and clones until they sync",
    "data that servers keep beside their branches: caches, pull requests, forks",
    "agent files that were never imported here",
)


@command()
@click.argument("entry", metavar="[SESSION[@ENTRY]]", required=False)
@option(
    "--match",
    "text",
    default="",
    metavar="TEXT",
    help="Delete every entry and captured file that contains TEXT. Without SESSION, search all sessions.",
)
@option("--dry-run", is_flag=True, help="Only list what would be deleted.")
@option(
    "--exports",
    "redacts",
    is_flag=True,
    help="Also redact the purged text in the files that `export` and `resume` wrote.",
)
@consent_option
@json_option
@click.pass_obj
def purge_command(app: App, entry: str | None, text: str, dry_run: bool, redacts: bool, consent: bool) -> int:
    """Delete an entry, a session, or every entry that contains a given text. This cannot be undone.

    A tombstone replaces each deleted entry, so that the other entries can still be verified. The next
    `gitsession sync` sends the purge to the remote.
    """
    if not entry and not text:
        raise click.UsageError("missing argument: SESSION, SESSION@ENTRY, or --match TEXT")
    store = app.store()
    sid, at = _address(app, entry) if entry else (None, None)
    with progress():
        what = store.purges.plan(sid, at, text=text)
    _print_plan(what, redacts=redacts)
    done: gitsession.PurgeResult | None = None
    redacted: list[gitsession.RedactedExport] = []
    if not what.is_empty and not dry_run:
        confirm_purge(f"purge {_sum(what)}? this cannot be undone", consent=consent)
        with progress():
            done = store.purges.apply(what)
            redacted = store.purges.redact_exports(what) if redacts else []
    if wants_json():
        emit("purge", _document(what, done, redacted, dry_run=dry_run))
    elif what.is_empty:
        warn("no entry contains that text" if text else "nothing to purge")
    else:
        say(f"{_sum(what)} {'would be purged' if dry_run else 'purged'}")
        for each in redacted:
            if each.problem:
                complain(f"cannot redact '{each.path}': {each.problem}")
            else:
                say(f"redacted: {each.path}")
    if any(each.problem for each in redacted):
        return exits.REFUSED
    return exits.NOTHING if what.is_empty else exits.OK


def _address(app: App, entry: str) -> tuple[str, gitsession.Node | None]:
    """Return the session id and the entry (if any) of an address. The session may be in the trash or the archive."""
    from gitsession.archive import archive_set

    name, at = split(entry)
    if at:
        session, found = app.entry(entry)
        return session.id, found
    try:
        return app.catalogue().find(name, here() if name in ("@", "-") else None).sid, None
    except NotFound:
        away = {row.sid for row in app.store().trash.list()} | {*archive_set.read(app.objects())}
        fitting = [sid for sid in away if name in sid]
        if len(fitting) != 1:
            raise
        return fitting[0], None


def _sum(plan: gitsession.PurgePlan) -> str:
    parts = [count(len(plan.sessions), "session")] if plan.sessions else []
    parts += [count(len(plan.entries), "entry", "entries")] if plan.entries else []
    parts += [f"parts of {count(len(plan.redacted), 'entry', 'entries')}"] if plan.redacted else []
    parts += [count(len(plan.files), "captured file")] if plan.files else []
    return ", ".join(parts) or "already purged"


def _print_plan(plan: gitsession.PurgePlan, *, redacts: bool) -> None:
    from gitsession.api.imports import spelled

    lines = [_named(hit) for hit in plan.entries]
    lines += [
        f"{_named(hit)} (only the agent's lines that accompany the message are redacted; the message stays)"
        for hit in plan.redacted
    ]
    for line in first(lines, _SHOWN, " entries: --json lists them"):
        say(line)
    for file in plan.files[:_SHOWN]:
        say(f"{file.session}  {file.oid[:12]}  {file.path}")
    for found in plan.exports:
        hint = "" if redacts else " (pass --exports to redact it)"
        say(f"still in: {found.export.path}: written for {found.export.agent}{hint}")
    lines = [f"still in: {spelled(file.path)}: the agent's own file (edit or delete it)" for file in plan.agent_files]
    for line in first(lines, _SHOWN, " files: --json lists them"):
        say(line)
    for problem in plan.problems:
        say(f"not purged: {problem.where}: {problem.what}")
    if not plan.is_empty:
        for note in _ALWAYS:
            say(f"not reached: {note}")


def _named(hit: EntryHit) -> str:
    return f"{hit.session}  {hit.node.oid[:12]}  {hit.node.subject}"


def _listed(hits: Sequence[EntryHit]) -> list[dict[str, Any]]:
    return [
        {"session": hit.session, "id": hit.node.oid, "kind": hit.node.kind, "digest": hit.digest or None}
        for hit in hits
    ]


def _document(
    plan: gitsession.PurgePlan, done: gitsession.PurgeResult | None, redacted: Sequence[gitsession.RedactedExport], *,
    dry_run: bool,
) -> dict[str, Any]:  # fmt: skip
    from gitsession.api.imports import spelled

    problems = {each.path: each.problem for each in redacted}
    return {
        "checked": len(plan.entries),
        "sessions": list(plan.sessions),
        "entries": _listed(plan.entries),
        "redacted": _listed(plan.redacted),
        "files": [{"session": file.session, "path": file.path, "id": file.oid} for file in plan.files],
        "problems": [{"where": problem.where, "what": problem.what} for problem in plan.problems],
        "exports": [
            {
                "path": spelled(Path(hit.export.path)),
                "agent": hit.export.agent,
                "session": hit.export.session,
                "redacted": problems.get(hit.export.path) == "",
                "problem": problems.get(hit.export.path) or None,
            }
            for hit in plan.exports
        ],
        "agent_files": [{"path": spelled(file.path), "session": file.session} for file in plan.agent_files],
        "not_reached": list(_ALWAYS),
        "dropped": None if done is None else done.dropped,
        "moved": None if done is None else list(done.moved),
        "dry_run": dry_run,
    }


@command()
@click.argument("session", metavar="[SESSION]", required=False)
@option("--dry-run", is_flag=True, help="Only list the entries and files that contain secrets.")
@json_option
@click.pass_obj
def redact_command(app: App, session: str | None, dry_run: bool) -> int:
    """Redact secrets in stored entries.

    Use this command for entries that were stored before a rule for their secrets existed, or while redaction was
    disabled. Without SESSION, all sessions are scanned.
    """
    from gitsession.sessions import tombstone_set

    sid = app.session(session).id if session else None
    store = app.store()
    search = store.secrets.find(sid)
    found = list(search)
    done = None if dry_run or not found else store.secrets.redact(found)
    hidden = None if done is None else done.entries
    objects = [
        {"session": hit.session, "id": hit.node.oid, "path": hit.path or None, "rule": hit.rule, "count": hit.count}
        for hit in found
    ]
    emit("redact", {"found": objects, "hidden": hidden, "unread": search.unread})
    for each in found:
        what = f"{each.rule} ({each.count})" if each.count > 1 else each.rule
        say(f"{each.session}@{each.node.oid[:12]}  {what}" + (f"  {each.path}" if each.path else ""))
    if not found:
        say("no secrets found")
    if hidden is not None:
        say(f"redacted: {count(hidden, 'entry', 'entries')}")
    if search.unread:
        warn(f"{count(len(search.unread), 'entry', 'entries')} cannot be read: run `gitsession verify` for the reason")
    if any(each.path for each in found) and not dry_run:
        warn("checkpoint files cannot be redacted: run `gitsession purge` to delete them")
    if any(each.node.replaces for each in found if not each.path) and tombstone_set.is_published(store.objects):
        warn("secrets from earlier redactions stay in the history of the tombstone set: replace these secrets, too")
    return exits.SECRETS if found and dry_run else exits.OK
