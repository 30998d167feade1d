"""``gitsession verify``"""

from __future__ import annotations

import click

from gitsession.cli import exits
from gitsession.cli.opening import App, with_app
from gitsession.cli.output import count, emit, json_option, say


@click.command()
@click.argument("session", metavar="[SESSION]", required=False)
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Only so many entries, drawn at random.")
@click.option("--max-seconds", type=click.FloatRange(0, min_open=True), metavar="S", help="Stop after so long.")
@click.option("--quick", is_flag=True, help="Only what is new since the last check of all that found nothing.")
@json_option
@with_app
def command(
    app: App, session: str | None, sample: int | None, max_seconds: float | None, quick: bool, as_json: bool
) -> int:
    """Check what is kept: git's own check, then every entry against docs/format.md."""
    sid = app.session(session).id if session else None
    report = app.store(damaged=True).verify(sid, sample=sample, max_seconds=max_seconds, quick=quick)
    problems = [
        {"where": found.where, "what": found.what, "session": found.session or None, "ref": found.ref or None}
        for found in report.problems
    ]
    if as_json:
        emit("verify", {"checked": report.checked, "complete": report.whole, "problems": problems})
    else:
        for problem in problems:
            place = f"session {problem['session']}, " if problem["session"] else ""
            say(f"{place}{problem['where']}: {problem['what']}")
        part = "" if report.whole else ", not all there are"
        say(f"{count(report.checked, 'entry', 'entries')} checked{part}, {count(len(problems), 'problem')}")
        if problems:
            say("All else is still read. `gitsession repair` mends what a copy, a clone or the agent's own file has.")
    return exits.INTEGRITY if problems else 0

