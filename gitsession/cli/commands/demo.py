"""The command ``gitsession demo``."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import click

import gitsession
from gitsession.cli.commands import checkpoints
from gitsession.cli.options import command, option
from gitsession.cli.output import say
from gitsession.errors import Unavailable

PROVIDER, MODEL = "anthropic", "claude-sonnet-4-5"


@command()
@option(
    "--in",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Create the store and the project in this folder. Default: a new temporary folder.",
)
def demo_command(folder: Path | None) -> None:
    """Create a store with a small session in a new folder, and show the session with plain git.

    The demo then rewinds a small project and undoes the rewind. Your own store is not changed.
    """
    from gitsession.git import process

    process.version()
    directory = folder or Path(tempfile.mkdtemp(prefix="gitsession-demo-"))
    path = directory / "store.git"
    if path.exists():
        raise Unavailable(
            f"cannot create the demo in '{path}': it already exists", hint="pass another folder: --in DIR"
        )
    sid = _build(path)
    say(f"A store with one session, {sid}. The following commands are plain git.")
    git = f"git --git-dir={path}"
    main, other = f"sessions/{sid}/main", f"sessions/{sid}/try-middleware"
    for about, line in (
        ("The whole session: two branches with a common start.", f"log --graph --oneline {main} {other}"),
        ("Only the user's prompts.", f"log --oneline --author=user {main}"),
        ("The number of entries by role.", f"shortlog -sn {main}"),
        ("One entry.", f"log -1 --author=assistant {main}"),
        ("The summary of the compaction.", f"show {main}~1:summary.md"),
        ("git finds no problems.", "fsck --strict --no-dangling"),
    ):
        say()
        say(f"# {about}", bold=True)
        say(f"$ {git} {line}", dim=True)
        _run(path, line)
    rewound = _show_a_rewind(path, directory / "project")
    say()
    say("# The same with gitsession:", bold=True)
    first = f"{rewound}@root"
    for line in (
        f"tree {sid}", f"show {sid}@tests-pass", f"diff {first}", f"rewind {first} --dry-run", f"rewind {first}",
        f"undo {rewound}",
    ):  # fmt: skip
        say(f"  gitsession --store {path} {line}")
    say()
    say(f"Everything is in {directory}. Remove the folder when you are done.")


def _show_a_rewind(path: Path, project: Path) -> str:
    """Create a small project, edit it with a shell, rewind it, and undo the rewind. Return the id of the session."""
    project.mkdir()
    (project / "auth.py").write_text("def login(request):\n    return redirect('/home')\n")
    (project / "notes.txt").write_text("mine\n")
    with gitsession.Store.open(path) as store:
        session = store.new_session(agent="demo", cwd=str(project))
        prompt = session.append(gitsession.Message.user("Follow ?next= after logging in."))
        call = gitsession.ToolCall("call-1", "bash", {"command": "sed -i ... auth.py"})
        session.append(_answer("I'll change it.", call))
        with session.files.checkpoint(project, call=call.id, reason="bash: sed -i ... auth.py"):
            (project / "auth.py").write_text("def login(request):\n    return redirect(request.args['next'])\n")
            (project / "auth.py.orig").write_text("def login(request):\n    return redirect('/home')\n")
        session.append(gitsession.Message.tool(call, "done"))
        say()
        say("# The changes that the agent made to a small project.", bold=True)
        command = f"log -p --format=%s sessions/{session.id}/files -1 -- files/"
        store.flush()
        say(f"$ git --git-dir={path} {command}", dim=True)
        _run(path, command)
        (project / "notes.txt").write_text("mine, and changed since\n")
        say()
        say("# A rewind reverts the agent's changes, not yours. undo reverts the rewind.", bold=True)
        say(f"$ gitsession --store {path} rewind {session.id}@{prompt.oid[:8]}", dim=True)
        _print_files(session.files.rewind(session.files.plan_rewind(prompt, workspace=project)), project)
        say(f"$ gitsession --store {path} undo", dim=True)
        _print_files(store.undo(project), project)
        return session.id


def _print_files(done: gitsession.RewindResult, project: Path) -> None:
    for line in checkpoints.outcome_lines(done.outcomes):
        click.echo(line)
    if done.prompt:
        say(f"  your prompt at that point: {done.prompt}")
    for file in sorted(project.iterdir()):
        say(f"  now: {file.name:<12}  {file.read_text().splitlines()[-1].strip()}")


def _run(path: Path, command: str) -> None:
    from gitsession.git import process

    done = subprocess.run(
        ["git", f"--git-dir={path}", "-c", "core.pager=cat", *command.split()],
        env=process.environment(),
        capture_output=True,
        check=False,
    )
    click.echo(done.stdout.decode("utf-8", "replace") + done.stderr.decode("utf-8", "replace"), nl=False)


def _build(path: Path) -> str:
    """Write a sample session in which a bug is found and fixed, fixed in another way, and the context is compacted."""
    from gitsession.codec.digest import to_base64url

    user, tool = gitsession.Message.user, gitsession.Message.tool
    clock = iter(range(1_767_603_600_000, 1_767_700_000_000, 7_000))
    with gitsession.Store.create(path, clock=lambda: next(clock)) as store:
        session = store.new_session(agent="demo", cwd=str(path.parent))
        session.append(gitsession.ModelChange(provider=PROVIDER, model=MODEL))
        session.append(user("After logging in I land on /home, not on the page I came from. Please fix it."))
        read = gitsession.ToolCall("call-1", "read", {"path": "auth.py"})
        session.append(_answer("I'll look at how the login redirects.", read))
        session.append(tool(read, "def login(request):\n    check(request)\n    return redirect('/home')\n"))
        change = {"path": "auth.py", "old": "'/home'", "new": "request.args.get('next', '/home')"}
        edit = gitsession.ToolCall("call-2", "edit", change)
        found = session.append(_answer("The target is fixed text. I'll take it from the request instead.", edit))
        session.append(tool(edit, "edited auth.py"))
        test = gitsession.ToolCall("call-3", "bash", {"command": "pytest -q tests/test_auth.py"})
        session.append(_answer("Now the tests.", test))
        passed = session.append(tool(test, "....\n4 passed in 0.21s\n"))
        session.label(passed, "tests-pass")
        prompt = session.append(user("Could ?next= send people to another site?"))
        summary = (
            "The login redirect was fixed text in auth.py; it now follows `next`, tests pass.\n"
            "Open: `next` must not lead to another site.\n"
        )
        session.append(
            gitsession.Compaction(
                summary=summary,
                first_kept=to_base64url(prompt.chain),
                tokens_before=61_204,
                tokens_after=8_120,
                modified_files=("auth.py",),
            )
        )
        session.append(_answer("Yes. I'll accept only paths of our own: no scheme, no host."))
        other = session.branch("try-middleware", found)
        other.append(user("Try it as middleware, so that every view has it."))
        other.append(_answer("Then the redirect belongs in middleware.py; auth.py stays as it was."))
        session.rename("Fix the login redirect")
    return session.id


def _answer(reply: str, *calls: gitsession.ToolCall) -> gitsession.Message:
    return gitsession.Message.assistant([gitsession.text(reply), *calls], provider=PROVIDER, model=MODEL)
