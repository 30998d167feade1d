"""The API for compacting the context of a session: plans, background compactions and summarizers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence

from gitsession.api.automatic_compaction import automatic_of, branch_lock
from gitsession.api.opened import Handle, restoring
from gitsession.codec.digest import to_base64url
from gitsession.compaction import branch_summary, strategies, trigger
from gitsession.compaction.perform import BackgroundCompaction, perform
from gitsession.compaction.plan import CompactionRequest, Plan, empty_plan
from gitsession.compaction.policy import OFF, CompactionPolicy
from gitsession.compaction.trigger import Answer
from gitsession.compaction.write_summary import SummaryOptions
from gitsession.context import build, profiles
from gitsession.context.policies import Policy, cleared_results, newly_cleared
from gitsession.context.profiles.visible_items import part_of
from gitsession.context.value import Context, Item
from gitsession.errors import Refused, SummaryFailed, require
from gitsession.git.types import Oid
from gitsession.model.entries import Message, Prune
from gitsession.model.results import result_in
from gitsession.sessions.node import Node, load

PLAINLY = SummaryOptions()


class SessionCompaction:
    """Compaction of a session's context: ``session.compaction`` (docs/reference/compaction.md)."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @restoring
    def plan(
        self,
        strategy: str = strategies.DEFAULT,
        *,
        profile: str | None = None,
        request: CompactionRequest = strategies.DEFAULT_REQUEST,
    ) -> Plan:
        """Plan a compaction for ``Session.compact`` (docs/reference/compaction.md). Nothing is changed.

        The strategies are:

        - ``"pi"``: Keep the newest tokens, and summarize everything before them.
        - ``"opencode"``: Keep the last two turns if they fit the token budget, and summarize everything else.
        - ``"codex"``: Quote the user's newest messages, and summarize everything else.
        - ``"aider"``: Keep the newest entries, up to half of the number of tokens to keep, and summarize everything
          before them.
        - ``"from"``: Summarize ``request.at`` and all later entries. Continue from the point before ``request.at``.
        - ``"up-to"``: Summarize all entries before ``request.at``.

        Args:
            strategy: The name of the strategy.
            profile: A context profile; see ``Session.context``. Defaults to the profile of the session's agent.
            request: Options of the strategy, such as the number of tokens to keep.

        Returns:
            The plan. If there is nothing to summarize, its field ``nothing`` contains the reason.

        Raises:
            NotFound: The strategy or the profile is unknown.
            Refused: The entry ``request.at`` cannot be used with the strategy.
        """
        profile = profile or self._handle.profile
        return strategies.plan(self._handle.context_line(), strategy, profile=profile, request=request)

    @restoring
    def plan_leaving(self, to: str | Node, *, profile: str | None = None, window: int | None = None) -> Plan:
        """Plan a summary of this handle's branch before a switch to another branch.

        The summary covers the entries since the branch diverged from the history of ``to``. The summary is appended
        after ``to``.

        Args:
            to: The entry from which the session will continue.
            profile: A context profile; see ``Session.context``. Defaults to the profile of the session's agent.
            window: The context window of the summarizing model, in tokens. If not all entries fit, only the newest
                ones are summarized.

        Returns:
            The plan.
        """
        onto = self._handle.session.resolve(to)
        lines = self._handle.context_line("leaf"), self._handle.context_line(onto)
        return branch_summary.plan_branch_summary(
            *lines, onto, profiles.profile(profile or self._handle.profile), window=window
        )

    @restoring
    def is_due(self, window: int, *, reserve: int | None = None, profile: str | None = None) -> bool:
        """Return whether a compaction is due: fewer tokens than the reserve are left in the context window.

        After a compaction, the next one is not due before the model has answered.

        Args:
            window: The context window of the model, in tokens.
            reserve: The number of tokens to keep free. Defaults to the reserve of the agent.
            profile: A context profile; see ``Session.context``. Defaults to the profile of the session's agent.
        """
        line = self._handle.context_line("leaf")
        return trigger.is_due(build.context(line, profile or self._handle.profile), line, window, reserve=reserve)

    @property
    def policy(self) -> CompactionPolicy:
        """The policy of automatic compaction for this handle. Set it to replace the policy of the store.

        Raises ``Refused`` if a setting in the user's git configuration is invalid.
        """
        return self._handle.policy or self._handle.opened.compaction or OFF

    @policy.setter
    def policy(self, policy: CompactionPolicy) -> None:
        require(policy, CompactionPolicy, "a CompactionPolicy")
        self._handle.policy = policy
        self._handle.automatic = None

    @property
    def automatic(self) -> BackgroundCompaction | None:
        """The newest automatic compaction that ``append`` started on this handle; ``None`` if there is none.

        Its ``result`` raises ``Refused`` if the check found that no compaction is due or that there is nothing to
        summarize, and ``SummaryFailed`` if no summarizer wrote a usable summary.
        """
        automatic = automatic_of(self._handle)
        return None if automatic is None else automatic.newest

    @contextlib.contextmanager
    def due(self, *, window: int | None = None, profile: str | None = None, lock: bool = True) -> Iterator[Plan]:
        """Return a context manager with the plan of the automatic compaction that is due, for a scheduled task.

        If none is due, the plan's field ``nothing`` contains the reason. Until the context manager ends, no other
        automatic compaction of the branch starts, in any process. A session that an agent recorded is never due,
        because the agent compacts it on its own.

        Args:
            window: The context window of the model, in tokens. Defaults to the window of the policy, or of the model.
            profile: A context profile; see ``Session.context``. Defaults to the profile of the session's agent.
            lock: Whether to exclude other automatic compactions. Without the lock, nothing is written.

        Raises:
            Refused: A setting in the user's git configuration is invalid.
        """
        with contextlib.ExitStack() as stack:
            reason = self._why_not_automatic()
            if lock and not reason:
                try:
                    stack.enter_context(branch_lock(self._handle))
                except Refused:
                    reason = "the branch is being compacted already"
            yield self._plan_due(reason, window, profile)

    def _why_not_automatic(self) -> str:
        """Return the reason why the session is not compacted automatically, whatever its size; "" if it is."""
        if self._handle.is_imported:
            return f"the session was recorded by {self._handle.agent}, which compacts its context on its own"
        mode = self.policy.mode
        if mode == "server":
            return "the provider compacts the context: gitsession.compaction is 'server'"
        return "automatic compaction is off: set gitsession.compaction to 'client'" if mode == "off" else ""

    @restoring
    def _plan_due(self, reason: str, window: int | None, profile: str | None) -> Plan:
        line = self._handle.context_line("leaf")
        context = build.context(line, profile or self._handle.profile)
        if reason:
            return empty_plan(self.policy.strategy, line, profiles.profile(context.profile), reason)
        return self.policy.plan_due(context, line, window)

    def send(
        self, send: Callable[[], Answer], *, overflow: Callable[[BaseException], bool] = trigger.is_overflow
    ) -> Answer:
        """Send a request. If it is too long for the model, compact the context by the policy and send once more.

        The context is compacted in every mode of the policy, because the program requested it.

        Args:
            send: A function that builds the request from the current context, sends it, and returns the answer.
            overflow: A function that returns whether an error means that the request was too long. By default, the
                message of the error decides.

        Returns:
            The result of ``send``.

        Raises:
            Exception: The error of ``send``. If nothing could be compacted, it is the error of the first request, with
                a note that contains the reason.
        """
        failure: list[Exception] = []

        def compact() -> Node | None:
            try:
                return self._compact_at_once()
            except (Refused, SummaryFailed) as error:
                failure.append(error)
                return None

        try:
            return trigger.retry_once(send, compact, overflow)
        except Exception as error:
            for each in failure:
                error.add_note(f"gitsession: the context was not compacted: {each}")
            raise

    def _compact_at_once(self) -> Node:
        running = self.automatic
        if running is not None and running.is_running:
            with contextlib.suppress(Exception):
                return running.result()
        line = self._handle.context_line("leaf")
        context = build.context(line, self._handle.profile)
        plan = self.policy.plan(context, line)
        if plan.nothing:
            # The request does not fit, although all of it would be kept.
            least = dataclasses.replace(self.policy, keep_messages=None, keep_tokens=context.tokens.counted_here // 4)
            plan = least.plan(context, line)
        return perform(self._handle.opened.objects, self._handle.session, plan, self.policy.summary_options())

    @restoring
    def start(self, plan: Plan, writing: SummaryOptions = PLAINLY) -> BackgroundCompaction:
        """Start a compaction in a background thread. Entries that are appended in the meantime stay in the context."""
        objects, session = self._handle.opened.objects, self._handle.session
        return BackgroundCompaction(
            lambda cancelled: perform(objects, session, plan, dataclasses.replace(writing, cancelled=cancelled))
        )

    @restoring
    def prune(
        self, *policies: Policy, profile: str | None = None, parts: bool = False, undoable: bool = False
    ) -> Node | None:
        """Remove tool results from the context permanently: append one ``prune`` entry.

        Args:
            policies: The rules that select the tool results.
            profile: A context profile; see ``Session.context``. Defaults to the profile of the session's agent.
            parts: Whether to remove single results of opencode's entries, which can have several. By default, all
                results of such an entry are removed.
            undoable: Whether to log an operation. ``Store.undo`` can then remove the entry as long as it is the tip.

        Returns:
            The new entry; ``None`` if there is nothing to remove.
        """
        before, after = self._pruned(policies, profile)
        targets = [self._chain(oid) for oid in newly_cleared(before.items, after.items)]
        if parts:
            results = cleared_results(before.items, after.items)
            targets = [self._target(item, results) for item in results]
        command = f"prune-results {self._handle.session.id}" if undoable else ""
        return self._handle.session.append(Prune(targets=tuple(targets)), command=command) if targets else None

    @restoring
    def plan_prune(self, *policies: Policy, profile: str | None = None) -> list[Item]:
        """Return the tool results that ``prune`` would remove with ``parts``, the oldest first. Nothing is changed.

        See ``prune`` for the arguments.
        """
        before, after = self._pruned(policies, profile)
        return cleared_results(before.items, after.items)

    def _pruned(self, policies: Sequence[Policy], profile: str | None) -> tuple[Context, Context]:
        line, profile = self._handle.context_line(), profile or self._handle.profile
        return build.revealed(line, profile), build.revealed(line, profile, policies)

    def _target(self, item: Item, pruned: Sequence[Item]) -> str:
        """Return the part of a result if another result of its entry is not pruned, or else the entry's chain."""
        part = part_of(item)
        entry = self._handle.session.read(load(self._handle.opened.objects, item.oid))
        results = (result_in(block) for block in (entry.content if isinstance(entry, Message) else ()))
        others = {result.extra.get("part") for result in results if result is not None}
        others -= {part_of(each) for each in pruned if each.oid == item.oid}
        return part if others and isinstance(part, str) else self._chain(item.oid)

    def _chain(self, oid: Oid) -> str:
        return to_base64url(load(self._handle.opened.objects, oid).chain)
