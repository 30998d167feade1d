"""``gitsession verify``"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from gitsession.cli import exits, watching
from gitsession.cli.commands import seal_
from gitsession.cli.context import App, with_app
from gitsession.cli.output import clock, count, emit, json_option, say
from gitsession.errors import GitSessionError

if TYPE_CHECKING:
    from gitsession.verify.findings import CheckCoverage, Finding, Report

_SHOWN = 20


@click.command()
@click.argument("session", metavar="[SESSION]", required=False)
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Only so many entries, others each time.")
@click.option("--max-seconds", type=click.FloatRange(0, min_open=True), metavar="S", help="Only for so long.")
@click.option("--quick", is_flag=True, help="Only what is new since the last check of all that found nothing.")
@click.option("--notices", is_flag=True, help="Also what is odd, and may be as it was written.")
@click.option("--all", "everything", is_flag=True, help=f"Every problem; else {_SHOWN} of each session and of git's.")
@json_option
@with_app
def command(
    app: App,
    session: str | None,
    sample: int | None,
    max_seconds: float | None,
    quick: bool,
    notices: bool,
    everything: bool,
    as_json: bool,
) -> int:
    """Check what is kept: every entry against docs/format.md, then git's own check."""
    if notices and (quick or sample is not None or max_seconds is not None):
        raise click.UsageError("--notices needs all there is: not --quick, --sample or --max-seconds")
    sid = app.session(session).id if session else None
    with watching.progress(quiet=as_json):
        report = app.store(damaged=True).verify(
            sid, sample=sample, max_seconds=max_seconds, quick=quick, notices=notices
        )
    if as_json:
        told = {
            "checked": report.checked,
            "whole": report.whole,
            "covered": _covered(report.covered),
            "problems": [_row(found) for found in report.problems],
            "seals": [seal_.row(sealed) for sealed in report.seals],
            "notices": None if report.notices is None else [_row(found) for found in report.notices],
        }
        emit("verify", told)
    else:
        _tell(app, report, most=sys.maxsize if everything else _SHOWN)
    return exits.INTEGRITY if report.problems else exits.OK


def _row(found: Finding) -> dict[str, str | None]:
    return {"where": found.where, "what": found.what, "session": found.session or None, "ref": found.ref or None}


def _covered(covered: CheckCoverage | None) -> dict[str, int | bool | None] | None:
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


def _tell(app: App, report: Report, *, most: int) -> None:
    for found in (report.notices or [])[:most]:
        say(f"notice: {_address(app, found)}: {found.what}")
    if len(report.notices or []) > most:
        say(f"... and {len(report.notices or []) - most:,} more notices: --all shows them")
    groups: dict[str, list[Finding]] = {}
    for found in report.problems:
        groups.setdefault(found.session or found.where, []).append(found)
    for found_together in groups.values():
        sid = found_together[0].session
        damaged = {found.where for found in found_together if not found.where.startswith("refs/")}
        if sid and len(damaged) > 1:
            say(f"session {sid}: about {len(damaged):,} {_of(app, sid)} are damaged")
        for found in found_together[:most]:
            say(f"{f'session {sid}, ' if sid else ''}{found.where}: {found.what}")
        if len(found_together) > most:
            say(f"... and {len(found_together) - most:,} more like these: --all shows them")
    part = "" if report.whole else ", not all there are"
    odd = "" if report.notices is None else f", {count(len(report.notices), 'notice')}"
    say(f"{count(report.checked, 'entry', 'entries')} checked{part}, {count(len(report.problems), 'problem')}{odd}")
    if report.seals:
        states = Counter(sealed.state for sealed in report.seals)
        told = ", ".join(f"{number:,} {state}" for state, number in sorted(states.items()))
        say(f"{count(len(report.seals), 'seal')}: {told}")
    if report.covered is not None:
        say(_words(report.covered))
    if report.problems:
        say("All else is still read. `gitsession repair` mends what a copy, a clone or the agent's own file has.")


def _address(app: App, found: Finding) -> str:
    """Where it is, as other commands take it."""
    from gitsession.sessions.node import load
    from gitsession.sync.commit_trailers import address

    with contextlib.suppress(GitSessionError):
        return address(found.session, load(app.store().objects, found.where)) if found.session else found.where
    return f"session {found.session}, {found.where}"


def _words(covered: CheckCoverage) -> str:
    """How far the round is."""
    part = f"{covered.sessions:,} of {count(covered.of, 'session')}, {count(covered.entries, 'entry', 'entries')}"
    before = f"; the round before it ended {clock(covered.before_ms)}" if covered.before_ms else ""
    if covered.ended:
        return f"All of the store since {clock(covered.since_ms)}: {part}. The next part begins anew{before}."
    return f"Since {clock(covered.since_ms)}: {part}. The next part goes on from there{before}."


def _of(app: App, sid: str) -> str:
    """How many entries there are, and what the session is called, where the catalogue can tell."""
    try:
        row = next((row for row in app.store().sessions() if row.sid == sid), None)
    except GitSessionError:
        row = None
    # The one it begins with can be damaged, too.
    return f"of {count(row.entries + 1, 'entry', 'entries')} of {row.name!r}" if row else "of its entries"
