"""Automatic compaction of a session: the connection of ``compaction.automatic`` with a store."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Lock

from gitsession.api.opened import AutomaticStart, Handle
from gitsession.compaction import strategies, summarizers, trigger
from gitsession.compaction.automatic import AutomaticCompaction, lock_name
from gitsession.compaction.perform import BackgroundCompaction, perform
from gitsession.compaction.plan import Plan
from gitsession.compaction.policy import SUMMARY, CompactionPolicy
from gitsession.compaction.summarizers.options import users_options
from gitsession.compaction.write_summary import SummaryOptions
from gitsession.context import build, profiles
from gitsession.context.history import ContextHistory
from gitsession.context.value import Context
from gitsession.errors import Refused, Unavailable
from gitsession.model.entries import Entry
from gitsession.sessions.node import Node
from gitsession.store import create
from gitsession.store.lock import exclusive_lock


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
        """Compact the branch if it is due. Raises ``Refused`` if it is not."""
        try:
            while True:
                try:
                    node = self._attempt(state, branch, cancelled)
                except Refused:
                    if not state.ended(may_repeat=not cancelled.is_set()):
                        raise
                else:
                    state.ended(may_repeat=False)
                    return node
        except Refused:
            raise
        except Exception as error:
            if not cancelled.is_set():
                state.failed()
                if self._policy.report is not None:
                    with contextlib.suppress(Exception):
                        self._policy.report(error)
            state.ended(may_repeat=False)
            raise
        finally:
            self._handle.opened.catalogues.close_own()

    def _attempt(self, state: AutomaticCompaction, branch: str, cancelled: Event) -> Node:
        handle = Handle(self._handle.opened, self._handle.session.on(branch))
        with branch_lock(handle):
            return self._compact(handle, state, cancelled)

    def _compact(self, handle: Handle, state: AutomaticCompaction, cancelled: Event) -> Node:
        line = handle.context_line()
        context = build.context(line, handle.profile)
        limit = limit_for(self._policy, context)
        state.checked(trigger.size(context), limit)
        reason = trigger.why_not_due(context, line, limit)
        if reason:
            raise Refused(f"no compaction is due: {reason}")
        plan = policy_plan(self._policy, context, line)
        options = dataclasses.replace(policy_options(self._policy), cancelled=cancelled)
        node = perform(handle.opened.objects, handle.session, plan, options)
        state.reset(is_answered=False)
        return node


def automatic_of(handle: Handle) -> AutomaticStart | None:
    """Return the automatic compaction of a handle; ``None`` if its policy starts none."""
    policy = handle.policy_in_force
    if policy is None or policy.mode != "client":
        return None
    if handle.automatic is None:
        handle.automatic = AutomaticSessionCompaction(handle, policy)
    return handle.automatic


def limit_for(policy: CompactionPolicy, context: Context, window: int | None = None) -> int | None:
    """Return the number of tokens above which a compaction of ``context`` is due; ``None`` if it is unknown."""
    settings = profiles.profile(context.profile).SETTINGS
    return policy.limit(window or policy.window_for(context.model), settings)


def policy_plan(policy: CompactionPolicy, context: Context, line: ContextHistory, window: int | None = None) -> Plan:
    """Return the plan of a compaction by the strategy of ``policy``."""
    request = policy.request(window or policy.window_for(context.model))
    return strategies.plan(line, policy.strategy, profile=context.profile, request=request)


def policy_options(policy: CompactionPolicy) -> SummaryOptions:
    """Return the summarizers of ``policy``. Raises ``SummaryFailed`` if a setting of all summarizers is invalid."""
    names = policy.summarizers or (users_options().name,)
    first, *others = (_deferred(each) if isinstance(each, str) else each for each in names)
    length = policy.reserve.get(SUMMARY) or SummaryOptions().max_tokens
    return SummaryOptions(summarizer=first, fallbacks=tuple(others), max_tokens=length)


def _deferred(name: str) -> summarizers.DeferredSummarizer:
    """Return the summarizer ``NAME[:MODEL]`` with the settings in the user's git configuration."""
    name, _, model = name.partition(":")
    options = dataclasses.replace(users_options(), name=name)
    return summarizers.DeferredSummarizer(name, dataclasses.replace(options, model=model) if model else options)


@contextlib.contextmanager
def branch_lock(handle: Handle) -> Iterator[None]:
    """Hold the lock for automatic compactions of a branch. Raises ``Refused`` if another thread or process holds it."""
    path = Path(handle.opened.objects.git_dir, create.CONTROL, lock_name(handle.session.id, handle.session.branch_name))
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot create '{path.parent}': {error.strerror}") from error
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(exclusive_lock(path, wait_seconds=0.0))
        except Unavailable as error:
            raise Refused("no compaction is due: the branch is being compacted already") from error
        yield
