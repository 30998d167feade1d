"""Automatic compaction of a session: the connection of ``compaction.automatic`` with a store."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Lock

from gitsession.api.opened import AutomaticStart, Handle
from gitsession.compaction import trigger
from gitsession.compaction.automatic import AutomaticCompaction
from gitsession.compaction.perform import BackgroundCompaction, perform
from gitsession.compaction.policy import CompactionPolicy
from gitsession.context import build
from gitsession.errors import Refused, Unavailable
from gitsession.model.entries import Entry
from gitsession.sessions.node import Node
from gitsession.store import create
from gitsession.store.lock import exclusive_lock


def automatic_of(handle: Handle) -> AutomaticStart | None:
    """Return the automatic compaction of a handle; ``None`` if its policy starts none."""
    policy = handle.policy_in_force
    if policy is None or policy.mode != "client":
        return None
    if handle.automatic is None:
        handle.automatic = AutomaticSessionCompaction(handle, policy)
    return handle.automatic


class AutomaticSessionCompaction:
    """The automatic compaction of the branch of a handle."""

    def __init__(self, handle: Handle, policy: CompactionPolicy) -> None:
        self._handle, self._policy = handle, policy
        self._lock = Lock()
        self._is_new = bool(handle.session.pending_agent)
        self._branch = ""
        self._state: AutomaticCompaction | None = None

    @property
    def newest(self) -> BackgroundCompaction | None:
        """The newest check of the context, and compaction if one was due; ``None`` if there was none."""
        return None if self._state is None else self._state.newest

    def appended(self, entry: Entry) -> None:
        """Count an entry that was appended, and start a compaction if one may be due."""
        if self._handle.session.pending_agent:
            return
        with self._lock:
            if self._state is None or self._branch != self._handle.session.branch_name:
                is_answered = self._state is not None or not self._is_new
                self._branch = self._handle.session.branch_name
                self._state = self._new_state(self._branch, is_answered)
            state = self._state
        state.appended(entry)

    def _new_state(self, branch: str, is_answered: bool) -> AutomaticCompaction:
        opened = self._handle.opened

        def start() -> BackgroundCompaction:
            opened.compactions[:] = [each for each in opened.compactions if each.is_running]
            running = BackgroundCompaction(lambda cancelled: self._run(state, branch, cancelled))
            opened.compactions.append(running)
            return running

        state = AutomaticCompaction(start, is_answered=is_answered)
        return state

    def _run(self, state: AutomaticCompaction, branch: str, cancelled: Event) -> Node:
        """Check the context until no entry was appended meanwhile, and compact the branch if it is due.

        Raises ``Refused`` if no compaction is due.
        """
        try:
            while True:
                outcome = self._attempt(state, branch, cancelled)
                may_repeat = isinstance(outcome, Refused) and not cancelled.is_set()
                if not state.ended(may_repeat=may_repeat):
                    break
        finally:
            self._handle.opened.catalogues.close_own()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _attempt(self, state: AutomaticCompaction, branch: str, cancelled: Event) -> Node | Exception:
        """Return the compaction, or the error. A failure is counted and reported, unless it is a cancellation."""
        try:
            return self._compact(state, branch, cancelled)
        except Refused as error:
            return error
        except Exception as error:
            if not cancelled.is_set():
                state.failed()
                if self._policy.report is not None:
                    with contextlib.suppress(Exception):
                        self._policy.report(error)
            return error

    def _compact(self, state: AutomaticCompaction, branch: str, cancelled: Event) -> Node:
        handle = Handle(self._handle.opened, self._handle.session.on(branch))
        with branch_lock(handle):
            line = handle.context_line()
            context = build.context(line, handle.profile)
            state.checked(trigger.size(context), self._policy.limit_for(context))
            plan = self._policy.plan_due(context, line)
            if plan.nothing:
                raise Refused(f"no compaction is due: {plan.nothing}")
            options = dataclasses.replace(self._policy.summary_options(), cancelled=cancelled)
            node = perform(handle.opened.objects, handle.session, plan, options)
            state.reset(is_answered=False)
            return node


LOCKS = 16
"""Number of lock files, which all branches share, so that the files do not pile up.

If two branches share a file, one of them is compacted later.
"""


@contextlib.contextmanager
def branch_lock(handle: Handle) -> Iterator[None]:
    """Hold the lock for automatic compactions of a branch. Raises ``Refused`` if another thread or process holds it."""
    number = sum(f"{handle.session.id} {handle.session.branch_name}".encode()) % LOCKS
    objects = handle.opened.objects
    if objects.local_dir is None:
        lock = _held(handle.opened.memory_locks[number])
    else:
        lock = exclusive_lock(_lock_file(objects.git_dir, number), wait_seconds=0.0)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock)
        except Unavailable as error:
            raise Refused("no compaction is due: the branch is being compacted already") from error
        yield


def _lock_file(git_dir: Path, number: int) -> Path:
    folder = git_dir / create.CONTROL / "compacting"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot create '{folder}': {error.strerror}") from error
    return folder / f"{number:02}.lock"


@contextlib.contextmanager
def _held(lock: Lock) -> Iterator[None]:
    if not lock.acquire(blocking=False):
        raise Unavailable("another thread holds the lock")
    try:
        yield
    finally:
        lock.release()
