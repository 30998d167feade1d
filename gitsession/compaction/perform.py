"""Execution of a compaction plan: the summary is written, and then appended as one entry."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from threading import Event, Thread
from typing import Any

from gitsession.codec.cbor import to_profile, valid_text
from gitsession.codec.digest import to_base64url
from gitsession.compaction.plan import Plan
from gitsession.compaction.summary import name_of, raise_if_cancelled
from gitsession.compaction.visible_entries import CARRIED
from gitsession.compaction.write_summary import SummaryOptions, write
from gitsession.context import profiles
from gitsession.context.instruction_texts import SKILLS
from gitsession.context.profiles.visible_items import keep_system
from gitsession.errors import LeafMoved, NotFound, Refused, SummaryFailed
from gitsession.model.entries import SYSTEM, BranchSummary, Compaction, Message, Reset
from gitsession.sessions import graph
from gitsession.sessions.node import Node, load
from gitsession.sessions.session import StoredSession
from gitsession.store.interface import ObjectStore


def perform(
    objects: ObjectStore, session: StoredSession, plan: Plan, options: SummaryOptions, *, command: str = ""
) -> Node:
    """Write the summary and append it.

    If other entries are appended while the summary is written, they are kept, and the summary is appended after them.

    Args:
        objects: The store.
        session: The session, on the branch for which the plan was made.
        plan: The plan.
        options: Options for the text of the summary.
        command: Command line for the operation log, for ``undo``. If it is "", only a branch summary is logged.

    Returns:
        The new entry.

    Raises:
        SummaryFailed: The summarizer returned no usable summary. Nothing was written.
        Refused: Another process has compacted the branch in the meantime. Nothing was written.
    """
    if plan.nothing:
        raise Refused(f"nothing to summarize: {plan.nothing}")
    entry = _first_usable(plan, options)
    if isinstance(entry, BranchSummary):
        assert plan.onto is not None
        return _append_branch_summary(objects, session, plan, plan.onto, entry, command)
    while True:
        leaf, first_new = _current_leaf(objects, session, plan)
        if entry.first_kept is None and first_new is not None:
            entry = replace(entry, first_kept=to_base64url(first_new.chain))
        if options.cancelled is not None:
            raise_if_cancelled(options.cancelled)
        try:
            return session.append(entry, expected=leaf, command=command)
        except LeafMoved:
            continue  # another process has appended an entry: try to append the summary after it


def _first_usable(plan: Plan, options: SummaryOptions) -> Compaction | BranchSummary:
    """Return the entry with the summary of the first summarizer that writes a usable one. Raises ``SummaryFailed``."""
    failures: list[SummaryFailed] = []
    for summarizer in (options.summarizer, *options.fallbacks):
        try:
            return _entry(plan, replace(options, summarizer=summarizer))
        except SummaryFailed as error:
            if options.cancelled is not None and options.cancelled.is_set():
                raise
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    names = [name_of(summarizer) for summarizer in (options.summarizer, *options.fallbacks)]
    reasons = "; ".join(f"{name}: {error}" for name, error in zip(names, failures, strict=True))
    raise SummaryFailed(f"no summarizer wrote a usable summary: {reasons}", hint=failures[-1].hint)


def _entry(plan: Plan, options: SummaryOptions) -> Compaction | BranchSummary:
    """Return the entry with the summary of ``options.summarizer``. A branch summary lacks its abandoned branch."""
    summary = write(plan, options)
    profile = profiles.profile(plan.profile)
    if plan.onto is not None:
        left = BranchSummary(summary=summary.text, read_files=plan.files.read, modified_files=plan.files.modified)
        _check_smaller(plan, profile.estimate(left))
        return left
    system_messages = [item.entry for item in plan.system if isinstance(item.entry, Message)]
    preserve: dict[str, Any] = {CARRIED: plan.carried} if plan.carried else {}
    preserve |= {SYSTEM: keep_system(system_messages)} if system_messages else {}
    preserve |= {SKILLS: list(plan.skills)} if plan.skills else {}
    preserve |= {"usage": dict(summary.usage)} if summary.usage else {}
    entry = Compaction(
        summary=summary.text,
        first_kept=to_base64url(plan.first_kept.chain) if plan.first_kept else None,
        tokens_before=plan.tokens_before,
        tokens_after=tokens_after(plan, summary.text),
        method=f"{plan.strategy}/{name_of(options.summarizer)}",
        read_files=plan.files.read,
        modified_files=plan.files.modified,
        instructions=valid_text(options.focus) or None,
        preserve=to_profile(preserve) or None,
    )
    _check_smaller(plan, profile.estimate(entry))
    return entry


def tokens_after(plan: Plan, summary: str) -> int:
    """Return the profile's estimate of the context's size after the compaction, in tokens."""
    profile = profiles.profile(plan.profile)
    return profile.estimate(Compaction(summary=summary)) + profiles.total(profile, (*plan.system, *plan.kept))


def _append_branch_summary(
    objects: ObjectStore, session: StoredSession, plan: Plan, onto: Node, entry: BranchSummary, command: str
) -> Node:
    """Append the summary of an abandoned branch after ``onto``, on the branch with that tip or on a new branch."""
    assert plan.leaf is not None
    abandoned = load(objects, plan.leaf)
    entry = replace(entry, left=to_base64url(abandoned.chain))
    branches = [name for name, oid in session.branches().items() if oid == onto.oid]
    branch = session.on(branches[0] if branches else session.branch_name)
    command = command or f"leave {session.id} {session.branch_name}"
    node = branch.append(entry, expected=onto, on_moved="fork", summarises=abandoned, activate=True, command=command)
    session.branch_name = branch.branch_name
    return node


def _check_smaller(plan: Plan, tokens: int) -> None:
    if tokens >= plan.replaced:
        raise SummaryFailed(
            "the summary is not smaller than the entries that it replaces: "
            f"{tokens:,} tokens (the entries: {plan.replaced:,})",
            hint="pass a lower --keep-tokens to summarize more entries",
        )


def _current_leaf(objects: ObjectStore, session: StoredSession, plan: Plan) -> tuple[Node, Node | None]:
    """Return the leaf after which the summary is appended, and the first entry that was appended in the meantime.

    Raises ``Refused`` if a compaction or a reset was appended in the meantime, or if the branch no longer contains the
    leaf of the plan.
    """
    leaf = session.leaf
    if leaf is None:
        problem = f"branch {session.branch_name!r} no longer exists in session {session.id}"
        raise NotFound(f"cannot append the summary: {problem}")
    first_new = None
    for node in graph.history(objects, leaf.oid):
        if node.oid == plan.leaf:
            return leaf, first_new
        if node.kind in (Compaction.kind, Reset.kind):
            raise Refused(
                f"cannot append the summary: a {node.kind} was appended to the branch in the meantime",
                hint="run `gitsession context` to see the new context",
            )
        first_new = node
    problem = f"branch {session.branch_name!r} no longer contains the entries that it replaces"
    raise Refused(f"cannot append the summary: {problem}")


class BackgroundCompaction:
    """A compaction that runs in the background.

    Entries that are appended in the meantime are kept. If the compaction fails or is canceled, nothing is appended.
    """

    def __init__(self, run: Callable[[Event], Node]) -> None:
        """Start ``run`` in a thread. Its argument is an event that ``cancel`` sets."""
        self._cancelled = Event()
        self._future: Future[Node] = Future()
        self._pid = os.getpid()
        self._thread = Thread(target=self._run, args=(run,), name="gitsession-compaction", daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Request that the compaction stop. A summary that is already appended is not removed."""
        self._cancelled.set()

    def stop(self, timeout: float) -> None:
        """Cancel the compaction, and wait until its thread has ended.

        Args:
            timeout: Maximum time to wait, in seconds.
        """
        self.cancel()
        if os.getpid() == self._pid:  # a forked child has no such thread
            self._thread.join(timeout)

    @property
    def is_running(self) -> bool:
        """True if the thread of the compaction is running in this process."""
        return os.getpid() == self._pid and not self._future.done()

    @property
    def done(self) -> bool:
        """True if the compaction has succeeded or failed."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> Node:
        """Wait for the compaction.

        Args:
            timeout: Maximum time to wait, in seconds; ``None`` to wait without a limit.

        Returns:
            The entry of the compaction.

        Raises:
            SummaryFailed: The compaction was canceled, or there is no usable summary.
            TimeoutError: The compaction is still running.
            Exception: Any other error of the compaction.
        """
        return self._future.result(timeout)

    def _run(self, run: Callable[[Event], Node]) -> None:
        try:
            self._future.set_result(run(self._cancelled))
        except BaseException as error:  # ``result`` raises the error again
            self._future.set_exception(error)
