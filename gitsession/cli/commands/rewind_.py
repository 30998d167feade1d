"""``gitsession rewind``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitsession.checkpoints.rewind_decisions import AS_IT_WAS
from gitsession.cli import exits, files
from gitsession.cli.commands.checkpoint_ import workspace_option
from gitsession.cli.context import App, split, with_app
from gitsession.cli.operations import told_if_stopped
from gitsession.cli.output import emit, json_option, say

if TYPE_CHECKING:
    from gitsession.api import Session
    from gitsession.checkpoints.planning import RewindPlan, What
    from gitsession.checkpoints.rewinding import RewindResult


@click.command()
@click.argument("entry", metavar="[SESSION@]ENTRY", required=False)
@click.option("--files", "only_files", is_flag=True, help="Only the files.")
@click.option("--conversation", "only_talk", is_flag=True, help="Only the conversation.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; write nothing.")
@click.option("--force", is_flag=True, help="Take back what others changed in those files, too.")
@click.option("--continue", "finish", is_flag=True, help="Do the rest of a rewind that was killed.")
@click.option("--abort", is_flag=True, help="Put the files back as they were before a rewind that was killed.")
@workspace_option
@json_option
@with_app
def command(
    app: App, entry: str | None, only_files: bool, only_talk: bool, dry_run: bool, force: bool, finish: bool,
    abort: bool, workspace: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Go back to an entry: the files that the session changed since, and the conversation. `undo` takes it back.

    In files that others changed too, their changes stay. A file in which both changed the same lines stays as it is,
    and is named. Of an entry in which you spoke, the talk goes on before it, and your words are printed.
    """
    if finish or abort:
        if (finish and abort) or dry_run or force or only_files or only_talk:
            raise click.UsageError("--continue and --abort stand alone, but for a session and --workspace")
        session = app.session(split(entry)[0] if entry else "@")
        with told_if_stopped(app):
            done = session.files.finish_rewind(workspace) if finish else session.files.abort_rewind(workspace)
        return _tell(app, session, None, done, as_json=as_json, verb="finished" if finish else "aborted")
    if entry is None:
        raise click.UsageError("an entry is wanted: [SESSION@]ENTRY")
    session, at = _address(app, entry)
    plan = session.files.plan_rewind(at, _what(only_files, only_talk), workspace=workspace, force=force)
    if dry_run:
        return _show(session, plan, as_json=as_json)
    with told_if_stopped(app):
        done = session.files.rewind(plan)
    return _tell(app, session, plan, done, as_json=as_json, verb="rewound")


def _what(only_files: bool, only_talk: bool) -> What:
    if only_files == only_talk:
        return "both"
    return "files" if only_files else "conversation"


def _address(app: App, entry: str) -> tuple[Session, Any]:
    """An entry alone is one of the newest session held here."""
    if "@" not in entry:
        entry = f"@@{entry}"
    if not split(entry)[1]:
        raise click.UsageError(f"an entry is wanted: {entry} names a session only")
    return app.entry(entry)


def _show(session: Session, plan: RewindPlan, *, as_json: bool) -> int:
    nothing = exits.NOTHING if plan.is_empty else exits.OK
    if as_json:
        emit("rewind", {**_document(session, plan), "branch": plan.onto or None, "dry_run": True,
                        "files": files.planned_objects(plan)})  # fmt: skip
        return nothing
    if plan.moves:
        say(f"the talk would go on behind {plan.place.oid[:8]} {plan.place.subject}")
        say(f"  on {plan.onto}" if plan.onto else "  on a new branch")
    if plan.workspace:
        lines = files.planned_lines(plan.changes)
        say(f"in {plan.workspace}, {'these files:' if lines else 'no file would change'}")
        for line in lines:
            click.echo(line)
    _tell_of_no_files(session, plan)
    if plan.is_empty:
        say("nothing would change")
    return nothing


def _tell(app: App, session: Session, plan: RewindPlan | None, done: RewindResult, *, as_json: bool, verb: str) -> int:
    wrote = any(one.did != "left" for one in done.outcomes)
    code = exits.OK if wrote or done.moved or plan is None else exits.NOTHING
    if as_json:
        document = {**_document(session, plan), "branch": done.branch, "dry_run": False, "moved": done.moved,
                    "workspace": done.workspace, "files": files.outcome_objects(done)}  # fmt: skip
        emit("rewind", document)
        return code
    if done.moved:
        leaf = session.resolve("leaf")
        say(f"the talk goes on at {leaf.oid[:8]} {leaf.subject}")
        say(f"  on {done.branch}; the other branch stays")
    if done.outcomes:
        files.tell(done)
    _tell_of_no_files(session, plan)
    if code == exits.NOTHING:
        left = any(one.why != AS_IT_WAS for one in done.outcomes)
        say("nothing changed" if left else "nothing changed: all is as it was there")
    elif not done.outcomes and not done.moved:
        say(f"{verb}: nothing was left to do")
    elif verb == "aborted":
        say("aborted: the files are as they were before, and so is the talk")
    else:
        say("  `gitsession undo` takes it back")
        if done.moved:
            _tell_how_to_go_on(app, session)
    if done.prompt:
        say()
        say("your words there, to say again or otherwise:", dim=True)
        for line in done.prompt.split("\n"):
            say(line)
    return code


def _tell_of_no_files(session: Session, plan: RewindPlan | None) -> None:
    """Who asks for both must not take it for done."""
    if plan is not None and plan.what == "both" and session.files.at().checkpoint is None:
        say("no files were ever kept of this session (no checkpoints): they stay as they are")


def _tell_how_to_go_on(app: App, session: Session) -> None:
    """The agent's own file says nothing of a rewind: whoever went on there would be where the talk was."""
    from gitsession.formats import Resumable, with_capability

    row = app.store().catalogue().session(session.id)
    if row is None or not row.source_id or with_capability(row.agent, Resumable) is None:
        return
    if session.resolve("leaf").kind != "session":
        say(f"  `gitsession resume {session.id}` has {row.agent} go on there")


def _document(session: Session, plan: RewindPlan | None) -> dict[str, Any]:
    if plan is None:
        return {"session": session.id, "prompt": None}
    return {
        "session": session.id,
        "at": plan.at.oid,
        "place": plan.place.oid,
        "what": plan.what,
        "moves": plan.moves,
        "prompt": plan.prompt,
        "workspace": plan.workspace,
    }
