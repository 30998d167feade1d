"""Views of a store of many sessions, in whole commands, which include the start of Python.

Each view is compared with itself in a store of a tenth of the sessions. The stores and the bars are
those of [Scale](#scale). A view is also compared with a command of git that shows the same of a
repository:

- *stats*: `git log` of all branches, which reads what statistics by day require
- *blame*: `git blame`; a session has changed the file as often as commits of the other repository
- *completion* of a session: `git for-each-ref` with the same pattern as git's own completion
- *browse, first paint*: from the start in a pseudo-terminal until the first session is on the screen
"""

from __future__ import annotations

import os
import pty
import subprocess
import termios
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

from benchmarks import commands
from benchmarks.figures import Line, Table
from benchmarks.measure import Step, duel
from benchmarks.rows.scale import CONSTANT, SESSIONS, Case, Grown, compared, growth_table
from benchmarks.workshop import Workshop
from gitsession import Message, ToolCall

TITLE = "Views"

CHANGES = 100
"""Changes of the file for ``blame``, and lines at its end."""

ROWS, COLUMNS = 40, 120


def measure(shop: Workshop) -> Iterator[Line | Table]:
    many = shop.sessions or shop.pick(10, 1_000, 10_000)
    few = max(many // 10, 1)
    sizes, found = [f"{number:,} sessions" for number in (many, few)], []
    workspace = shop.folder()
    repository = _commits(workspace)
    with ExitStack() as stack:
        both = [stack.enter_context(Grown(shop, number)) for number in (many, few)]
        for grown in both:
            _write_changes(grown, workspace)
        for line in compared(shop, both, _cases(workspace), sizes, many / few):
            found.append(line)
            yield line[1]
        for what, ours, peer, theirs in _peers(both[0], workspace, repository):
            rounds = shop.pick(1, 3, 5)
            yield duel(ours, theirs, runs=shop.runs, rounds=rounds).line(f"{what}, {sizes[0]}", peer)
    yield growth_table(found, sizes, many / few)


def _cases(workspace: Path) -> Mapping[str, Case]:
    cases = {
        "ls": Case(SESSIONS, lambda grown: grown.command("ls")),
        "ls --file": Case(SESSIONS, lambda grown: grown.command("ls", "--file", str(workspace / "app.py"))),
        "stats": Case(SESSIONS, lambda grown: grown.command("stats")),
        "stats --by session": Case(SESSIONS, lambda grown: grown.command("stats", "--by", "session")),
        "blame": Case(CONSTANT, lambda grown: _blame(grown, workspace)),
        "completion": Case(CONSTANT, _complete),
        "status-line": Case(CONSTANT, _status_line),
    }
    return cases | ({"browse, first paint": Case(SESSIONS, _first_paint)} if find_spec("textual") else {})


def _peers(grown: Grown, workspace: Path, repository: Path) -> Iterator[tuple[str, Step, str, Step]]:
    """Yield a view with its name, and a command of git with its name."""
    yield "stats", grown.command("stats"), "git log", commands.git(grown.path, "log", "--format=%cs", "--branches")
    blamed = commands.git(repository, "blame", "HEAD", "--", "app.py")
    yield "blame", _blame(grown, workspace), "git blame", blamed
    refs = ("--format=%(refname:strip=2)", "refs/heads/*", "refs/heads/*/**")
    yield "completion", _complete(grown), "git for-each-ref", commands.git(grown.path, "for-each-ref", *refs)


def _write_changes(grown: Grown, workspace: Path) -> None:
    """Append a session that writes the file line by line, and bring the catalog up to date."""
    session = grown.store.new_session(agent="bench", cwd=str(workspace))
    path = str(workspace / "app.py")
    session.append(Message.user("Write the file"))
    for number in range(CHANGES):
        last = {"path": path, "oldText": _line(number - 1), "newText": _line(number - 1) + _line(number)}
        call = ToolCall(f"call_{number}", "edit", last)
        if not number:
            call = ToolCall(f"call_{number}", "write", {"path": path, "content": _line(0)})
        session.append(Message.assistant([call]))
        session.append(Message.tool(call, "done"))
    grown.store.flush()
    grown.store.catalogue()


def _line(number: int) -> str:
    return f"print({number})\n"


def _commits(workspace: Path) -> Path:
    """Write the file as the sessions do, one commit for each change; return the repository."""
    repository = workspace / ".git"
    subprocess.run(["git", "init", "-q", "-b", "main", str(workspace)], check=True)
    author = {f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for number in range(CHANGES):
        with (workspace / "app.py").open("a") as file:
            file.write(_line(number))
        for words in (("add", "app.py"), ("commit", "-q", "-m", f"change {number}")):
            commands.command_of("git", "-C", str(workspace), *words, **author)(0)
    return repository


def _blame(grown: Grown, workspace: Path) -> Step:
    return grown.command("blame", str(workspace / "app.py"))


def _complete(grown: Grown) -> Step:
    """Return a step that completes ``gitsession show``, as bash does."""
    words = {"COMP_WORDS": "gitsession show ", "COMP_CWORD": "2"}
    return commands.ours(grown.path, _GITSESSION_COMPLETE="bash_complete", **words)


def _status_line(grown: Grown) -> Step:
    """Return a step that prints the status line, as Claude Code runs it after `gitsession enable`."""
    file = grown.path.parent / "session.jsonl"
    file.touch()
    grown.store.catalogue().remember([(file, file.stat(), grown.store.sessions()[0].sid)])
    return commands.status_line(grown.path, session_id="x", transcript_path=str(file))


def _first_paint(grown: Grown) -> Step:
    """Return a step that runs the browser until its screen contains the id of the first session."""
    program, environment = commands.program_words(), commands.environment(
        GITSESSION_DIR=str(grown.path), TERM="xterm-256color"
    )  # fmt: skip
    marker = grown.store.sessions()[0].sid.encode()

    def step(_: int) -> None:
        screen, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (ROWS, COLUMNS))
        with subprocess.Popen(
            [*program, "browse"], stdin=terminal, stdout=terminal, stderr=terminal, env=environment, cwd=os.sep,
            start_new_session=True,
        ) as running:  # fmt: skip
            os.close(terminal)
            try:
                shown = b""
                while marker not in shown:
                    shown += os.read(screen, 1 << 16)
            finally:
                running.kill()
                os.close(screen)

    return step
