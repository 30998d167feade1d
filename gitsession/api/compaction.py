"""The API for compacting the context of a session: plans, background compactions and summarizers."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from gitsession.api.opened import Handle, restoring
from gitsession.codec.digest import to_base64url
from gitsession.compaction import branch_summary, strategies, summarizers, trigger
from gitsession.compaction.perform import BackgroundCompaction, perform
from gitsession.compaction.plan import CompactionRequest, Plan
from gitsession.compaction.summarizers.options import Options, from_config
from gitsession.compaction.summary import Summarizer
from gitsession.compaction.write_summary import SummaryOptions
from gitsession.context import build, profiles
from gitsession.context.policies import Policy, cleared_results, newly_cleared
from gitsession.context.profiles.visible_items import part_of
from gitsession.context.value import Context, Item
from gitsession.git import process
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


def summarizer(wanted: str | Summarizer) -> Summarizer:
    """Return a summarizer by name, with the settings in the user's git configuration.

    Args:
        wanted: The name of a summarizer. A summarizer object is returned unchanged.

    Returns:
        The summarizer.

    Raises:
        NotFound: The name is unknown.
        SummaryFailed: A setting is missing or invalid.
    """
    if not isinstance(wanted, str):
        return wanted
    return summarizers.make(dataclasses.replace(users_options(), name=wanted))


def users_options() -> Options:
    """Return the summarizer settings in ``git config --global``. Settings in a store's configuration are ignored."""
    return from_config(process.user_settings("gitsession.summarizer"), os.environ)
