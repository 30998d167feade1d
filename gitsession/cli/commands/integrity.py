"""Commands that check, repair and sign stored data: verify, repair, sign."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

import gitsession
from gitsession.cli import exits
from gitsession.cli.invocation import App
from gitsession.cli.options import command, option
from gitsession.cli.output import emit, json_option, progress, say, wants_json, warn
from gitsession.cli.text import first
from gitsession.errors import GitSessionError
from gitsession.line_text import clock, count
from gitsession.store import refs

if TYPE_CHECKING:
    from gitsession.repair.journals import LostRecords

_SHOWN = 20


@command()
@click.argument("session", metavar="[SESSION]", required=False)
@option("--sample", type=click.IntRange(1), metavar="N", help="Check only this many entries.")
@option(
    "--max-seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Stop checking after this many seconds.",
)
@option("--quick", is_flag=True, help="Check only the data added since the last complete check that found no problems.")
@option("--notices", is_flag=True, help="Also report notices: unusual data that the agent itself may have written.")
@option(
    "--all",
    "everything",
    is_flag=True,
    help=f"Show every problem. Default: at most {_SHOWN} for each session, and {_SHOWN} from git fsck.",
)
@json_option
@click.pass_obj
def verify_command(
    app: App,
    session: str | None,
    sample: int | None,
    max_seconds: float | None,
    quick: bool,
    notices: bool,
    everything: bool,
) -> int:
    """Check the integrity of the stored data.

    Check every entry against the rules in docs/reference/format.md, and run git fsck. With SESSION, check only this
    session.
    """
    if notices and (quick or sample is not None or max_seconds is not None):
        raise click.UsageError("--notices cannot be combined with --quick, --sample or --max-seconds")
    sid = app.session(session).id if session else None
    store = app.store(damaged=True)
    with progress():
        report = store.verify(sid, sample=sample, max_seconds=max_seconds, quick=quick, notices=notices)
    if wants_json():
        emit("verify", _report_object(report))
    else:
        _print_verified(app, report, most=sys.maxsize if everything else _SHOWN)
    return exits.INTEGRITY if report.problems else exits.OK


def _report_object(report: gitsession.Report) -> dict[str, Any]:
    return {
        "checked": report.checked,
        "whole": report.whole,
        "covered": _covered(report.covered),
        "problems": [_finding_object(found) for found in report.problems],
        "signatures": [_signature_object(signature) for signature in report.signatures],
        "notices": None if report.notices is None else [_finding_object(found) for found in report.notices],
    }


def _finding_object(found: gitsession.Finding) -> dict[str, str | None]:
    return {"where": found.where, "what": found.what, "session": found.session or None, "ref": found.ref or None}


def _covered(covered: gitsession.CheckCoverage | None) -> dict[str, int | bool | None] | None:
    if covered is None:
        return None
    return {
        "since": covered.since_ms,
        "sessions": covered.sessions,
        "of": covered.of,
        "entries": covered.entries,
        "ended": covered.ended,
        "before": covered.before_ms,
    }


def _print_verified(app: App, report: gitsession.Report, *, most: int) -> None:
    notices = report.notices or []
    for found in notices[:most]:
        say(f"notice: {_address(app, found)}: {found.what}")
    if len(notices) > most:
        say(f"... and {len(notices) - most:,} more notices: --all shows them")
    groups: dict[str, list[gitsession.Finding]] = {}
    for found in report.problems:
        groups.setdefault(found.session or found.where, []).append(found)
    for found_together in groups.values():
        sid = found_together[0].session
        damaged = {found.where for found in found_together if not found.where.startswith("refs/")}
        if sid and len(damaged) > 1:
            say(f"session {sid}: about {len(damaged):,} {_of(app, sid)} are damaged")
        lines = [f"{f'session {sid}, ' if sid else ''}{found.where}: {found.what}" for found in found_together]
        for line in first(lines, most, " like these: --all shows them"):
            say(line)
    part = "" if report.whole else " (a part of the store)"
    odd = "" if report.notices is None else f", {count(len(report.notices), 'notice')}"
    say(f"{count(report.checked, 'entry', 'entries')} checked{part}, {count(len(report.problems), 'problem')}{odd}")
    if report.signatures:
        states = Counter(signature.state for signature in report.signatures)
        told = ", ".join(f"{number:,} {state}" for state, number in sorted(states.items()))
        say(f"{count(len(report.signatures), 'signature')}: {told}")
    if report.covered is not None:
        say(_coverage_line(report.covered))
    if report.problems:
        say("Run `gitsession repair` to restore damaged entries. All other entries can still be read.")


def _address(app: App, found: gitsession.Finding) -> str:
    """Return the location of a finding as an address that other commands accept."""
    from gitsession.sessions.node import load
    from gitsession.sync.commit_trailers import address

    with contextlib.suppress(GitSessionError):
        return address(found.session, load(app.store().objects, found.where)) if found.session else found.where
    return f"session {found.session}, {found.where}"


def _coverage_line(covered: gitsession.CheckCoverage) -> str:
    """Return a text about the part of the store that the current complete check has covered."""
    part = f"{covered.sessions:,} of {count(covered.of, 'session')}, {count(covered.entries, 'entry', 'entries')}"
    before = f"; the previous complete check ended {clock(covered.before_ms)}" if covered.before_ms else ""
    if covered.ended:
        return (
            f"The whole store was checked since {clock(covered.since_ms)}: {part}. The next check starts again{before}."
        )
    return f"Since {clock(covered.since_ms)}: {part}. The next check continues from there{before}."


def _of(app: App, sid: str) -> str:
    """Return text such as ``of 12 entries of 'Title'``; ``of its entries`` if the session is not in the catalog."""
    try:
        row = next((row for row in app.store().sessions() if row.sid == sid), None)
    except GitSessionError:
        row = None
    # Add 1 for the root, which is checked too but not counted in `row.entries`.
    return f"of {count(row.entries + 1, 'entry', 'entries')} of {row.name!r}" if row else "of its entries"


@command()
@option(
    "--from",
    "sources",
    metavar="SOURCE",
    multiple=True,
    help="Restore from this clone, store, session file, or URL first. Can be repeated.",
)
@option("--dry-run", is_flag=True, help="Only show what would be repaired.")
@json_option
@click.pass_obj
def repair_command(app: App, sources: tuple[str, ...], dry_run: bool) -> int:
    """Restore lost and damaged data from copies.

    Objects are restored from the sources given with --from, from git's alternates, from imported session files, and
    from the remotes. Damaged files are moved to quarantine, not deleted. The exit code is 5 if data is still missing.
    It is 75 if a file cannot be read. In that case, nothing is changed.
    """
    done = app.store(damaged=True).repair(sources, dry_run=dry_run)
    emit("repair", _document(done))
    _print_repaired(done, dry_run)
    for name in done.plan.unheard:
        warn(f"warning: cannot restore data from {name}: it cannot be read")
    return exits.OK if done.is_whole else exits.INTEGRITY


def _document(done: gitsession.RepairResult) -> dict[str, Any]:
    plan = done.plan
    return {
        "healed": [{"id": oid, "from": plan.donors[oid]} for oid in plan.taken],
        "saved": len(plan.rescued),
        "log_lost": plan.log_lost or None,
        "refs": plan.ref_values,
        "settings": list(plan.settings),
        "beside": plan.beside,
        "copied": plan.copied,
        "damaged": [{"file": bad.path, "what": bad.problem} for bad in plan.bad],
        "quarantine": str(done.quarantine) if done.quarantine else None,
        "set_aside": list(done.set_aside),
        "missing": [
            {
                "id": lost.oid,
                "session": refs.session_of(lost.ref) or None,
                "entry": lost.entry,
                "ref": lost.ref,
                "what": lost.what,
            }
            for lost in plan.lost
        ],
        "missing_refs": [{"ref": lost.name, "what": lost.what} for lost in plan.lost_refs],
        "moved": {name: new for name, (_, new) in plan.moves.items()},
        "lost_records": [
            {
                "file": hole.file,
                "count": hole.count,
                "between": [
                    {
                        "ref": jump.ref,
                        "session": refs.session_of(jump.ref) or None,
                        "from": jump.before,
                        "to": jump.after,
                    }
                    for jump in hole.jumps
                ],
            }
            for hole in plan.lost_records
        ],
        "unassigned": [
            {"entries": [node.oid for node in line.entries], "sessions": list(line.sessions)}
            for line in done.unassigned
        ],
        "dangling": plan.dangling,
        "unheard": plan.unheard,
        "unread": [{"file": file.path, "what": file.what} for file in plan.unread],
    }


def _print_repaired(done: gitsession.RepairResult, dry_run: bool) -> None:
    for line in (*_repair_lines(done, dry_run), *_missing(done)):
        say(line)
    if done.plan.is_empty and done.is_whole:
        say("nothing to repair")
    elif done.is_whole:
        say("everything can be repaired" if dry_run else "everything is repaired: run `gitsession verify` to check")
    else:
        say("hint: run `gitsession repair --from WHERE` with a clone, another store or a session file")


def _repair_lines(done: gitsession.RepairResult, dry_run: bool) -> Iterator[str]:
    """Yield lines that describe the damage and its repair."""
    plan = done.plan
    would = "would be " if dry_run else ""
    yield from (f"{bad.path}: {bad.problem}" for bad in plan.bad)
    yield from (f"{name}: missing settings {would or 'were '}restored" for name in plan.settings)
    for name, number in Counter(plan.donors[oid] for oid in plan.taken).items():
        yield f"{count(number, 'lost object')} {would}restored from {name}"
    if plan.rescued:
        yield f"{count(len(plan.rescued), 'good object')} {would}salvaged from damaged packs"
    for name, value in plan.ref_values.items():
        if name in plan.beside:
            yield f"{plan.beside[name]} was moved back and stays: its last value {would or 'is '}kept as {name}"
        elif name in plan.copied:
            yield f"{name} {would}restored from {plan.copied[name]}"
        else:
            yield f"{name} {would}set to {value[:12]}, as last recorded"
    for name, (_, new) in plan.moves.items():
        yield f"{name} {would}set to {new[:12]}, from which the journal continues"
    for name, value in plan.dangling.items():
        yield f"{name} {would}deleted: it points at {value.removeprefix('ref: ')}, which does not exist"
    if plan.log_lost:
        yield "the operation log is damaged: a new one is started, and earlier commands cannot be undone"
    if done.quarantine is not None and done.set_aside:
        yield f"{count(len(done.set_aside), 'damaged file')} moved to {done.quarantine}"


def _missing(done: gitsession.RepairResult) -> Iterator[str]:
    """Yield lines that describe lost data for which no copy was found."""
    plan = done.plan
    entries_of: dict[str, list[str]] = {}
    for lost in plan.lost:
        entries_of.setdefault(refs.session_of(lost.ref) or lost.ref, []).append(lost.entry)
    for of, entries in entries_of.items():
        damaged = count(len(set(entries)), "entry", "entries")
        yield f"still missing: {count(len(entries), 'object')} of {damaged} of {of}"
    lines = [f"{lost.oid}, of entry {lost.entry[:12]}: {lost.what}" for lost in plan.lost]
    yield from first(lines, _SHOWN, ": --json lists them", indent="  ")
    for line in done.unassigned[:_SHOWN]:
        said = count(len(line.entries), "entry", "entries")
        yield f"unassigned: {said} up to {line.entries[0].oid}, of one of the sessions {', '.join(line.sessions)}"
    if len(done.unassigned) > _SHOWN:
        yield f"  ... and {len(done.unassigned) - _SHOWN:,} more such lines: --json lists them"
    yield from (f"still missing: {ref.name} {ref.what}" for ref in plan.lost_refs)
    for hole in plan.lost_records:
        one = "1 journal record is" if hole.count else "at least 1 journal record is"
        records = f"{hole.count} journal records are" if hole.count and hole.count > 1 else one
        yield f"still missing: {records} lost in {hole.file}: {_location(hole)}"
    unread = [] if done.is_whole else plan.unread
    yield from (f"cannot rebuild from '{file.path}': {file.what}" for file in unread[:_SHOWN])
    if len(unread) > _SHOWN:
        yield f"  ... and {len(unread) - _SHOWN:,} more files: --json lists them"


def _location(hole: LostRecords) -> str:
    """Return text such as ``an entry of session S between A and B``."""
    places = []
    for jump in hole.jumps:
        session = refs.session_of(jump.ref)
        what = f"an entry of session {session}" if session else f"a value of {jump.ref}"
        between = f"between {jump.before[:12]} and" if jump.before else "before"
        places.append(f"{what} {between} {jump.after[:12] if jump.after else 'its removal'}")
    return ", ".join(places) or "no later record identifies the lost data"


_SIGNATURE_TEXTS = {
    "good": "good, by {by}",
    "untrusted": "good, by {by}, but the key is not certified",
    "unknown": "not trusted: the key of {by} is unknown",
    "expired": "not trusted: the key or the signature of {by} has expired",
    "revoked": "not trusted: the key of {by} was revoked",
    "bad": "bad: the signature does not match its statement",
    "unchecked": "not checked: no trusted keys are configured, or the program is missing",
    "gone": "wrong: the signed entries no longer exist (signed by {by})",
    "misplaced": "wrong: it belongs to another session, or has a different number of entries (signed by {by})",
    "altered": "wrong: signed entries were replaced, and not by a purge (signed by {by})",
}


@command()
@click.argument("session", metavar="SESSION")
@option(
    "--branch",
    metavar="NAME",
    help="Sign or check this branch. Default: the active branch; with --check, all branches.",
)
@option("--key", metavar="KEY", default="", help="Sign with this key.")
@option("--check", is_flag=True, help="Check the signatures instead of signing.")
@json_option
@click.pass_obj
def sign_command(app: App, session: str, branch: str | None, key: str, check: bool) -> int:
    """Sign a branch of a session, or check its signatures.

    The default key is the one that git uses to sign commits. The signature covers all entries of the branch up to its
    tip.
    """
    found = app.session(session)
    if not check:
        made = found.sign(branch, key=key)
        emit("sign", {"session": found.id, "branch": made.branch, "leaf": made.leaf, "entries": made.entries})
        say(f"{found.id} {made.branch}: signed {count(made.entries, 'entry', 'entries')}, up to {made.leaf[:12]}")
        return exits.OK
    signatures = [signature for signature in found.signatures() if branch in (None, signature.entry.branch)]
    emit("sign", {"session": found.id, "signatures": [_signature_object(signature) for signature in signatures]})
    for words in map(_signature_line, signatures) if signatures else [f"{found.id} has no signature"]:
        say(words)
    if any(signature.is_wrong for signature in signatures):
        return exits.INTEGRITY
    return exits.OK if signatures else exits.NOTHING


def _signature_line(signature: gitsession.SignatureCheck) -> str:
    entry = signature.entry
    after = "" if not signature.after else f", {count(signature.after, 'entry', 'entries')} not signed"
    purged = "" if not signature.purged else f", {signature.purged:,} of them purged or redacted"
    worth = _SIGNATURE_TEXTS[signature.state].format(by=signature.by or "an unknown signer")
    return f"{clock(entry.at_ms)}  {entry.branch}  {count(entry.entries, 'entry', 'entries')}{purged}{after}  {worth}"


def _signature_object(signature: gitsession.SignatureCheck) -> dict[str, Any]:
    entry = signature.entry
    return {
        "id": signature.node.oid,
        "session": signature.sid,
        "branch": entry.branch,
        "leaf": entry.leaf,
        "entries": entry.entries,
        "after": signature.after,
        "purged": signature.purged,
        "at": entry.at_ms,
        "state": signature.state,
        "by": signature.by or None,
    }
