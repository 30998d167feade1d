"""``gitsession verify``"""

from __future__ import annotations

import contextlib

import click

from gitsession.cli import exits
from gitsession.cli.opening import App, with_app
from gitsession.cli.output import count, emit, json_option, say
from gitsession.errors import Unavailable
from gitsession.store import gitcli


@click.command()
@click.argument("session", metavar="[SESSION]", required=False)
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Only so many entries, drawn at random.")
@click.option("--max-seconds", type=click.FloatRange(0, min_open=True), metavar="S", help="Stop after so long.")
@json_option
@with_app
def command(app: App, session: str | None, sample: int | None, max_seconds: float | None, as_json: bool) -> int:
    """Check what is kept: git's own check, then every entry against docs/format.md."""
    store = app.store()
    sid = app.session(session).id if session else None
    problems = [{"where": "journal", "what": what} for what in store.objects.damage()]
    problems += _fsck(app) if sid is None else []
    report = store.verify(sid, sample=sample, max_seconds=max_seconds)
    problems += [{"where": found.where, "what": found.what} for found in report.problems]
    if as_json:
        emit("verify", {"checked": report.checked, "complete": report.whole, "problems": problems})
    else:
        for problem in problems:
            say(f"{problem['where']}: {problem['what']}")
        part = "" if report.whole else ", not all there are"
        say(f"{count(report.checked, 'entry', 'entries')} checked{part}, {count(len(problems), 'problem')}")
        if problems:
            say("All else is still read. What is gone may be in a clone, or in the agent's own file.")
    return exits.INTEGRITY if problems else 0


def _fsck(app: App) -> list[dict[str, str]]:
    """What `git fsck --strict` finds. A damaged index can crash libgit2, so git looks before we do."""
    store = app.store()
    with contextlib.suppress(Unavailable):  # a full disk: what waits in the journal is checked from there
        store.flush()
    answer = gitcli.run(
        app.path, "fsck", "--strict", "--no-dangling", "--no-progress", accept=range(256), timeout_seconds=3600
    )
    lines = [line for line in (answer.err + "\n" + answer.out.decode("utf-8", "replace")).split("\n") if line.strip()]
    return [{"where": "git fsck", "what": line} for line in lines] if answer.code else []
