"""Commands for live capture: enable, disable, drain, watch, hook."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

import gitsession
from gitsession.cli import exits, hooking
from gitsession.cli.commands.imports import project_folders
from gitsession.cli.invocation import DRAIN_WAIT_SECONDS, App, hook_program
from gitsession.cli.options import command, option
from gitsession.cli.output import complain, confirm, emit, json_option, say, say_painted, wants_json, warn
from gitsession.cli.text import DIFF_COLORS
from gitsession.line_text import count, on_a_line
from gitsession.live import agent_hooks, settings_edits, spool
from gitsession.live.settings_edits import Edit


def _arguments(force: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the arguments of enable and disable. ``force``: a verb for the help of --force."""
    text = f"{force} gitsession's hook file even if it was edited. A copy of the edited file is kept."
    agent = click.argument("agent")
    yes = option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
    forced = option("--force", is_flag=True, help=text)
    help = "Only show the changes to the agent's settings, as a diff."
    dry_run = option("--dry-run", is_flag=True, help=help)
    return lambda command: agent(yes(forced(dry_run(json_option(click.pass_obj(command))))))


@command()
@option(
    "--status-line/--no-status-line",
    default=None,
    help="Show `gitsession status-line` in Claude Code. Default: show it if no other status line is set.",
)
@_arguments("Replace")
def enable_command(app: App, agent: str, yes: bool, force: bool, dry_run: bool, status_line: bool | None) -> int:
    """Install hooks that record an agent's sessions, and the files of the workspace, while the agent works.

    AGENT is claude, codex, omp, opencode, or pi. The command prints how many lines of the agent's settings would
    change, and asks for confirmation. To remove the hooks, run `gitsession disable AGENT`.
    """
    location = agent_hooks.find(agent)
    file = agent_hooks.file_of(location, Path.home(), os.environ)
    program = hook_program(app.path)
    edit = settings_edits.plan_enable(app.path, location, file, program, force=force, status_line=status_line)
    return _carry_out(app, "enable", edit, location.then, yes=yes, dry_run=dry_run)


@command()
@_arguments("Remove")
def disable_command(app: App, agent: str, yes: bool, force: bool, dry_run: bool) -> int:
    """Remove the capture hooks of an agent.

    If the agent's settings have not been edited since `gitsession enable`, they are restored byte for byte.
    Otherwise, only gitsession's hooks and its status line are removed.
    """
    location = agent_hooks.find(agent)
    file = agent_hooks.file_of(location, Path.home(), os.environ)
    edit = settings_edits.plan_disable(app.path, location, file, force=force)
    return _carry_out(app, "disable", edit, "", yes=yes, dry_run=dry_run)


@command()
@option("--quiet", is_flag=True, help="Print nothing.")
@option("--forget-failures", is_flag=True, help="Clear the list of failures that `gitsession doctor` prints.")
@json_option
@click.pass_obj
def drain_command(app: App, quiet: bool, forget_failures: bool) -> int:
    """Ingest the events that hooks recorded.

    You rarely need this command, because other commands that open the store ingest pending events first.
    """
    store = app.store(make=True, ingest=False)
    if forget_failures:
        spool.forget_failures(os.fspath(app.path))
    done = store.drain(wait_seconds=DRAIN_WAIT_SECONDS)
    emit("drain", dataclasses.asdict(done))
    if not (quiet or wants_json()):
        for what in done.failed:
            warn(f"error: {what}")
        parts = [count(done.taken, "event") + " ingested", count(done.checkpoints, "checkpoint")]
        parts += [f"{count(done.waiting, 'event')} waiting"] if done.waiting else []
        parts += ["another process is ingesting"] if done.busy else []
        say(", ".join(parts))
    return exits.TRY_AGAIN if done.busy else exits.OK


@command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@option("--once", is_flag=True, help="Check the files once, then exit.")
@option(
    "--every", type=click.FloatRange(0.1), metavar="SECONDS", help="Wait this many seconds between checks. Default: 2."
)
@click.pass_obj
def watch_command(app: App, paths: tuple[Path, ...], once: bool, every: float | None) -> int:
    """Import sessions as agents write them, until you press Ctrl-C.

    Use this command for agents without hooks. If you pass paths, only these files and folders are watched.
    """
    from gitsession.api.imports import Imports
    from gitsession.live.watch import EVERY_SECONDS, Watch

    store = app.store(make=True)
    watch = Watch(lambda: _files(store, paths))
    failed: set[tuple[str, str]] = set()
    while True:
        app.drain()
        changed = watch.round()
        if changed:
            imports = Imports(store.agents, logged=False)
            try:
                for path, format in changed:
                    imports.take(path, format)
                imports.import_waiting()
            finally:
                imports.finish()
            for path, agent, done in imports.done:
                if done.new:
                    news = count(done.new, "new entry", "new entries")
                    say_painted([on_a_line(f"{done.session}  {agent}  {news}  {path.name}")])
            for failure in imports.failed:
                if (failure.path, failure.what) not in failed:
                    failed.add((failure.path, failure.what))
                    complain(f"cannot import '{failure.path}': {failure.what}", hint=getattr(failure.error, "hint", ""))
        if once:
            return exits.NOT_FOUND if failed else exits.OK
        time.sleep(every or EVERY_SECONDS)


def _files(store: gitsession.Store, paths: tuple[Path, ...]) -> Iterator[tuple[Path, gitsession.Format | None]]:
    from gitsession.discovery import discover

    if paths:
        yield from ((path, None) for path in discover.files_in(paths))
        return
    yield from discover.find_all(Path.home(), os.environ)
    yield from discover.in_projects(project_folders(store))


@command()
@click.argument("event")
@option("--from", "agent", metavar="AGENT", help="Agent that sends the event.")
@click.pass_obj
def hook_command(app: App, event: str, agent: str | None) -> int:
    """Record an event sent by an agent. The hooks that `gitsession enable` installs run this command.

    The agent passes the event as JSON on standard input. The command prints nothing, and its exit code is always 0.
    Run `gitsession doctor` to list failures.
    """
    hooking.run(["--store", os.fspath(app.path), "hook", event, *(["--from", agent] if agent else [])])
    return 0


def _carry_out(app: App, verb: str, edit: Edit, then: str, *, yes: bool, dry_run: bool) -> int:
    """Show the changes to a file, ask for confirmation, and write the file. With ``dry_run``, only show all changes."""
    import difflib  # slow to import

    old, new = ((data or b"").decode("utf-8", "replace").splitlines(keepends=True) for data in (edit.old, edit.new))
    name = os.fspath(edit.file)
    diff = [line.rstrip("\n") for line in difflib.unified_diff(old, new, name, name)]
    if wants_json() and not (yes or dry_run):
        raise click.UsageError("--json requires --yes or --dry-run")
    if dry_run:
        for line in diff:
            say(line, fg=DIFF_COLORS.get(line[:1]))
    elif diff:
        added, removed = (sum(line.startswith(sign) for line in diff[2:]) for sign in "+-")
        say(f"{edit.file}: {count(added, 'line')} added, {removed} removed; --dry-run shows them")
    is_written = not edit.is_empty and not dry_run
    if is_written and not yes and not _is_wanted(f"{verb} {edit.agent}: write {edit.file}?"):
        warn("nothing was written")
        return exits.NOTHING
    copy = settings_edits.copy_of(app.path, edit) if is_written and edit.keeps else None
    if is_written:
        if verb == "enable":
            app.store(make=True)
        settings_edits.perform(app.path, edit, enable=verb == "enable")
    document = {"agent": edit.agent, "file": os.fspath(edit.file), "changed": is_written, "diff": diff, "then": then}
    emit(verb, document | ({} if copy is None else {"copy": os.fspath(copy)}))
    if edit.is_empty:
        is_so = "hooks are already installed" if verb == "enable" else "hooks are not installed"
        say(f"{edit.agent}: {is_so} in {edit.file}")
    elif is_written:
        done = "removed" if edit.new is None else "written"
        say(f"{edit.agent}: {edit.file} is {done}{'; ' + then if then else ''}")
    if edit.keeps_status_line:
        say(f"{edit.agent}: another status line is set there, and is kept")
    if copy is not None:
        say(f"the previous version is in {copy}")
    return exits.OK


def _is_wanted(question: str) -> bool:
    """Ask a question and return the answer. If standard input is not a terminal, return False without asking."""
    try:
        return confirm(question)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        warn("")
        complain("cannot ask for confirmation: standard input is not a terminal", hint="pass --yes")
        return False
