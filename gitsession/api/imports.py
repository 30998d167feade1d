"""Session files taken in one after the other; one that fails stops no other. One command, and so one undo."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gitsession.api.agents import AgentSessions
from gitsession.discovery import discover, sources
from gitsession.discovery.sources import FoundSession
from gitsession.errors import GitSessionError, NoBase
from gitsession.exporting import session_files
from gitsession.formats import FORMATS, Format
from gitsession.formats.base.format import Stamp
from gitsession.importing.import_session import ImportResult
from gitsession.index.catalogue import Stat


@dataclass(frozen=True, slots=True)
class ImportFailure:
    """A file that was not taken in. ``path``: as text that any document can hold."""

    path: str
    what: str
    error: Exception


class Imports:
    """What one command takes in. ``finish`` at its end, whatever happened."""

    def __init__(
        self, agents: AgentSessions, *, final: bool = False, dry_run: bool = False, logged: bool = True,
        histories: bool = True,
    ) -> None:  # fmt: skip
        """``logged``: as a command of the user's, which `undo` takes back. ``histories``: see ``import_session``."""
        self.agents = agents
        self.dry_run = dry_run
        self.done: list[tuple[Path, str, ImportResult]] = []
        self.failed: list[ImportFailure] = []
        self.skipped = 0
        self.unchanged = 0
        self._final = final
        self._logged = logged
        self._histories = histories
        self._group = secrets.token_hex(8)
        self._files: list[tuple[Path, Stat, str]] = []
        self._queue = session_files.ImportQueue()
        self._ids: dict[Path, str] = {}
        self.named: set[Path] = set()
        """Where the sessions lie that the user asked for by name."""
        self.behind: list[dict[str, str]] = []
        """In a dry run: what goes on from a session that would be taken in before it."""
        agents.opened.catalogues.get()  # once: up to date after every file would cost more than the files

    def take(self, path: Path, format: Format | None = None, *, named: bool = False) -> str | None:
        """All sessions at ``path``: one in a file, many in a database; the last one's id, ``None`` where none came in.

        ``named``: the user asked for this file, so it is looked at though it has not changed, and must be a session.
        """
        found, sid, before, done = False, "", len(self.failed) + len(self._queue.waiting), len(self.done)
        with self._judged(path):
            stamp = sources.stamp_of(path)
            seen = None if named else self._seen(path, stamp)
            if seen:
                self.unchanged += 1
                return seen
            for each in sources.at(path, format, final=self._final):
                found = True
                self.named |= {each.place} if named else set()
                try:
                    sid = self._one(each, named=named, within=each.place != path) or sid
                except NoBase as error:
                    self._queue.waiting.append(session_files.WaitingFile(path, format, named, error))
            if not found and not named:
                self.skipped += 1
            elif not found:
                raise sources.unrecognized(path)
        if sid and len(self.failed) + len(self._queue.waiting) == before:
            part = any(problem.waits for _, _, each in self.done[done:] for problem in each.problems)
            self._remember(path, _not_all_of(stamp) if part else stamp, sid)
        return sid or None

    def follow(self, agent: str, source_id: str, file: str, home: Path, environment: Mapping[str, str]) -> str | None:
        """A session as far as its agent has written it: in ``file``, or else wherever the agent keeps its own.

        Its id; ``None`` where it is not there yet. Raises what went wrong with it.
        """
        before = len(self.failed)
        sid = None
        if file:
            sid = self.take(Path(file), FORMATS.get(agent)) if Path(file).is_file() else None
        else:
            for path, format in discover.everywhere(home, environment):
                if agent == format.AGENT:
                    self.take(path, format)
        self.take_what_waits()
        for failure in self.failed[before:]:
            raise failure.error
        catalogue = self.agents.opened.catalogues.get()
        row = catalogue.session(sid) if sid and source_id else None
        if row is not None and (row.source_id or "").startswith(f"{source_id}~"):
            return sid  # a second file with this id (decision 0033)
        rows = catalogue.by_source(agent, source_id) if source_id else []
        return rows[0].sid if rows else sid

    def take_what_waits(self) -> None:
        """Files that go on from others, which may have come behind them; those still without are failures."""
        self._queue.take_what_waits(self.take)
        if self.dry_run:
            self._see_what_is_behind()
        for each in self._queue.waiting:
            self._fail(each.path, str(each.error), each.error)

    def _see_what_is_behind(self) -> None:
        """What would wait no more if all this were written."""
        coming = {self._ids[path] for path, _, done in self.done if done.moves}
        while found := [each for each in self._queue.waiting if each.error.source_id in coming]:
            for each in found:
                coming.add(self._ids[each.path])
                what = f"goes on from session {each.error.source_id}"
                self.behind.append({"path": spelled(each.path), "what": what})
                self._queue.waiting.remove(each)

    def finish(self) -> None:
        """The catalogue, up to date, remembers the files as they are."""
        self.agents.opened.catalogues.get().remember(self._files)

    def _one(self, found: FoundSession, *, named: bool, within: bool) -> str | None:
        """One session; its id, ``None`` where it failed. ``within``: a database, which says when one has changed.

        What was handed over to its agent, and nothing was said in since, comes in only where the user named it.
        """
        with self._judged(found.place):
            seen = self._seen(found.place, found.stamp) if within and not self._final else None
            if seen is not None:
                self.unchanged += 1
                return seen
            taken = found.take()
            handed = None if named else self.agents.find_handover(found.format, taken, found.place, found.stamp)
            if handed is not None:
                self.unchanged += 1
                if within:
                    self._remember(found.place, found.stamp, handed)
                return handed
            source = taken.source
            self._ids[found.place] = id = source.segment or source.source_id
            done = self.agents.import_session(
                found.format, taken, path=found.place, group=self._group, dry_run=self.dry_run,
                logged=self._logged, histories=self._histories,
            )  # fmt: skip
            self.done.append((found.place, found.format.AGENT, done))
            self._queue.imported.append((found.place, id))
            if within:
                self._remember(found.place, found.stamp, done.session)
            return done.session
        return None

    def _seen(self, path: Path, stamp: Stat) -> str | None:
        return self.agents.opened.catalogues.get(fresh=False).seen(path.absolute(), stamp)

    @contextmanager
    def _judged(self, path: Path) -> Iterator[None]:
        """What fails is said, and stops nothing else."""
        try:
            yield
        except NoBase:
            raise
        except GitSessionError as error:
            self._fail(path, str(error), error)
        except OSError as error:
            self._fail(path, error.strerror or str(error), error)
        except MemoryError as error:
            self._fail(path, "there is not enough memory to take it in", error)

    def _remember(self, path: Path, stamp: Stat, sid: str) -> None:
        if not self.dry_run:
            self._files.append((path.absolute(), stamp, sid))

    def _fail(self, path: Path, what: str, error: Exception) -> None:
        self.failed.append(ImportFailure(spelled(path), what, error))


def _not_all_of(stamp: Stat) -> Stat:
    """A stamp that no file has: it is known where the session came from, and what waits is asked for again."""
    return Stamp(-1, stamp.st_mtime_ns, stamp.st_ino)


def spelled(path: Path) -> str:
    """A path as it is told."""
    return os.fsencode(path).decode("utf-8", "replace")


def known() -> str:
    """Whose sessions can be taken in."""
    return f"it knows the sessions of {' and '.join(', '.join(sorted(FORMATS)).rsplit(', ', 1))}"
