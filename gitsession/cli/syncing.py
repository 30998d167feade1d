"""How what was synced looks, and how git talks meanwhile."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from gitsession.cli import exits
from gitsession.cli.context import App
from gitsession.cli.output import confirm, count, emit, first, paint, say, shorten, warn
from gitsession.codec.text import clean
from gitsession.errors import Refused
from gitsession.sessions.active_branch import active
from gitsession.store import create, refs

if TYPE_CHECKING:
    from gitsession.api.remotes import PushPlan
    from gitsession.index.catalogue import Row
    from gitsession.sessions.reconcile import SyncedBranch
    from gitsession.sync.syncing import SyncReport
    from gitsession.sync.transport import TransportOptions

_SENT = {"new": "sent", "forwarded": "sent"}
_WORDS = {
    "new": "new",
    "forwarded": "moved on",
    "ahead": "sent",
    "forked": "beside",
    "refused": "refused",
    "purged": "purged",
}
_SHOWN = 40
"""How many lines tell what only came or went; the first sync of a large store has thousands."""
_ALWAYS_SHOWN = ("forked", "refused")
_TITLE = 60
_COLORS = {"refused": "red", "forked": "yellow", "new": "green"}


def talk() -> TransportOptions:
    """git's progress where somebody watches; a question for a password where somebody can answer."""
    from gitsession.sync.transport import TransportOptions

    watched = sys.stderr.isatty()
    return TransportOptions(Progress() if watched else None, interactive=sys.stdin.isatty())


_NO_PROGRESS = re.compile(rb"From |To |Cloning into |fatal: |error: |remote: gitsession: | [ +\-*!=t] ")
"""What git says of each ref, and what went wrong: both are told by us, once and in our words."""


_LINE_BYTES_MAX = 1 << 16


class Progress:
    """Passes on what git says of its progress, as it comes: it goes back to the start of its line, and what the other
    side says in between drives nothing else.
    """

    def __init__(self) -> None:
        self._rest = b""

    def __call__(self, words: bytes) -> None:
        *lines, self._rest = re.split(rb"(?<=[\r\n])", self._rest + words)
        told = b"".join(line for line in lines if not _NO_PROGRESS.match(line))
        self._rest = self._rest[-_LINE_BYTES_MAX:]
        sys.stderr.write("\r".join(clean(part) for part in told.decode("utf-8", "replace").split("\r")))
        sys.stderr.flush()


yes_option = click.option("--yes", "consent", is_flag=True, help="Do not ask before the first push to a remote.")
dry_run_option = click.option("--dry-run", is_flag=True, help="List the sessions that would be sent; send nothing.")


def tell_plan(app: App, remote: str, *, as_json: bool) -> int:
    """List the sessions that a push would send, by project; the exit code."""
    plan = app.store().remotes.plan_push(remote)
    if as_json:
        sessions = [{"session": row.sid, "project": row.project, "agent": row.agent} for row in plan.sessions]
        emit("push-plan", {"remote": plan.remote, "sessions": sessions, "archived": list(plan.archived)})
    elif plan.sessions or plan.archived:
        say(f"a push to {plan.remote} would send {_counted(plan)}:")
        for line in _lines_of(plan):
            say(line)
    else:
        say(f"{plan.remote}: nothing to send")
    return exits.OK


def ask_first(app: App, name: str, *, consent: bool) -> None:
    """Ask before the first push to a remote, for which nobody has said that all sessions may go.

    Raises ``Refused`` where nobody can be asked, and where the answer is no.
    """
    if consent:
        return
    plan = app.store().remotes.plan_push(name)
    if not plan.is_first or not (plan.sessions or plan.archived):
        return
    is_alone = sys.stdin is None or not sys.stdin.isatty()
    warn(f"The first push to {plan.remote} would send {_counted(plan)}:")
    for line in _lines_of(plan):
        warn(line)
    if is_alone:
        hint = "pass --yes; nothing was changed"
        raise Refused("cannot ask for confirmation: standard input is not a terminal", hint=hint)
    if not confirm("Send them?"):
        hint = "`gitsession remote add` with --project, --agent or --label limits what is sent"
        raise Refused("nothing was sent", hint=hint)


def _counted(plan: PushPlan) -> str:
    return count(len(plan.sessions) + len(plan.archived), "session")


def _lines_of(plan: PushPlan) -> Iterator[str]:
    """The sessions of a plan by project, then those in the archive."""
    yield from _by_project(plan.sessions)
    if plan.archived:
        yield f"the archive: {count(len(plan.archived), 'session')}"
        yield from first(plan.archived, _SHOWN, "; --json lists all", indent="  ")


def _by_project(rows: Sequence[Row]) -> Iterator[str]:
    """The sessions of each project, at most ``_SHOWN`` of them."""
    projects: dict[str, list[Row]] = {}
    for row in rows:
        projects.setdefault(row.project or "(no project)", []).append(row)
    for project, found in sorted(projects.items()):
        yield f"{project}: {count(len(found), 'session')}"
        lines = [f"{row.sid}  {row.agent:<8}  {shorten(row.name, _TITLE)}" for row in found]
        yield from first(lines, _SHOWN, "; --json lists all", indent="  ")


def tell(app: App, schema: str, report: SyncReport, *, as_json: bool) -> int:
    """Say what became of every ref, and what it comes to; the exit code."""
    if as_json:
        emit(schema, {"remote": report.remote, "branches": [_object(branch) for branch in report.branches]})
    else:
        _tell(app, report, _WORDS | (_SENT if schema == "push" else {}))
    if any(branch.secret for branch in report.branches):
        return exits.SECRETS
    return exits.REFUSED if report.of("refused") else exits.OK


def _object(branch: SyncedBranch) -> dict[str, Any]:
    return {
        "ref": branch.ref,
        "outcome": branch.outcome,
        "old": branch.old,
        "new": branch.new,
        "beside": branch.beside or None,
        "why": branch.why or None,
    }


def _tell(app: App, report: SyncReport, words: dict[str, str]) -> None:
    told = [branch for branch in report.branches if branch.outcome != "same" and branch.ref != create.MAIN]
    titles = {row.sid: row.name for row in app.catalogue().sessions()} if told else {}
    plain = [branch for branch in told if branch.outcome not in _ALWAYS_SHOWN]
    left_out = set(plain[_SHOWN:])
    for branch in told:
        if branch in left_out:
            continue
        say(_line(branch, words[branch.outcome], titles))
        for line in _more(app, branch):
            say(f"{'':10}{line}", dim=True)
    if left_out:
        say(f"... and {len(left_out):,} more; --json lists all", dim=True)
    for line in report.said:
        warn(f"{report.remote} says: {line}")
    same = len(report.of("same"))
    sums = Counter(words[branch.outcome] for branch in told)
    parts = [f"{number:,} {word}" for word, number in sums.items()]
    parts += [f"{same:,} the same"] if same else []
    say(f"{report.remote}: {', '.join(parts) or 'nothing to do'}")


def _line(branch: SyncedBranch, word: str, titles: dict[str, str]) -> str:
    parsed = refs.parse(branch.ref)
    name = "/".join(parsed) if parsed else branch.ref.removeprefix("refs/heads/")
    word = paint(f"{word:<10}", **_style(branch.outcome))
    title = titles.get(parsed[0], "") if parsed and parsed[1] == refs.MAIN else ""
    return f"{word}{name}" + (f"  {shorten(title, _TITLE)}" if title else "")


def _style(outcome: str) -> dict[str, str]:
    return {"fg": _COLORS[outcome]} if outcome in _COLORS else {}


def _more(app: App, branch: SyncedBranch) -> list[str]:
    """What needs a line of its own: who stepped aside, and what it is called; why something was refused."""
    parsed = refs.parse(branch.ref)
    if branch.outcome == "refused":
        beside = f"; it is {branch.beside.rpartition('/')[2]} here" if branch.beside else ""
        return [f"{branch.why}{beside}"]
    if branch.outcome != "forked" or parsed is None:
        return [branch.why] if branch.why else []
    name = branch.beside.rpartition("/")[2]
    if branch.new == branch.old:
        return [f"theirs went on without ours, and is {name} here"]
    goes_on = " and stays active" if refs.is_branch(name) and active(app.objects(), parsed[0]) == name else ""
    return [f"both went on: theirs has the name, ours is {name}{goes_on}"]


def summary(report: SyncReport, what: str) -> str:
    """``3 sessions``, of those that are new."""
    sids = {refs.session_of(branch.ref) for branch in report.of("new")} - {""}
    return f"{what}: {count(len(sids), 'session')}"
