"""Import of many files by one command, which is undone as a whole. If one file fails, the others are still imported."""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gitsession.api.agents import AgentSessions
from gitsession.dataclass import dataclass
from gitsession.discovery import discover, sources
from gitsession.discovery.side_files import SideFileFinder
from gitsession.discovery.sources import FoundSession, LoadedSession
from gitsession.errors import GitSessionError, NoBase, RefMoved
from gitsession.exporting import session_files
from gitsession.formats import FORMATS, Database, Format, Remembering, Scattered
from gitsession.formats.base.format import Stamp
from gitsession.importing.import_session import ImportResult
from gitsession.importing.import_state import ImportState
from gitsession.index.catalogue import STATES_MAX, Stat, recorded_status


@dataclass(frozen=True, slots=True)
class ImportFailure:
    """A file that could not be imported. ``path``: the path of the file, with invalid bytes replaced."""

    path: str
    what: str
    error: Exception


class Imports:
    """A group of imports that one command makes. Call ``finish`` at the end, even after an error."""

    def __init__(
        self, agents: AgentSessions, *, final: bool = False, dry_run: bool = False, logged: bool = True,
        histories: bool = True,
    ) -> None:  # fmt: skip
        """Create an empty group of imports.

        Args:
            agents: The importer of the store.
            final: Whether the files are complete. If so, text after the last line end is imported too.
            dry_run: Whether to report the result without writing to the store.
            logged: Whether to log the imports as one operation, so that ``undo`` can revert them.
            histories: See ``AgentSessions.import_session``.
        """
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
        self._states: dict[Path, ImportState | None] = {}
        self._finder = SideFileFinder()
        self._queue = session_files.ImportQueue()
        self._ids: dict[Path, str] = {}
        self.named: set[Path] = set()
        """Paths of the imported sessions in files that the user named."""
        self.postponed: list[dict[str, str]] = []
        """Files that continue a session that this dry run would import first."""
        agents.opened.catalogues.get()  # only once: an update after every file would take longer than the imports

    def skip_unchanged(self, files: Iterable[tuple[str, Format]]) -> list[tuple[Path, Format]]:
        """Count the files that have not changed since their import, and return the other files.

        A session that is stored in several files, and a database with its log, are always returned.
        """
        seen = self.agents.opened.catalogues.get(fresh=False).seen_files()
        rest: list[tuple[Path, Format]] = []
        for path, format in files:
            in_one_file = not isinstance(format, Database | Scattered)
            is_unchanged = in_one_file and path in seen and seen[path] == _status(path)
            if is_unchanged and not self.agents.has_new_side_files(format, path, self._finder):
                self.unchanged += 1
            else:
                rest.append((Path(path), format))
        return rest

    def take(self, path: Path, format: Format | None = None, *, named: bool = False) -> str | None:
        """Import the session in a file, or all sessions in a database.

        Args:
            path: The path of the file or database.
            format: The format of the agent that wrote the file. By default, the format is detected.
            named: Whether the user named this file. Such a file is read even if it has not changed, and the import
                fails if the file contains no session.

        Returns:
            The id of the last imported session; ``None`` if none was imported.
        """
        found, sid, before, done = False, "", len(self.failed) + len(self._queue.waiting), len(self.done)
        with self._recording_failure(path):
            stamp = sources.stamp_of(path)
            seen = None if named else self._seen(path, stamp)
            if seen:
                self._take_side_files(path, seen)
                return seen
            for each in sources.at(path, format, final=self._final):
                found = True
                self.named |= {each.path} if named else set()
                try:
                    sid = self._one(each, named=named, within=each.path != path) or sid
                except NoBase as error:
                    self._queue.waiting.append(session_files.WaitingFile(path, format, named, error))
            if not found and not named:
                self.skipped += 1
            elif not found:
                raise sources.unrecognized(path)
        if sid and len(self.failed) + len(self._queue.waiting) == before:
            part = any(problem.is_incomplete for _, _, each in self.done[done:] for problem in each.problems)
            # No file can have the size -1, so the next import reads the file again for the missing records.
            self._remember(path, Stamp(-1, stamp.st_mtime_ns, stamp.st_ino) if part else stamp, sid)
        return sid or None

    def follow(self, agent: str, source_id: str, file: str, home: Path, environment: Mapping[str, str]) -> str | None:
        """Import the entries that an agent has written to a session so far.

        Args:
            agent: The name of the agent.
            source_id: The agent's id of the session.
            file: The path of the session file. If it is empty, all files of the agent are imported.
            home: The home directory of the user.
            environment: The environment variables, which can contain the paths of agents' folders.

        Returns:
            The id of the session; ``None`` if the session is not in the store.

        Raises:
            GitSessionError: The import failed.
            OSError: The file cannot be read.
        """
        before = len(self.failed)
        sid = None
        if file:
            sid = self.take(Path(file), FORMATS.get(agent)) if Path(file).is_file() else None
        else:
            for path, format in self.skip_unchanged(discover.find_paths(home, environment, agent=agent)):
                self.take(path, format)
        self.import_waiting()
        for failure in self.failed[before:]:
            raise failure.error
        catalogue = self.agents.opened.catalogues.get()
        row = catalogue.session(sid) if sid and source_id else None
        if row is not None and (row.source_id or "").startswith(f"{source_id}~"):
            return sid  # a second file with this id (decision 0033)
        rows = catalogue.by_source(agent, source_id) if source_id else []
        return rows[0].sid if rows else sid

    def import_waiting(self) -> None:
        """Import the postponed files. Each of them continues a session that was not in the store yet.

        If that session is still missing from the store, importing the file fails.
        """
        self._queue.import_waiting(self.take)
        if self.dry_run:
            self._postpone_dependents()
        for each in self._queue.waiting:
            self._fail(each.path, str(each.error), each.error)

    def _postpone_dependents(self) -> None:
        """Move the files that continue a session of this dry run from the queue to ``postponed``."""
        coming = {self._ids[path] for path, _, done in self.done if done.moves}
        while found := [each for each in self._queue.waiting if each.error.source_id in coming]:
            for each in found:
                coming.add(self._ids[each.path])
                what = f"continues session {each.error.source_id}"
                self.postponed.append({"path": spelled(each.path), "what": what})
                self._queue.waiting.remove(each)

    def finish(self) -> None:
        """Update the catalog, and record the status of the imported files there."""
        states = {path: state.encode() if state is not None else None for path, state in self._states.items()}
        self.agents.opened.catalogues.get().remember(self._files, states)

    def _one(self, found: FoundSession, *, named: bool, within: bool) -> str | None:
        """Import one session and return its id, or ``None`` if the import failed.

        ``within``: whether the session is in a database. Each session in a database has its own recorded status. A
        session that ``resume`` wrote for the agent, and that the agent has not continued, is imported only if the user
        named it.
        """
        with self._recording_failure(found.path):
            seen = self._seen(found.path, found.stamp) if within and not self._final else None
            if seen is not None:
                self.unchanged += 1
                return seen
            earlier = self._earlier(found)
            rest = self._load_rest(found, earlier) if earlier is not None else None
            loaded = rest or found.load()
            handover = None if named else self.agents.find_handover(found.format, loaded, found.path, found.stamp)
            if handover is not None:
                self.unchanged += 1
                if within:
                    self._remember(found.path, found.stamp, handover)
                return handover
            source = loaded.source
            self._ids[found.path] = id = source.segment or source.source_id
            run = functools.partial(
                self.agents.import_session, found.format, path=found.path, group=self._group, dry_run=self.dry_run,
                logged=self._logged, histories=self._histories, finder=self._finder,
            )  # fmt: skip
            try:
                done = run(loaded, earlier=earlier if rest is not None else None)
            except RefMoved:
                done = run(found.load())
            self._set_state(found.path.absolute(), done)
            self.done.append((found.path, found.format.AGENT, replace(done, state=None)))
            self._queue.imported.append((found.path, id))
            if within:
                self._remember(found.path, found.stamp, done.session)
            return done.session
        return None

    def _take_side_files(self, path: Path, sid: str) -> None:
        """Import the side files of an unchanged session file, if one of them has changed."""
        row = self.agents.opened.catalogues.get(fresh=False).session(sid)
        format = FORMATS.get(row.agent) if row is not None else None
        if format is None or self.dry_run or not self.agents.has_new_side_files(format, path, self._finder):
            self.unchanged += 1
            return
        done = self.agents.import_side_files(format, path, sid, self._finder, group=self._group, logged=self._logged)
        self.done.append((path, format.AGENT, done))

    def _earlier(self, found: FoundSession) -> ImportState | None:
        """Return the state of the last import of a file that is longer now, if the session is unchanged since then."""
        path = found.path.absolute()
        state = self._states.get(path)
        if state is None:
            data = self.agents.opened.catalogues.get(fresh=False).import_state(path, found.stamp)
            state = ImportState.decode(data) if data is not None else None
        return state if state is not None and state.is_current(self.agents.opened.objects) else None

    def _load_rest(self, found: FoundSession, earlier: ImportState) -> LoadedSession | None:
        """Load the records after ``earlier``; return ``None`` if the session must be loaded whole.

        It must also be loaded whole if the recorded file changes are imported, and there may be new ones.
        """
        loaded, format = found.load_rest(earlier.read), found.format
        if loaded is None or not self._histories or not isinstance(format, Remembering):
            return loaded
        from gitsession.importing.file_history import copy_folders

        may_change = not earlier.has_replayed or any(map(format.mentions_changes, loaded.source.payloads()))
        return None if may_change and copy_folders(format, loaded.source, found.path) else loaded

    def _set_state(self, path: Path, done: ImportResult) -> None:
        """Keep the state of the file that was imported last. As in the catalog, those of older files are dropped."""
        if not self.dry_run:
            self._states.pop(path, None)
            self._states[path] = done.state
            if len(self._states) > STATES_MAX:
                del self._states[next(iter(self._states))]

    def _seen(self, path: Path, stamp: Stat) -> str | None:
        return self.agents.opened.catalogues.get(fresh=False).seen(path.absolute(), stamp)

    @contextmanager
    def _recording_failure(self, path: Path) -> Iterator[None]:
        """Record an error in the ``with`` block as a failure, so that the other imports continue."""
        try:
            yield
        except NoBase:
            raise
        except GitSessionError as error:
            self._fail(path, str(error), error)
        except OSError as error:
            self._fail(path, error.strerror or str(error), error)
        except MemoryError as error:
            self._fail(path, "not enough memory", error)

    def _remember(self, path: Path, stamp: Stat, sid: str) -> None:
        if not self.dry_run:
            self._files.append((path.absolute(), stamp, sid))

    def _fail(self, path: Path, message: str, error: Exception) -> None:
        self.failed.append(ImportFailure(spelled(path), message, error))


def _status(path: str) -> tuple[int, ...] | None:
    """Return the status of a file as the catalog records it, or ``None`` if it cannot be accessed."""
    try:
        return recorded_status(os.stat(path))
    except OSError:
        return None


def spelled(path: Path) -> str:
    """Return a path as printable text."""
    return os.fsencode(path).decode("utf-8", "replace")
