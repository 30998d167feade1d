"""The command ``gitsession link``."""

from __future__ import annotations

import functools
import os
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitsession.cli import exits
from gitsession.cli.invocation import App, program
from gitsession.cli.options import group, option
from gitsession.cli.output import emit, json_option, paged, say, warn
from gitsession.cli.text import paint, width
from gitsession.errors import NotFound
from gitsession.line_text import columns, count, on_a_line, pad, shorten

if TYPE_CHECKING:
    from gitsession.api.commit_origins import FileOrigins
    from gitsession.discovery.file_history import LineOrigin
    from gitsession.index.catalogue import Row
    from gitsession.sync.code_commits import CodeCommit

SECONDS_MAX = 3.0
"""Maximum time that the hook may delay a commit, in seconds."""


@group()
def link_command() -> None:
    """Record and show which sessions made a commit.

    `gitsession link enable` installs a hook that adds a line `Session: SESSION@ENTRY` to the commit message. The line
    names the session that changed most of the staged files. If no session changed a staged file, no line is added.
    `gitsession link show` shows which sessions wrote the lines of a commit, with or without such a line.
    """


_folder = click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))


@link_command.command(short_help="Install a prepare-commit-msg hook in a repository.")
@_folder
@option(
    "--hours",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Ignore sessions without an entry in the last N hours. Default: 4.",
)
@json_option
@click.pass_obj
def enable(app: App, folder: Path, hours: float | None) -> int:
    """Install a prepare-commit-msg hook in the repository of a folder.

    FOLDER defaults to the current folder. An existing prepare-commit-msg hook is kept and runs first.
    """
    from gitsession.sync import commit_trailers

    _print_link("enable", folder, commit_trailers.enable(folder, program(app.path), hours))
    return exits.OK


@link_command.command(short_help="Remove the prepare-commit-msg hook.")
@_folder
@json_option
def disable(folder: Path) -> int:
    """Remove the hook that `gitsession link enable` installed. Existing commits do not change."""
    from gitsession.sync import commit_trailers

    _print_link("disable", folder, commit_trailers.disable(folder))
    return exits.OK


@link_command.command(short_help="Show which sessions wrote the lines of a commit.")
@click.argument("commit", default="HEAD")
@json_option
@click.pass_obj
def show(app: App, commit: str) -> int:
    """Show which sessions wrote the lines of a commit in the repository of the current folder.

    COMMIT defaults to HEAD. For each session, entry and file, show the number of added lines and their share. A session
    that changed a file since the commit before, but wrote no added line, is listed with 0 lines.
    """
    from gitsession.api.commit_origins import commit_origins
    from gitsession.sync.code_commits import find_commit

    found = find_commit(os.getcwd(), commit)
    if found is None:
        raise NotFound(
            f"no commit '{commit}' in the current folder", hint="run this command in the repository of the commit"
        )
    rows = {row.sid: row for row in app.catalogue().sessions()}
    files = commit_origins(app.catalogue(), app.objects(), found)
    sessions = _by_session(files)
    emit("link-show", _document(found, files, rows))
    paged(_table(found, files, rows))
    if not sessions:
        warn(f"no session changed the files of commit {found.oid[:12]}")
    return exits.OK if sessions else exits.NOTHING


def _by_entry(files: Iterable[FileOrigins]) -> list[tuple[LineOrigin, int]]:
    """Return the number of added lines of each entry, the highest first."""
    return sum((Counter(file.lines) for file in files), Counter[Any]()).most_common()


def _by_session(files: Sequence[FileOrigins]) -> list[tuple[str, int]]:
    """Return the number of added lines of each session that changed one of the files, the highest first."""
    found = Counter(dict.fromkeys(sorted({sid for file in files for sid in file.touched}), 0))
    for origin, number in _by_entry(files):
        found[origin.sid] += number
    return found.most_common()


def _document(commit: CodeCommit, files: Sequence[FileOrigins], rows: Mapping[str, Row]) -> dict[str, Any]:
    added = sum(file.added or 0 for file in files)
    return {
        "folder": commit.top,
        "commit": commit.oid,
        "at": commit.at_ms,
        "subject": commit.subject,
        "trailers": list(commit.addresses),
        "added": added,
        "sessions": [
            {"session": sid, "agent": rows[sid].agent, "title": rows[sid].name, **_share(lines, added)}
            for sid, lines in _by_session(files)
        ],
        "entries": _entry_objects(files, added),
        "files": [
            {
                "path": file.path,
                "added": file.added,
                "sessions": [{"session": sid, **_share(lines, file.added)} for sid, lines in _by_session([file])],
                "entries": _entry_objects([file], file.added),
            }
            for file in files
        ],
    }


def _entry_objects(files: Sequence[FileOrigins], added: int | None) -> list[dict[str, Any]]:
    return [
        {"session": it.sid, "id": it.oid, "at": it.at_ms, "prompt": it.prompt, **_share(lines, added)}
        for it, lines in _by_entry(files)
    ]


def _share(lines: int, added: int | None) -> dict[str, int | float]:
    return {"lines": lines, "share": round(lines / added, 4) if added else 0.0}


_PROMPT_MIN = 10


def _table(commit: CodeCommit, files: Sequence[FileOrigins], rows: Mapping[str, Row]) -> Iterator[str]:
    """Yield a line for the commit, then one for each session, each of its entries, and each file."""
    from gitsession.cli.session_table import short_ids

    added, sessions, entries = sum(file.added or 0 for file in files), _by_session(files), _by_entry(files)
    shorts = short_ids([rows[sid] for sid, _ in sessions]) if sessions else {}
    yield paint(f"{commit.oid[:12]}  {shorten(commit.subject, width() - 14)}", bold=True)
    yield f"{count(added, 'added line')} in {count(len(files), 'file')}"
    table = []
    for sid, lines in sessions:
        table.append((f"{shorts[sid]}  {on_a_line(rows[sid].agent)}", lines, rows[sid].name))
        table += [(f"  {it.oid[:8]}", number, it.prompt) for it, number in entries if it.sid == sid]
    by_none = added - sum(lines for _, lines in sessions)
    table += [("-", by_none, "no session")] if sessions and by_none else []
    if table:
        yield ""
    heads = max((columns(head) for head, _, _ in table), default=0)
    parts = max((len(_part(lines, added)) for _, lines, _ in table), default=0)
    for head, lines, title in table:
        room = max(width() - heads - parts - 4, _PROMPT_MIN)
        yield f"{paint(pad(head, heads), fg='yellow')}  {_part(lines, added):>{parts}}  {paint(shorten(title, room))}"
    if files:
        yield ""
    names = [shorten(file.path, width() // 2) for file in files]
    size = max(map(columns, names), default=0)
    for name, file in zip(names, files, strict=True):
        shares = [f"{shorts[sid]} {_part(lines, file.added)}" for sid, lines in _by_session([file])]
        rest = (file.added or 0) - sum(file.lines.values())
        shares += [f"- {_part(rest, file.added)}"] if rest else []
        added_here = "binary" if file.added is None else f"+{file.added}"
        yield f"{paint(pad(name, size))}  {added_here:>6}  {', '.join(shares)}".rstrip()


def _part(lines: int, added: int | None) -> str:
    """Return a number of lines with their share, such as ``28 (93%)``."""
    return f"{lines:,} ({lines / added:.0%})" if added else f"{lines:,}"


@link_command.command(hidden=True)
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_obj
def message(app: App, file: Path) -> int:
    """Add a line that names a session to the commit message in FILE. The prepare-commit-msg hook runs this command."""
    from gitsession.index.file_changes import paths_changed_by
    from gitsession.sessions.node import load
    from gitsession.sync import commit_trailers

    signal.signal(signal.SIGALRM, lambda *_: os._exit(exits.TRY_AGAIN))
    signal.setitimer(signal.ITIMER_REAL, SECONDS_MAX)
    current = Path.cwd()
    recent = commit_trailers.active_sessions(app.catalogue().sessions(), current, time.time_ns() // 1_000_000)
    if not recent:
        return exits.NOTHING
    index_file = os.environ.get("GIT_INDEX_FILE", "")
    row = commit_trailers.author(
        app.objects(),
        recent,
        current,
        index_file and os.path.abspath(index_file),
        edited_by=functools.partial(paths_changed_by, app.catalogue().db),
    )
    if row is None:
        say("no session of the last hours changed a staged file: the commit names no session")
        return exits.NOTHING
    node = load(app.objects(), row.branches[row.active])
    return exits.OK if commit_trailers.add(file, commit_trailers.address(row.sid, node)) else exits.NOTHING


def _print_link(verb: str, folder: Path, changed: bool) -> None:
    text = (
        "hook installed: new commits name their sessions"
        if verb == "enable"
        else "hook removed: new commits name no sessions"
    )
    emit(f"link-{verb}", {"folder": os.path.abspath(folder), "changed": changed})
    say(text if changed else "nothing to do")
