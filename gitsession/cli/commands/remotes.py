"""Commands that exchange sessions with other repositories: remote, sync, pull, push, clone, bundle."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import gitsession
from gitsession.cli import exits
from gitsession.cli.invocation import App
from gitsession.cli.options import command, group, option
from gitsession.cli.output import confirm, emit, is_attended, json_option, print_list, progress, say, wants_json, warn
from gitsession.cli.text import first, paint, shell_command
from gitsession.errors import GitSessionError, NotFound, Refused
from gitsession.line_text import count, on_a_line, shorten
from gitsession.model.headline import clean
from gitsession.store import refs

if TYPE_CHECKING:
    from gitsession.store.git_store import GitStore

yes_option = option(
    "--yes", "consent", is_flag=True, help="Do not ask for confirmation before the first push to a remote."
)


@group(invoke_without_command=True)
@json_option
@click.pass_context
def remote_command(ctx: click.Context) -> int | None:
    """List, add, or remove remotes. Without a subcommand, list the remotes."""
    return ctx.invoke(list_) if ctx.invoked_subcommand is None else None


@remote_command.command("list")
@json_option
@click.pass_obj
def list_(app: App) -> int:
    """List the remotes."""
    found = app.store().remotes.list()
    nothing = "no remotes (run `gitsession remote add origin URL`)"
    return print_list("remote", "remotes", map(_remote_object, found), _remote_lines(found), nothing=nothing)


def _remote_lines(remotes: Sequence[gitsession.Remote]) -> Iterator[str]:
    width = max((len(remote.name) for remote in remotes), default=0)
    for remote in remotes:
        notes = ["home"] if remote.is_home else []
        notes += ["beside code"] if remote.is_shared else []
        scope = remote.scope
        criteria = (("project", scope.projects), ("agent", scope.agents), ("label", scope.labels))
        notes += [f"{kind} {on_a_line(value)}" for kind, values in criteria for value in values]
        text = f"{remote.name:<{width}}  {_remote_object(remote)['url']}" + (f"  ({', '.join(notes)})" if notes else "")
        yield paint(on_a_line(text))


@remote_command.command()
@click.argument("name")
@click.argument("url")
@option(
    "--namespace",
    metavar="NAME",
    default="",
    help="Store the sessions below refs/NAME/, for a repository that also contains code.",
)
@option(
    "--home",
    is_flag=True,
    help="Make this the home remote. If branches diverge, the branches of the home remote keep their names.",
)
@option(
    "--project",
    "projects",
    metavar="PROJECT",
    multiple=True,
    help="Send only sessions of this project: a folder, or an identity such as github.com/owner/name. Can be repeated.",
)
@option("--agent", "agents", metavar="AGENT", multiple=True, help="Send only sessions of this agent. Can be repeated.")
@option(
    "--label",
    "labels",
    metavar="LABEL",
    multiple=True,
    help="Send only sessions with an entry that has this label. Can be repeated.",
)
@option(
    "--all",
    "is_all",
    is_flag=True,
    help="Send all sessions, and do not ask for confirmation before the first push.",
)
@json_option
@click.pass_obj
def add(
    app: App,
    name: str,
    url: str,
    namespace: str,
    home: bool,
    projects: tuple[str, ...],
    agents: tuple[str, ...],
    labels: tuple[str, ...],
    is_all: bool,
) -> None:
    """Add a remote. Nothing is sent until you push or sync."""
    store = app.store(make=True)
    remote = store.remotes.add(
        name, url, namespace=namespace, home=home, projects=projects, agents=agents, labels=labels, all=is_all
    )
    _warn_of(store, remote)
    sync = "gitsession sync" if remote.is_home else f"gitsession sync {remote.name}"
    added = _remote_object(remote)
    emit("remote-add", {"remotes": [added], "branches": []})
    say(f"{remote.name} is {added['url']}; run `{sync}`")


@remote_command.command()
@click.argument("name")
@json_option
@click.pass_obj
def remove(app: App, name: str) -> None:
    """Remove a remote. Sessions that were fetched from it are kept."""
    remote = app.store().remotes.remove(name)
    emit("remote-remove", {"remotes": [_remote_object(remote)]})
    say(f"{remote.name} was removed; sessions that were fetched from it are kept")


def _warn_of(store: gitsession.Store, remote: gitsession.Remote) -> None:
    """Warn if there is no repository at the address of a remote, or if a filter of its scope matches no session."""
    from gitsession.sync.remotes import missing

    if path := missing(remote.url):
        warn(f"warning: there is no repository at {path} yet")
        warn(f"hint: run `git init --bare {shell_command([path])}`")
    for kind, value in store.remotes.unmatched_scope(remote):
        warn(f"warning: no session matches --{kind} {shell_command([value])} now")


def _remote_object(remote: gitsession.Remote) -> dict[str, Any]:
    from gitsession.sync.remotes import plain

    namespace = remote.prefixes[0][1].split("/")[1] if remote.is_shared else None
    scope = remote.scope
    return {
        "name": remote.name,
        "url": plain(remote.url),
        "home": remote.is_home,
        "namespace": namespace,
        "scope": {
            "projects": list(scope.projects),
            "agents": list(scope.agents),
            "labels": list(scope.labels),
            "all": not scope.is_limited,
        },
    }


@command()
@click.argument("remote", default="")
@option(
    "--dry-run",
    is_flag=True,
    help="Only list the sessions that would be sent. The remote is not contacted.",
)
@yes_option
@json_option
@click.pass_obj
def sync_command(app: App, remote: str, dry_run: bool, consent: bool) -> int:
    """Pull from a remote, then push to it.

    REMOTE defaults to the home remote. If a branch has diverged, both versions are kept.
    """
    if dry_run:
        return print_plan(app, remote)
    confirm_first_push(app, remote, consent=consent)
    with progress():
        report = app.store().remotes.sync(remote, transport=transport_options())
    return print_report(app, "sync", report)


@command()
@click.argument("remote", default="")
@json_option
@click.pass_obj
def pull_command(app: App, remote: str) -> int:
    """Fetch from a remote and merge its branches.

    REMOTE defaults to the home remote. If a branch has diverged, both versions are kept.
    """
    with progress():
        report = app.store().remotes.pull(remote, transport=transport_options())
    return print_report(app, "pull", report)


@command()
@click.argument("remote", default="")
@click.argument("sessions", metavar="[SESSION]...", nargs=-1)
@yes_option
@json_option
@click.pass_obj
def push_command(app: App, remote: str, sessions: tuple[str, ...], consent: bool) -> int:
    """Send sessions to a remote.

    REMOTE defaults to the home remote. Without SESSION, send all sessions in the scope of the remote. If somebody else
    has pushed to a branch first, that branch is refused.
    """
    try:
        if not sessions:  # if the user lists the sessions, no confirmation is needed
            confirm_first_push(app, remote, consent=consent)
        with progress():
            report = app.store().remotes.push(remote, sessions=sessions, transport=transport_options())
    except NotFound as error:
        if not remote or sessions:
            raise
        raise NotFound(
            str(error), hint=f"{error.hint}, or run `gitsession push REMOTE SESSION` to send only some sessions"
        ) from None
    return print_report(app, "push", report)


@command()
@click.argument("url")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@option(
    "--filter",
    metavar="SPEC",
    default="",
    help="Fetch the objects that this filter excludes only when they are read. Example: blob:limit=64k.",
)
@option(
    "--namespace",
    metavar="NAME",
    default="",
    help="Fetch the sessions below refs/NAME/ from a repository that also contains code.",
)
@json_option
@click.pass_obj
def clone_command(app: App, url: str, folder: Path | None, filter: str, namespace: str) -> int:
    """Clone a remote repository into a new store.

    DIR defaults to the configured path of the store. URL becomes the remote `origin` of the new store. The remote
    repository can be empty.
    """
    path = folder or app.path
    with progress():
        how = transport_options()
        store, report = gitsession.Store.clone(url, path, filter=filter, namespace=namespace, transport=how)
    with store:
        refused = report.of("refused")
        branches = [{"ref": one.ref, "outcome": one.outcome, "why": one.why or None} for one in report.branches]
        emit("clone", {"store": str(path), "branches": branches})
        sids = {refs.session_of(branch.ref) for branch in report.of("new")} - {""}
        say(f"created a store at {path}: {count(len(sids), 'session')}")
        for archive in (one.new for one in report.of("new") if one.ref == refs.ARCHIVE and one.new):
            for line in _changes_of_archive(store.objects, None, archive):
                say(line)
        if not report.branches:
            say("the remote has no sessions yet: `gitsession sync` sends yours", dim=True)
        for one in refused:
            say(f"refused   {one.ref.removeprefix('refs/heads/sessions/')}", fg="red")
            say(f"{'':10}{one.why}", dim=True)
    return exits.REFUSED if refused else exits.OK


@group()
def bundle_command() -> None:
    """Write sessions to a git bundle, or fetch them from one."""


@bundle_command.command("create")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("sessions", metavar="[SESSION]...", nargs=-1)
@json_option
@click.pass_obj
def create_bundle(app: App, file: Path, sessions: tuple[str, ...]) -> None:
    """Write sessions to a new bundle file.

    Without SESSION, write all sessions.
    """
    made = app.store().remotes.bundle(file, sessions)
    emit("bundle", {"file": str(file), "sessions": made})
    say(f"{count(len(made), 'session')} in {file} ({file.stat().st_size:,} bytes)")


@bundle_command.command("take")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@json_option
@click.pass_obj
def take_bundle(app: App, file: Path) -> int:
    """Fetch the sessions of a bundle into the store.

    If a branch has diverged, the branch of the bundle is added under another name.
    """
    with progress():
        report = app.store(make=True).remotes.unbundle(file, transport=transport_options())
    return print_report(app, "bundle-take", report)


_SENT = {"new": "sent", "forwarded": "sent"}
_OUTCOMES = {
    "new": "new",
    "forwarded": "updated",
    "ahead": "sent",
    "forked": "beside",
    "refused": "refused",
    "purged": "purged",
}
_SHOWN = 40
"""Maximum number of lines for refs in a report, and for the sessions in each list of a plan."""
_ALWAYS_SHOWN = ("forked", "refused")
_TITLE = 60
_COLORS = {"refused": "red", "forked": "yellow", "new": "green"}


def transport_options() -> gitsession.TransportOptions:
    """Return options for git: progress if standard error is a terminal, and prompts if standard input is a terminal."""
    watched = sys.stderr.isatty()
    return gitsession.TransportOptions(Progress() if watched else None, interactive=sys.stdin.isatty())


_NO_PROGRESS = re.compile(rb"From |To |Cloning into |fatal: |error: |remote: gitsession: | [ +\-*!=t] ")
"""Lines of git's output about single refs and failures, which gitsession reports itself."""


_LINE_BYTES_MAX = 1 << 16


class Progress:
    """A callable that writes git's progress output to standard error as it arrives.

    Carriage returns are kept, because git uses them to overwrite a line. Other control characters, which may come from
    the remote, are removed, so that they cannot control the terminal.
    """

    def __init__(self) -> None:
        self._rest = b""

    def __call__(self, data: bytes) -> None:
        *lines, self._rest = re.split(rb"(?<=[\r\n])", self._rest + data)
        output = b"".join(line for line in lines if not _NO_PROGRESS.match(line))
        self._rest = self._rest[-_LINE_BYTES_MAX:]
        sys.stderr.write("\r".join(clean(part) for part in output.decode("utf-8", "replace").split("\r")))
        sys.stderr.flush()


def print_plan(app: App, remote: str) -> int:
    """Print the sessions that a push would send, grouped by project, and return the exit code."""
    plan = app.store().remotes.plan_push(remote)
    sessions = [{"session": row.sid, "project": row.project, "agent": row.agent} for row in plan.sessions]
    rest = {"archived": list(plan.archived), "unlisted": list(plan.unlisted), "updates_archive": plan.updates_archive}
    emit("push-plan", {"remote": plan.remote, "sessions": sessions, **rest})
    note = "(the remote was not contacted)"
    if plan.is_empty and not plan.updates_archive:
        say(f"{plan.remote}: nothing to send {note}")
    if not plan.is_empty:
        say(f"a push to {plan.remote} would send {_counted(plan)} {note}:")
        for line in _lines_of(plan):
            say(line)
    if plan.updates_archive:
        say(f"a push would update the archive of {plan.remote}, and remove the refs of archived sessions there")
    return exits.OK


def confirm_first_push(app: App, name: str, *, consent: bool) -> None:
    """Ask for confirmation before the first push to a remote, unless ``consent`` is true.

    Raises ``Refused`` if standard input is not a terminal, or if the answer is no.
    """
    if consent or app.store().remotes.is_confirmed(name):
        return
    plan = app.store().remotes.plan_push(name)
    if plan.is_empty:
        return
    warn(f"The first push to {plan.remote} would send {_counted(plan)}:")
    for line in _lines_of(plan):
        warn(line)
    if not is_attended():
        hint = "pass --yes (nothing was changed)"
        raise Refused("cannot ask for confirmation: standard input is not a terminal", hint=hint)
    if not confirm("Send them?"):
        name = shell_command([plan.remote])
        limit = (
            f"to limit what is sent, run `gitsession remote remove {name}`, "
            f"then `gitsession remote add {name} URL` with --project, --agent or --label"
        )
        raise Refused("cancelled: nothing was sent", hint=limit)


def _counted(plan: gitsession.PushPlan) -> str:
    return count(len(plan.sessions) + len(plan.archived) + len(plan.unlisted), "session")


def _lines_of(plan: gitsession.PushPlan) -> Iterator[str]:
    """Yield the text lines of a plan: the sessions by project, then the archived and the unlisted sessions.

    At most ``_SHOWN`` projects are listed, and about ``_SHOWN`` sessions, as many of each project.
    """
    rest = f"; `gitsession sync {shell_command([plan.remote])} --dry-run --json` lists all"
    projects: dict[str, list[gitsession.Row]] = {}
    for row in plan.sessions:
        projects.setdefault(row.project or "(no project)", []).append(row)
    shown = {project: projects[project] for project in sorted(projects)[:_SHOWN]}
    most = max(_SHOWN // max(len(shown), 1), 1)
    for project, rows in shown.items():
        yield f"{project}: {count(len(rows), 'session')}"
        for row in rows[:most]:
            yield f"  {row.sid}  {row.agent:<8}  {shorten(row.name, _TITLE)}"
    left_out = len(plan.sessions) - sum(len(rows[:most]) for rows in shown.values())
    if len(projects) > _SHOWN:
        yield f"... and {count(len(projects) - _SHOWN, 'more project')}"
    if left_out:
        yield f"... and {count(left_out, 'more session')}{rest}"
    if plan.archived:
        yield f"the archive: {count(len(plan.archived), 'session')}"
        yield from first(plan.archived, _SHOWN, rest, indent="  ")
    if plan.unlisted:
        yield f"checkpoints of sessions whose import was undone: {count(len(plan.unlisted), 'session')}"
        yield from first(plan.unlisted, _SHOWN, rest, indent="  ")


def print_report(app: App, schema: str, report: gitsession.SyncReport) -> int:
    """Print the outcome for each ref and a summary, and return the exit code."""
    if wants_json():
        emit(schema, {"remote": report.remote, "branches": [_branch_object(branch) for branch in report.branches]})
    else:
        _print_report(app, report, _OUTCOMES | (_SENT if schema == "push" else {}))
    if any(branch.secret for branch in report.branches):
        return exits.SECRETS
    return exits.REFUSED if report.of("refused") else exits.OK


def _branch_object(branch: gitsession.SyncedBranch) -> dict[str, Any]:
    return {
        "ref": branch.ref,
        "outcome": branch.outcome,
        "old": branch.old,
        "new": branch.new,
        "beside": branch.beside or None,
        "why": branch.why or None,
    }


def _print_report(app: App, report: gitsession.SyncReport, outcomes: dict[str, str]) -> None:
    from gitsession.store.create import MAIN

    shown = [branch for branch in report.branches if branch.outcome != "same" and branch.ref != MAIN]
    shown.sort(key=lambda branch: refs.session_of(branch.ref), reverse=True)  # the newest sessions first, as `ls`
    left_out = set([branch for branch in shown if branch.outcome not in _ALWAYS_SHOWN][_SHOWN:])
    if shown:
        app.sessions(_SHOWN)  # the catalog then has the newest sessions, without reading thousands that were received
    for branch in shown:
        if branch in left_out:
            continue
        say(_line(app, branch, outcomes[branch.outcome]))
        for line in _more(app, branch):
            say(f"{'':10}{line}", dim=True)
    if left_out:
        say(f"... and {len(left_out):,} more; --json lists all", dim=True)
    for line in report.messages:
        warn(f"{report.remote}: {line}")
    same = len(report.of("same"))
    sums = Counter(outcomes[branch.outcome] for branch in shown)
    parts = [f"{number:,} {word}" for word, number in sums.items()]
    parts += [f"{same:,} unchanged"] if same else []
    say(f"{report.remote}: {', '.join(parts) or 'nothing to do'}")


def _line(app: App, branch: gitsession.SyncedBranch, word: str) -> str:
    parsed = refs.parse(branch.ref)
    name = "/".join(parsed) if parsed else branch.ref.removeprefix("refs/heads/")
    word = paint(f"{word:<10}", **_style(branch.outcome))
    row = app.store().catalogue(fresh=False).session(parsed[0]) if parsed and parsed[1] == refs.MAIN else None
    return f"{word}{name}" + (f"  {shorten(row.name, _TITLE)}" if row and row.name else "")


def _style(outcome: str) -> dict[str, str]:
    return {"fg": _COLORS[outcome]} if outcome in _COLORS else {}


def _changes_of_archive(objects: GitStore, old: str | None, new: str) -> Iterator[str]:
    """Yield the numbers of sessions that a new value of the archive archives and restores."""
    from gitsession.archive import archive_set

    try:
        before, after = map(set, archive_set.in_changed_files(objects, old, new))
    except GitSessionError:
        return  # `verify` reports damage
    if after - before:
        yield f"{count(len(after - before), 'session')} archived: `gitsession ls --archived`"
    if before - after:
        yield f"{count(len(before - after), 'session')} restored"


def _more(app: App, branch: gitsession.SyncedBranch) -> list[str]:
    """Return the detail lines of a ref: the name of a diverged branch, or the reason for a rejection."""
    from gitsession.sessions.active_branch import active

    parsed = refs.parse(branch.ref)
    if branch.outcome == "refused":
        suffix = f" (in this store, the branch is named {branch.beside.rpartition('/')[2]})" if branch.beside else ""
        return [f"{branch.why}{suffix}"]
    if branch.ref == refs.ARCHIVE and branch.new is not None:
        return list(_changes_of_archive(app.objects(), branch.old, branch.new))
    if branch.outcome != "forked" or parsed is None:
        return [branch.why] if branch.why else []
    name = branch.beside.rpartition("/")[2]
    if branch.new == branch.old:
        return [f"diverged: the remote's branch is {name} in this store"]
    suffix = " and stays the active branch" if refs.is_branch(name) and active(app.objects(), parsed[0]) == name else ""
    return [f"diverged: the remote's branch keeps the name, yours is renamed to {name}{suffix}"]
