"""``gitsession import``"""

from __future__ import annotations

import dataclasses
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitsession.cli import exits, sweeping
from gitsession.cli.opening import App, with_app
from gitsession.cli.output import count, current_folder, emit, json_option, say, warn
from gitsession.errors import Corrupt, GitSessionError, NoBase, NotFound, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from gitsession.api import Store
    from gitsession.exchange.bring_in import BroughtIn
    from gitsession.exchange.sources import Found, Seen
    from gitsession.formats import Format

PROBLEMS_SHOWN = 3


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--all", "everything", is_flag=True, help="Every session in your agents' own folders, and in projects.")
@click.option("--from", "agent", metavar="FORMAT", help="Take the files as this agent's, whatever they look like.")
@click.option("--final", is_flag=True, help="The files are closed: take the bytes after their last line end too.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; write nothing.")
@json_option
@with_app
def command(
    app: App, paths: tuple[Path, ...], everything: bool, agent: str | None, final: bool, dry_run: bool, as_json: bool
) -> int:
    """Take in session files, or the folders they lie in.

    A file that was taken in before is brought up to date: nothing is done twice, nothing is overwritten.
    """
    from gitsession.exchange import discover

    if not paths and not everything:
        raise click.UsageError("name a file or a folder, or say --all")
    files = list(_files(paths, everything, agent))
    work = _Work(app.rehearsal() if dry_run else app.store(make=True), final, dry_run)
    try:
        with _progress(len(files), quiet=as_json) as advance:
            for path, format in files:
                work.take(path, format, named=path in paths)
                advance()
            work.take_what_waits()
        if everything:  # last: the sessions that were taken in say in which folders people work
            for path, format in discover.in_projects(work.projects()):
                if agent in (None, format.AGENT):
                    work.take(path, format, named=False)
    finally:
        work.finish()
    sweep = sweeping.look(work.store.catalogue()) if everything else None
    if as_json:
        sessions = [_object(work.store, *done) for done in work.done]
        told: dict[str, Any] = {"sweep": dataclasses.asdict(sweep)} if sweep is not None else {}
        told |= {"behind": work.behind} if dry_run else {}
        emit("import", {"sessions": sessions, "failed": work.failed, **told})
    else:
        _tell(work)
        if sweep is not None and sweep.soon and work.is_first:
            say(sweeping.words(sweep))
    if work.failed:
        return work.worst
    return 0 if work.done or work.unchanged else exits.NOTHING


def _files(paths: tuple[Path, ...], everything: bool, agent: str | None) -> Iterator[tuple[Path, Format | None]]:
    from gitsession.exchange import discover
    from gitsession.formats import FORMATS

    if agent is not None and agent not in FORMATS:
        raise click.UsageError(f"no format {agent!r}; there are {', '.join(FORMATS)}")
    if everything:
        for path, format in discover.everywhere(Path.home(), os.environ):
            if agent in (None, format.AGENT):
                yield path, format
    for path in discover.under(paths):
        yield path, FORMATS[agent] if agent else None


_CODES = {Corrupt: exits.INTEGRITY, Unavailable: exits.TRY_AGAIN}
"""What the whole import ends with where one file failed so; the worst counts."""


class _Work:
    """The files one after the other; one that fails stops no other."""

    def __init__(self, store: Store, final: bool, dry_run: bool) -> None:
        self.store = store
        self.done: list[tuple[Path, str, BroughtIn]] = []
        self.failed: list[dict[str, str]] = []
        self.worst = exits.NOT_FOUND
        self.skipped = 0
        self.unchanged = 0
        self.is_first = not store.sessions()
        self._final = final
        self.dry_run = dry_run
        self._group = secrets.token_hex(8)
        self._files: list[tuple[Path, Seen, str]] = []
        self._waiting: list[tuple[Path, Format | None, bool, NoBase]] = []
        self._ids: dict[Path, str] = {}
        self.named: set[Path] = set()
        """Where the sessions lie that the user asked for by name."""
        self.behind: list[dict[str, str]] = []
        """In a dry run: what goes on from a session that would be taken in before it."""
        # As it is now: bringing it up to date after every file would cost more than the files.
        self._catalogue = store.catalogue()

    def projects(self) -> list[Path]:
        """The folders in which sessions were held, and the one that the user stands in."""
        held = (row.project for row in self.store.catalogue().sessions())
        return [Path(folder) for folder in dict.fromkeys((current_folder(), *held)) if folder]

    def take(self, path: Path, format: Format | None, *, named: bool) -> None:
        """All sessions at ``path``: one in a file, many in a database."""
        from gitsession.exchange import sources

        found, sid, before = False, "", len(self.failed) + len(self._waiting)
        with self._judged(path):
            stamp = sources.stamp_of(path)
            if not named and self._catalogue.seen(path.absolute(), stamp):
                self.unchanged += 1
                return
            for each in sources.at(path, format, final=self._final):
                found = True
                self.named |= {each.place} if named else set()
                try:
                    sid = self._one(each, within=each.place != path) or sid
                except NoBase as error:
                    self._waiting.append((path, format, named, error))
            if not found and not named:
                self.skipped += 1
            elif not found:
                hint = "--from FORMAT takes it as one's"
                raise NotFound(f"no agent wrote this that gitsession knows ({_known()}); {hint}")
        if sid and len(self.failed) + len(self._waiting) == before:
            self._remember(path, stamp, sid)

    def _one(self, found: Found, *, within: bool) -> str | None:
        """One session; its id, ``None`` where it failed. ``within``: a database, which says when one has changed."""
        with self._judged(found.place):
            seen = self._catalogue.seen(found.place.absolute(), found.stamp) if within and not self._final else None
            if seen is not None:
                self.unchanged += 1
                return seen
            taken = found.take()
            self._ids[found.place] = taken.source.source_id
            done = self.store.take_in(found.format, taken, path=found.place, group=self._group, dry_run=self.dry_run)
            self.done.append((found.place, found.format.AGENT, done))
            if within:
                self._remember(found.place, found.stamp, done.session)
            return done.session
        return None

    @contextmanager
    def _judged(self, path: Path) -> Iterator[None]:
        """What fails is said, and stops nothing else."""
        try:
            yield
        except NoBase:
            raise
        except GitSessionError as error:
            self._fail(path, str(error))
            self.worst = max(self.worst, _CODES.get(type(error), exits.NOT_FOUND))
        except OSError as error:
            self._fail(path, error.strerror or str(error))
        except MemoryError:
            self._fail(path, "there is not enough memory to take it in")

    def _remember(self, path: Path, stamp: Seen, sid: str) -> None:
        if not self.dry_run:
            self._files.append((path.absolute(), stamp, sid))

    def take_what_waits(self) -> None:
        """Files that go on from others, which may have come behind them; those still without are failures."""
        came = {self._ids[place] for place, _, _ in self.done if place in self._ids}
        while again := [each for each in self._waiting if each[3].source_id in came]:
            self._waiting = [each for each in self._waiting if each[3].source_id not in came]
            before = len(self.done)
            for path, format, named, _ in again:
                self.take(path, format, named=named)
            came = {self._ids[place] for place, _, _ in self.done[before:] if place in self._ids}
        if self.dry_run:
            self._see_what_is_behind()
        for path, _, _, error in self._waiting:
            self._fail(path, str(error))

    def _see_what_is_behind(self) -> None:
        """What would wait no more if all this were written."""
        coming = {self._ids[path] for path, _, done in self.done if done.moves}
        while found := [each for each in self._waiting if each[3].source_id in coming]:
            for each in found:
                coming.add(self._ids[each[0]])
                self.behind.append({"path": _spelled(each[0]), "what": f"goes on from session {each[3].source_id}"})
                self._waiting.remove(each)

    def _fail(self, path: Path, what: str) -> None:
        self.failed.append({"path": _spelled(path), "what": what})

    def finish(self) -> None:
        """The catalogue, up to date, remembers the files as they are."""
        self.store.catalogue().remember(self._files)


def _spelled(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "replace")


def _object(store: Store, path: Path, agent: str, done: BroughtIn) -> dict[str, Any]:
    from gitsession.session import address

    row = store.catalogue().session(done.session)
    branches = dict(row.branches) if row else {}
    return {
        "session": done.session,
        "title": row.title if row else None,
        "agent": agent,
        "source_id": row.source_id if row else None,
        "path": _spelled(path),
        "branches": branches,
        "active": row.active if row else None,
        "leaf": address.resolve(store.objects, row.sid, "leaf", branch=row.active).oid if row else None,
        "entries": done.entries,
        "new": done.new,
        "rewritten": done.rewritten,
        "branch": done.branch,
        "problems": [{"line": problem.line, "what": problem.what} for problem in done.problems],
    }


def _tell(work: _Work) -> None:
    for path, _, done in work.done:
        if not (done.moves or done.problems or path in work.named):
            continue  # it is counted below
        row = work.store.catalogue().session(done.session)
        news = "unchanged, " if not done.moves else f"{done.new:,} new of " if done.new != done.entries else ""
        say(f"{done.session}  {news}{count(done.entries, 'entry', 'entries')}  {row.name if row else path.name}")
        if done.rewritten is not None:
            away = f" (you are on {row.active})" if row and row.active != done.branch and not work.dry_run else ""
            say(f"  {path}:{done.rewritten}: rewritten from here on, now branch {done.branch}{away}; the rest stays")
        for problem in done.problems[:PROBLEMS_SHOWN]:
            say(f"  {path}:{problem.line}: {problem.what}" if problem.line else f"  {path}: {problem.what}")
        if len(done.problems) > PROBLEMS_SHOWN:
            say(f"  {len(done.problems) - PROBLEMS_SHOWN} more problems; --json lists all")
    for each in work.behind:
        say(f"{each['path']}  {each['what']}, would be taken in behind it")
    for failure in work.failed:
        warn(f"gitsession: {failure['path']}: {failure['what']}")
    if len(work.done) + len(work.behind) > 1 or work.unchanged or work.skipped:
        changed = {done.session for _, _, done in work.done if done.moves}
        unchanged = work.unchanged + sum(not done.moves for _, _, done in work.done)
        taken = count(len(changed) + len(work.behind), "session")
        parts = [f"{taken} would be taken in" if work.dry_run else f"{taken} taken in"]
        parts += [f"{count(unchanged, 'file')} unchanged"] if unchanged else []
        parts += [f"{count(work.skipped, 'other file')} passed over ({_known()})"] if work.skipped else []
        say(", ".join(parts))
    elif not work.done and not work.failed:
        warn(f"no session files found; {_known()}")


def _known() -> str:
    from gitsession.formats import FORMATS

    return f"it knows the sessions of {' and '.join(', '.join(sorted(FORMATS)).rsplit(', ', 1))}"


@contextmanager
def _progress(total: int, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """A bar on standard error, where a person watches and there is something to wait for."""
    if quiet or total < 2 or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("importing", total=total)
        yield lambda: progress.advance(task)
