"""The command ``gitsession import``."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import gitsession
from gitsession.cli import exits
from gitsession.cli.invocation import App
from gitsession.cli.options import command, option
from gitsession.cli.output import complain, current_folder, emit, json_option, say, wants_json
from gitsession.cli.text import width
from gitsession.errors import Corrupt, Unavailable
from gitsession.line_text import count, shorten

if TYPE_CHECKING:
    from gitsession.api.imports import Imports

PROBLEMS_SHOWN = 3

_LINES, _LLM, _TRACES = "jsonl", "llm", "otlp"
_OTHERS = (_LINES, _LLM, _TRACES)
"""Formats that no agent writes: files of ``export --to jsonl``, databases of llm, and traces of OpenTelemetry."""


@command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@option(
    "--all",
    "everything",
    is_flag=True,
    help="Import all sessions in the agents' own folders, and Aider's chat history files in the current project and in "
    "the projects of stored sessions.",
)
@option(
    "--from",
    "agent",
    metavar="FORMAT",
    help="Read the files as this format, such as claude or pi. Default: detect the format.",
)
@option("--final", is_flag=True, help="Also import an incomplete last line. Use this option if the file will not grow.")
@option("--dry-run", is_flag=True, help="Only show what would be imported.")
@json_option
@click.pass_obj
def import_command(
    app: App, paths: tuple[Path, ...], everything: bool, agent: str | None, final: bool, dry_run: bool
) -> int:
    """Import agents' sessions into the store.

    PATH is a session file, or a folder to search for session files. If you import a file again, only its new entries
    are stored, and nothing is overwritten.
    """
    from gitsession.api.imports import Imports
    from gitsession.cli.expiry import expiry_text, forecast_expiry
    from gitsession.discovery import discover
    from gitsession.formats import FORMATS
    from gitsession.git import config

    if not paths and not everything:
        raise click.UsageError("missing argument: a file, a folder, or --all")
    if agent is not None and agent not in _OTHERS and agent not in FORMATS:
        raise click.UsageError(f"unknown format {agent!r}: choose one of {', '.join([*FORMATS, *_OTHERS])}")
    if agent == _LLM and everything:
        paths, everything = (*paths, _llm_log()), False
    if agent in _OTHERS and everything:
        raise click.UsageError(f"--all and --from {agent} cannot be combined")
    if agent in (_LLM, _TRACES) and dry_run:
        raise click.UsageError(f"--dry-run and --from {agent} cannot be combined")
    store = app.dry_run_store() if dry_run else app.store(make=True)
    if config.redaction(app.path).rules:
        _ = store.objects.guard  # load the redaction rules now, so that invalid rules are reported only once
    is_first = not store.sessions()
    work = Imports(store.agents, final=final, dry_run=dry_run)
    if agent in _OTHERS:
        work.done = [(path, agent, done) for path in paths for done in _import_other(store, path, agent, dry_run)]
        work.named, paths = {*paths}, ()
    found = discover.find_paths(Path.home(), os.environ, agent=agent, unreadable=True) if everything else ()
    files: list[tuple[Path, gitsession.Format | None]] = [
        *work.skip_unchanged(found),
        *((path, FORMATS[agent] if agent else None) for path in discover.files_in(paths)),
    ]
    try:
        with _progress(len(files)) as advance:
            for path, format in files:
                work.take(path, format, named=path in paths)
                advance()
            work.import_waiting()
        if everything:  # last, because imported sessions can name further project folders
            for path, format in discover.in_projects(project_folders(store), unreadable=True):
                if agent in (None, format.AGENT):
                    work.take(path, format, named=False)
    finally:
        work.finish()
    sweep = forecast_expiry(store.catalogue()) if everything else None
    if wants_json():
        document: dict[str, Any] = {
            "sessions": [_object(store, *done) for done in work.done],
            "failed": [{"path": failure.path, "what": failure.what} for failure in work.failed],
        }
        document |= {"sweep": dataclasses.asdict(sweep)} if sweep is not None else {}
        emit("import", document | ({"behind": work.postponed} if dry_run else {}))
    else:
        _print_results(store, work, lambda: _searched(paths or tuple(sorted(work.named)), everything, agent))
        if sweep is not None and sweep.soon and is_first:
            say(expiry_text(sweep))
    if work.failed:
        return max(_CODES.get(type(failure.error), exits.NOT_FOUND) for failure in work.failed)
    return 0 if work.done or work.unchanged else exits.NOTHING


def _llm_log() -> Path:
    """Return the path of the user's own log database of llm."""
    return Path(os.environ.get("LLM_USER_PATH") or click.get_app_dir("io.datasette.llm"), "logs.db")


def _import_other(store: gitsession.Store, path: Path, agent: str, dry_run: bool) -> list[gitsession.ImportResult]:
    if agent == _LINES:
        return store.import_file(path, agent=_LINES, dry_run=dry_run)
    if agent == _LLM:
        from gitsession.frameworks.llm_database import import_llm

        return import_llm(store, path)
    from gitsession.frameworks.traces import TraceRecorder, answers_in

    return TraceRecorder(store).record(answers_in(path.read_bytes()))


_CODES: dict[type[Exception], int] = {Corrupt: exits.INTEGRITY, Unavailable: exits.TRY_AGAIN}
"""Exit codes of an import in which a file failed, by the type of its error. The highest code is used."""


def project_folders(store: gitsession.Store) -> list[Path]:
    """Return the folders of all sessions, and the working directory."""
    folders = (row.project for row in store.sessions())
    return [Path(folder) for folder in dict.fromkeys((current_folder(), *folders)) if folder]


def _object(store: gitsession.Store, path: Path, agent: str, done: gitsession.ImportResult) -> dict[str, Any]:
    from gitsession.api.imports import spelled
    from gitsession.sessions import entry_addresses

    row = store.catalogue().session(done.session)
    branches = dict(row.branches) if row else {}
    return {
        "session": done.session,
        "title": row.title if row else None,
        "agent": agent,
        "source_id": row.source_id if row else None,
        "path": spelled(path),
        "branches": branches,
        "active": row.active if row else None,
        "leaf": entry_addresses.resolve(store.objects, row.sid, "leaf", branch=row.active).oid if row else None,
        "entries": done.entries,
        "new": done.new,
        "rewritten": done.rewritten,
        "branch": done.branch,
        "side_files": list(done.side_files),
        "problems": [{"line": problem.line, "what": problem.what} for problem in done.problems],
    }


def _searched(paths: tuple[Path, ...], everything: bool, agent: str | None) -> str:
    """Return a phrase that lists the files and folders that were searched."""
    from gitsession.discovery import discover
    from gitsession.formats import FORMATS, roots_of

    found = [*paths]
    if everything:
        formats = [FORMATS[agent]] if agent else FORMATS.values()
        found += [discover.base_of(root, Path.home(), os.environ) for each in formats for root in roots_of(each)]
    named = ", ".join(f"'{path}'" for path in dict.fromkeys(found))
    if not everything:
        return named
    return f"{named} and the projects of known sessions" if named else "the projects of known sessions"


def _print_results(store: gitsession.Store, work: Imports, searched: Callable[[], str]) -> None:
    unlisted = [done for path, _, done in work.done if not done.moves and path not in work.named]  # only counted below
    for path, _, done in work.done:
        if done.moves or path in work.named:
            for line in _result_lines(store, work, path, done):
                say(line)
    for each in work.postponed:
        say(f"{each['path']}  {each['what']} and would be imported after it")
    hints: set[str] = set()
    for failure in work.failed:
        hint = getattr(failure.error, "hint", "")
        complain(f"cannot import '{failure.path}': {failure.what}", hint="" if hint in hints else hint)
        hints.add(hint)
    if len(work.done) + len(work.postponed) > 1 or work.unchanged or work.skipped or unlisted:
        say(_sum(work, sum(len(done.problems) for done in unlisted)))
    elif not work.done and not work.failed:
        complain(f"no session files found in {searched()}", hint=f"pass a session file or its folder ({_supported()})")


def _result_lines(store: gitsession.Store, work: Imports, path: Path, done: gitsession.ImportResult) -> Iterator[str]:
    """Yield lines with the result for one file, and its problems."""
    if done.is_purged:
        yield f"{done.session}  not imported: the session in '{path}' was purged"
        return
    row = store.catalogue().session(done.session)
    news = "unchanged, " if not done.moves else f"{done.new:,} new of " if done.new != done.entries else ""
    entries = [f"{news}{count(done.entries, 'entry', 'entries')}"] if done.entries else []
    side_files = [count(len(done.side_files), "side file")] if done.side_files else []
    first = f"{done.session}  {', '.join([*entries, *side_files])}  "
    yield f"{first}{shorten(row.name if row else path.name, width() - len(first))}"
    if done.rewritten is not None:
        away = f", the active branch is {row.active}" if row and row.active != done.branch and not work.dry_run else ""
        yield f"  {path}:{done.rewritten}: rewritten from this line on (the new version is branch {done.branch}{away})"
    # The problems of an unchanged file were shown when the file changed, so only one of them is shown now. If a problem
    # prevented the import of a part of a file, it is always shown.
    most = PROBLEMS_SHOWN if done.moves and path in work.named else 1
    shown = [problem for problem in done.problems if not problem.is_incomplete][:most]
    shown += [problem for problem in done.problems if problem.is_incomplete]
    for problem in shown:
        yield f"  {path}:{problem.line}: {problem.what}" if problem.line else f"  {path}: {problem.what}"
    if len(done.problems) > len(shown):
        yield f"  {count(len(done.problems) - len(shown), 'more problem')}; --json lists all"


def _sum(work: Imports, problems: int) -> str:
    """Return the last line of the output. ``problems``: number of problems that the lines before it do not list."""
    changed = {done.session for _, _, done in work.done if done.moves}
    unchanged = work.unchanged + sum(not done.moves for _, _, done in work.done)
    imported = count(len(changed) + len(work.postponed), "session")
    parts = [f"{imported} would be imported" if work.dry_run else f"{imported} imported"]
    parts += [f"{count(unchanged, 'file')} unchanged"] if unchanged else []
    parts += [f"{count(work.skipped, 'other file')} skipped ({_supported()})"] if work.skipped else []
    parts += [f"{count(problems, 'problem')} in unchanged files (--json lists them)"] if problems else []
    return ", ".join(parts)


def _supported() -> str:
    """Return a phrase that lists the agents whose sessions can be imported."""
    from gitsession.formats import FORMATS

    return f"supported agents: {', '.join(sorted(FORMATS))}"


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    """Show a progress bar on standard error if it is a terminal and there are several files."""
    if wants_json() or total < 2 or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("importing", total=total)
        yield lambda: progress.advance(task)
