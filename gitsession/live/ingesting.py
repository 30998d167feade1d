"""Ingestion of the spool: sessions are imported, and snapshots become checkpoints.

An event is removed from the spool only after all its content is in the store. So no event is lost if the process is
killed. Ingesting an event twice adds nothing, because an existing checkpoint is recognized by its time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from gitsession.checkpoints import history
from gitsession.checkpoints.attribution import AFTER, BEFORE, WORKSPACE
from gitsession.checkpoints.capturing import CaptureReason, take
from gitsession.codec.cbor import to_profile, valid_text
from gitsession.errors import Corrupt, GitSessionError, Malformed, MissingObject, NotFound, Unavailable
from gitsession.formats import FORMATS
from gitsession.git.types import Oid
from gitsession.live import events, spool, spooled_events
from gitsession.live.spooled_events import Calls, Event, SpooledSnapshot, Targets, load_state, save_state
from gitsession.model.entries import Checkpoint
from gitsession.sessions.node import Node
from gitsession.store.git_store import GitStore
from gitsession.store.lock import StoreLock
from gitsession.workspace import workspace_lock
from gitsession.workspace.capture import put, tree_with
from gitsession.workspace.private_repository import PrivateRepository
from gitsession.workspace.root import WorkspaceRoot

WAIT_MS = 24 * 3600 * 1000
"""Maximum time in ms that an event waits for its session file to appear."""
LAG_MS = 60_000
"""Maximum time in ms that an event with a snapshot waits for its entry, if the agent has not written a later entry."""

TURN_SECONDS = 5.0
"""Maximum time in seconds to wait for the lock on a workspace.

If the lock is not released in time, the event stays in the spool for the next ingestion.
"""


ImportSessionFile: TypeAlias = Callable[[str, str, str], str | None]
"""A function that imports a session's file as far as the agent has written it.

The arguments are the agent, the agent's id of the session, and the file. The file is "" if the agent did not name it.
The function returns the id of the session in the store, or ``None`` if the session does not exist yet. Raises
``GitSessionError`` and ``OSError``.
"""


RecordInstructions: TypeAlias = Callable[[str, int, bool], None]
"""A function that records the instructions of a session if they have changed.

The arguments are the id of the session, the time of the event at which they were first used or noticed (Unix time in
ms), and whether this event is the start of the session. Raises ``GitSessionError`` and ``OSError``.
"""


@dataclass
class IngestResult:
    """The result of an ingestion.

    Attributes:
        taken: Number of events that were removed from the spool.
        waiting: Number of events that are still in the spool.
        checkpoints: Number of new checkpoints.
        sessions: Ids of the imported sessions.
        failed: One message for each failure.
        busy: Whether another process is ingesting the spool.
    """

    taken: int = 0
    waiting: int = 0
    checkpoints: int = 0
    sessions: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    busy: bool = False


def ingest(
    store: GitStore,
    import_file: ImportSessionFile,
    record_instructions: RecordInstructions,
    *,
    home: Path,
    clock: Callable[[], int],
    wait_seconds: float = 0.0,
) -> IngestResult:
    """Ingest the events in the spool. Raises ``Unavailable``.

    ``wait_seconds``: maximum time to wait until another process has ingested the spool.
    """
    folder = spool.folder(str(store.git_dir))
    try:
        lock = StoreLock(Path(folder, "drain.lock"), wait_seconds=wait_seconds)
    except OSError as error:
        raise Unavailable(f"cannot write to '{folder}': {error.strerror}") from error
    try:
        try:
            lock.acquire()
        except Unavailable:
            return IngestResult(waiting=len(spool.waiting(str(store.git_dir))), busy=True)
        try:
            return _Ingestion(store, import_file, record_instructions, home, clock).run()
        except OSError as error:
            raise Unavailable(f"cannot ingest the events in '{folder}': {error.strerror}") from error
        finally:
            lock.release()
    finally:
        lock.close()


class _Ingestion:
    def __init__(
        self,
        store: GitStore,
        import_file: ImportSessionFile,
        record_instructions: RecordInstructions,
        home: Path,
        clock: Callable[[], int],
    ) -> None:
        self._record_instructions = record_instructions
        self._noticed: dict[str, list[Event]] = {}
        self._store, self._import_file, self._home, self._clock = store, import_file, home, clock
        self._spool = str(store.git_dir)
        self._calls = Calls(store.git_dir)
        self._chains = SnapshotTrees(store)
        self._sids: dict[tuple[str, str, str], str | None] = {}
        self._targets: dict[str, Targets] = {}
        self._held_keys: set[str] = set()
        self._missed_snapshots: dict[str, tuple[str, Event]] = {}
        self.done = IngestResult()

    def run(self) -> IngestResult:
        spool.sweep(self._spool)
        self._events = [event for name in spool.waiting(self._spool) if (event := self._read(name)) is not None]
        self._ended = {event.key for event in self._events if event.name == events.SESSION_END}
        waiting: list[Event] = []
        for event in self._in_order():
            if self._is_finished(event):
                self._report_unknown(event)
                self._calls.note(event)
                self._calls.save()
                self._chains.note()
                os.unlink(spool.path(self._spool, event.spooled))
                self.done.taken += 1
            elif os.path.exists(spool.path(self._spool, event.spooled)):
                self._held_keys.add(event.key)
                waiting.append(event)
        self._chains.save(waiting)
        spool.leave(self._spool, waiting[-1].spooled if waiting else "")
        self._take_missed_snapshots()
        self._take_instructions()
        self.done.waiting = len(waiting)
        return self.done

    # ---- one event

    def _read(self, name: str) -> Event | None:
        try:
            return spooled_events.read(Path(self._spool), name)
        except (Malformed, OSError) as error:
            self._set_aside(name, str(error))
            return None

    def _in_order(self) -> list[Event]:
        """Return the events in the order of time, except that each snapshot follows the snapshot on which it is based.

        The times can be wrong, because clocks can go backwards.
        """
        by_name = {
            snapshot.name: event
            for event in self._events
            if (snapshot := event.snapshot) and snapshot.name != snapshot.before
        }
        ordered: dict[str, Event] = {}
        for event in self._events:
            chain = [event]
            while (
                (snapshot := chain[-1].snapshot) and (base := by_name.get(snapshot.before or "")) and base not in chain
            ):
                chain.append(base)
            for link in reversed(chain):
                ordered.setdefault(link.spooled, link)
        return list(ordered.values())

    def _is_finished(self, event: Event) -> bool:
        """Return whether the event can be removed: all its content is in the store or cannot be used."""
        tree: Oid | None = None
        if event.snapshot is not None:
            try:
                tree = self._chains.tree(event.snapshot)  # even if the event must wait: later snapshots are based on it
            except (MissingObject, Corrupt) as error:
                return self._reject(event, event.snapshot, error)
        if event.key in self._held_keys:
            return False
        sid = self._session(event)
        if sid is None:
            return self._is_expired(event)
        if not event.is_subagent:
            self._noticed.setdefault(sid, []).append(event)
        if event.snapshot is not None:
            return self._add_checkpoint(event, event.snapshot, tree, sid)
        if event.skip_reason and event.workspace:
            self._missed_snapshots[event.workspace] = (sid, event)
        return True

    def _add_checkpoint(self, event: Event, snapshot: SpooledSnapshot, tree: Oid | None, sid: str) -> bool:
        targets = self._targets.get(sid)
        if targets is None:
            targets = self._targets[sid] = Targets(self._store, sid, event.at_ms)
        phase, call = self._calls.attribute(event)
        target = targets.call(call) if phase == AFTER else targets.of(event)
        if target is None:
            if self._is_entry_expected(event, targets):
                return False
            target = targets.as_of(event.at_ms)
        entry = Checkpoint(
            mode=WORKSPACE,
            phase=phase,
            call=to_profile(call),
            workspace=os.fsencode(snapshot.workspace).decode("utf-8", "replace"),
            skipped=tuple((valid_text(path), valid_text(reason)) for path, reason in snapshot.skipped),
            appeared=snapshot.appeared,
            reason=to_profile(event.reason),
            at_ms=event.at_ms,
        )
        try:
            with workspace_lock.hold_workspace_lock(
                self._store.git_dir, Path(snapshot.workspace), wait_seconds=TURN_SECONDS
            ):
                newest = history.readable(self._store, sid)
                if newest is not None and newest.entry.at_ms >= event.at_ms:
                    # The checkpoint exists, or the history has later checkpoints. An older snapshot after a newer one
                    # would record changes twice and in reverse.
                    return True
                try:
                    point = history.add(self._store, sid, entry, lambda tx, before: tree, target)
                except MissingObject:  # another process dropped an object of the tree, which no ref reached yet
                    stored = self._chains.tree(snapshot)
                    point = history.add(self._store, sid, entry, lambda tx, before: stored, target)
        except MissingObject as error:
            return self._reject(event, snapshot, error)
        except NotFound:  # the session has no entries yet
            return self._is_expired(event)
        except Unavailable:  # a rewind of the workspace is running
            return False
        self.done.checkpoints += newest is None or point.oid != newest.oid
        return True

    def _reject(self, event: Event, snapshot: SpooledSnapshot, error: GitSessionError) -> bool:
        """Set aside an event whose snapshot cannot be stored. The next snapshot then contains all files."""
        self._set_aside(event.spooled, str(error))
        self._chains.forget(snapshot.workspace)
        self._calls.forget(event)
        return False

    def _is_entry_expected(self, event: Event, targets: Targets) -> bool:
        """Return whether the agent may still write the entry to which ``event`` belongs."""
        if event.is_subagent or event.key in self._ended or targets.has_later_entry(event.at_ms + 1000):
            return False
        return 0 <= self._clock() - event.at_ms < LAG_MS

    def _report_unknown(self, event: Event) -> None:
        """Report an unknown event or agent as a failure. The event is ingested as far as possible."""
        if event.name not in events.KNOWN:
            self._fail(f"unknown event {event.name!r}")
        if event.agent and event.agent not in FORMATS:
            self._fail(f"unknown agent {event.agent!r}")

    # ---- sessions

    def _session(self, event: Event) -> str | None:
        found = self._import(event, event.file)
        if event.other_file:
            self._import(event, event.other_file)
        return found

    def _import(self, event: Event, file: str) -> str | None:
        key = (event.agent, event.session, file)
        if key not in self._sids:
            sid = None
            try:
                sid = self._import_file(event.agent, event.session, file)
            except GitSessionError as error:
                self._fail(f"{file or event.session}: {error}")
            except OSError as error:
                if not isinstance(error, FileNotFoundError):
                    self._fail(f"{file or event.session}: {error.strerror}")
            self._sids[key] = sid
            if sid is not None and sid not in self.done.sessions:
                self.done.sessions.append(sid)
        return self._sids[key]

    def _is_expired(self, event: Event) -> bool:
        """Return whether an event can be removed because its session's file did not appear within ``WAIT_MS``.

        An event with a snapshot is not removed: set it aside, and return false.
        """
        if 0 <= self._clock() - event.at_ms < WAIT_MS:
            return False
        if event.snapshot is None:
            return True
        self._set_aside(event.spooled, f"the file of its session {event.session} did not appear within a day")
        return False

    # ---- snapshots that hooks failed to take

    def _take_missed_snapshots(self) -> None:
        """Take the snapshots that hooks failed to take.

        The changes are not attributed to the session: the user may have made them.
        """
        for workspace, (sid, event) in self._missed_snapshots.items():
            try:
                with WorkspaceRoot.open(workspace, home=self._home, store=self._store.git_dir) as root:
                    target: Node | None = Targets(self._store, sid, event.at_ms).as_of(event.at_ms)
                    reason = CaptureReason(target=target, reason="a hook could not look")
                    take(self._store, sid, root, BEFORE, reason, at_ms=self._clock())
                self.done.checkpoints += 1
            except GitSessionError as error:
                self._fail(f"{workspace}: {error}")

    # ---- instructions

    def _take_instructions(self) -> None:
        """Record the instructions of the sessions with events, once for each session.

        They are read here and not by the hook, so that the agent does not wait.
        """
        for sid, noticed in self._noticed.items():
            started = [event.at_ms for event in noticed if event.name == events.SESSION_START]
            at_ms = started[-1] if started else noticed[-1].at_ms
            try:
                self._record_instructions(sid, at_ms, bool(started))
            except GitSessionError as error:
                self._fail(f"the instructions of {sid}: {error}")
            except OSError as error:
                self._fail(f"the instructions of {sid}: {error.strerror}")

    # ---- failures

    def _set_aside(self, name: str, reason: str) -> None:
        spool.put_aside(self._spool, name)
        self._fail(f"the event {name} was set aside: {reason.removeprefix(f'{name}: ')}")

    def _fail(self, message: str) -> None:
        self.done.failed.append(message)
        spool.fail(self._spool, message)


# Trees of snapshots. A spooled snapshot contains the differences from the previous snapshot of the same workspace,
# which may belong to another session.

FILE = "looks.json"


class SnapshotTrees:
    """The trees of snapshots. A returned tree is in the store, but it may not be reachable from a ref yet."""

    def __init__(self, store: GitStore) -> None:
        self._store = store
        self._known: dict[str, Oid | None] = load_state(store.git_dir, FILE)
        self._last: dict[str, str] = {}
        self._is_noted = True

    def tree(self, snapshot: SpooledSnapshot) -> Oid | None:
        """Return the tree of a snapshot. Raises ``MissingObject`` if its base tree is unknown or missing."""
        states = put(self._store, snapshot.changes)
        with self._store.transaction() as tx:
            tree = tree_with(self._store, tx, self._base(snapshot), states)
        self._is_noted = self._is_noted and self._known.get(snapshot.name, "") == tree
        self._known[snapshot.name] = tree
        self._last[snapshot.workspace] = snapshot.name
        return tree

    def note(self) -> None:
        """Save the known trees.

        Call this method before events with snapshots are removed from the spool. Raises ``OSError``.
        """
        if not self._is_noted:
            save_state(self._store.git_dir, FILE, self._known)
            self._is_noted = True

    def _base(self, snapshot: SpooledSnapshot) -> Oid | None:
        if snapshot.before is None:
            return None
        if snapshot.before in self._known:
            base = self._known[snapshot.before]
        elif snapshot.base is not None:
            [base] = snapshot.base
        else:
            raise MissingObject(f"the snapshot is based on snapshot {snapshot.before}, whose tree is unknown")
        if base is not None and not self._store.contains(base):
            raise MissingObject(f"the snapshot is based on tree {base}, which is missing")
        return base

    def forget(self, workspace: str) -> None:
        """Discard the state of ``workspace``, so that the next snapshot contains all files and needs no base."""
        folder = workspace_lock.folder_in(self._store.git_dir, Path(workspace))
        if folder.is_dir():
            with PrivateRepository.open(folder, wait_seconds=5) as shadow:
                shadow.forget()

    def save(self, waiting: Iterable[Event]) -> None:
        """Save the trees on which later snapshots are based: those of the last snapshots and the bases of ``waiting``.

        Raises ``OSError``.
        """
        for workspace, name in self._last.items():
            folder = workspace_lock.folder_in(self._store.git_dir, Path(workspace))
            try:
                with PrivateRepository.open(folder, wait_seconds=5) as shadow:
                    shadow.keep_tree(name, self._known[name])
            except Unavailable:  # the next snapshot by the store then reads all files
                pass
        wanted = {event.snapshot.before for event in waiting if event.snapshot} | set(self._last.values())
        trees = {name: tree for name, tree in self._known.items() if name in wanted}
        save_state(self._store.git_dir, FILE, trees)
