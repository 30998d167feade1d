"""Commands for the files of a session: checkpoint, rewind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

import gitsession
from gitsession.cli import exits
from gitsession.cli.invocation import App, split
from gitsession.cli.options import command, option
from gitsession.cli.output import complain, emit, json_option, say, say_painted, wants_json, warn
from gitsession.cli.text import paint, width
from gitsession.line_text import columns, count, on_a_line, pad, shorten
from gitsession.sessions.gaps import DAMAGE

_SHOWN_MAX = 10

workspace_option = option(
    "--workspace",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Use this folder as the workspace. Default: the session's workspace.",
)


@command()
@click.argument("session", metavar="[SESSION]", default="@")
@option("-m", "--message", metavar="TEXT", help="Description of the checkpoint.")
@workspace_option
@json_option
@click.pass_obj
def checkpoint_command(app: App, session: str, message: str | None, workspace: Path | None) -> None:
    """Record the files of a session's workspace in a checkpoint.

    Files that git ignores are not recorded. Files larger than 10 MiB (by default), and repositories inside the
    workspace, are skipped and listed.
    """
    from gitsession.model.entries import Checkpoint

    found = app.session(session)
    try:
        before: gitsession.Files | None = found.files.at()
    except DAMAGE:
        before = None  # the last checkpoint cannot be read, so a new one is created
    node = found.files.take_checkpoint(workspace=workspace, reason=message)
    if before is not None and before.checkpoint is None:
        before = None
    is_new = before is None or before.checkpoint != node
    entry = found.read(node)
    assert isinstance(entry, Checkpoint)
    files = found.files.at()
    changes = before.diff(files) if is_new and before else []
    document = {
        "session": found.id,
        "id": node.oid,
        "new": is_new,
        "workspace": entry.workspace,
        "files": len(files),
        "changed": [change.path for change in changes],
        "skipped": [{"path": path, "why": why} for path, why in entry.skipped],
    }
    emit("checkpoint", document)
    if not is_new:
        say(f"nothing has changed in {entry.workspace} since checkpoint {node.oid[:8]}")
    elif before is None:
        say(f"checkpoint {node.oid[:8]} of {entry.workspace}: {count(len(files), 'file')}")
    else:
        changed = f"{count(len(changes), 'file')} changed since the previous checkpoint"
        say(f"checkpoint {node.oid[:8]} of {entry.workspace}: {changed}")
    if not wants_json():
        for path, why in entry.skipped[:_SHOWN_MAX]:
            warn(f"  left out: {path} ({why})")
        if len(entry.skipped) > _SHOWN_MAX:
            warn(f"  and {len(entry.skipped) - _SHOWN_MAX:,} more; --json lists all")


@command()
@click.argument("entry", metavar="[SESSION@]ENTRY", required=False)
@option("--files", "only_files", is_flag=True, help="Restore only the files.")
@option("--conversation", "only_conversation", is_flag=True, help="Restore only the conversation.")
@option("--dry-run", is_flag=True, help="Only show what would change.")
@option("--force", is_flag=True, help="Also restore files that you or others have changed, and discard those changes.")
@option("--continue", "finish", is_flag=True, help="Complete an interrupted rewind.")
@option("--abort", is_flag=True, help="Revert an interrupted rewind.")
@workspace_option
@json_option
@click.pass_obj
def rewind_command(
    app: App, entry: str | None, only_files: bool, only_conversation: bool, dry_run: bool, force: bool, finish: bool,
    abort: bool, workspace: Path | None,
) -> int:  # fmt: skip
    """Restore the files and the conversation of an earlier entry.

    Only the session's changes to files are reverted. Your own changes are kept. If you and the session changed the
    same lines of a file, the file is listed as a conflict and left unchanged. If the entry is a prompt, the
    conversation continues from the point before it, and the prompt is printed. `gitsession undo` reverts the whole
    rewind.
    """
    if finish or abort:
        if (finish and abort) or dry_run or force or only_files or only_conversation:
            raise click.UsageError("--continue and --abort can be combined only with SESSION and --workspace")
        session = app.session(split(entry)[0] if entry else "@")
        with report_interrupted_rewind(app):
            done = session.files.finish_rewind(workspace) if finish else session.files.abort_rewind(workspace)
        return _print_rewound(app, session, None, done, verb="finished" if finish else "aborted")
    if entry is None:
        raise click.UsageError("missing argument: [SESSION@]ENTRY")
    address = entry if "@" in entry else f"@@{entry}"  # the newest session of this folder, if no session is named
    if not split(address)[1]:
        raise click.UsageError(f"the address {address!r} does not contain an entry: pass [SESSION@]ENTRY")
    session, at = app.entry(address)
    plan = session.files.plan_rewind(
        at,
        "both" if only_files == only_conversation else "files" if only_files else "conversation",
        workspace=workspace,
        force=force,
    )
    if dry_run:
        return _show_plan(session, plan)
    with report_interrupted_rewind(app):
        done = session.files.rewind(plan)
    return _print_rewound(app, session, plan, done, verb="rewound")


def _show_plan(session: gitsession.Session, plan: gitsession.RewindPlan) -> int:
    nothing = exits.NOTHING if plan.is_empty else exits.OK
    if wants_json():
        files = [
            {"path": change.path, "action": change.action, "why": change.reason, "now": _state(change.now),
             "to": _state(change.to)}
            for change in plan.changes
        ]  # fmt: skip
        emit("rewind", {**_document(session, plan), "branch": plan.branch or None, "dry_run": True, "files": files})
        return nothing
    if plan.moves:
        say(f"the conversation would continue after {plan.new_tip.oid[:8]} {plan.new_tip.subject}")
        say(f"  on {plan.branch}" if plan.branch else "  on a new branch")
    if plan.workspace:
        lines = _lines([(change.action, change.path, change.reason) for change in _changed(plan.changes)])
        say(f"files in {plan.workspace}:" if lines else f"no file would change in {plan.workspace}")
        say_painted(lines)
    _report_no_checkpoints(session, plan)
    if plan.is_empty:
        say("nothing would change")
    return nothing


def _print_rewound(
    app: App, session: gitsession.Session, plan: gitsession.RewindPlan | None, done: gitsession.RewindResult, *,
    verb: str,
) -> int:  # fmt: skip
    wrote = any(one.action != "left" for one in done.outcomes)
    code = exits.OK if wrote or done.moved or plan is None else exits.NOTHING
    if wants_json():
        files = outcome_objects(done.outcomes)
        emit("rewind", {**_document(session, plan), "branch": done.branch, "dry_run": False, "moved": done.moved,
                        "workspace": done.workspace, "files": files})  # fmt: skip
        return code
    if done.moved:
        leaf = session.resolve("leaf")
        say(f"the conversation continues at {leaf.oid[:8]} {leaf.subject}")
        say(f"  on branch {done.branch}; the other branch is kept")
    if done.outcomes:
        print_files(done)
    _report_no_checkpoints(session, plan)
    if code == exits.NOTHING:
        is_so = ": the files and the conversation are already in the state of this entry"
        say("nothing changed" + ("" if _changed(done.outcomes) else is_so))
    elif not done.outcomes and not done.moved:
        say(f"{verb}: nothing to do")
    elif verb == "aborted":
        say("aborted: the files and the conversation are as they were before the rewind")
    else:
        say("  `gitsession undo` reverts it")
        if done.moved:
            _print_resume_hint(app, session)
    if done.prompt:
        say()
        say("Your prompt at that point:", dim=True)
        for line in done.prompt.split("\n"):
            say(line)
    return code


def _report_no_checkpoints(session: gitsession.Session, plan: gitsession.RewindPlan | None) -> None:
    """Report that the session has no checkpoints, and that a rewind therefore restores only the conversation."""
    if plan is not None and plan.parts == "both" and session.files.at().checkpoint is None:
        say("the session has no checkpoints: no file is restored")


def _print_resume_hint(app: App, session: gitsession.Session) -> None:
    """Print how to resume the session in its agent.

    The agent's own file does not contain the rewind. An agent that is started directly continues from the old entry.
    """
    from gitsession.formats import Resumable, with_capability

    row = app.store().catalogue().session(session.id)
    if row is None or not row.source_id or with_capability(row.agent, Resumable) is None:
        return
    if session.resolve("leaf").kind != "session":
        say(f"  `gitsession resume {session.id}` continues it in {row.agent}")


def _document(session: gitsession.Session, plan: gitsession.RewindPlan | None) -> dict[str, Any]:
    if plan is None:
        return {"session": session.id, "prompt": None}
    return {
        "session": session.id,
        "at": plan.at.oid,
        "place": plan.new_tip.oid,
        "what": plan.parts,
        "moves": plan.moves,
        "prompt": plan.prompt,
        "workspace": plan.workspace,
    }


_FILE_COLORS = {
    "write": "green", "merge": "green", "written": "green", "remove": "red", "removed": "red",
    "leave": "yellow", "conflict": "yellow", "left": "yellow",
}  # fmt: skip
_WIDE = 60
_FILES_MAX = 200
"""Maximum number of files in the text output. ``--json`` lists all files."""


def outcome_objects(outcomes: Iterable[gitsession.FileOutcome]) -> list[dict[str, str]]:
    """Return the JSON objects of outcomes."""
    return [{"path": one.path, "did": one.action, "why": one.reason} for one in outcomes]


def outcome_lines(outcomes: Iterable[gitsession.FileOutcome]) -> list[str]:
    """Return lines such as ``written   src/auth.py   the session changed it``."""
    return _lines([(one.action, one.path, one.reason) for one in _changed(outcomes)])


def print_files(done: gitsession.RewindResult) -> None:
    """Print the outcome for each file of a workspace, except files that needed no change."""
    lines = outcome_lines(done.outcomes)
    counts = Counter(one.action for one in _changed(done.outcomes))
    parts = [f"{counts[action]:,} {action}" for action in ("written", "removed", "left") if counts[action]]
    summary = f"files: {', '.join(parts)}" if parts else "no file was changed"
    say(f"in {done.workspace}, {summary}{':' if lines else ''}")
    say_painted(lines)


def _changed(files: Iterable[Any]) -> list[Any]:
    """Return the given decisions or outcomes without those for files that needed no change."""
    from gitsession.checkpoints.rewind_decisions import UNCHANGED

    return [file for file in files if file.reason != UNCHANGED]


def _state(state: tuple[str, str] | None) -> dict[str, str] | None:
    return None if state is None else {"mode": state[0], "oid": state[1]}


def _lines(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    if not rows:
        return []
    shown = [(what, on_a_line(path), why) for what, path, why in rows[:_FILES_MAX]]
    first = max(len(what) for what, _, _ in shown)
    middle = min(max(columns(path) for _, path, _ in shown), max(width() - first - _WIDE, 24))
    lines = []
    for what, path, why in shown:
        head = paint(what.ljust(first), fg=_FILE_COLORS.get(what))
        lines.append(f"  {head}  {paint(pad(path, middle))}  {shorten(why, _WIDE)}".rstrip())
    if len(rows) > _FILES_MAX:
        lines.append(f"  and {count(len(rows) - _FILES_MAX, 'more file')}; --json lists all")
    return lines


HALF_DONE = "run `gitsession rewind --continue` to complete it, or `gitsession rewind --abort` to revert it"


@contextmanager
def report_interrupted_rewind(app: App) -> Iterator[None]:
    """Report an unfinished rewind if Ctrl-C interrupts the ``with`` block while files are written."""
    try:
        yield
    except KeyboardInterrupt:
        for words in app.store().unfinished():
            complain(f"interrupted: {words}", hint=HALF_DONE)
        raise
